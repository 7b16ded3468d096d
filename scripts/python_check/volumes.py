"""Writes the volumes that the tests read, and the arrays that they must get: these as an .npz, because the tests have no h5py."""

from pathlib import Path

import h5py
import numpy as np

# Along each axis, the last chunk reaches over the edge.
SHAPE = (70, 300, 610)
CHUNK = (16, 64, 64)
TYPES = ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]


def pattern(shape: tuple[int, ...]) -> np.ndarray:
    """Numbers that look random and differ at every voxel: multiples of a large odd number."""
    places = np.arange(np.prod(shape), dtype=np.uint64).reshape(shape)
    return places * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(7)


def make(folder: Path) -> None:
    expected: dict[str, np.ndarray] = {}
    with h5py.File(folder / "brain.h5", "w") as file:
        raw = (pattern(SHAPE) % 251).astype("u1")
        ids = (pattern(SHAPE) // np.uint64(1000) % 70000).astype("u4")
        for name, voxels in (("raw", raw), ("ids", ids)):
            file.create_dataset(name, data=voxels, chunks=CHUNK, compression="gzip", compression_opts=1)
        expected |= {"raw": raw, "ids": ids, "raw_2": mean(raw), "ids_2": ids[:, ::2, ::2]}
    with h5py.File(folder / "types.h5", "w") as file:
        shape = (5, 40, 70)
        for type_ in TYPES:
            for order, name in (("<", "little"), (">", "big")):
                numbers = pattern(shape)
                # Numbers that also an f2 can hold: -100 to 399.875.
                voxels = (numbers % 4000 / 8 - 100 if type_[0] == "f" else numbers).astype(order + type_)
                file.create_dataset(f"{type_}_{name}", data=voxels, chunks=(2, 16, 32))
                expected[f"{type_}_{name}"] = voxels.astype(type_)
        booleans = pattern(shape) % 3 == 0
        file.create_dataset("booleans", data=booleans, chunks=(2, 16, 32))
        expected["booleans"] = booleans
    with h5py.File(folder / "series.h5", "w") as file:
        expected["series"] = (pattern((3, 6, 50, 60)) % 60000).astype("u2")
        expected["colours"] = (pattern((6, 50, 60, 3)) % 256).astype("u1")
        for name in ("series", "colours"):
            file.create_dataset(name, data=expected[name], chunks=True)
    with h5py.File(folder / "sides.h5", "w") as file:
        # Two grey values, which are easy to recognise on the screen.
        sides = np.full((4, 240, 320), 60, "u1")
        sides[:, :, 160:] = 190
        file.create_dataset("raw", data=sides)
    np.savez(folder / "expected.npz", **expected)


def mean(voxels: np.ndarray) -> np.ndarray:
    """Level 1: the means of 2 x 2 voxels of a section, rounded half up; at the edges, the means of fewer voxels."""
    z, y, x = voxels.shape
    total = np.zeros((z, (y + 1) // 2, (x + 1) // 2))
    count = np.zeros(total.shape)
    for dy in (0, 1):
        for dx in (0, 1):
            part = voxels[:, dy::2, dx::2]
            total[:, : part.shape[1], : part.shape[2]] += part
            count[:, : part.shape[1], : part.shape[2]] += 1
    return np.floor(total / count + 0.5).astype(voxels.dtype)
