"""The volumes of the benchmark: made once, the same on every machine, kept in target/bench-volumes.

One picture (membranes, texture, sensor noise: like electron microscopy) in four layouts, a TIFF for each of its
slices, and a file with very many chunks. `gzip` and `plain` have 64x64x64 chunks, `planes` has 1x512x512 chunks,
`contiguous` has none. Compressing is done by two threads here, and whole compressed chunks are handed to HDF5, which
would take several times as long; the TIFFs hold the very bytes of the `planes` chunks, so both are equally compressed.
"""

import concurrent.futures
import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from . import tiff

RECIPE = 1  # count up when anything here changes the bytes made
LEVEL = 4  # of gzip
CUBE, PLANE = (64, 64, 64), (1, 512, 512)
SEED = 20240601


@dataclass(frozen=True)
class Volumes:
    """Where the volumes are. `shape` is z, y, x; `many` is the shape of the file with very many chunks."""

    folder: Path
    shape: tuple[int, int, int]
    many: tuple[int, int, int]
    ratio: float = 0.0

    def file(self, token: str) -> Path:
        return self.folder / f"{token}.h5"

    @property
    def many_chunks(self) -> int:
        return self.many[0] * self.many[1] * self.many[2] // 64


def plan(folder: Path, small: bool) -> Volumes:
    if small:
        return Volumes(folder / "small", (64, 1024, 1024), (25, 400, 400))
    return Volumes(folder / "full", (256, 2048, 2048), (100, 800, 800))


def make(wanted: Volumes) -> Volumes:
    """Makes what is missing, and says how well the `gzip` volume is compressed."""
    done = wanted.folder / "made.json"
    recipe = {"recipe": RECIPE, "shape": list(wanted.shape)}
    known = json.loads(done.read_text()) if done.is_file() else {}
    if {k: known.get(k) for k in recipe} != recipe:
        print(f"making the volumes in {wanted.folder} (once; a minute or two)", flush=True)
        done.unlink(missing_ok=True)
        wanted.folder.mkdir(parents=True, exist_ok=True)
        make_pictures(wanted)
        make_many(wanted)
        known = recipe | {"ratio": ratio(wanted.file("gzip"))}
        done.write_text(json.dumps(known))
    if not 1.3 < known["ratio"] < 1.5:
        raise SystemExit(f"the gzip volume is compressed by {known['ratio']:.2f}, and 1.4 was wanted")
    return Volumes(wanted.folder, wanted.shape, wanted.many, known["ratio"])


def ratio(path: Path) -> float:
    with h5py.File(path) as file:
        image = file["image"]
        return image.size / image.id.get_storage_size()


def smooth(rng: np.random.Generator, shape: tuple[int, ...], widths: tuple[float, ...]) -> np.ndarray:
    """Gaussian noise blurred by `widths` voxels, periodic, of standard deviation 1."""
    spectrum = np.fft.rfftn(rng.standard_normal(shape, np.float32))
    for axis, (length, width) in enumerate(zip(shape, widths)):
        waves = np.fft.rfftfreq(length) if axis == len(shape) - 1 else np.fft.fftfreq(length)
        blur = np.exp(-2 * (np.pi * width * waves) ** 2).astype(np.float32)
        spectrum *= blur.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    made = np.fft.irfftn(spectrum, s=shape, axes=range(len(shape))).astype(np.float32)
    return made / made.std()


