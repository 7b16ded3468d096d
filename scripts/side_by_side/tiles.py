"""Which tiles are requested in which order, and the check of their pixels against h5py's.

In cold order, a chunk is needed again only after all other chunks of the volume. So no cache that is smaller than the volume
helps, and none has to be emptied before a measurement.
"""

import io
import random
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

SIDE, EDGE = 512, 64  # of a tile in pixels, of a chunk in voxels
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
        """The path of a tile of `gzip` at the same place, but of other slices: `5`, or the maximum of a slab, `0-32.max`."""
        return f"/view/gzip/image:0:255:1:grey/{self.plane}/{slices}/{self.row}_{self.column}_0.png"


def counts(plane: str, shape: Shape) -> tuple[int, int, int]:
    """The number of slices, and of rows and columns of tiles."""
    z, y, x = shape
    extents = {"xy": (z, y, x), "xz": (y, z, x), "yz": (x, z, y)}
    slices, down, across = extents[plane]
    return slices, -(-down // SIDE), -(-across // SIDE)


def cold(plane: str, shape: Shape, seed: int) -> list[Tile]:
    """Every tile of the volume once, in cold order."""
    chance = random.Random(seed)
    slices, rows, columns = counts(plane, shape)
    # The tiles of a group need the same chunks: EDGE slices at one row and column. Each turn takes one tile of each group.
    groups = list(product(range(0, slices, EDGE), range(rows), range(columns)))
    chance.shuffle(groups)
    depths = [chance.sample(range(EDGE), EDGE) for _ in groups]  # of each group: the order of its slices
    tiles = []
    for turn in range(EDGE):
        for (first, row, column), order in zip(groups, depths):
            tiles.append(Tile(plane, first + order[turn], row, column))
    return tiles


def scroll(shape: Shape, client: int, seed: int) -> list[Tile]:
    """The tiles of a viewport of 2x2 tiles that scrolls once through all slices, from a client's own place and slice on."""
    slices, rows, columns = counts("xy", shape)
    corners = list(product(range(0, rows, 2), range(0, columns, 2)))
    row, column = corners[client % len(corners)]
    # Four clients begin a quarter of the volume apart; the quarter of a chunk puts them at different depths in their chunks.
    start = client * (slices // 4 + EDGE // 4) + random.Random(seed).randrange(slices)
    tiles = []
    for step, down, across in product(range(slices), range(2), range(2)):
        tiles.append(Tile("xy", (start + step) % slices, row + down, column + across))
    return tiles


class Wrong(Exception):
    """A server sent a wrong response."""


def expected(path: Path, tile: Tile, slab: tuple[int, int] | None = None) -> np.ndarray:
    """The pixels of a tile. With a `slab` (its first slice, and the one after its last), the maximum of these xy slices."""
    rows, columns = (slice(n * SIDE, (n + 1) * SIDE) for n in (tile.row, tile.column))
    selections = {"xy": (tile.number, rows, columns), "xz": (rows, tile.number, columns), "yz": (rows, columns, tile.number)}
    with h5py.File(path) as file:
        if slab:
            voxels = file["image"][slab[0] : slab[1], rows, columns].max(axis=0)
        else:
            voxels = file["image"][selections[tile.plane]]
    # A tile at the edge is filled up with zeros.
    pixels = np.zeros((SIDE, SIDE), np.uint8)
    pixels[: voxels.shape[0], : voxels.shape[1]] = voxels
    return pixels


def compare(name: str, response: bytes | np.ndarray, path: Path, tile: Tile, slab: tuple[int, int] | None = None) -> None:
    """Compares the response of the server `name` (a PNG, or an array of voxels) with h5py's voxels."""
    pixels = np.asarray(Image.open(io.BytesIO(response))) if isinstance(response, bytes) else response
    if not np.array_equal(pixels, expected(path, tile, slab)):
        raise Wrong(f"{name} sent pixels that differ from h5py's for {tile} of {path.name}")
