"""Counts checks, prints each, and runs programs."""

import os
import shutil
import subprocess
from pathlib import Path


class Report:
    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0

    def add(self, what: str, is_right: bool, why: str = "") -> bool:
        """Counts a check; `why` is printed if it failed."""
        self.passed += is_right
        self.failed += not is_right
        print(f"ok      {what}" if is_right else f"FAILED  {what}: {why}", flush=True)
        return is_right

    def ran(self, what: str, done: subprocess.CompletedProcess, status: int = 0) -> bool:
        """Counts a program that must have ended with this status."""
        return self.add(what, done.returncode == status, f"status {done.returncode}\n{done.stdout[-3000:]}")

    def skip(self, what: str, why: str) -> None:
        self.skipped += 1
        print(f"skipped {what}: {why}", flush=True)


def run(*command: object, **options: object) -> subprocess.CompletedProcess:
    """Runs a program to its end; both of its outputs are in `stdout`."""
    options = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, **options}
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, errors="replace", **options)


def built(root: Path, kind: str, is_release: bool) -> Path:
    """Builds a package, and returns its path."""
    command = [str(root / "scripts" / "package"), *([] if is_release else ["--dev"]), kind]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return root / printed.splitlines()[-1]


def find(program: str) -> str | None:
    """A program, also where only root's PATH finds it."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
