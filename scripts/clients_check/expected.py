"""The voxels that clients must read, at each stored or derived level."""

from collections.abc import Callable

import numpy as np
import tensorstore

from checks.report import Report

from .volumes import Channel

# Larger levels are compared in a box at the origin only.
MAX_VOXELS = 1 << 21
# Derived levels are compared if at most this many stored voxels are needed: four along each axis for each voxel.
MAX_STORED_VOXELS = 4**3 * MAX_VOXELS


def box(size: list[int]) -> tuple[int, int, int]:
    """The extents (z, y, x) of the compared box of a level of this size (x, y, z): of the whole level, if it is small.

    A larger box is halved along z or, if z is less than a quarter of the longer of y and x, along that one, until it is small
    enough. So planes stay large.
    """
    z, y, x = reversed(size)
    while z * y * x > MAX_VOXELS:
        if z >= max(y, x) / 4:
            z = -(-z // 2)
        elif y >= x:
            y = -(-y // 2)
        else:
            x = -(-x // 2)
    return z, y, x


def levels(channel: Channel, described: list[dict], time: int) -> dict[int, np.ndarray | None]:
    """Level -> the expected voxels (component, z, y, x) of its box, or `None` if the level is not compared.

    `described` is the list of the channel's levels in /datasets.json."""
    out: dict[int, np.ndarray | None] = {}
    stored: dict | None = None
    for level in described:
        number, extents = level["level"], box(level["size"])
        if level["path"]:
            stored = level
            out[number] = channel.level(level["path"], extents, time)
            continue
        # voltile derives a level from the nearest finer one that is stored. Documents have x, y, z; arrays have z, y, x.
        stored_size, stored_factor = stored["size"][::-1], stored["factor"][::-1]
        factor = [round(coarse / fine) for coarse, fine in zip(level["factor"][::-1], stored_factor)]
        needed = tuple(min(extent * step, size) for extent, step, size in zip(extents, factor, stored_size))
        out[number] = None
        if np.prod(needed) <= MAX_STORED_VOXELS:
            out[number] = reduced(channel.level(stored["path"], needed, time), factor, channel.kind == "labels")
    return out


def reduced(voxels: np.ndarray, factor: list[int], is_label: bool) -> np.ndarray | None:
    """A derived level. Each of its voxels stands for a box of `factor` (z, y, x) voxels: for labels it is the first of them,
    for images their mean, which is rounded half up for integers.

    `None` for images of 64-bit integers, whose means are not exact in float64."""
    if is_label:
        return voxels[:, :: factor[0], :: factor[1], :: factor[2]]
    if voxels.dtype.kind in "iu" and voxels.dtype.itemsize == 8:
        return None
    sums, counts = voxels.astype(np.float64), np.ones(voxels.shape)
    for axis, step in enumerate(factor, start=1):
        starts = np.arange(0, voxels.shape[axis], step)
        sums, counts = np.add.reduceat(sums, starts, axis), np.add.reduceat(counts, starts, axis)
    means = sums / counts
    return np.floor(means + 0.5).astype(voxels.dtype) if voxels.dtype.kind in "biu" else means.astype(voxels.dtype)


def image_voxels(channels: list[np.ndarray], axes: str, time: int) -> tuple[np.ndarray, tuple[slice, ...]]:
    """The voxels of an OME-Zarr image at a time point, put together from its channels, and the slices that select them."""
    voxels = np.concatenate(channels)[None]
    sizes = dict(zip("tczyx", voxels.shape))
    box = tuple(slice(time, time + 1) if axis == "t" else slice(0, sizes[axis]) for axis in axes)
    return voxels.reshape([sizes[axis] for axis in axes]), box


def is_equal(found: np.ndarray, expected: np.ndarray, is_mean: bool) -> bool:
    """Whether shapes, types (in either byte order) and voxels are equal. Means of floats may differ slightly, because a sum
    depends on its order."""
    found = found.astype(found.dtype.newbyteorder("="), copy=False)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if expected.dtype.kind != "f":
        return np.array_equal(found, expected)
    if is_mean:
        # By the bytes of a voxel; above the rounding errors of sums.
        tolerance = {2: 2e-3, 4: 1e-5, 8: 1e-9}[expected.dtype.itemsize]
        return np.allclose(found.astype("f8"), expected.astype("f8"), tolerance, tolerance, equal_nan=True)
    return np.array_equal(found, expected, equal_nan=True)


def by_tensorstore(spec: dict, box: tuple[slice, ...]) -> np.ndarray:
    """The voxels that TensorStore reads of a volume."""
    return tensorstore.open(spec, open=True, read=True).result()[box].read().result()


def compare(
    report: Report, client: str, what: str, read: Callable[[], np.ndarray], wanted: np.ndarray, is_mean: bool = False
) -> None:
    """Compares the voxels that a client reads with those expected; an exception in `read` is a failure."""
    try:
        found = np.asarray(read())
    except Exception as error:  # whatever a client raises
        report.add(f"{client} {what}", False, f"{type(error).__name__}: {str(error)[:300]}")
        return
    why = f"{found.dtype} {found.shape}, expected {wanted.dtype} {wanted.shape}"
    report.add(f"{client} {what}", is_equal(found, wanted, is_mean), why, client)
