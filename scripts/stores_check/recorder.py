"""A proxy in front of a store's emulator."""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


class Recorder:
    """Forwards GET requests to the emulator at `port`, and notes the path and the headers of each in `requests`.

    `added_headers` (path -> headers) are added to the answers."""

    def __init__(self, port: int, added_headers: dict[str, dict[str, str]] | None = None):
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                recorder.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                emulator = http.client.HTTPConnection("127.0.0.1", port)
                emulator.request("GET", self.path, headers=dict(self.headers.items()))
                answer = emulator.getresponse()
                status, body = answer.status, answer.read()
                added = (added_headers or {}).get(unquote(self.path), {})
                # The emulator does not know the added ETag, so the proxy must compare it.
                required_etag = self.headers.get("If-Match")
                if required_etag and added.get("ETag", required_etag) != required_etag:
                    status, body = http.HTTPStatus.PRECONDITION_FAILED, b""
                self.send_response(status)
                for name, value in added.items():
                    self.send_header(name, value)
                for name, value in answer.getheaders():
                    if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.requests: list[tuple[str, dict[str, str]]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
