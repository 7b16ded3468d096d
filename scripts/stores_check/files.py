"""The files that are compared, and the keys of their objects.

An HDF5 file may need others beside it (files that it links to, BigDataViewer's XML), so whole folders are uploaded.
"""

from dataclasses import dataclass
from pathlib import Path

from checks.runner import ROOT

# The beginning of an HDF5 file. A user block of 512 bytes, or of a larger power of two, may lie before it.
SIGNATURE = b"\x89HDF\r\n\x1a\n"
# The only fixtures that are compared in Google's and Azure's stores (others.py).
FEW = ("layouts.h5", "layouts_latest.h5", "blosc.h5", "links.h5", "types_big.h5", "cremi.hdf")


@dataclass(frozen=True)
class File:
    """A file on disk that is uploaded as the object `key`; only HDF5 files are served."""

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
    """The files below a folder, with keys below `name`; without empty files and the subfolders `skip`."""
    out = []
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and path.stat().st_size > 0 and relative.parts[0] not in skip:
            out.append(File(path, f"{name}/{relative}", is_hdf5(path)))
    return out


def all_fixtures() -> list[File]:
    return below(ROOT / "fixtures", "fixtures", ("fuzz", "making", "refused"))


def all_files(shared: Path) -> list[File]:
    """The fixtures and, if they are there, the real files and the oracle's volumes."""
    out = all_fixtures()
    for folder, name in ((shared / "data", "real"), (ROOT / "target" / "oracle-volumes", "oracle")):
        if folder.is_dir():
            out += below(folder.resolve(), name)
        else:
            print(f"{name}: not compared, there is no {folder}", flush=True)
    return out
