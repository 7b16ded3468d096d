"""The sequences of requested tiles, which depend on the volume's shape and a seed, and their pixels as h5py reads them.

In cold order, a chunk is requested again only after all other chunks of the volume, so no cache smaller than the volume can
help, and no cache has to be cleared.
"""

import io
import random
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

SIDE, EDGE = 512, 64  # of a tile, of a chunk
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Tile:
    """A tile of level 0: the slice `number` along the axis that `plane` leaves out."""

    plane: str
    number: int
    row: int
    column: int

    def path(self, token: str) -> str:
        return f"/ndtilecache/tilecache/{token}/image/{self.plane}/{self.number}/{self.row}_{self.column}_0.png"

    def view(self, slices: str) -> str:
        """The path of the tile at the same place of another slice or of a slab (`slices` is `5` or `0-32.max`) of `gzip`."""
        return f"/view/gzip/image:0:255:1:grey/{self.plane}/{slices}/{self.row}_{self.column}_0.png"


def sides(plane: str, shape: Shape) -> tuple[int, int, int]:
    """The number of slices, and of rows and columns of tiles."""
    z, y, x = shape
    slices, down, across = {"xy": (z, y, x), "xz": (y, z, x), "yz": (x, z, y)}[plane]
    return slices, -(-down // SIDE), -(-across // SIDE)


def cold(plane: str, shape: Shape, seed: int) -> list[Tile]:
    """Every tile of the volume once, in cold order."""
    chance = random.Random(seed)
    slices, rows, columns = sides(plane, shape)
    # A group is the tiles that need the same chunks: EDGE slices at one row and column. Each turn takes one tile of each group.
    groups = list(product(range(0, slices, EDGE), range(rows), range(columns)))
    chance.shuffle(groups)
    depths = [chance.sample(range(EDGE), EDGE) for _ in groups]
    return [
        Tile(plane, first + depths[n][turn], row, column)
        for turn in range(EDGE)
        for n, (first, row, column) in enumerate(groups)
    ]


def scroll(shape: Shape, client: int, seed: int) -> list[Tile]:
    """A viewport of 2x2 tiles that steps through all slices cyclically; position and start depend on the client."""
    slices, rows, columns = sides("xy", shape)
    corners = list(product(range(0, rows, 2), range(0, columns, 2)))
    row, column = corners[client % len(corners)]
    # Four clients begin far from each other, and at different depths in their chunks.
    start = client * (slices // 4 + EDGE // 4) + random.Random(seed).randrange(slices)
    return [
        Tile("xy", (start + step) % slices, row + down, column + across)
        for step in range(slices)
        for down, across in product(range(2), range(2))
    ]


class Wrong(Exception):
    """A server sent a wrong response."""


def expected(path: Path, tile: Tile, slab: tuple[int, int] | None = None) -> np.ndarray:
    """The pixels of a tile; of an xy `slab` (its first slice, and the one behind its last) the maximum."""
    rows, columns = (slice(n * SIDE, (n + 1) * SIDE) for n in (tile.row, tile.column))
    where = {"xy": (tile.number, rows, columns), "xz": (rows, tile.number, columns), "yz": (rows, columns, tile.number)}
    with h5py.File(path) as file:
        found = file["image"][slice(*slab), rows, columns].max(0) if slab else file["image"][where[tile.plane]]
    whole = np.zeros((SIDE, SIDE), np.uint8)
    whole[: found.shape[0], : found.shape[1]] = found
    return whole


def compare(
    who: str, found: bytes | np.ndarray, path: Path, tile: Tile, slab: tuple[int, int] | None = None
) -> None:
    """Compares a PNG, or voxels, with h5py's voxels."""
    shown = np.asarray(Image.open(io.BytesIO(found))) if isinstance(found, bytes) else found
    if not np.array_equal(shown, expected(path, tile, slab)):
        raise Wrong(f"{who} sent pixels that differ from h5py's for {tile} of {path.name}")
