"""Runs a check: its command line, its Python packages, its report, and its exit status.

Exit status of every check: 0 all right, 1 something is wrong, 2 it could not run, 77 there is nothing to run. The last line
that it prints is `N passed, N failed, N skipped`.
"""

import argparse
import importlib.util
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from . import venv
from .report import Report
from .servers import Refused

ROOT = venv.ROOT
NAME = Path(sys.argv[0]).name
NOTHING_TO_RUN = 77
# Options that `parser` gives to the checks that ask for them.
COMMON = {
    "--shared": {"type": Path, "default": ROOT.parent / "shared", "help": "the shared folder (default: next to the project)"},
    "--only": {"default": "", "metavar": "REGEX", "help": "only what matches"},
    "--seed": {"type": int, "default": random.randrange(10**9), "help": "seed of the random choices (default: a new one)"},
}


def parser(about: str, *common: str) -> argparse.ArgumentParser:
    """The command line of a check: --voltile, and the options of COMMON with the names `common`."""
    out = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--voltile", type=Path, default=newest_binary(), help="the program (default: the newest in target)")
    for option in common:
        out.add_argument(option, **COMMON[option])
    return out


def newest_binary() -> Path:
    release, debug = (ROOT / "target" / profile / "voltile" for profile in ("release", "debug"))
    built = [path for path in (release, debug) if path.is_file()]
    return max(built, key=lambda path: path.stat().st_mtime, default=debug)


def run(
    check: Callable[[argparse.Namespace, Report, Path], None], args: argparse.Namespace, packages: str | None = "tests",
    libraries: Sequence[str] = (), shows_all: bool = False, is_optional: bool = False,
) -> NoReturn:  # fmt: skip
    """Runs a check with a temporary folder for its files, prints its report, and exits.

    The check runs in the venv of `packages` (a list in scripts/requirements) or, if that is `None` or this Python has all
    `libraries`, in this Python. If the venv cannot be made, the exit status is 2, or 77 if the check `is_optional`."""
    if not args.voltile.is_file():
        give_up(f"no program at {args.voltile}: build it, or name it with --voltile")
    args.voltile = args.voltile.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # leaves all `with` blocks, which stop servers
    has_libraries = libraries and all(importlib.util.find_spec(name) for name in libraries)
    if packages and not has_libraries:
        try:
            venv.restart_in(packages)
        except OSError as problem:
            give_up(str(problem), NOTHING_TO_RUN if is_optional else 2)
    report = Report(shows_all)
    if "seed" in args:
        print(f"seed {args.seed}", flush=True)
    try:
        with tempfile.TemporaryDirectory(prefix=f"voltile-{NAME}-") as folder:
            check(args, report, Path(folder))
    except (Refused, subprocess.SubprocessError, OSError) as problem:
        give_up(str(problem))
    sys.exit(report.end())


def give_up(why: str, status: int = 2) -> NoReturn:
    print(f"{NAME}: {why}", file=sys.stderr)
    sys.exit(status)
