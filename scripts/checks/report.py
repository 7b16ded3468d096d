"""Counts comparisons, and prints those that fail."""

import subprocess
from collections import Counter


class Report:
    def __init__(self, shows_all: bool = False) -> None:
        self.shows_all = shows_all
        self.passed: Counter[str] = Counter()
        self.failed = 0
        self.skipped: set[str] = set()

    def add(self, what: str, is_right: bool, why: str = "", part: str = "") -> bool:
        """Counts one comparison. `why` is printed if it fails; `end` also prints a count for each `part`."""
        if is_right:
            self.passed[part] += 1
            if self.shows_all:
                print(f"ok      {what}", flush=True)
        else:
            self.failed += 1
            print(f"FAILED  {what}{': ' if why else ''}{why}", flush=True)
        return is_right

    def ran(self, what: str, done: subprocess.CompletedProcess, status: int = 0) -> bool:
        """Counts the run of a program, which must have ended with this status."""
        return self.add(what, done.returncode == status, f"status {done.returncode}\n{done.stdout[-3000:]}")

    def skip(self, what: str, why: str) -> None:
        """Counts a part that could not run, and says so; a part is counted once."""
        if what not in self.skipped:
            self.skipped.add(what)
            print(f"{what}: skipped, because {why}", flush=True)

    def end(self) -> int:
        """Prints the counts; returns the exit status."""
        for part, count in sorted(self.passed.items()):
            if part:
                print(f"{part}: {count} right")
        print(f"{self.passed.total()} passed, {self.failed} failed, {len(self.skipped)} skipped")
        return 1 if self.failed else 0
