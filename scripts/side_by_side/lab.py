"""A typical lab's server: FastAPI, h5py, Pillow, and an LRU cache of encoded tiles in each of two uvicorn workers.

Straightforward code: one lock around h5py (which has its own), defaults for everything else, including HDF5's chunk
cache and Pillow's compression. Cached tiles are sent without a worker thread. Run by `servers`, which sets
SIDE_BY_SIDE_FILES (the files) and SIDE_BY_SIDE_TILES (the tile cache budget in bytes).
"""

import io
import os
import threading
from collections import OrderedDict
from pathlib import Path

import h5py
import numpy as np
from fastapi import FastAPI, HTTPException, Response
from fastapi.concurrency import run_in_threadpool
from PIL import Image

SIDE = 512


class TileCache:
    """An LRU cache of encoded tiles."""

    def __init__(self, budget: int):
        self.budget, self.held = budget, 0
        self.tiles: OrderedDict[tuple, bytes] = OrderedDict()
        self.lock = threading.Lock()

    def get(self, key: tuple) -> bytes | None:
        with self.lock:
            if key in self.tiles:
                self.tiles.move_to_end(key)
            return self.tiles.get(key)

    def put(self, key: tuple, png: bytes) -> None:
        with self.lock:
            self.held += len(png) - len(self.tiles.pop(key, b""))
            self.tiles[key] = png
            while self.held > self.budget:
                self.held -= len(self.tiles.popitem(last=False)[1])


app = FastAPI()
cache = TileCache(int(os.environ["SIDE_BY_SIDE_TILES"]))
files = [Path(name) for name in os.environ["SIDE_BY_SIDE_FILES"].split(os.pathsep)]
volumes = {path.stem: h5py.File(path, "r") for path in files}
hdf5_lock = threading.Lock()


def read(token: str, channel: str, plane: str, number: int, row: int, column: int) -> np.ndarray:
    rows, columns = slice(row * SIDE, (row + 1) * SIDE), slice(column * SIDE, (column + 1) * SIDE)
    where = {"xy": (number, rows, columns), "xz": (rows, number, columns), "yz": (rows, columns, number)}[plane]
    with hdf5_lock:
        found = volumes[token][channel][where]
    tile = np.zeros((SIDE, SIDE), np.uint8)
    tile[: found.shape[0], : found.shape[1]] = found
    return tile


def render(*where) -> bytes:
    png = io.BytesIO()
    Image.fromarray(read(*where)).save(png, "PNG")
    return png.getvalue()


@app.get("/ndtilecache/tilecache/{token}/{channel}/{plane}/{number}/{row}_{column}_0.png")
async def tile(token: str, channel: str, plane: str, number: int, row: int, column: int) -> Response:
    key = (token, channel, plane, number, row, column)
    png = cache.get(key)
    if png is None:
        try:
            png = await run_in_threadpool(render, *key)
        except (KeyError, IndexError, ValueError) as error:
            raise HTTPException(404, f"no such tile: {error}") from error
        cache.put(key, png)
    return Response(png, media_type="image/png")