def slabs(shape: tuple[int, int, int]) -> Iterator[np.ndarray]:
    """The picture, 64 slices at a time: one block of tissue laid side by side, and noise that never repeats nearby."""
    rng = np.random.default_rng(SEED)
    block = (64, 512, 512)
    walls = np.exp(-((smooth(rng, block, (3, 8, 8)) / 0.12) ** 2))
    tissue = np.rint(150 + 6.5 * smooth(rng, block, (1, 3, 3)) - 60 * walls).astype(np.int16)
    noise = np.rint(3.5 * rng.standard_normal(1 << 23, np.float32)).astype(np.int16)
    area = shape[1] * shape[2]
    for first in range(0, shape[0], 64):
        slab = np.empty((64, *shape[1:]), np.uint8)
        for z in range(64):
            # There and back again, so that the tissue goes on from slab to slab.
            slice_ = np.tile(tissue[z if first % 128 == 0 else 63 - z], (shape[1] // 512, shape[2] // 512))
            start = int(rng.integers(0, noise.size - area))
            slice_ += noise[start : start + area].reshape(shape[1:])
            np.clip(slice_, 0, 255, out=slice_)
            slab[z] = slice_
        yield slab


def make_pictures(volumes: Volumes) -> None:
    files = {token: h5py.File(volumes.file(token), "w") for token in ("gzip", "plain", "planes", "contiguous")}
    sets = {
        "gzip": files["gzip"].create_dataset("image", volumes.shape, "u1", chunks=CUBE, compression=LEVEL),
        "plain": files["plain"].create_dataset("image", volumes.shape, "u1", chunks=CUBE),
        "planes": files["planes"].create_dataset("image", volumes.shape, "u1", chunks=PLANE, compression=LEVEL),
        "contiguous": files["contiguous"].create_dataset("image", volumes.shape, "u1"),
    }
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, slab in enumerate(slabs(volumes.shape)):
            first = number * 64
            sets["contiguous"][first : first + 64] = slab
            for where, chunk in pieces(slab, CUBE):
                sets["plain"].id.write_direct_chunk((first, *where[1:]), chunk)
            put(pool, sets["gzip"], slab, CUBE, first)
            make_tiffs(volumes, first, put(pool, sets["planes"], slab, PLANE, first))
    for file in files.values():
        file.close()


def pieces(slab: np.ndarray, chunk: tuple[int, int, int]) -> Iterator[tuple[tuple[int, int, int], bytes]]:
    for z in range(0, slab.shape[0], chunk[0]):
        for y in range(0, slab.shape[1], chunk[1]):
            for x in range(0, slab.shape[2], chunk[2]):
                part = slab[z : z + chunk[0], y : y + chunk[1], x : x + chunk[2]]
                yield (z, y, x), part.tobytes()


def put(pool: concurrent.futures.Executor, image: h5py.Dataset, slab, chunk, first: int) -> list[list[bytes]]:
    """Compresses and stores a slab; returns the compressed chunks of each layer of chunks."""
    layers: dict[int, list[bytes]] = {}
    squeezed = pool.map(lambda piece: (piece[0], zlib.compress(piece[1], LEVEL)), pieces(slab, chunk))
    for (z, y, x), packed in squeezed:
        image.id.write_direct_chunk((first + z, y, x), packed)
        layers.setdefault(z, []).append(packed)
    return list(layers.values())


def make_tiffs(volumes: Volumes, first: int, layers: list[list[bytes]]) -> None:
    folder = volumes.folder / "tiff"
    folder.mkdir(exist_ok=True)
    for z, tiles in enumerate(layers):
        tiff.write(folder / f"{first + z}.tif", volumes.shape[1], volumes.shape[2], 512, tiles)


def make_many(volumes: Volumes) -> None:
    """A file of 1x8x8 chunks. HDF5 only sets them out; filling them through it would take half a minute."""
    path = volumes.file("many")
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((1, 8, 8))
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    addresses: list[int] = []
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple(volumes.many)
        image = h5py.h5d.create(file.id, b"image", h5py.h5t.STD_U8LE, space, properties)
        image.chunk_iter(lambda chunk: addresses.append(chunk.byte_offset))
    values = np.random.default_rng(SEED).integers(0, 256, (len(addresses), 64), np.uint8)
    stored = np.memmap(path, np.uint8, "r+")
    stored[np.array(addresses)[:, None] + np.arange(64)] = values
    stored.flush()
