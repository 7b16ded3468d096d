"""Starts and stops a voltile server; its output goes to files.

The output files are polled. With pipes, reading would need a thread, and the server could block on a full pipe. The
environment variables that the oracle sets for its own HDF5 are removed, so that voltile must find external data itself.
"""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

LISTENING = re.compile(r"^voltile listening on http://(\S+?)/?$", re.MULTILINE)
START_SECONDS, STOP_SECONDS = 60.0, 30.0


class Refused(Exception):
    """The server did not start listening."""


class Server:
    """A running voltile; `address` is host:port."""

    def __init__(self, voltile: Path, config: Path):
        self.out, self.log = config.with_suffix(".out"), config.with_suffix(".log")
        command = [str(voltile.resolve()), "serve", "--config", str(config), "--bind", "127.0.0.1:0"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HDF5_")}
        with open(self.out, "wb") as out, open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=log, env=environment)
        try:
            self.address = self._wait_for_address()
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def _wait_for_address(self) -> str:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            ended = self.process.poll() is not None
            if found := LISTENING.search(self.out.read_text(errors="replace")):
                return found[1]
            if ended:
                raise Refused(
                    f"voltile exited with status {self.process.returncode} before it was listening\n{self.tail()}"
                )
            time.sleep(0.02)
        raise Refused(
            f"voltile did not print `voltile listening on http://...` within {START_SECONDS:.0f} s\n{self.tail()}"
        )

    def tail(self, lines: int = 15) -> str:
        """The last lines of the server's log."""
        return "\n".join("    " + line for line in self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> list[str]:
        """Stops the server with SIGTERM; returns what was wrong with its exit or its log."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return [f"voltile was still running {STOP_SECONDS:.0f} s after SIGTERM"]
        wrong = [] if status == 0 else [f"voltile exited with status {status} after SIGTERM, expected 0\n{self.tail()}"]
        if "panicked" in self.log.read_text(errors="replace"):
            wrong.append(f"voltile's log contains a panic: {self.log}")
        return wrong
