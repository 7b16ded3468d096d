"""The program: where it is, and running it as a server that does not outlive this Python."""

import collections
import ctypes
import os
import re
import secrets
import subprocess
import sysconfig
import threading
import weakref
from typing import Deque, Sequence

from ._client import Error

# The number of lines of the log that are kept.
MAX_LINES = 1000
# How long a server may take to stop, in seconds; then it is killed. By default the program takes at most 10 s to answer the
# requests in flight, and at most 10 s to write its tiles.
STOP_TIMEOUT = 25.0


def path() -> str:
    """The path of the program `voltile` that the wheel has installed; VOLTILE_PROGRAM names another program."""
    if named := os.environ.get("VOLTILE_PROGRAM"):
        return named
    packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [
        sysconfig.get_path("scripts"),
        # pip install --user
        sysconfig.get_path("scripts", f"{os.name}_user"),
        # pip install --target
        os.path.join(packages, "bin"),
        # Debian's own Python installs below /usr/local, but sysconfig does not say so.
        os.path.normpath(f"{packages}/../../../bin"),
    ]
    programs = [os.path.join(folder, "voltile") for folder in folders]
    for program in programs:
        if os.access(program, os.X_OK):
            return program
    raise Error(f"the program voltile is at none of {', '.join(programs)}; install the wheel again, or set VOLTILE_PROGRAM")


class Program:
    """A running `voltile serve` with its own secret; the server ends with this object, and with this process."""

    def __init__(self, flags: Sequence[str], sources: Sequence[str]):
        self.secret = secrets.token_hex(24)
        self._lines: Deque[str] = collections.deque(maxlen=MAX_LINES)
        descriptor = _file_in_memory(f"{self.secret}\n".encode())
        try:
            # This setting comes last, so that it replaces the secrets of a configuration.
            access = f'access=[{{ secrets = "/proc/self/fd/{descriptor}" }}]'
            self._process = subprocess.Popen(
                [path(), "serve", "--stop-with-input", *flags, "--set", access, "--", *sources],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                pass_fds=[descriptor],
                # Ctrl-C and "Interrupt the kernel" must not end the server.
                start_new_session=True,
            )
        finally:
            os.close(descriptor)
        self._finalizer = weakref.finalize(self, _stop, self._process, os.getpid())
        _running.add(self)
        self._reader = threading.Thread(target=_collect_log, args=(self._process, self._lines), daemon=True)
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
        # The last words of the program say why it ended.
        reason = re.search(r"^voltile: (.*)", self.log, re.MULTILINE | re.DOTALL)
        if reason is None:
            raise Error(f"voltile ended with {self._process.returncode}: {self.log}")
        raise Error(reason.group(1).strip())

    @property
    def log(self) -> str:
        """The last lines that the program has logged."""
        return "\n".join(list(self._lines))

    def stop(self) -> None:
        """Ends the server; requests in flight are answered."""
        self._finalizer()


_running: "weakref.WeakSet[Program]" = weakref.WeakSet()


def _close_pipes_in_child() -> None:
    """Closes a forked child's copies of the pipes, which would keep the servers alive after the death of their owner."""
    for program in _running:
        if program._process.stdin is not None:
            program._process.stdin.close()


os.register_at_fork(after_in_child=_close_pipes_in_child)


def _file_in_memory(text: bytes) -> int:
    """The descriptor of a file that only this process and its children can open, and that disappears with them."""
    library = ctypes.CDLL(None, use_errno=True)
    # Some builds of Python, such as conda's, lack os.memfd_create. 1 is MFD_CLOEXEC.
    descriptor = int(library.memfd_create(b"voltile", 1))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "no file for the secret can be made in memory")
    os.fchmod(descriptor, 0o600)
    os.write(descriptor, text)
    return descriptor


def _collect_log(process: "subprocess.Popen[str]", lines: Deque[str]) -> None:
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            lines.append(line.rstrip("\n"))


def _stop(process: "subprocess.Popen[str]", owner: int) -> None:
    # A forked child does not own the server.
    if os.getpid() != owner:
        return
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
