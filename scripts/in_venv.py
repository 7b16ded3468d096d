"""The Python packages of a script: installed once into a venv, in which the script restarts itself."""

import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path


class NotInstalled(Exception):
    """The packages cannot be installed. Python or pip has printed the reason."""


def have(libraries: Iterable[str]) -> bool:
    """Whether this Python has all of the libraries."""
    return all(importlib.util.find_spec(name) for name in libraries)


def restart_in(venv: Path, required: Path, optional: Path | None = None, wheels_only: bool = True) -> None:
    """Returns if the script runs in the venv; otherwise restarts it there.

    The venv has the packages of a requirements file and, if these can be installed, those of a second one. It is made anew
    if one of the files has changed, or if optional packages are missing. Raises NotInstalled.
    """
    if Path(sys.prefix).resolve() == venv.resolve():
        return
    python, stamp = venv / "bin" / "python", venv / "requirements.sha256"
    files = [required, optional] if optional else [required]
    wanted = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    if not stamp.is_file() or stamp.read_text() != wanted:
        print(f"{Path(sys.argv[0]).name}: installing Python packages into {venv}", flush=True)
        if subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)]).returncode:
            raise NotInstalled
        if install(python, files, wheels_only):
            stamp.write_text(wanted)
        elif optional is None or not install(python, [required], wheels_only):
            raise NotInstalled
    os.execv(python, [str(python), *sys.argv])


def install(python: Path, files: list[Path], wheels_only: bool) -> bool:
    """Installs the packages of requirements files, and returns whether that succeeded."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--only-binary", ":all:"] if wheels_only else []
    for file in files:
        command += ["-r", str(file)]
    return subprocess.run(command).returncode == 0
