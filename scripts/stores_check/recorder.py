"""A server in front of a store's emulator."""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


class Recorder:
    """Passes requests on to the server at `port`. `asked` has their paths and headers; `added` has headers that are added to
    the answers of a path."""

    def __init__(self, port: int, added: dict[str, dict[str, str]] | None = None):
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                recorder.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                behind = http.client.HTTPConnection("127.0.0.1", port)
                behind.request("GET", self.path, headers=dict(self.headers.items()))
                answer = behind.getresponse()
                body = answer.read()
                more = (added or {}).get(unquote(self.path), {})
                wanted = self.headers.get("If-Match")
                # The store behind does not know the added ETag.
                if wanted and more.get("ETag", wanted) != wanted:
                    answer.status, body = 412, b""
                self.send_response(answer.status)
                for name, value in more.items():
                    self.send_header(name, value)
                for name, value in answer.getheaders():
                    if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.asked: list[tuple[str, dict[str, str]]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
