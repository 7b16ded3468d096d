"""Requests for stored chunks, which servers can pass on without decoding: as precomputed, as OME-Zarr, and from nginx's files."""

import random
import urllib.request
import zlib
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import h5py
import numpy as np

from .servers import Server
from .tiles import EDGE, Shape, Wrong

MAX_CHUNKS = 1024  # 256 MiB of voxels, four times what a cache holds
HEADERS = ("Accept-Encoding: deflate",)  # as all clients of precomputed except cloud-volume


@dataclass(frozen=True)
class Box:
    """A cube of 64 x 64 x 64 voxels at level 0; `corner` is its first voxel (z, y, x)."""

    corner: tuple[int, int, int]

    @property
    def bounds(self) -> str:
        return "_".join(f"{first}-{first + EDGE}" for first in reversed(self.corner))

    def precomputed(self, token: str) -> str:
        return f"/neuroglancer/{token}/image/0/{self.bounds}"

    def zarr(self, token: str) -> str:
        return f"/zarr/0.4/{token}.ome.zarr/0/" + "/".join(str(first // EDGE) for first in self.corner)

    def file(self, token: str) -> str:
        return f"/chunks/{token}/{self.bounds}"


def on_grid(shape: Shape, seed: int) -> list[Box]:
    """At most MAX_CHUNKS chunks of a volume, in random order."""
    boxes = [Box(corner) for corner in product(*(range(0, extent, EDGE) for extent in shape))]
    return random.Random(seed).sample(boxes, min(MAX_CHUNKS, len(boxes)))


def stored(path: Path, boxes: list[Box], token: str) -> dict[str, bytes]:
    """The stored bytes of chunks, by the path under which nginx serves them."""
    with h5py.File(path) as file:
        image = file["image"].id
        return {box.file(token): image.read_direct_chunk(box.corner)[1] for box in boxes}


def check(server: Server, path: Path, address: str, box: Box) -> int:
    """Compares a server's voxels of the box with h5py's; returns the number of bytes that the server sent."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{address}")
    for header in HEADERS:
        request.add_header(*header.split(": "))
    with urllib.request.urlopen(request, timeout=60) as answer:
        body = answer.read()
        is_packed = answer.headers.get("Content-Encoding") == "deflate" or "/zarr/" in address
    with h5py.File(path) as file:
        image = file["image"]
        z, y, x = box.corner
        expected = image[z : z + EDGE, y : y + EDGE, x : x + EDGE]
        if server.name == "nginx":
            is_packed = image.compression is not None  # nginx sends the stored bytes without saying how they are encoded
    voxels = zlib.decompress(body) if is_packed else body
    if voxels != np.ascontiguousarray(expected).tobytes():
        raise Wrong(f"{server.name}: the voxels of {address} are not those of the file")
    return len(body)
