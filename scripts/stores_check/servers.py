"""Starts voltile, and the servers that it reads from; their output goes to files."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

LISTENING = re.compile(r"^voltile listening on http://(\S+?)/?$", re.MULTILINE)
START_SECONDS, STOP_SECONDS = 600.0, 60.0
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "GOOGLE_", "AZURE_", "HDF5_", "VOLTILE_"))}


class Refused(Exception):
    """A server did not start."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A program that runs until the end of a `with` block."""

    def __init__(self, command: list[str], log: Path, environment: dict[str, str] | None = None):
        with log.open("wb") as out:
            environment = CLEAN if environment is None else environment
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment)
        self.log = log

    def wait_for_port(self, port: int) -> None:
        self.wait_until(lambda: socket.create_connection(("127.0.0.1", port), 1).close() or True)

    def wait_until(self, is_ready) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            try:
                if is_ready():
                    return
            except OSError:
                pass
            time.sleep(0.1)
        self.stop()
        raise Refused(f"{self.process.args[0]} did not start\n{self.tail()}")

    def tail(self, lines: int = 30) -> str:
        return "\n".join("    " + line for line in self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Voltile(Process):
    """A running voltile that serves files by token."""

    def __init__(self, voltile: Path, files: dict[str, str], folder: Path, environment: dict[str, str]):
        config = folder / f"{free_port()}.toml"
        config.write_text("".join(f'[datasets."{token}"]\nfile = {json.dumps(file)}\n' for token, file in files.items()))
        command = [str(voltile.resolve()), "serve", "--config", str(config), "--bind", "127.0.0.1:0"]
        super().__init__(command, config.with_suffix(".log"), {**CLEAN, **environment})
        self.base = ""

        def is_listening() -> bool:
            found = LISTENING.search(self.log.read_text(errors="replace"))
            self.base = f"http://{found[1]}" if found else ""
            return bool(found)

        self.wait_until(is_listening)

    def get(self, path: str) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(self.base + path, timeout=600) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def json(self, path: str) -> dict:
        status, body = self.get(path)
        if status != 200:
            raise Refused(f"{path} answers {status}: {body[:200]!r}")
        return json.loads(body)


def faults(voltile: Path, files: dict[str, str], folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """The datasets that voltile does not open, with the reason."""
    config = folder / "check.toml"
    config.write_text("".join(f'[datasets."{token}"]\nfile = {json.dumps(file)}\n' for token, file in files.items()))
    command = [str(voltile.resolve()), "check", "--config", str(config)]
    run = subprocess.run(command, capture_output=True, text=True, env={**CLEAN, **environment}, timeout=1800)
    if "panicked" in run.stderr or run.returncode not in (0, 1):
        raise Refused(f"voltile check ended with status {run.returncode}\n{run.stderr[-2000:]}")
    problems = run.stderr.partition(" wrong:\n")[2]
    return dict(re.findall(r"^ *datasets\.\"?([\w.-]+?)\"?\.(?:file|channels\S*): (.*)$", problems, re.MULTILINE))


class Recorder:
    """Passes requests on to another server, and keeps their paths and headers; adds headers to all answers of a path."""

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
