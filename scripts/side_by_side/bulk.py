"""Rows of a whole volume that is read at once: from voltile and nginx over HTTP, and by libraries from files.

The voxels end in one array in the reader, a process of its own (`python -m side_by_side.bulk`). Boxes and chunks are received
by eight threads with one connection each; only chunks have to be decoded by the reader. Both sides share the cores, so the
value is the volume's size per second of processor time of reader and server together. After the measurement, the voxels'
checksum is compared with that of h5py's.
"""

import contextlib
import functools
import json
import multiprocessing
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import h5py
import imagecodecs
import numpy as np
from checks.nginx import Nginx
from checks.runner import ROOT
from isal import isal_zlib

from .rows import CLIENTS, Bench, Row, Sample, spent
from .servers import HTTP, MIB, Server, running
from .tiles import EDGE, Shape, Wrong
from .volumes import LEVEL

TOKEN = "real"
ZARR = "/zarr/0.4/real.ome.zarr/0"
SCRATCH = 256 << 10
# Freed memory stays with the process.
KEPT_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_ARENA_MAX": "1"}
LIBRARIES = ("h5py", "h5py, 2 processes", "hidefix", "TensorStore, files", "zarrs, files")
OVER_HTTP = ("TensorStore, nginx", "zarrs, nginx")


def measured(bench: Bench, name: str, turn: int, own: str) -> Sample:
    """`own` is the reader of the server voltile."""
    how = {"voltile": own, "nginx": own, "discarding reader": f"{own}, discarded"}.get(name, name.removesuffix(", nginx"))
    folder = stored_chunks(bench)
    with contextlib.ExitStack() as started:
        server = None
        if "nginx" in name:
            http = functools.partial(HTTP.format, root=folder)
            server = started.enter_context(Nginx(bench.setting.work / "bulk", lambda port: http(port=port), "auto"))
        elif name in ("voltile", "discarding reader"):
            server = started.enter_context(running("voltile", bench.set(TOKEN)))
        where = f"http://127.0.0.1:{server.port}" if server else folder
        return sample(bench, name, how, where, server)


