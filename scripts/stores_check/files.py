"""The files that are compared, with the names that their objects get.

Links and XML files lie beside the files that need them, so whole folders are uploaded.
"""

from dataclasses import dataclass
from pathlib import Path

from checks.runner import ROOT

# `voltile serve FOLDER` recognises HDF5 files by this signature, which lies behind the user block if there is one.
SIGNATURE = b"\x89HDF\r\n\x1a\n"
# The fixtures that are compared in the stores of others.py.
FEW = ("layouts.h5", "layouts_latest.h5", "blosc.h5", "links.h5", "types_big.h5", "cremi.hdf")


@dataclass(frozen=True)
class File:
    """A file, and the key of its object."""

    path: Path
    key: str
    is_hdf5: bool


def is_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        for at in (0, 512, 1024, 2048, 4096):
            file.seek(at)
            if file.read(8) == SIGNATURE:
                return True
    return False


def below(folder: Path, name: str, skip: tuple[str, ...] = ()) -> list[File]:
    """All files below a folder."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size > 0)
    relative = ((path, path.relative_to(folder)) for path in found)
    return [File(path, f"{name}/{at}", is_hdf5(path)) for path, at in relative if at.parts[0] not in skip]


def all_fixtures() -> list[File]:
    return below(ROOT / "fixtures", "fixtures", ("fuzz", "making", "refused"))


def all_files(shared: Path) -> list[File]:
    """The fixtures, the real files, and the oracle's volumes if they were made."""
    out = all_fixtures()
    for folder, name in ((shared / "data", "real"), (ROOT / "target" / "oracle-volumes", "oracle")):
        if folder.is_dir():
            out += below(folder.resolve(), name)
        else:
            print(f"{name}: not compared, there is no {folder}", flush=True)
    return out
