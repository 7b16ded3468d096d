"""Counts comparisons and prints those that fail."""

from collections import Counter
from collections.abc import Callable

import numpy as np

from .expected import is_equal


class Report:
    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()
        self.failed = 0
        self.skipped: set[str] = set()

    def add(self, what: str, is_right: bool, why: str = "") -> None:
        """Counts one check; the first word of `what` is the client."""
        if is_right:
            self.passed[what.split()[0]] += 1
        else:
            self.failed += 1
            print(f"FAILED {what}{': ' if why else ''}{why}", flush=True)

    def compare(self, what: str, read: Callable[[], np.ndarray], wanted: np.ndarray, is_mean: bool = False) -> None:
        """Compares what a client reads with the voxels expected."""
        try:
            found = np.asarray(read())
        except Exception as error:  # whatever a client raises
            self.add(what, False, f"{type(error).__name__}: {str(error)[:300]}")
            return
        why = f"{found.dtype} {found.shape}, expected {wanted.dtype} {wanted.shape}"
        self.add(what, is_equal(found, wanted, is_mean), why)
