"""Checks the tiles of all servers: decodes them and compares the pixels with h5py's."""

import functools
import io
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

from .tiles import SIDE, Tile

SIGNATURE = b"\x89PNG\r\n\x1a\n"
LOSS = 8.0  # the maximum mean difference for a JPEG


class Wrong(Exception):
    """A server sent a wrong response."""


def expected(path: Path, tile: Tile) -> np.ndarray:
    rows, columns = (slice(n * SIDE, (n + 1) * SIDE) for n in (tile.row, tile.column))
    where = {"xy": (tile.number, rows, columns), "xz": (rows, tile.number, columns), "yz": (rows, columns, tile.number)}
    with h5py.File(path) as file:
        found = file["image"][where[tile.plane]]
    whole = np.zeros((SIDE, SIDE), np.uint8)
    whole[: found.shape[0], : found.shape[1]] = found
    return whole


@functools.cache
def width(path: Path) -> int:
    with h5py.File(path) as file:
        return file["image"].shape[2]


def compare(who: str, body: bytes, path: Path, tile: Tile) -> None:
    """PNG must be equal; JPEG (iipsrv does not send PNG) only similar."""
    with Image.open(io.BytesIO(body)) as picture:
        kind, shown = picture.format, np.asarray(picture)
    truth = expected(path, tile)
    if shown.shape != truth.shape:
        raise Wrong(f"{who} sent {shown.shape} for {tile}, not {truth.shape}")
    differs = np.abs(shown.astype(np.int16) - truth)
    if (kind == "PNG" and differs.any()) or differs.mean() > LOSS:
        raise Wrong(f"{who} sent pixels that differ from h5py's for {tile} of {path.name}, by up to {differs.max()}")


def look_whole(who: str, body: bytes) -> None:
    """A cheap check that a response is a complete PNG."""
    if not body.startswith(SIGNATURE) or body[-8:-4] != b"IEND":
        raise Wrong(f"{who} sent {len(body)} bytes that are not a complete PNG")