def sample(bench: Bench, name: str, how: str, where: object, server: Server | None) -> Sample:
    file, before = bench.volumes.file(TOKEN), spent(server) if server else 0
    command = [sys.executable, "-B", "-m", "side_by_side.bulk", how, where, file, json.dumps(bench.volumes.shape)]
    options = {"capture_output": True, "text": True, "cwd": ROOT / "scripts", "env": os.environ | KEPT_MEMORY}
    done = subprocess.run([str(word) for word in command], **options)
    if done.returncode:
        raise Wrong(f"{name}: {done.stderr.strip()[-400:]}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    if "discarded" not in how and found["sum"] != expected(file):
        raise Wrong(f"{name}: the voxels are not those of the file")
    whole = found["spent"] + (spent(server) - before if server else 0)
    mebibytes = np.prod(bench.volumes.shape) / MIB
    notes = {"MiB/s": mebibytes / found["took"], "% of it the reader's": 100 * found["spent"] / whole}
    return Sample(mebibytes / whole, notes)


def stored_chunks(bench: Bench) -> Path:
    """The folder of the volume as a Zarr array of the same bytes, at the address that voltile has for it."""
    folder, source = bench.volumes.folder / "chunks", bench.volumes.file(TOKEN)
    place = folder / ZARR[1:]
    if (place / ".zarray").is_file():
        return folder
    print(f"writing the chunks of {source.name} as files (once)", flush=True)
    with h5py.File(source) as file:
        image = file["image"]
        for z, y, x in product(*(range(0, extent, EDGE) for extent in image.shape)):
            chunk = place / f"{z // EDGE}/{y // EDGE}/{x // EDGE}"
            chunk.parent.mkdir(parents=True, exist_ok=True)
            chunk.write_bytes(image.id.read_direct_chunk((z, y, x))[1])
        about = {"zarr_format": 2, "shape": image.shape, "chunks": image.chunks, "dtype": "|u1", "order": "C"}
    about |= {"compressor": {"id": "zlib", "level": LEVEL}, "filters": None, "fill_value": 0, "dimension_separator": "/"}
    (place / ".zarray").write_text(json.dumps(about))
    return folder


@functools.cache
def expected(path: Path) -> int:
    with h5py.File(path) as file:
        return checksum(file["image"][()])


def checksum(voxels: np.ndarray) -> int:
    """Of slabs, so that processes can each have theirs."""
    return sum(isal_zlib.crc32(voxels[first : first + EDGE]) for first in range(0, len(voxels), EDGE))


# What follows runs in the reader.


def ask(connection: socket.socket, path: str, scratch: memoryview) -> tuple[int, int, int]:
    """Sends a request; the body begins within `scratch`: from where to where, and its length."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: bulk\r\n\r\n".encode())
    end = 0
    while (start := scratch.obj.find(b"\r\n\r\n", 0, end)) < 0:
        end += connection.recv_into(scratch[end:])
    head = bytes(scratch[:start]).lower()
    if not head.startswith(b"http/1.1 200"):
        raise Wrong(f"{path}: {head.decode()}")
    return start + 4, end, int(head.partition(b"content-length:")[2].split(None, 1)[0])


def receive(connection: socket.socket, scratch: memoryview, begun: tuple[int, int, int], parts: list[memoryview]) -> None:
    """Receives a body into `parts`, or nowhere if there are none."""
    start, end, left = begun
    for part in parts or [None]:
        size = len(part) if parts else left
        got = min(size, end - start)
        if parts:
            part[:got] = scratch[start : start + got]
        start, left = start + got, left - size
        while got < size:
            got += connection.recv_into(part[got:] if parts else scratch[: size - got])
    if left:
        raise Wrong(f"{left} bytes more than were requested")


def by_requests(shape: Shape, box: Shape, address: str, fetch: Callable) -> None:
    """`fetch(connection, scratch, corner)` for every box of the volume, eight at a time."""
    host, _, port = address.removeprefix("http://").partition(":")
    corners = iter(list(product(*(range(0, extent, edge) for extent, edge in zip(shape, box)))))

    def some(_: int) -> None:
        scratch = memoryview(bytearray(SCRATCH))
        with socket.create_connection((host, int(port))) as connection:
            for corner in corners:  # shared by the threads: each takes the next
                fetch(connection, scratch, corner)

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(some, range(CLIENTS)))


def boxes(shape: Shape, address: str, keep: bool) -> np.ndarray:
    """Through boxes of 8 MiB, received where they belong."""
    voxels, box = np.empty(shape, np.uint8), (EDGE, EDGE, shape[2])

    def fetch(connection: socket.socket, scratch: memoryview, corner: tuple[int, int, int]) -> None:
        z, y, _ = corner
        path = f"/voxels/{TOKEN}/image/0/0-{shape[2]}_{y}-{y + EDGE}_{z}-{z + EDGE}.raw"
        parts = [voxels[slice_, y : y + EDGE].reshape(-1).data for slice_ in range(z, z + EDGE)] if keep else []
        receive(connection, scratch, ask(connection, path, scratch), parts)

    by_requests(shape, box, address, fetch)
    return voxels


def chunks(shape: Shape, address: str, keep: bool) -> np.ndarray:
    """Through stored chunks, decoded by libdeflate."""
    voxels = np.empty(shape, np.uint8)

    def fetch(connection: socket.socket, scratch: memoryview, corner: tuple[int, int, int]) -> None:
        path = f"{ZARR}/" + "/".join(str(first // EDGE) for first in corner)
        begun = ask(connection, path, scratch)
        body = bytearray(begun[2]) if keep else None
        receive(connection, scratch, begun, [memoryview(body)] if keep else [])
        if keep:
            chunk = imagecodecs.deflate_decode(body, out=EDGE**3)
            where = tuple(slice(first, first + EDGE) for first in corner)
            voxels[where] = np.frombuffer(chunk, np.uint8).reshape((EDGE,) * 3)

    by_requests(shape, (EDGE,) * 3, address, fetch)
    return voxels


def tensorstore(where: str) -> np.ndarray:
    import tensorstore

    kvstore = {"driver": "http", "base_url": f"{where}{ZARR}/"} if "://" in where else f"file://{where}{ZARR}/"
    context = tensorstore.Context({"http_request_concurrency": {"limit": CLIENTS}} if "://" in where else {})
    source = tensorstore.open({"driver": "zarr", "kvstore": kvstore}, context=context, read=True, open=True).result()
    voxels = np.empty(source.shape, np.uint8)
    tensorstore.array(voxels, write=True).write(source).result()
    return voxels


def zarrs(where: str) -> np.ndarray:
    import zarr

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.strict": True})
    if "://" in where:
        zarr.config.set({"codec_pipeline.chunk_concurrent_maximum": CLIENTS, "threading.max_workers": CLIENTS})
    return zarr.open_array(f"{where}{ZARR}", mode="r")[...]


def hidefix(path: str) -> np.ndarray:
    from hidefix import Index

    return Index(path).dataset("image")[:, :, :]


def with_h5py(path: str, part: slice = slice(None)) -> np.ndarray:
    with h5py.File(path) as file:
        return file["image"][part]


def used() -> float:
    """Processor time of this process and of its children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in both)


