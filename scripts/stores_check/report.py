"""Counts comparisons and prints those that fail."""

import random


class Report:
    def __init__(self, rng: random.Random, each: int) -> None:
        self.rng, self.each = rng, each
        self.passed = self.failed = self.skipped = 0

    def add(self, what: str, is_right: bool, why: str = "") -> None:
        """Counts one check."""
        if is_right:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {what}{': ' if why else ''}{why}", flush=True)

    def skip(self, what: str, why: str) -> None:
        """Says that a part could not run."""
        self.skipped += 1
        print(f"{what}: skipped, {why}", flush=True)
