"""Requests to a server, and the error that they raise."""

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Optional

# A request that a busy server refuses is made at most this many times.
MAX_ATTEMPTS = 10
# The longest pause between two attempts, in seconds.
MAX_PAUSE = 10
# The time limit for an answer, in seconds.
ANSWER_TIMEOUT = 300.0

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Error(Exception):
    """The error that the program reports; `status` is the status of the HTTP answer, if there was one."""

    def __init__(self, text: str, status: Optional[int] = None):
        super().__init__(text)
        self.status = status


class Client:
    """Makes requests below an address that ends with a slash.

    It keeps no connections open, so any thread and any process may use it.
    """

    def __init__(self, address: str, keep: object = None):
        self.address = address
        # An object that must live as long as this one: the program that was started for it.
        self.keep = keep
        # Proxies that the environment names are meant for other machines.
        proxies = urllib.request.ProxyHandler({} if self.is_local else None)
        self._opener = urllib.request.build_opener(proxies)

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
                with self._opener.open(self.address + path, timeout=ANSWER_TIMEOUT) as answer:
                    body: bytes = answer.read()
                    return body
            except urllib.error.HTTPError as error:
                if error.code != 503 or attempt + 1 == MAX_ATTEMPTS:
                    raise Error(_detail(error), error.code) from None
                retry_after = error.headers.get("Retry-After", "")
                seconds = int(retry_after) if retry_after.isdigit() else 1
                # The pause grows, because other requests of the same read are waiting too.
                time.sleep(min((attempt + 1) * seconds, MAX_PAUSE))
            # HTTPException: the answer ended too early.
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", error)
                raise Error(f"the server at {self.place} does not answer: {reason}") from error
        raise AssertionError("unreachable")

    def json(self, path: str) -> Any:
        """The body of the answer to a request, parsed as JSON."""
        try:
            return json.loads(self.get(path))
        except ValueError as error:
            raise Error(f"{self.place} is no voltile: its answer is not JSON") from error


def quoted(name: str) -> str:
    """A name, escaped for use as one segment of a path."""
    return urllib.parse.quote(name, safe="")


def _detail(error: urllib.error.HTTPError) -> str:
    """The server's explanation (RFC 9457) or, if there is none, the status."""
    try:
        return str(json.loads(error.read())["detail"])
    except (ValueError, KeyError, TypeError):
        return f"the server answers {error.code} {error.reason}"
