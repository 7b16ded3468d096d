"""Rows of a whole volume that is read at once: from voltile and nginx over HTTP, and by libraries from files.

The voxels end in one array in the reader, a process of its own. It receives boxes or chunks with eight threads, each with a
connection, and decodes the chunks. Reader and server share the cores, so the value is the size per second of processor time
of both. After the measurement, the checksum of the voxels is compared with that of h5py's.
"""

import contextlib
import functools
import json
import math
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import BinaryIO

import h5py
import hidefix
import imagecodecs
import numpy as np
import tensorstore
import zarr
from checks.nginx import Nginx
from checks.runner import ROOT
from isal import isal_zlib

from .rows import CLIENTS, Bench, Row, Sample, spent
from .servers import HTTP, MIB, running
from .tiles import EDGE, Shape, Wrong
from .volumes import CUBE, LEVEL

TOKEN = "real"
ZARR = "/zarr/0.4/real.ome.zarr/0"
UNIT = "MiB per second of processor time"
SCRATCH = 256 << 10
# Freed memory stays with the process.
KEPT_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_ARENA_MAX": "1"}


def measured(bench: Bench, name: str, turn: int, own: str) -> Sample:
    """`own` is how the servers are read, unless the name says it."""
    how = {"voltile": own, "against": own, "nginx": own, "discarding reader": f"{own}, discarded"}.get(name, name)
    file, folder, server = bench.volumes.file(TOKEN), stored_chunks(bench), None
    with contextlib.ExitStack() as started:
        if "nginx" in name:
            place = bench.setting.work / "bulk"
            server = started.enter_context(Nginx(place, lambda port: HTTP.format(port=port, root=folder), "auto"))
        elif how.partition(",")[0] == own:
            server = started.enter_context(running("against" if name == "against" else "voltile", bench.set(TOKEN)))
        where, before = (f"http://127.0.0.1:{server.port}", spent(server)) if server else (folder, 0)
        command = [sys.executable, "-B", "-m", "side_by_side.bulk", how, where, file, *bench.volumes.shape]
        options = {"capture_output": True, "text": True, "cwd": ROOT / "scripts", "env": os.environ | KEPT_MEMORY}
        done = subprocess.run([str(word) for word in command], **options)
        by_server = spent(server) - before if server else 0
    if done.returncode:
        raise Wrong(f"{how}: {done.stderr.strip()[-400:]}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    if "discarded" not in how and found["sum"] != expected(file):
        raise Wrong(f"{how}: the voxels are not those of the file")
    mebibytes, both = math.prod(bench.volumes.shape) / MIB, found["spent"] + by_server
    return Sample(mebibytes / both, {"MiB/s": mebibytes / found["took"], "% by the reader": 100 * found["spent"] / both})


def stored_chunks(bench: Bench) -> Path:
    """A folder with the same bytes as a Zarr array, at the address that voltile has for it."""
    folder, source = bench.volumes.folder / "chunks", bench.volumes.file(TOKEN)
    place = folder / ZARR[1:]
    if (place / ".zarray").is_file():
        return folder
    print(f"writing the chunks of {source.name} as files (once)", flush=True)
    with h5py.File(source) as file:
        image = file["image"]
        for corner in corners(image.shape, image.chunks):
            chunk = folder / chunk_path(corner)[1:]
            chunk.parent.mkdir(parents=True, exist_ok=True)
            chunk.write_bytes(image.id.read_direct_chunk(corner)[1])
        about = {"zarr_format": 2, "shape": image.shape, "chunks": image.chunks, "dtype": "|u1", "order": "C"}
    about |= {"compressor": {"id": "zlib", "level": LEVEL}, "filters": None, "fill_value": 0, "dimension_separator": "/"}
    (place / ".zarray").write_text(json.dumps(about))
    return folder


@functools.cache
def expected(path: Path) -> int:
    return isal_zlib.crc32(with_h5py(path))


def corners(shape: Shape, box: Shape) -> list[tuple[int, ...]]:
    return list(product(*(range(0, extent, edge) for extent, edge in zip(shape, box))))


def chunk_path(corner: tuple[int, ...]) -> str:
    return f"{ZARR}/" + "/".join(str(first // EDGE) for first in corner)


# What follows runs in the reader.


def ask(stream: BinaryIO, path: str) -> int:
    """Sends a request; the length of the body, which comes next."""
    stream.write(f"GET {path} HTTP/1.1\r\nHost: bulk\r\n\r\n".encode())
    stream.flush()
    head = b"".join(iter(stream.readline, b"\r\n")).lower()
    if not head.startswith(b"http/1.1 200"):
        raise Wrong(f"{path}: {head.decode()}")
    return int(head.partition(b"content-length:")[2].split(None, 1)[0])


def by_requests(box: Shape, path: Callable, keep: Callable | None, shape: Shape, address: str) -> np.ndarray:
    """Requests all boxes, eight at a time; `keep` puts what the stream has into the voxels."""
    voxels, host = np.empty(shape, np.uint8), address.removeprefix("http://").split(":")
    left = iter(corners(shape, box))

    def some(_: int) -> None:
        scratch = memoryview(bytearray(SCRATCH))
        with socket.create_connection((host[0], int(host[1]))) as connection, connection.makefile("rwb", SCRATCH) as stream:
            for corner in left:  # shared by the threads: each takes the next
                length = ask(stream, path(corner))
                if keep:
                    keep(stream, length, voxels, corner)
                while not keep and length:
                    length -= stream.readinto(scratch[:length])

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(some, range(CLIENTS)))
    return voxels


def box_path(shape: Shape, corner: tuple[int, int, int]) -> str:
    z, y, _ = corner
    return f"/voxels/{TOKEN}/image/0/0-{shape[2]}_{y}-{y + EDGE}_{z}-{z + EDGE}.raw"


def keep_box(stream: BinaryIO, length: int, voxels: np.ndarray, corner: tuple[int, int, int]) -> None:
    """Receives voxels where they belong."""
    z, y, _ = corner
    for slice_ in voxels[z : z + EDGE]:
        length -= stream.readinto(slice_[y : y + EDGE])
    if length:
        raise Wrong("a box has not the size that was requested")


def keep_chunk(stream: BinaryIO, length: int, voxels: np.ndarray, corner: tuple[int, int, int]) -> None:
    chunk = imagecodecs.deflate_decode(stream.read(length), out=math.prod(CUBE))
    voxels[tuple(slice(first, first + EDGE) for first in corner)] = np.frombuffer(chunk, np.uint8).reshape(CUBE)


def by_tensorstore(where: str) -> np.ndarray:
    kvstore = {"driver": "http", "base_url": f"{where}{ZARR}/"} if "://" in where else f"file://{where}{ZARR}/"
    context = tensorstore.Context({"http_request_concurrency": {"limit": CLIENTS}})
    source = tensorstore.open({"driver": "zarr", "kvstore": kvstore}, context=context, read=True, open=True).result()
    voxels = np.empty(source.shape, np.uint8)
    tensorstore.array(voxels, write=True).write(source).result()
    return voxels


def by_zarrs(where: str) -> np.ndarray:
    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.strict": True})
    if "://" in where:
        zarr.config.set({"codec_pipeline.chunk_concurrent_maximum": CLIENTS, "threading.max_workers": CLIENTS})
    return zarr.open_array(f"{where}{ZARR}", mode="r")[...]


def with_h5py(path: object) -> np.ndarray:
    with h5py.File(path) as file:
        return file["image"][()]


def timed(how: str, where: str, path: str, shape: Shape) -> dict[str, float]:
    is_kept, box = "discarded" not in how, (EDGE, EDGE, shape[2])
    ways = {
        "boxes": partial(by_requests, box, partial(box_path, shape), keep_box if is_kept else None, shape, where),
        "chunks": partial(by_requests, CUBE, chunk_path, keep_chunk if is_kept else None, shape, where),
        "TensorStore": partial(by_tensorstore, where),
        "zarrs": partial(by_zarrs, where),
        "hidefix": lambda: hidefix.Index(path).dataset("image")[:, :, :],
        "h5py": partial(with_h5py, path),
    }
    np.ones(shape, np.uint8)  # The voxels get this memory: new memory can cost more than to read them.
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    voxels = ways[how.partition(",")[0]]()
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"took": took, "spent": used, "sum": isal_zlib.crc32(voxels)}


def rows() -> list[Row]:
    def row(key: str, title: str, own: str, peers: dict[str, float | None]) -> Row:
        return Row(f"bulk-{key}", f"1 GiB read whole, {title}", partial(measured, own=own), peers, UNIT, TOKEN)

    every = dict.fromkeys(("h5py", "hidefix", "TensorStore", "TensorStore, nginx", "zarrs", "zarrs, nginx"), 0.8)
    none = {"discarding reader": None}
    return [
        row("boxes", "boxes of voxels", "boxes", every | none),
        row("chunks", "stored chunks, decoded by libdeflate", "chunks", {"nginx": 0.8, "hidefix": 0.8} | none),
        row("tensorstore", "stored chunks, by TensorStore", "TensorStore", {"nginx": 0.8}),
        row("zarrs", "stored chunks, by zarrs", "zarrs", {"nginx": 0.8}),
    ]


if __name__ == "__main__":
    print(json.dumps(timed(*sys.argv[1:4], tuple(map(int, sys.argv[4:])))))
