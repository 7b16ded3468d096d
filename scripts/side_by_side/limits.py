"""Rows of files at the limits: how long the server takes from its start to the first tile of a dataset that is named.

The dataset is the last of its folder or file by name. The memory is the server's peak until then, and until all files are
open. Voxels that were written are VALUE: compression, and so the voxels, hardly matter here.
"""

import io
import json
import re
import time
import zlib
from collections.abc import Callable
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
from .tiles import EDGE, Wrong
from .volumes import CUBE, LEVEL

VALUE = 100
SMALL, LARGE = (16, 16, 16), (8192, 16384, 32768)
MANY_CHUNKS, FILES, NESTED, CHANNELS = 100, 3000, 10_000, 2000  # chunks along each axis
PATIENCE = 10


def volume(file: h5py.File, name: str, shape: tuple[int, ...], chunk: tuple[int, ...], corners: list[tuple]) -> None:
    image = file.create_dataset(name, shape, "u1", chunks=chunk, compression=LEVEL)
    packed = zlib.compress(np.full(chunk, VALUE, np.uint8).tobytes(), LEVEL)
    for corner in corners:
        image.id.write_direct_chunk(corner, packed)


def chunks(folder: Path) -> None:
    shape = [MANY_CHUNKS * edge for edge in SMALL]
    with h5py.File(folder / "last.h5", "w") as file:
        volume(file, "image", tuple(shape), SMALL, product(*(range(0, extent, edge) for extent, edge in zip(shape, SMALL))))


def sparse(folder: Path) -> None:
    with h5py.File(folder / "last.h5", "w") as file:
        volume(file, "image", LARGE, CUBE, [(0, 0, 0), tuple(extent - EDGE for extent in LARGE)])


def channels(folder: Path) -> None:
    with h5py.File(folder / "last.h5", "w") as file:
        for number in range(1, CHANNELS):
            volume(file, f"image{number:04}", CUBE, CUBE, [(0, 0, 0)])
        volume(file, "last", CUBE, CUBE, [(0, 0, 0)])


def files(folder: Path, count: int, depth: int) -> None:
    first = folder / "last.h5"
    with h5py.File(first, "w") as file:
        volume(file, "image", CUBE, CUBE, [(0, 0, 0)])
    for number in range(1, count):
        place = folder.joinpath(*f"{number % 100:02}"[:depth])
        place.mkdir(parents=True, exist_ok=True)
        (place / f"image{number:05}.h5").write_bytes(first.read_bytes())


def first(bench: Bench, name: str, turn: int, make: Callable[[Path], None], count: int, channel: str, slice_: int) -> Sample:
    """Seconds from the start of the server."""
    folder = bench.volumes.folder.parent / "limits" / f"{getattr(make, 'func', make).__name__}-{count}"
    if not (done := folder / "done").exists():
        print(f"making {folder} (once)", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        make(folder)
        done.touch()
    began = time.monotonic()
    with servers.voltile(name, replace(bench.setting, files=[folder])) as server:
        png = fetch(server, f"/ndtilecache/tilecache/last/{channel}/xy/{slice_}/0_0_0.png")
        took, notes = time.monotonic() - began, {"s cpu": spent(server), "MiB": mebibytes(server)}
        if np.asarray(Image.open(io.BytesIO(png))).max() != VALUE:
            raise Wrong("the tile has not the voxels of the file")
        return Sample(took, notes | when_open(server, began, count))


def when_open(server: Server, began: float, count: int) -> dict[str, float]:
    """When all files are open, or no more of them become open."""
    opened, grown = 0, time.monotonic()
    while opened < count and time.monotonic() - grown < PATIENCE:
        if (now := len(json.loads(fetch(server, "/datasets.json"))["datasets"])) > opened:
            opened, grown = now, time.monotonic()
        time.sleep(0.2)
    return {"datasets": opened, "s until then": grown - began, "MiB then": mebibytes(server)}


def mebibytes(server: Server) -> float:
    """The most that the process has used so far."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)[1]) / 1024


def rows() -> list[Row]:
    def row(key: str, title: str, make: Callable, count: int = 1, channel: str = "image", slice_: int = 0) -> Row:
        measure = partial(first, make=make, count=count, channel=channel, slice_=slice_)
        return Row(f"limits-{key}", f"start to first tile of the last: {title}", measure, {}, "s", limit=1)

    return [
        row("chunks", f"{MANY_CHUNKS**3:,} chunks", chunks),
        row("files", f"{FILES:,} files in a folder", partial(files, count=FILES, depth=0), FILES),
        row("folders", f"{NESTED:,} files in nested folders", partial(files, count=NESTED, depth=2), NESTED),
        row("channels", f"{CHANNELS:,} channels of a file", channels, channel="last"),
        row("sparse", "a volume of 4 TB, of which 512 KiB are stored", sparse),
    ]
