"""Rows of files on a server that is a round trip of 20 ms away, compared with a local disk and with Python's libraries.

The rows: cold random xy tiles of 64 chunks, the first tile of a server that starts, and a scroll through 128 slices. The stories
in tests/ test how many requests voltile makes.
"""

import contextlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import fsspec
import h5py
import numpy as np
import remfile
import zarr
from kerchunk.hdf import SingleHdf5ToZarr

from . import servers
from .rows import Bench, Row, Sample
from .servers import Server, fetch, free_port
from .tiles import SIDE, Tile, compare
from .volumes import CUBE

DELAY = 0.020  # in seconds
TILES, SCROLL = 8, 128  # the tiles of a sample of `cold`, the slices of one of `scroll`
# Python's ways to read a remote file, and how many times as long as voltile each must at least take for a cold tile.
PEERS = {"h5py by fsspec": 8, "h5py by remfile": None, "zarr-python by kerchunk": 3}
AGAIN = "voltile, second start"
FIRST = dict.fromkeys(PEERS, 1) | {AGAIN: None}


@contextlib.contextmanager
def far(bench: Bench, token: str = "gzip") -> Iterator[str]:
    """Runs the web server of `far.py` for the volumes; yields the address of one volume."""
    port = free_port()
    command = [sys.executable, "-B", "-m", "side_by_side.far", bench.volumes.folder, port, DELAY]
    with Server("far", port, command, bench.setting.work) as server:
        server.wait_for_port(port)
        yield f"http://127.0.0.1:{port}/{token}.h5"


def voltile(bench: Bench, name: str, file: object, *sets: str) -> Server:
    """A voltile for one file, with a fixed window and without a trial, so that the first tile costs no further requests."""
    sets += ("datasets.gzip.channels.image.window=full", "files.trial=off")
    return servers.voltile(name, replace(bench.setting, files=[file]), *sets)


def places(bench: Bench, turn: int) -> list[Tile]:
    """Random tiles; `cold` does not measure the first one, for which the file is opened."""
    chance, (z, y, x) = random.Random(turn), bench.volumes.shape
    return [Tile("xy", chance.randrange(z), chance.randrange(y // SIDE), chance.randrange(x // SIDE)) for _ in range(TILES)]


def cold(bench: Bench, name: str, turn: int) -> Sample:
    """Milliseconds for a tile. Python reads the voxels of the tile, but does not draw it."""
    file, times = bench.volumes.file("gzip"), []
    with far(bench) as address, contextlib.ExitStack() as started:
        if name in PEERS:
            image = opened(name, address)
        else:
            server = started.enter_context(voltile(bench, name, address, "render.neighbours=0", "render.verify=never"))
        for tile in places(bench, turn):
            began = time.monotonic()
            if name in PEERS:
                found = part(image, tile)
            else:
                found = fetch(server, tile.path("gzip"))
            times.append(time.monotonic() - began)
            compare(name, found, file, tile)
    return Sample(1000 * statistics.median(times[1:]))


def first(token: str, bench: Bench, name: str, turn: int) -> Sample:
    """Milliseconds to the first tile. voltile starts and measures the range of the values; for AGAIN, it starts a second time
    with the same cache directory. Python opens the file and reads the voxels."""
    # `latest` has only the first slices.
    file, tile = bench.volumes.file(token), replace(places(bench, turn)[0], number=turn % CUBE[0])
    with far(bench, token) as address, tempfile.TemporaryDirectory(dir=bench.setting.work) as folder:
        for _ in range(2 if name == AGAIN else 1):
            began = time.monotonic()
            if name in PEERS:
                found = part(opened(name, address), tile)
                took = time.monotonic() - began
                continue
            with servers.voltile("voltile", replace(bench.setting, files=[address]), f"cache.directory={folder}") as server:
                found = fetch(server, tile.path(token))
                took = time.monotonic() - began
        compare(name, found, file, tile)
    return Sample(1000 * took)


def part(image, tile: Tile) -> np.ndarray:
    """The voxels of a tile."""
    rows, columns = (slice(at * SIDE, (at + 1) * SIDE) for at in (tile.row, tile.column))
    return np.asarray(image[tile.number, rows, columns])


def opened(name: str, address: str):
    """The volume, opened by one of the ways of PEERS."""
    if name == "h5py by fsspec":
        return h5py.File(fsspec.open(address).open())["image"]
    if name == "h5py by remfile":
        return h5py.File(remfile.File(address))["image"]
    with fsspec.open(address) as file:
        references = SingleHdf5ToZarr(file, address, inline_threshold=0).translate()
    options = {"remote_protocol": "http", "remote_options": {"asynchronous": True}, "asynchronous": True}
    store = zarr.storage.FsspecStore(fsspec.filesystem("reference", fo=references, **options), read_only=True, path="")
    return zarr.open_group(store, mode="r", zarr_format=2)["image"]


def scroll(bench: Bench, name: str, turn: int) -> Sample:
    """Seconds for a scroll through SCROLL slices, of a file on the remote server or on the local disk."""
    with far(bench) as address:
        source = ("voltile", bench.volumes.file("gzip")) if name == "local disk" else (name, address)
        with voltile(bench, *source) as server:
            fetch(server, Tile("xy", 10, 0, 0).path("gzip"))
            depth = bench.volumes.shape[0]
            began = time.monotonic()
            for number in range(depth // 4, min(depth, depth // 4 + SCROLL)):
                fetch(server, Tile("xy", number, 1, 1).path("gzip"))
            return Sample(time.monotonic() - began)


def rows() -> list[Row]:
    return [
        Row("cold", "cold tile of 64 chunks", cold, PEERS, "ms"),
        Row("first", "first tile, default format", partial(first, "gzip"), FIRST, "ms"),
        Row("first-latest", "first tile, latest format", partial(first, "latest"), FIRST, "ms"),
        Row("scroll", f"scroll of {SCROLL} slices", scroll, {"local disk": 0.6}, "s"),
    ]
