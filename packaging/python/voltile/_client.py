"""Requests to a server, and what they fail with."""

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Optional

# Requests that are refused because the server is busy are repeated so often.
MAX_ATTEMPTS = 10
# Seconds between them, at most.
MAX_PAUSE = 10
# Seconds for an answer.
PATIENCE = 300.0

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Error(Exception):
    """What the program says is wrong; `status` is that of the HTTP answer, if there was one."""

    def __init__(self, text: str, status: Optional[int] = None):
        super().__init__(text)
        self.status = status


class Client:
    """Requests below an address that ends with a slash. Keeps no connections: any thread and any process may use it."""

    def __init__(self, address: str, keep: object = None):
        self.address = address
        # What must live as long as this object: the program.
        self.keep = keep
        # A proxy of the environment is for other machines.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({} if self.is_local else None))

    def __reduce__(self) -> Any:
        return Client, (self.address,)

    @property
    def place(self) -> str:
        """The address without the secret."""
        return self.address.split("/k/")[0]

    @property
    def is_local(self) -> bool:
        """Whether the server runs on this machine."""
        return urllib.parse.urlsplit(self.address).hostname in LOOPBACK

    def get(self, path: str) -> bytes:
        """The body of the answer to a request."""
        for attempt in range(MAX_ATTEMPTS):
            try:
                with self._opener.open(self.address + path, timeout=PATIENCE) as answer:
                    body: bytes = answer.read()
                    return body
            except urllib.error.HTTPError as error:
                if error.code != 503 or attempt + 1 == MAX_ATTEMPTS:
                    raise Error(_detail(error), error.code) from None
                seconds = error.headers.get("Retry-After", "")
                # Longer each time: other requests of this read wait, too.
                time.sleep(min((attempt + 1) * (int(seconds) if seconds.isdigit() else 1), MAX_PAUSE))
            # Or an answer that ends too early.
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", error)
                raise Error(f"the server at {self.place} does not answer: {reason}") from error
        raise AssertionError("unreachable")

    def json(self, path: str) -> Any:
        """The same, as JSON."""
        try:
            return json.loads(self.get(path))
        except ValueError as error:
            raise Error(f"{self.place} is no voltile: its answer is not JSON") from error


def quoted(name: str) -> str:
    """A name as a segment of a path."""
    return urllib.parse.quote(name, safe="")


def _detail(error: urllib.error.HTTPError) -> str:
    """What the server says, in the form of RFC 9457, or else the status."""
    try:
        return str(json.loads(error.read())["detail"])
    except (ValueError, KeyError, TypeError):
        return f"the server answers {error.code} {error.reason}"
