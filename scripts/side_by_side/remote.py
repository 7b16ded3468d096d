"""The rows of `--remote`: voltile reads files from a server that is a round trip of 20 ms away.

They show what the distance costs, in comparison with a local disk and with Python's libraries. How many requests voltile makes is
tested in tests/.
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
TILES, SCROLL = 8, 128  # the number of tiles in a sample of `cold`, and of slices in a sample of `scroll`
# Python's ways to read a remote file. The target of each: how many times as long as voltile it takes for a cold tile.
PEERS = {"h5py by fsspec": 8, "h5py by remfile": None, "zarr-python by kerchunk": 3}
SECOND_START = "voltile, second start"
FIRST_PEERS = dict.fromkeys(PEERS, 1) | {SECOND_START: None}  # for the first tile, voltile must not take longer than Python


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


def random_tiles(bench: Bench, turn: int) -> list[Tile]:
    chance = random.Random(turn)
    z, y, x = bench.volumes.shape
    return [Tile("xy", chance.randrange(z), chance.randrange(y // SIDE), chance.randrange(x // SIDE)) for _ in range(TILES)]


def cold(bench: Bench, name: str, turn: int) -> Sample:
    """Milliseconds for a tile of an open file. Python reads the voxels of the tile, but does not draw it."""
    file, times = bench.volumes.file("gzip"), []
    with far(bench) as address, contextlib.ExitStack() as started:
        if name in PEERS:
            image = opened(name, address)
        else:
            server = started.enter_context(voltile(bench, name, address, "render.neighbours=0", "render.verify=never"))
        for tile in random_tiles(bench, turn):
            began = time.monotonic()
            if name in PEERS:
                response = read(image, tile)
            else:
                response = fetch(server, tile.path("gzip"))
            times.append(time.monotonic() - began)
            compare(name, response, file, tile)
    # The first tile does not count, because the file is opened for it.
    return Sample(1000 * statistics.median(times[1:]))


def first(token: str, bench: Bench, name: str, turn: int) -> Sample:
    """Milliseconds to the first tile. Python opens the file and reads the voxels. voltile starts, measures the range of the
    values, and draws; for SECOND_START, only its second start with the same cache directory counts."""
    file = bench.volumes.file(token)
    tile = replace(random_tiles(bench, turn)[0], number=turn % CUBE[0])  # `latest` has only the first slices
    with far(bench, token) as address, tempfile.TemporaryDirectory(dir=bench.setting.work) as folder:
        for _ in range(2 if name == SECOND_START else 1):
            began = time.monotonic()
            if name in PEERS:
                response = read(opened(name, address), tile)
                took = time.monotonic() - began
            else:
                setting = replace(bench.setting, files=[address])
                with servers.voltile("voltile", setting, f"cache.directory={folder}") as server:
                    response = fetch(server, tile.path(token))
                    took = time.monotonic() - began
        compare(name, response, file, tile)
    return Sample(1000 * took)


def read(image, tile: Tile) -> np.ndarray:
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
    """Seconds for a scroll through SCROLL slices of a file on the remote server, or for `local disk`, on the local disk."""
    is_local = name == "local disk"
    with far(bench) as address:
        file = bench.volumes.file("gzip") if is_local else address
        with voltile(bench, "voltile" if is_local else name, file) as server:
            # The first tile opens the file.
            fetch(server, Tile("xy", 10, 0, 0).path("gzip"))
            depth = bench.volumes.shape[0]
            start, began = depth // 4, time.monotonic()
            for number in range(start, min(depth, start + SCROLL)):
                fetch(server, Tile("xy", number, 1, 1).path("gzip"))
            return Sample(time.monotonic() - began)


def rows() -> list[Row]:
    return [
        Row("cold", "cold tile of 64 chunks", cold, PEERS, "ms"),
        Row("first", "first tile, default format", partial(first, "gzip"), FIRST_PEERS, "ms"),
        Row("first-latest", "first tile, latest format", partial(first, "latest"), FIRST_PEERS, "ms"),
        Row("scroll", f"scroll of {SCROLL} slices", scroll, {"local disk": 0.6}, "s"),
    ]
