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
        """Counts a comparison, and prints it with `why` if it failed. `end` prints how many of each `part` were right."""
        if is_right:
            self.passed[part] += 1
            if self.shows_all:
                print(f"ok      {what}", flush=True)
        else:
            self.failed += 1
            print(f"FAILED  {what}{': ' if why else ''}{why}", flush=True)
        return is_right

    def ran(self, what: str, done: subprocess.CompletedProcess, status: int = 0) -> bool:
        """Counts the finished run of a program as right if its exit status is `status`."""
        return self.add(what, done.returncode == status, f"status {done.returncode}\n{done.stdout[-3000:]}")

    def skip(self, part: str, why: str) -> None:
        """Counts a part that cannot run, and prints why; only the first time for each part."""
        if part not in self.skipped:
            self.skipped.add(part)
            print(f"{part}: skipped, because {why}", flush=True)

    def end(self) -> int:
        """Prints the counts; returns the exit status."""
        for part, count in sorted(self.passed.items()):
            if part:
                print(f"{part}: {count} right")
        print(f"{self.passed.total()} passed, {self.failed} failed, {len(self.skipped)} skipped")
        return 1 if self.failed else 0
