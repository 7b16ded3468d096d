"""The limit of cold tiles: libdeflate decodes the parts of chunks that tiles need, from memory, on all cores; nothing else.

An xy tile needs the first slices of each chunk; tiles of the other planes need whole chunks.
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
MATCH = 258  # the longest match of deflate: without room for it, libdeflate stops before the needed bytes


def rate(path: Path, tiles: list[Tile], seconds: int) -> float:
    """The number of these tiles per second whose chunks can be decoded."""
    stored, index = np.fromfile(path, np.uint8), {}
    with h5py.File(path) as file:
        image = file["image"]
        image.id.chunk_iter(lambda chunk: index.update({chunk.chunk_offset: (chunk.byte_offset, chunk.size)}))
        shape = image.shape
    waiting, lock, done = iter(tiles), threading.Lock(), []
    deadline = time.perf_counter() + seconds

    def decode_tiles() -> None:
        buffer, count = np.empty(WHOLE, np.uint8), 0
        while time.perf_counter() < deadline:
            with lock:
                tile = next(waiting)
            for corner in corners(tile, shape):
                at, size = index[corner]
                needed = (tile.number % EDGE + 1) * EDGE**2 if tile.plane == "xy" else WHOLE
                with contextlib.suppress(imagecodecs.DeflateError):  # the buffer is full
                    imagecodecs.deflate_decode(stored[at : at + size], out=buffer[: needed + MATCH])
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
    fixed = {"xy": 0, "xz": 1, "yz": 2}[tile.plane]
    down, across = (axis for axis in range(3) if axis != fixed)
    rows = range(tile.row * SIDE, min((tile.row + 1) * SIDE, shape[down]), EDGE)
    columns = range(tile.column * SIDE, min((tile.column + 1) * SIDE, shape[across]), EDGE)
    for row, column in product(rows, columns):
        corner = [0, 0, 0]
        corner[fixed], corner[down], corner[across] = tile.number // EDGE * EDGE, row, column
        yield tuple(corner)
