"""The voxels that clients must read, at each stored or derived level."""

from collections.abc import Callable

import numpy as np

from checks.report import Report

from .volumes import Channel

# Larger levels are compared in a box at the origin only.
MAX_VOXELS = 1 << 21


def box(size: list[int]) -> tuple[int, int, int]:
    """The extents (z, y, x) of the box that is compared of a level of this size (x, y, z): the whole level if it is small.

    Otherwise z is halved as long as it is at least a quarter of the longer of y and x, then the longer of y and x.
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
    """Level -> the voxels of its box (component, z, y, x), or `None` if it is not compared. `described` has the levels of
    /datasets.json."""
    out: dict[int, np.ndarray | None] = {}
    stored: dict | None = None
    for level in described:
        extents = box(level["size"])
        if level["path"]:
            stored = level
            out[level["level"]] = channel.level(level["path"], extents, time)
            continue
        # Derived from the nearest finer level that is stored, unless too many voxels of that level are needed.
        factor = [round(own / finer) for own, finer in zip(level["factor"], stored["factor"])][::-1]
        needed = tuple(extent * step for extent, step in zip(extents, factor))
        count = np.prod([min(extent, size) for extent, size in zip(needed, reversed(stored["size"]))])
        if count > 64 * MAX_VOXELS:
            out[level["level"]] = None
            continue
        out[level["level"]] = reduced(channel.level(stored["path"], needed, time), factor, channel.kind == "labels")
    return out


def reduced(voxels: np.ndarray, factor: list[int], is_label: bool) -> np.ndarray | None:
    """Labels: the first voxel of each box (`factor` is z, y, x). Images: the mean of each box; of integers rounded half up, and
    `None` for integers of 64 bits, whose means are not exact in float64."""
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


def is_equal(found: np.ndarray, expected: np.ndarray, is_mean: bool) -> bool:
    """Whether shapes, types and voxels are equal; means of floats may differ slightly, as a sum depends on its order."""
    found = np.asarray(found)
    found = found.astype(found.dtype.newbyteorder("="), copy=False)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if expected.dtype.kind != "f":
        return np.array_equal(found, expected)
    if is_mean:
        tolerance = {2: 2e-3, 4: 1e-5, 8: 1e-9}[expected.dtype.itemsize]
        return np.allclose(found.astype("f8"), expected.astype("f8"), tolerance, tolerance, equal_nan=True)
    return np.array_equal(found, expected, equal_nan=True)


def compare(
    report: Report, client: str, what: str, read: Callable[[], np.ndarray], wanted: np.ndarray, is_mean: bool = False
) -> None:
    """Compares what a client reads with the voxels expected."""
    try:
        found = np.asarray(read())
    except Exception as error:  # whatever a client raises
        report.add(f"{client} {what}", False, f"{type(error).__name__}: {str(error)[:300]}")
        return
    why = f"{found.dtype} {found.shape}, expected {wanted.dtype} {wanted.shape}"
    report.add(f"{client} {what}", is_equal(found, wanted, is_mean), why, client)
