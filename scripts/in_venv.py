"""The Python packages of a script: installed once into a venv, in which the script restarts itself."""

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


# Made by scripts/setup --tests.
OF_THE_TESTS = Path(__file__).resolve().parent.parent / ".tools" / "venv"


def restart_with(libraries: Sequence[str], venv: Path, required: Path) -> None:
    """Returns if this Python has the libraries; otherwise restarts the script in the venv of the tests if that has them,
    or else as `restart_in` does."""
    if all(importlib.util.find_spec(name) for name in libraries):
        return
    python = OF_THE_TESTS / "bin" / "python"
    imports = [python, "-c", f"import {', '.join(libraries)}"]
    if python.exists() and subprocess.run(imports, stderr=subprocess.DEVNULL).returncode == 0:
        os.execv(python, [str(python), *sys.argv])
    restart_in(venv, required)


def restart_in(venv: Path, required: Path, optional: Path | None = None, wheels_only: bool = True, failed: int = 2) -> None:
    """Returns if the script runs in the venv; otherwise restarts it there.

    The venv has the packages of a requirements file and, if these can be installed, those of a second one. It is made anew
    if one of the files or Python has changed, if it was moved, and if optional packages are missing. If it cannot be
    made, the script ends with the status `failed`.
    """
    if Path(sys.prefix).resolve() == venv.resolve():
        return
    python = venv / "bin" / "python"
    venv.parent.mkdir(parents=True, exist_ok=True)
    # Several scripts may use one venv. The lock is released at the restart.
    with venv.with_name(f"{venv.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not make(venv, [required, optional] if optional else [required], wheels_only):
            needs = "Python's venv module and a package index"
            print(f"{Path(sys.argv[0]).name}: cannot install {required} into {venv}; it needs {needs}", file=sys.stderr)
            sys.exit(failed)
        os.execv(python, [str(python), *sys.argv])


def make(venv: Path, files: list[Path], wheels_only: bool) -> bool:
    """Makes the venv with the packages of the files, or of the first alone, unless it is there. Returns whether it is."""
    python, stamp = venv / "bin" / "python", venv / "made-of.sha256"
    made_of = f"{venv.resolve()} {sys.base_prefix} {sys.version}".encode()
    wanted = hashlib.sha256(b"".join([made_of, *(file.read_bytes() for file in files)])).hexdigest()
    if python.exists() and stamp.is_file() and stamp.read_text() == wanted:
        return True
    print(f"{Path(sys.argv[0]).name}: installing Python packages into {venv}", flush=True)
    if subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)]).returncode:
        return False
    if install(python, files, wheels_only):
        stamp.write_text(wanted)
        return True
    return len(files) > 1 and install(python, files[:1], wheels_only)


def install(python: Path, files: list[Path], wheels_only: bool) -> bool:
    """Installs the packages of requirements files, and returns whether that succeeded."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--only-binary", ":all:"] if wheels_only else []
    for file in files:
        command += ["-r", str(file)]
    began = time.monotonic()
    with subprocess.Popen(command) as pip:
        while True:
            try:
                return pip.wait(timeout=8) == 0
            except subprocess.TimeoutExpired:
                print(f"{Path(sys.argv[0]).name}: installing Python packages, {time.monotonic() - began:.0f} s", flush=True)
