"""Rows of files at the limits: how long a server takes from its start to the first tile of the dataset `last`.

Its file is the last of its folder by name, and its channel `last` is the last of the file. Memory is the server's peak until
then, and until no more files are opened. All stored voxels have one value: neither pixels nor compression matter here.
"""

import io
import json
import re
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

from . import servers
from .rows import Bench, Row, Sample, spent
from .servers import Server, fetch
from .tiles import EDGE, Shape, Wrong
from .volumes import CUBE, LEVEL

VALUE = 100
SMALL, SPARSE = (16, 16, 16), (8192, 16384, 32768)
CHUNKS, FILES, NESTED, CHANNELS = 100, 3000, 10_000, 2000  # chunks along each axis
PATIENCE = 10
ORIGIN = [(0, 0, 0)]


def write(folder: Path, shape: Shape = CUBE, chunk: Shape = CUBE, corners: Iterable = ORIGIN, channels: int = 1) -> Path:
    """One file, with chunks at these corners."""
    packed = zlib.compress(np.full(chunk, VALUE, np.uint8).tobytes(), LEVEL)
    with h5py.File(folder / "last.h5", "w") as file:
        for name in [*(f"image{number:04}" for number in range(1, channels)), "last"]:
            image = file.create_dataset(name, shape, "u1", chunks=chunk, compression=LEVEL)
            for corner in corners:
                image.id.write_direct_chunk(corner, packed)
    return folder / "last.h5"


def write_many(folder: Path, count: int, depth: int) -> None:
    """Files in folders within folders."""
    contents = write(folder).read_bytes()
    for number in range(1, count):
        place = folder.joinpath(*f"{number % 100:02}"[:depth])
        place.mkdir(parents=True, exist_ok=True)
        (place / f"image{number:05}.h5").write_bytes(contents)


def first(bench: Bench, name: str, turn: int, key: str, make: Callable[[Path], object], count: int) -> Sample:
    """Seconds from the start of the server."""
    folder = bench.volumes.folder.parent / "limits" / key
    if not folder.exists():
        print(f"making {folder} (once)", flush=True)
        (new := folder.with_name("new")).mkdir(parents=True)
        make(new)
        new.rename(folder)
    began = time.monotonic()
    with servers.voltile(name, replace(bench.setting, files=[folder])) as server:
        png = fetch(server, "/ndtilecache/tilecache/last/last/xy/0/0_0_0.png")
        took, notes = time.monotonic() - began, {"s of processor time": spent(server), "MiB": mebibytes(server)}
        if np.asarray(Image.open(io.BytesIO(png))).max() != VALUE:
            raise Wrong("the tile has not the voxels of the file")
        opened, grown = 0, time.monotonic()
        while opened < count and time.monotonic() - grown < PATIENCE:
            if (now := len(json.loads(fetch(server, "/datasets.json"))["datasets"])) > opened:
                opened, grown = now, time.monotonic()
            time.sleep(0.2)
        return Sample(took, notes | {"datasets": opened, "s until these": grown - began, "MiB then": mebibytes(server)})


def mebibytes(server: Server) -> float:
    """The most that the process has used so far."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)[1]) / 1024


def rows() -> list[Row]:
    every = product(range(0, CHUNKS * SMALL[0], SMALL[0]), repeat=3)
    ends = [*ORIGIN, tuple(extent - EDGE for extent in SPARSE)]
    cases = {
        "chunks": ("1,000,000 chunks", partial(write, shape=(CHUNKS * SMALL[0],) * 3, chunk=SMALL, corners=every), 1),
        "files": ("3,000 files in a folder", partial(write_many, count=FILES, depth=0), FILES),
        "folders": ("10,000 files in nested folders", partial(write_many, count=NESTED, depth=2), NESTED),
        "channels": ("2,000 channels of a file", partial(write, channels=CHANNELS), 1),
        "sparse": ("a volume of 4 TB, of which 512 KiB are stored", partial(write, shape=SPARSE, corners=ends), 1),
    }
    found = []
    for key, (title, make, count) in cases.items():
        measure = partial(first, key=key, make=make, count=count)
        found.append(Row(f"limits-{key}", f"start to first tile, {title}", measure, {}, "s", limit=1))
    return found
