"""Measures the limit for cold tiles of gzip chunks: no server can send them faster than libdeflate decodes their chunks.

Decodes from memory, on all cores, only what the tiles need: for an xy tile, each chunk from its first slice up to the tile's
slice; for tiles of the other planes, whole chunks.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import h5py
import imagecodecs
import numpy as np

from .tiles import EDGE, SIDE, Tile

WHOLE = EDGE**3
# Deflate's longest match, in bytes. libdeflate stops before a match that does not fit into the buffer, so the buffer must be
# larger by this than what is needed.
MATCH = 258


def rate(path: Path, tiles: list[Tile], seconds: int) -> float:
    """The number of tiles per second whose chunks can be decoded, measured with these tiles."""
    stored = np.fromfile(path, np.uint8)
    index: dict[tuple[int, ...], tuple[int, int]] = {}

    def add_to_index(chunk) -> None:
        index[chunk.chunk_offset] = chunk.byte_offset, chunk.size

    with h5py.File(path) as file:
        file["image"].id.chunk_iter(add_to_index)
        shape = file["image"].shape
    waiting, lock = iter(tiles), threading.Lock()
    done: list[int] = []  # the number of tiles decoded by each thread
    deadline = time.perf_counter() + seconds

    def decode_tiles() -> None:
        buffer, count = np.empty(WHOLE, np.uint8), 0
        while time.perf_counter() < deadline:
            with lock:
                tile = next(waiting)
            for corner in corners(tile, shape):
                start, size = index[corner]
                needed = (tile.number % EDGE + 1) * EDGE**2 if tile.plane == "xy" else WHOLE
                with contextlib.suppress(imagecodecs.DeflateError):  # the buffer is full
                    imagecodecs.deflate_decode(stored[start : start + size], out=buffer[: needed + MATCH])
            count += 1
        done.append(count)

    threads = [threading.Thread(target=decode_tiles) for _ in range(os.cpu_count() or 1)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - began)


def corners(tile: Tile, shape: tuple[int, int, int]) -> Iterator[tuple[int, ...]]:
    """The first voxel (z, y, x) of each chunk of a tile."""
    fixed = ("xy", "xz", "yz").index(tile.plane)  # the axis that the plane leaves out
    down, across = (axis for axis in range(3) if axis != fixed)
    rows = range(tile.row * SIDE, min((tile.row + 1) * SIDE, shape[down]), EDGE)
    columns = range(tile.column * SIDE, min((tile.column + 1) * SIDE, shape[across]), EDGE)
    for row, column in product(rows, columns):
        corner = [0, 0, 0]
        corner[fixed], corner[down], corner[across] = tile.number // EDGE * EDGE, row, column
        yield tuple(corner)