def timed(read: Callable[[], np.ndarray], shape: Shape) -> dict[str, float]:
    np.ones(shape, np.uint8)  # The voxels get this memory: new memory can cost more than to read them.
    began, before = time.monotonic(), used()
    voxels = read()
    return {"took": time.monotonic() - began, "spent": used() - before, "sum": checksum(voxels)}


def in_processes(path: str, shape: Shape) -> dict[str, float]:
    half = shape[0] // 2
    with multiprocessing.Pool(2) as pool:
        jobs = [partial(with_h5py, path, part) for part in (slice(half), slice(half, None))]
        found = pool.starmap(timed, [(job, (half, *shape[1:])) for job in jobs])
    return {key: (max if key == "took" else sum)(one[key] for one in found) for key in found[0]}


def reader() -> Iterator[str]:
    how, where, path, shape = sys.argv[1], sys.argv[2], sys.argv[3], tuple(json.loads(sys.argv[4]))
    if how == "h5py, 2 processes":
        return in_processes(path, shape)
    keep = "discarded" not in how
    ways = {
        "boxes": lambda: boxes(shape, where, keep),
        "chunks": lambda: chunks(shape, where, keep),
        "TensorStore": lambda: tensorstore(where),
        "zarrs": lambda: zarrs(where),
        "hidefix": lambda: hidefix(path),
        "h5py": lambda: with_h5py(path),
    }
    return timed(ways[how.partition(",")[0]], shape)


def rows() -> list[Row]:
    def row(key: str, title: str, own: str, peers: dict[str, float | None]) -> Row:
        return Row(f"bulk-{key}", f"1 GiB read whole, {title}", partial(measured, own=own), peers, UNIT, TOKEN)

    every = dict.fromkeys(LIBRARIES + OVER_HTTP, 0.8)
    return [
        row("boxes", "boxes of voxels", "boxes", every | {"discarding reader": None}),
        row("chunks", "stored chunks, decoded by libdeflate", "chunks", {"nginx": 0.8, "hidefix": 0.8, "discarding reader": None}),
        row("tensorstore", "stored chunks, by TensorStore", "TensorStore", {"nginx": 0.8, "TensorStore, files": None}),
        row("zarrs", "stored chunks, by zarrs", "zarrs", {"nginx": 0.8, "zarrs, files": None}),
    ]


UNIT = "MiB per second of processor time"

if __name__ == "__main__":
    print(json.dumps(reader()))
