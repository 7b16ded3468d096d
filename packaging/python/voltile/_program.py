"""The program: where it is, and running it as a server that does not outlive this Python."""

import collections
import ctypes
import os
import re
import secrets
import subprocess
import sys
import sysconfig
import threading
import weakref
from typing import Deque, Sequence

from ._client import Error

# Lines of the log that are kept.
MAX_LINES = 1000
# Seconds for answering the requests in flight; then the server is killed. The program itself takes 10 s at most, twice.
PATIENCE = 25.0


def path() -> str:
    """The program `voltile`, which the wheel has installed beside this package; VOLTILE_PROGRAM names another one."""
    if named := os.environ.get("VOLTILE_PROGRAM"):
        return named
    # Of the environment, of the user (pip install --user), of a folder (pip install --target), and of Debian's own Python,
    # which installs below /usr/local and does not say so.
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    user = sysconfig.get_path("scripts", f"{os.name}_user")
    places = [sysconfig.get_path("scripts"), user, os.path.join(here, "bin"), os.path.normpath(f"{here}/../../../bin")]
    programs = [os.path.join(place, "voltile") for place in places]
    for program in programs:
        if os.access(program, os.X_OK):
            return program
    raise Error(f"the program voltile is at none of {', '.join(programs)}; install the wheel again, or set VOLTILE_PROGRAM")


class Program:
    """A running `voltile serve` with a secret of its own; it ends with this object, and with this process."""

    def __init__(self, flags: Sequence[str], sources: Sequence[str]):
        self.secret = secrets.token_hex(24)
        self._lines: Deque[str] = collections.deque(maxlen=MAX_LINES)
        descriptor = _in_memory(f"{self.secret}\n".encode())
        try:
            # Last, so that it replaces what a configuration has: other secrets open nothing.
            access = f'access=[{{ secrets = "/proc/self/fd/{descriptor}" }}]'
            self._process = subprocess.Popen(
                [path(), "serve", "--stop-with-input", *flags, "--set", access, "--", *sources],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                pass_fds=[descriptor],
                # Neither Ctrl-C nor "Interrupt the kernel" is meant for it.
                start_new_session=True,
            )
        finally:
            os.close(descriptor)
        self._finalizer = weakref.finalize(self, _stop, self._process, os.getpid())
        _running.add(self)
        self._reader = threading.Thread(target=_read, args=(self._process, self._lines), daemon=True)
        self._reader.start()
        try:
            self.page = self._listening()
        except BaseException:
            self._process.kill()
            self.stop()
            raise

    def _listening(self) -> str:
        """Waits until the program listens, and returns the address of its page."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("page "):
                return line.split()[1]
        self._process.wait()
        self._reader.join()
        # What the program says last: why it ends.
        said = re.search(r"^voltile: (.*)", self.log, re.MULTILINE | re.DOTALL)
        raise Error(said.group(1).strip() if said else f"voltile ended with {self._process.returncode}: {self.log}")

    @property
    def log(self) -> str:
        """What the program has logged, the last lines of it."""
        return "\n".join(list(self._lines))

    def stop(self) -> None:
        """Ends the server; requests in flight are answered."""
        self._finalizer()


_running: "weakref.WeakSet[Program]" = weakref.WeakSet()


def _forget() -> None:
    """A forked child has a copy of the pipes, which would keep the servers alive when this process has died."""
    for program in _running:
        if program._process.stdin is not None:
            program._process.stdin.close()


os.register_at_fork(after_in_child=_forget)


def _in_memory(text: bytes) -> int:
    """A file that only this process and its children can open, and that ends with them."""
    library = ctypes.CDLL(None, use_errno=True)
    # Not os.memfd_create: some builds of Python lack it, such as conda's. 1 is MFD_CLOEXEC.
    descriptor = int(library.memfd_create(b"voltile", 1))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "no file for the secret can be made in memory")
    os.fchmod(descriptor, 0o600)
    os.write(descriptor, text)
    return descriptor


def _read(process: "subprocess.Popen[str]", lines: Deque[str]) -> None:
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            lines.append(line.rstrip("\n"))


def _stop(process: "subprocess.Popen[str]", owner: int) -> None:
    if os.getpid() != owner:
        return
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
