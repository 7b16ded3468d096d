"""An optimised server: what can be reached in Python by an index of chunks, libdeflate, ISA-L, and ASGI without a framework.

Chunks are read with `os.pread`, or as views of a memory map if unfiltered, and shared by all tiles. For its first tile, a chunk
is decoded only as far as the tile needs; when a later tile needs more, it is decoded whole. One thread per core decodes and
encodes without the GIL; a tile that is requested alone is divided among all threads. Supports only 8-bit volumes whose shape
is a multiple of the chunk shape.
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
MATCH = 258  # deflate's longest match; libdeflate stops before a match that does not fit, so buffers are larger by this
THREADS = os.cpu_count() or 1


class Chunk:
    """A chunk of which the first `valid` bytes are decoded."""

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
                image.id.chunk_iter(self.add_to_index)
            else:
                # Contiguous data is served as one chunk.
                self.chunk = self.shape
                self.index[0, 0, 0] = image.id.get_offset(), image.size

    def add_to_index(self, chunk) -> None:
        self.index[chunk.chunk_offset] = chunk.byte_offset, chunk.size

    def stored(self, corner: tuple) -> np.ndarray:
        """The voxels of an unfiltered chunk, as a view of the file."""
        start, size = self.index[corner]
        return self.bytes[start : start + size].reshape(self.chunk)


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
    """The chunk at `corner`, of which at least the first `needed` bytes are decoded."""
    whole = volume.chunk[0] * volume.chunk[1] * volume.chunk[2]
    with chunks_lock:
        chunk = chunks.get((volume.file, corner))
        if chunk is None:
            chunk = Chunk(whole)
            chunks[volume.file, corner] = chunk
    with chunk.lock:
        if chunk.valid < needed:
            # Decoding always starts over at the first byte, so the second time is made the last.
            valid = whole if chunk.valid else needed
            inflate(volume, corner, chunk.voxels[: valid + MATCH])
            chunk.valid = valid
    return chunk.voxels.reshape(volume.chunk)


def inflate(volume: Volume, corner: tuple, into: np.ndarray) -> None:
    """Decodes a chunk until the buffer is full."""
    start, size = volume.index[corner]
    stored = os.pread(volume.file, size, start)
    try:
        imagecodecs.deflate_decode(stored, out=into)
    except imagecodecs.DeflateError as error:
        if "INSUFFICIENT_SPACE" not in str(error):  # expected: the buffer is full
            raise


def parts(volume: Volume, plane: str, number: int, row: int, column: int) -> Iterator[tuple]:
    """The parts of a tile, one for each chunk: the chunk's corner, the slice in the chunk, the rows and columns wanted of that
    slice, and the row and column of the tile where they begin."""
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


def fill(tile: np.ndarray, volume: Volume, plane: str, tile_parts: list[tuple]) -> None:
    """Copies some parts of a tile into it."""
    fixed = FIXED[plane]
    for corner, depth, (rows, columns), y, x in tile_parts:
        selection: list = [rows, columns]
        selection.insert(fixed, depth)
        if volume.packed:
            last = [rows.stop - 1, columns.stop - 1]
            last.insert(fixed, depth)
            needed = int(np.ravel_multi_index(last, volume.chunk)) + 1  # up to the last voxel wanted
            block = decoded(volume, corner, needed)[tuple(selection)]
        else:
            block = volume.stored(corner)[tuple(selection)]
        tile[y : y + block.shape[0], x : x + block.shape[1]] = block


def png_chunk(name: bytes, body: bytes) -> bytes:
    """A chunk of a PNG: length, name, body, checksum."""
    checksum = zlib.crc32(body, zlib.crc32(name))
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", checksum)


def encode(tile: np.ndarray) -> bytes:
    """PNG with filter `up` and ISA-L's level 1: the fastest combination available in Python."""
    lines = np.empty((SIDE, SIDE + 1), np.uint8)
    lines[:, 0] = 2  # the filter `up`: each row is stored as its difference from the row above
    lines[0, 1:] = tile[0]
    np.subtract(tile[1:], tile[:-1], out=lines[1:, 1:])
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0))  # 8 bits, grey
    return b"\x89PNG\r\n\x1a\n" + header + png_chunk(b"IDAT", isal_zlib.compress(lines, 1)) + png_chunk(b"IEND", b"")


async def render(token: str, channel: str, plane: str, number: str, row: str, column: str) -> bytes:
    global rendering
    run = asyncio.get_running_loop().run_in_executor
    rendering += 1
    try:
        volume = await run(pool, opened, token, channel)
        tile = np.zeros((SIDE, SIDE), np.uint8)
        tile_parts = list(parts(volume, plane, int(number), int(row), int(column)))
        # If no other tile needs the threads, this one is divided among all of them.
        is_divided = rendering == 1 and volume.packed
        shares = [tile_parts[n::THREADS] for n in range(THREADS)] if is_divided else [tile_parts]
        await asyncio.gather(*(run(pool, fill, tile, volume, plane, share) for share in shares))
        return await run(pool, encode, tile)
    finally:
        rendering -= 1


async def answer(path: str) -> tuple[int, bytes]:
    png = tiles.get(path)
    if png is None:
        match = PATH.fullmatch(path)
        if not match:
            return 404, b"no such tile"
        try:
            png = await render(*match.groups())
        except (KeyError, IndexError) as error:
            return 404, f"no such tile: {error}".encode()
        tiles[path] = png
    return 200, png


async def app(scope: dict, receive, send) -> None:
    if scope["type"] != "http":
        return
    status, body = await answer(scope["path"])
    content_type = b"image/png" if status == 200 else b"text/plain"
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
