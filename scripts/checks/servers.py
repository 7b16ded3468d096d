"""Starts voltile and other programs, and stops them at the end of a `with` block; their output goes to files."""

import contextlib
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from .report import Report

# Time limits for the start of a program and for its end: far longer than either takes.
START_SECONDS, STOP_SECONDS = 600.0, 60.0
# Variables with these prefixes change what voltile reads, or where it looks for files, so programs start without them.
FOREIGN = ("AWS_", "GOOGLE_", "AZURE_", "HDF5_", "VOLTILE_")
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
# As in "voltile listening on http://127.0.0.1:8080".
LISTENING = re.compile(r"^voltile listening on http://(\S+?)/?$", re.MULTILINE)
config_numbers = itertools.count()


class Refused(Exception):
    """A check cannot go on: a program is missing or does not start, or a server does not answer as it must."""


def find(program: str) -> str | None:
    """The path of a program, which may also be in a folder that only root's PATH has."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def need(program: str, package: str) -> str:
    """Like `find`, but raises `Refused` if the program is not installed."""
    if path := find(program):
        return path
    raise Refused(f"{program} is not installed (Debian: {package})")


def run(*command: object, **options: object) -> subprocess.CompletedProcess:
    """Runs a program to its end; its standard output and its errors are both in `stdout`."""
    options = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, **options}
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, errors="replace", **options)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ask(url: str) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Status, headers and body of an answer."""
    try:
        with urllib.request.urlopen(url, timeout=START_SECONDS) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def certificate(place: Path, host: str) -> tuple[Path, Path, Path]:
    """Makes an authority and a certificate that it signs for `host` (DNS:NAME or IP:ADDRESS). Returns the paths of the
    authority, the certificate, and the certificate's key."""
    openssl = need("openssl", "openssl")
    authority, authority_key = place / "authority.pem", place / "authority-key.pem"
    signed, key = place / "certificate.pem", place / "key.pem"
    new = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "7"]
    run(*new, "-subj", "/CN=voltile test authority", "-out", authority, "-keyout", authority_key, check=True)
    names = ["-addext", f"subjectAltName={host}", "-addext", "basicConstraints=critical,CA:FALSE"]
    files = ["-CA", authority, "-CAkey", authority_key, "-out", signed, "-keyout", key]
    run(*new, "-subj", "/CN=voltile test", *names, *files, check=True)
    return authority, signed, key


class Process:
    """A running program with its workers, whose output goes to the file `log`."""

    def __init__(self, command: list, log: Path, environment: dict[str, str] | None = None, cwd: Path | None = None):
        self.command, self.log, self.cwd = [str(word) for word in command], log, cwd
        self.environment = CLEAN | (environment or {})
        log.write_bytes(b"")
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as out:
            # A process group of its own, so that workers are stopped, too.
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.environment, cwd=self.cwd,
                process_group=0,
            )  # fmt: skip

    def wait_until(self, is_ready: Callable[[], object]) -> None:
        end = time.monotonic() + START_SECONDS
        while not is_ready():
            if not self.runs() or time.monotonic() > end:
                self.stop()
                raise Refused(f"{self.command[0]} did not start\n{self.tail()}")
            time.sleep(0.02)

    def wait_for_port(self, port: int) -> None:
        self.wait_until(lambda: listens(port))

    def runs(self) -> bool:
        return self.process.poll() is None

    def said(self) -> str:
        """The program's output so far."""
        return self.log.read_text(errors="replace")

    def tail(self, lines: int = 20) -> str:
        return "\n".join("    " + line for line in self.said().splitlines()[-lines:])

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def stop(self) -> int:
        """Sends SIGTERM, then SIGKILL to workers that are left; returns the exit status."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Voltile(Process):
    """A running voltile with this configuration. A wrong exit status and a panic are failures in the report."""

    def __init__(
        self, program: Path, place: Path, configuration: str, report: Report | None = None, port: int = 0,
        environment: dict[str, str] | None = None,
    ):  # fmt: skip
        self.report, self.is_reported = report, False
        self.config = place / f"voltile-{next(config_numbers)}.toml"
        self.config.write_text(configuration)
        command = [program, "serve", "--config", self.config, "--bind", f"127.0.0.1:{port}"]
        super().__init__(command, self.config.with_suffix(".log"), environment)
        self.wait_until(lambda: LISTENING.search(self.said()))
        self.address = LISTENING.search(self.said())[1]
        self.base = f"http://{self.address}"

    def stop(self) -> int:
        """As in `Process`; the first call reports how voltile has ended."""
        status = super().stop()
        if self.report and not self.is_reported:
            self.is_reported = True
            if status != 0:
                self.report.add(f"voltile ends with status 0 after SIGTERM, not {status}", False, f"\n{self.tail()}")
            if "panicked" in self.said():
                self.report.add("voltile does not panic", False, f"\n{self.tail()}")
        return status

    def get(self, path: str) -> tuple[int, bytes]:
        status, _, body = ask(self.base + path)
        return status, body

    def json(self, path: str) -> dict:
        """The document at a path; raises `Refused` if the status is not 200."""
        status, body = self.get(path)
        if status != 200:
            raise Refused(f"{path} answers {status}: {body[:200]!r}")
        return json.loads(body)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.address, timeout=STOP_SECONDS)

    def datasets(self) -> dict[str, dict]:
        """The descriptions of the datasets, by token."""
        return {dataset["token"]: dataset for dataset in self.json("/datasets.json")["datasets"]}


def datasets(files: dict[str, object]) -> str:
    """A configuration of datasets (token -> file) that leaves it to voltile to recognise their channels."""
    return "".join(f"[datasets.{json.dumps(token)}]\nfile = {json.dumps(str(file))}\n" for token, file in files.items())
