"""The limit for tiles of compressed chunks: inflating the bytes that they need, and nothing else.

For each tile of a row, in the row's order, every chunk is inflated from memory as far as the last voxel that the tile
needs and no further, by libdeflate (from the imagecodecs package), on as many threads as there are cores, one tile to a
thread. In a scroll every chunk is inflated once for all the slices that it holds. libdeflate runs outside Python's
lock, and a call takes some hundred times longer than what Python adds to it.
"""

import itertools
import mmap
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import imagecodecs
import numpy as np

from .tiles import EDGE, SIDE, Tile

Corner = tuple[int, int, int]
Need = list[tuple[Corner, int]]  # what one tile takes: chunks by their corners, and how many bytes of each


def cubes(tile: Tile, shape: Corner) -> Need:
    """What a tile alone takes of chunks that are cubes."""
    axis = {"xy": 0, "xz": 1, "yz": 2}[tile.plane]
    spans: list[range] = []
    positions = iter((tile.row, tile.column))
    for a in range(3):
        first = tile.number // EDGE * EDGE if a == axis else next(positions) * SIDE
        spans.append(range(first, first + 1 if a == axis else min(first + SIDE, shape[a]), EDGE))
    last = [EDGE - 1] * 3
    last[axis] = tile.number % EDGE
    needed = (last[0] * EDGE + last[1]) * EDGE + last[2] + 1
    return [(corner, needed) for corner in itertools.product(*spans)]


def plane(tile: Tile, _shape: Corner) -> Need:
    """What an xy tile takes of chunks that are tiles."""
    return [((tile.number, tile.row * SIDE, tile.column * SIDE), SIDE * SIDE)]


def scrolled(tile: Tile, shape: Corner) -> Need:
    """What an xy tile takes on average where its cubes serve all their slices: one of them whole, another each slice."""
    chunks = [corner for corner, _ in cubes(tile, shape)]
    return [(chunks[tile.number % len(chunks)], EDGE**3)]


def rate(path: Path, tiles: list[Tile], need: Callable[[Tile, Corner], Need], seconds: float) -> float:
    """Tiles per second."""
    index: dict[tuple, tuple[int, int]] = {}
    with h5py.File(path) as file, open(path, "rb") as raw:
        shape = file["image"].shape
        file["image"].id.chunk_iter(lambda c: index.update({c.chunk_offset: (c.byte_offset, c.size)}))
        stored = memoryview(mmap.mmap(raw.fileno(), 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ))
    turn, done = itertools.cycle(tiles), []
    lock, end = threading.Lock(), time.perf_counter() + seconds

    def work() -> None:
        into = np.empty(EDGE**3, np.uint8)
        while time.perf_counter() < end:
            with lock:
                tile = next(turn)
            for corner, needed in need(tile, shape):
                at, size = index[corner]
                inflate(stored[at : at + size], into[:needed])
            done.append(time.perf_counter())

    start = time.perf_counter()
    threads = [threading.Thread(target=work) for _ in range(os.cpu_count() or 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(done) / (max(done) - start)


def inflate(stored: memoryview, into: np.ndarray) -> None:
    try:
        imagecodecs.deflate_decode(stored, out=into)
    except imagecodecs.DeflateError as error:
        if "INSUFFICIENT_SPACE" not in str(error):  # it says so when the buffer is full, as it should be
            raise
