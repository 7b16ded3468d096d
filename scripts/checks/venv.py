"""Installs Python packages: each list in scripts/requirements has its own venv in .tools. `python3 venv.py NAME` makes one.

NAME.txt lists the packages that are required. NAME-optional.txt, if it exists, lists packages without which parts of a check
are skipped. A venv is made anew if a list or Python has changed, if it was moved, or if optional packages are missing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def folder(name: str) -> Path:
    return ROOT / ".tools" / ("venv" if name == "tests" else f"{name}-venv")


def restart_in(name: str) -> None:
    """Restarts the script in the venv, which is made if needed, unless it runs there already. Raises OSError."""
    venv = folder(name)
    if Path(sys.prefix).resolve() != venv.resolve():
        make(name)
        python = venv / "bin" / "python"
        os.execv(python, [str(python), *sys.argv])


def make(name: str) -> None:
    """Makes the venv, unless it is up to date. It lacks the optional packages if they cannot be installed. Raises OSError."""
    required, optional = (ROOT / "scripts" / "requirements" / f"{name}{suffix}.txt" for suffix in ("", "-optional"))
    lists = [required, optional] if optional.is_file() else [required]
    venv = folder(name)
    python, stamp = venv / "bin" / "python", venv / "made-of.sha256"
    made_of = f"{venv.resolve()} {sys.base_prefix} {sys.version}".encode()
    wanted = hashlib.sha256(b"".join([made_of, *(file.read_bytes() for file in lists)])).hexdigest()
    venv.parent.mkdir(exist_ok=True)
    # Several scripts may make the same venv at the same time.
    with venv.with_name(f"{venv.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if python.exists() and stamp.is_file() and stamp.read_text() == wanted:
            return
        say(f"installing the Python packages of {required.name} into {venv}")
        is_made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)]).returncode == 0
        if is_made and install(python, [f"--requirement={file}" for file in lists]):
            stamp.write_text(wanted)
            return
        # There is no stamp without the optional packages, so the next run tries to install them again.
        has_required = is_made and len(lists) > 1 and install(python, [f"--requirement={required}"])
        if not has_required:
            raise OSError(f"cannot install {required} into {venv}; it needs Python's venv module and a package index")


def install(python: Path, arguments: list[str]) -> bool:
    """Installs packages into the environment of a Python, and returns whether that succeeded.

    The arguments are those of `pip install`. uv accepts them, too, and needs a tenth of the time, but it ignores pip's
    settings, such as a mirror; so pip tries if uv has failed. uv itself is installed by pip.
    """
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", *arguments]
    if folder("uv") in python.parents:
        return run(pip)
    make("uv")
    uv = [str(folder("uv") / "bin" / "uv"), "pip", "install", "--quiet", f"--python={python}", *arguments]
    return run(uv) or run(pip)


def run(command: list[str]) -> bool:
    """Runs a command that installs packages, and returns whether it succeeded. Every 8 s it prints that it still runs."""
    began = time.monotonic()
    with subprocess.Popen(command) as process:
        while True:
            try:
                return process.wait(timeout=8) == 0
            except subprocess.TimeoutExpired:
                say(f"installing Python packages, {time.monotonic() - began:.0f} s")


def say(text: str) -> None:
    print(f"{Path(sys.argv[0]).name}: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        make(sys.argv[1])
    except OSError as problem:
        sys.exit(f"{Path(sys.argv[0]).name}: {problem}")
