"""The "inflate limit" for tiles of compressed chunks: only decoding the bytes that they need.

For each tile of a row, in the row's order, each chunk is prefix-decoded from memory up to the last voxel that the tile
needs, by libdeflate (from the imagecodecs package), on one thread per core, with one tile per thread. In a scroll, each
chunk is decoded once for all its slices. libdeflate runs without the GIL, and a call takes about a hundred times longer
than Python's overhead.
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
Need = list[tuple[Corner, int]]  # the chunks of a tile by their corners, and how many bytes to decode of each


def cubes(tile: Tile, shape: Corner) -> Need:
    """What a single tile needs from 64³ chunks."""
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
    """What an xy tile needs from 1×512×512 chunks."""
    return [((tile.number, tile.row * SIDE, tile.column * SIDE), SIDE * SIDE)]


def scrolled(tile: Tile, shape: Corner) -> Need:
    """What an xy tile of a scroll needs on average if each chunk is decoded once: one whole chunk, in rotation."""
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
        if "INSUFFICIENT_SPACE" not in str(error):  # expected: the buffer is full
            raise
