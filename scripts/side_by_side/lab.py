"""A typical lab's server: FastAPI, h5py, Pillow, and an LRU cache of encoded tiles in each of two uvicorn workers.

Straightforward code: one lock around h5py (which has its own lock, too), and defaults for everything else. Only tiles that are
not cached need a worker thread. The module `servers` starts this server, and sets SIDE_BY_SIDE_FILES and SIDE_BY_SIDE_TILES
(the budget of the cache in bytes).
"""

import io
import os
import threading
import zlib
from pathlib import Path

import h5py
import numpy as np
from cachetools import LRUCache
from fastapi import FastAPI, HTTPException, Response
from fastapi.concurrency import run_in_threadpool
from PIL import Image

SIDE = 512


app = FastAPI()
cache = LRUCache(int(os.environ["SIDE_BY_SIDE_TILES"]), len)
files = [Path(name) for name in os.environ["SIDE_BY_SIDE_FILES"].split(os.pathsep)]
volumes = {path.stem: h5py.File(path, "r") for path in files}
hdf5_lock = threading.Lock()


def read(token: str, channel: str, plane: str, number: int, row: int, column: int) -> np.ndarray:
    rows, columns = slice(row * SIDE, (row + 1) * SIDE), slice(column * SIDE, (column + 1) * SIDE)
    selections = {"xy": (number, rows, columns), "xz": (rows, number, columns), "yz": (rows, columns, number)}
    selection = selections[plane]
    with hdf5_lock:
        voxels = volumes[token][channel][selection]
    tile = np.zeros((SIDE, SIDE), np.uint8)
    tile[: voxels.shape[0], : voxels.shape[1]] = voxels
    return tile


def render(token: str, channel: str, plane: str, number: int, row: int, column: int) -> bytes:
    png = io.BytesIO()
    Image.fromarray(read(token, channel, plane, number, row, column)).save(png, "PNG")
    return png.getvalue()


@app.get("/neuroglancer/{token}/{channel}/0/{x0}-{x1}_{y0}-{y1}_{z0}-{z1}")
def chunk(token: str, channel: str, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int) -> Response:
    with hdf5_lock:
        voxels = volumes[token][channel][z0:z1, y0:y1, x0:x1]
    return Response(zlib.compress(voxels.tobytes(), 4), headers={"Content-Encoding": "deflate"})


@app.get("/ndtilecache/tilecache/{token}/{channel}/{plane}/{number}/{row}_{column}_0.png")
async def tile(token: str, channel: str, plane: str, number: int, row: int, column: int) -> Response:
    key = (token, channel, plane, number, row, column)
    png = cache.get(key)
    if png is None:
        try:
            png = await run_in_threadpool(render, *key)
        except (KeyError, IndexError, ValueError) as error:
            raise HTTPException(404, f"no such tile: {error}") from error
        cache[key] = png
    return Response(png, media_type="image/png")
