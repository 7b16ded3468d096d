"""Labels as Neuroglancer's `compressed_segmentation`: 64³ boxes of a real segmentation, encoded by one thread.

PyPI's package compressed-segmentation encodes arrays in memory. For voltile, benches/segmentation.rs reads the same
boxes as chunks of a file with and without encoding them; the difference is the time of encoding. Both use blocks of 8×8×8
voxels, and what both have made is decoded by the package and compared with the labels.
"""

import time
from itertools import product
from pathlib import Path

import compressed_segmentation
import h5py
import numpy as np

from . import criterion
from .pixels import Wrong
from .servers import Missing
from .tiles import EDGE

BLOCK = (8, 8, 8)


def boxes(path: Path) -> list[np.ndarray]:
    """All whole boxes of the first 3-dimensional integer dataset, in z, y, x order."""
    with h5py.File(path) as file:
        found: list[h5py.Dataset] = []
        file.visititems(lambda _, item: found.append(item) if is_volume(item) else None)
        if not found:
            raise Missing(f"{path} has no 3-dimensional integer dataset")
        labels = found[0][()].astype(np.uint64)
    corners = product(*(range(0, extent - EDGE + 1, EDGE) for extent in labels.shape))
    return [np.ascontiguousarray(labels[z : z + EDGE, y : y + EDGE, x : x + EDGE]) for z, y, x in corners]


def is_volume(item: object) -> bool:
    return isinstance(item, h5py.Dataset) and item.ndim == 3 and item.dtype.kind in "iu"


def by_package(some: list[np.ndarray], seconds: float) -> float:
    """Boxes per second by the package; x is first and fastest in its arrays, as in the format."""
    arrays = [box.T for box in some]
    check("compressed-segmentation", [encode(array) for array in arrays], some)
    done, start = 0, time.perf_counter()
    while time.perf_counter() < start + seconds:
        for array in arrays:
            encode(array)
        done += len(arrays)
    return done / (time.perf_counter() - start)


def encode(array: np.ndarray) -> bytes:
    return compressed_segmentation.compress(array, block_size=BLOCK, order="F")


def by_voltile(some: list[np.ndarray], encoder: Path, work: Path) -> float:
    """Boxes per second by voltile."""
    path = work / "labels.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("labels", data=np.concatenate(some), chunks=(EDGE, EDGE, EDGE))
    home = criterion.run(encoder, work, "^segmentation/encode$", {"VOLTILE_BENCH_LABELS": str(path)})
    check("voltile", [(work / f"{number}.cseg").read_bytes() for number in range(len(some))], some)
    return len(some) / criterion.estimate(home, "segmentation/encode", "median")


def check(who: str, encoded: list[bytes], some: list[np.ndarray]) -> None:
    for number, (body, box) in enumerate(zip(encoded, some, strict=True)):
        shape = box.shape[::-1]
        decoded = compressed_segmentation.decompress(body, shape, np.uint64, block_size=BLOCK, order="F")
        if not np.array_equal(decoded, box.T):
            raise Wrong(f"{who}: box {number} is decoded to other labels")
