"""An optimised Python server: a chunk index, libdeflate, shared decoded chunks, ISA-L, bare ASGI.

Chunks are read with `os.pread`, or as views of a memory map if unfiltered. A chunk is prefix-decoded for its first tile, and
decoded whole, once, when a later tile needs more. All of this, and the encoding, runs without the GIL on one thread per core;
a single tile uses all threads. Supports only 8-bit volumes whose shape is a multiple of the chunk shape.
"""

import asyncio
import os
import re
import struct
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import imagecodecs
import numpy as np
from cachetools import LRUCache
from isal import isal_zlib

SIDE = 512
PATH = re.compile(r"/ndtilecache/tilecache/(\w+)/(\w+)/(xy|xz|yz)/(\d+)/(\d+)_(\d+)_0\.png")
FIXED = {"xy": 0, "xz": 1, "yz": 2}  # the axis (of z, y, x) along which a plane's slices are numbered
MATCH = 258  # the longest match of deflate: libdeflate does not write one that does not fit, so it needs extra space
THREADS = os.cpu_count() or 1


class Chunk:
    """A chunk; its first `valid` bytes are decoded."""

    def __init__(self, size: int):
        self.lock, self.voxels, self.valid = threading.Lock(), np.empty(size, np.uint8), 0


class Volume:
    """One dataset: its chunk index, and its file as a memory map."""

    def __init__(self, path: Path, channel: str):
        self.file = os.open(path, os.O_RDONLY)
        self.bytes = np.memmap(path, np.uint8, "r")
        self.index: dict[tuple, tuple[int, int]] = {}
        with h5py.File(path) as opened:
            image = opened[channel]
            self.shape, self.chunk, self.packed = image.shape, image.chunks, image.compression is not None
            if self.chunk:
                image.id.chunk_iter(lambda c: self.index.update({c.chunk_offset: (c.byte_offset, c.size)}))
            else:
                self.chunk, start = self.shape, image.id.get_offset()
                self.index[0, 0, 0] = (start, image.size)

    def stored(self, corner: tuple) -> np.ndarray:
        """The voxels of an unfiltered chunk, as a view of the file."""
        at, size = self.index[corner]
        return self.bytes[at : at + size].reshape(self.chunk)


volumes: dict[tuple[str, str], Volume] = {}
files = {Path(name).stem: Path(name) for name in os.environ["SIDE_BY_SIDE_FILES"].split(os.pathsep)}
chunks = LRUCache(int(os.environ["SIDE_BY_SIDE_CHUNKS"]), lambda chunk: len(chunk.voxels))
tiles = LRUCache(int(os.environ["SIDE_BY_SIDE_TILES"]), len)
chunks_lock, volumes_lock = threading.Lock(), threading.Lock()
pool = ThreadPoolExecutor(THREADS)
rendering = 0  # the number of tiles that are being rendered


def opened(token: str, channel: str) -> Volume:
    with volumes_lock:
        if (token, channel) not in volumes:
            volumes[token, channel] = Volume(files[token], channel)
        return volumes[token, channel]


def decoded(volume: Volume, corner: tuple, needed: int) -> np.ndarray:
    """The chunk at `corner`; decodes it unless its first `needed` bytes are decoded already."""
    whole = volume.chunk[0] * volume.chunk[1] * volume.chunk[2]
    with chunks_lock:
        chunk = chunks.get((volume.file, corner))
        if chunk is None:
            chunk = Chunk(whole)
            chunks[volume.file, corner] = chunk
    with chunk.lock:
        if chunk.valid < needed:
            wanted = whole if chunk.valid else needed
            inflate(volume, corner, chunk.voxels[: wanted + MATCH])
            chunk.valid = wanted
    return chunk.voxels.reshape(volume.chunk)


def inflate(volume: Volume, corner: tuple, into: np.ndarray) -> None:
    """Decodes a chunk until the buffer is full."""
    at, size = volume.index[corner]
    stored = os.pread(volume.file, size, at)
    try:
        imagecodecs.deflate_decode(stored, out=into)
    except imagecodecs.DeflateError as error:
        if "INSUFFICIENT_SPACE" not in str(error):  # expected: the buffer is full
            raise


def parts(volume: Volume, plane: str, number: int, row: int, column: int) -> Iterator[tuple]:
    """For each chunk of a tile: its corner, the slice within it, the wanted window, and its y and x in the tile."""
    fixed = FIXED[plane]
    down, across = (axis for axis in range(3) if axis != fixed)
    deep, tall, wide = volume.chunk[fixed], volume.chunk[down], volume.chunk[across]
    top, left = row * SIDE, column * SIDE
    bottom, right = min(top + SIDE, volume.shape[down]), min(left + SIDE, volume.shape[across])
    for y in range(top // tall * tall, bottom, tall):
        for x in range(left // wide * wide, right, wide):
            corner = [0, 0, 0]
            corner[fixed], corner[down], corner[across] = number // deep * deep, y, x
            window = (slice(max(top - y, 0), min(bottom - y, tall)), slice(max(left - x, 0), min(right - x, wide)))
            yield tuple(corner), number % deep, window, max(y - top, 0), max(x - left, 0)


def fill(rows: np.ndarray, volume: Volume, plane: str, some: list[tuple]) -> None:
    """Copies some parts of a tile into its rows."""
    fixed = FIXED[plane]
    for corner, depth, window, y, x in some:
        where: list = list(window)
        where.insert(fixed, depth)
        if volume.packed:
            last = [w if isinstance(w, int) else w.stop - 1 for w in where]
            needed = int(np.ravel_multi_index(last, volume.chunk)) + 1  # up to the last voxel wanted
            block = decoded(volume, corner, needed)[tuple(where)]
        else:
            block = volume.stored(corner)[tuple(where)]
        rows[y : y + block.shape[0], x : x + block.shape[1]] = block


def section(kind: bytes, body: bytes) -> tuple[bytes, ...]:
    """A chunk of a PNG: length, kind, body, checksum."""
    return struct.pack(">I", len(body)), kind, body, struct.pack(">I", zlib.crc32(body, zlib.crc32(kind)))


def encode(tile: np.ndarray) -> bytes:
    """PNG with filter `up` and ISA-L's level 1: the fastest combination available in Python."""
    lines = np.empty((SIDE, SIDE + 1), np.uint8)
    lines[:, 0] = 2  # the filter `up`: each row is stored as its difference from the row above
    lines[0, 1:] = tile[0]
    np.subtract(tile[1:], tile[:-1], out=lines[1:, 1:])
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)
    kinds = ((b"IHDR", header), (b"IDAT", isal_zlib.compress(lines, 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(part for kind, body in kinds for part in section(kind, body))


async def render(token: str, channel: str, plane: str, number: str, row: str, column: str) -> bytes:
    global rendering
    run = asyncio.get_running_loop().run_in_executor
    rendering += 1
    try:
        volume = await run(pool, opened, token, channel)
        tile = np.zeros((SIDE, SIDE), np.uint8)
        some = list(parts(volume, plane, int(number), int(row), int(column)))
        # A single tile is divided among all threads.
        shares = [some[n::THREADS] for n in range(THREADS)] if rendering == 1 and volume.packed else [some]
        await asyncio.gather(*(run(pool, fill, tile, volume, plane, share) for share in shares))
        return await run(pool, encode, tile)
    finally:
        rendering -= 1


async def answer(path: str) -> tuple[int, bytes]:
    png = tiles.get(path)
    if png is None:
        asked = PATH.fullmatch(path)
        if not asked:
            return 404, b"no such tile"
        try:
            png = await render(*asked.groups())
        except (KeyError, IndexError) as error:
            return 404, f"no such tile: {error}".encode()
        tiles[path] = png
    return 200, png


async def app(scope: dict, receive, send) -> None:
    if scope["type"] != "http":
        return
    status, body = await answer(scope["path"])
    kind = b"image/png" if status == 200 else b"text/plain"
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
