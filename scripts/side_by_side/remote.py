"""Measures files on a server that is a round trip of 20 ms away, against a local disk and against Python's ways to read them.

- The longest chain of dependent requests from the start to the first tile: h5py's default format, `libver="latest"`,
  and a second start with metadata kept in the cache directory. Without the trial child, window configured.
- Cold random xy tiles (64 chunks): voltile, fsspec with h5py, kerchunk with zarr-python, on the same object.
- A scroll through 128 slices: from the server, and from a local disk.
- Bytes fetched for each byte of the chunks that the tiles needed.

Started by `scripts/side-by-side --remote`. Exit status: 0 measured, 1 a wrong pixel, 2 it could not run.
"""

import argparse
import contextlib
import io
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

from . import report, volumes, watch
from .servers import ROOT, free_port

DELAY = 0.020
SIDE, SCROLL = 512, 128
START, END = "<!-- remote -->", "<!-- /remote -->"
# A request that begins this long before another one has ended does not depend on it.
TOLERANCE = 0.0005


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("scripts/side-by-side --remote", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="number of rounds (default: 3)")
    add("--tiles", type=int, default=8, help="cold tiles in a round (default: 8)")
    add("--small", action="store_true", help="smoke test with a volume of a sixteenth; the figures mean little")
    add("--volumes", type=Path, default=ROOT / "target" / "bench-volumes", help="folder (default: %(default)s)")
    add("--voltile", type=Path, default=ROOT / "target" / "release" / "voltile", help="binary (default: built first)")
    add("--report", type=Path, help="output file (default: benches/RESULTS.md; none with --small)")
    return parser.parse_args()


class Server:
    """A process that listens on a port."""

    def __init__(self, port: int, process: subprocess.Popen):
        self.port, self.process = port, process

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=120) as answer:
            return answer.read()


@contextlib.contextmanager
def started(command: list[str], port: int, ready: str) -> Iterator[Server]:
    server = Server(port, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    try:
        until = time.monotonic() + 60
        while True:
            try:
                server.get(ready)
                break
            except urllib.error.HTTPError:
                break
            except OSError:
                if time.monotonic() > until or server.process.poll() is not None:
                    raise RuntimeError(f"{command[0]} does not listen") from None
                time.sleep(0.02)
        yield server
    finally:
        server.process.terminate()
        server.process.wait()


def far(folder: Path) -> contextlib.AbstractContextManager[Server]:
    port = free_port()
    return started([sys.executable, "-m", "side_by_side.far", str(folder), str(port), str(DELAY)], port, "/__log")


def voltile(binary: Path, file: str, *settings: str) -> contextlib.AbstractContextManager[Server]:
    port = free_port()
    fixed = ["datasets.%s.channels.image.window=full" % Path(file).stem, "files.trial=off", *settings]
    flags = [word for setting in fixed for word in ("--set", setting)]
    return started([str(binary), "serve", file, "--bind", f"127.0.0.1:{port}", *flags], port, "/livez")


def log(server: Server) -> list[list]:
    return json.loads(server.get("/__log"))


def chain(requests: list[list]) -> int:
    """The most requests of which each began when the one before had ended."""
    done: list[tuple[float, int]] = []
    for began, ended, *_ in sorted(requests):
        before = max((length for end, length in done if end <= began + TOLERANCE), default=0)
        done.append((ended, before + 1))
    return max((length for _, length in done), default=0)


def path(token: str, z: int, row: int, column: int) -> str:
    return f"/ndtilecache/tilecache/{token}/image/xy/{z}/{row}_{column}_0.png"


def check(body: bytes, wanted: np.ndarray, what: str) -> None:
    if not np.array_equal(np.asarray(Image.open(io.BytesIO(body))), wanted):
        raise ValueError(f"wrong pixels: {what}")


def latest(source: Path, target: Path) -> None:
    """The same chunks in a file of the latest format."""
    if target.is_file():
        return
    part = target.with_suffix(".part")
    with h5py.File(source) as old, h5py.File(part, "w", libver="latest") as new:
        image = old["image"]
        copy = new.create_dataset("image", image.shape, image.dtype, chunks=image.chunks, compression="gzip")
        for number in range(image.id.get_num_chunks()):
            about = image.id.get_chunk_info(number)
            mask, stored = image.id.read_direct_chunk(about.chunk_offset)
            copy.id.write_direct_chunk(about.chunk_offset, stored, mask)
    part.rename(target)


class Rows:
    """What was measured, by title."""

    def __init__(self) -> None:
        self.figures: dict[str, list[float]] = {}

    def add(self, title: str, value: float) -> None:
        self.figures.setdefault(title, []).append(value)
        print(f"{title:70} {value:.4g}", flush=True)


def chains(rows: Rows, binary: Path, distant: Server, files: list[Path], work: Path) -> None:
    names = {"gzip": "h5py's default format", "latest": 'libver="latest"'}
    kept = f"cache.directory={work / 'kept'}"
    for file, title, settings in [
        *((file, names[file.stem], ()) for file in files),
        (files[0], None, (kept,)),
        (files[0], "metadata kept from the last start", (kept, "cache.tiles=0")),
    ]:
        log(distant)
        with voltile(binary, f"http://127.0.0.1:{distant.port}/{file.name}", *settings) as server:
            # Another tile each time, so that the disk cache has none.
            server.get(path(file.stem, 3 if title is None else 100, 0, 1))
            if title:
                rows.add(f"chain of requests: {title}", chain(log(distant)))


def places(shape: tuple[int, ...], count: int, seed: int) -> list[tuple[int, int, int]]:
    rng = random.Random(seed)
    return [(rng.randrange(shape[0]), rng.randrange(shape[1] // SIDE), rng.randrange(shape[2] // SIDE)) for _ in range(count)]


def needed(image: h5py.Dataset, place: tuple[int, int, int]) -> dict[tuple[int, ...], int]:
    """The stored sizes of a tile's chunks, by offset."""
    z, row, column = place
    depth, height, width = image.chunks
    chunks = {}
    for y in range(row * SIDE // height * height, (row + 1) * SIDE, height):
        for x in range(column * SIDE // width * width, (column + 1) * SIDE, width):
            about = image.id.get_chunk_info_by_coord((z // depth * depth, y, x))
            chunks[about.chunk_offset] = about.size
    return chunks


def cold(rows: Rows, binary: Path, distant: Server, file: Path, count: int, seed: int) -> None:
    url = f"http://127.0.0.1:{distant.port}/{file.name}"
    with h5py.File(file) as opened:
        image = opened["image"]
        wanted = places(image.shape, count, seed)
        pixels = [cut(image, place) for place in wanted]
        chunks = [needed(image, place) for place in wanted]
    with voltile(binary, url, "render.neighbours=0", "render.verify=never") as server:
        server.get(path(file.stem, *wanted[0]))
        ours, trips, fetched = [], [], 0
        for place, right in list(zip(wanted, pixels, strict=True))[1:]:
            log(distant)
            began = time.monotonic()
            body = server.get(path(file.stem, *place))
            ours.append(time.monotonic() - began)
            requests = log(distant)
            trips.append(chain(requests))
            fetched += sum(request[4] for request in requests)
            check(body, right, f"voltile, {place}")
    rows.add("cold tile, voltile (ms)", 1000 * statistics.median(ours))
    rows.add("cold tile, round trips at most", max(trips))
    new = fresh(chunks)
    rows.add("bytes fetched for each byte of the chunks needed", fetched / max(new, 1))
    for name, times in peers(url, wanted, pixels).items():
        rows.add(f"cold tile, {name} (ms)", 1000 * statistics.median(times))
        rows.add(f"cold tile, {name} against voltile", statistics.median(times) / statistics.median(ours))


def fresh(chunks: list[dict[tuple[int, ...], int]]) -> int:
    """The stored size of the chunks that a tile after the first was the first to need."""
    seen, total = set(chunks[0]), 0
    for tile in chunks[1:]:
        total += sum(size for offset, size in tile.items() if offset not in seen)
        seen.update(tile)
    return total


def cut(image, place: tuple[int, int, int]) -> np.ndarray:
    z, row, column = place
    return np.asarray(image[z, row * SIDE : (row + 1) * SIDE, column * SIDE : (column + 1) * SIDE])


def peers(url: str, wanted: list, pixels: list) -> dict[str, list[float]]:
    """The time to read each tile's voxels in Python, without drawing it; the first tile is left out."""
    import fsspec
    import zarr
    from kerchunk.hdf import SingleHdf5ToZarr

    def timed(image) -> list[float]:
        times = []
        for place, right in zip(wanted, pixels, strict=True):
            began = time.monotonic()
            voxels = cut(image, place)
            times.append(time.monotonic() - began)
            if not np.array_equal(voxels, right):
                raise ValueError(f"wrong voxels: {place}")
        return times[1:]

    with fsspec.open(url) as opened, h5py.File(opened) as file:
        by_h5py = timed(file["image"])
    with fsspec.open(url) as opened:
        references = SingleHdf5ToZarr(opened, url, inline_threshold=0).translate()
    system = fsspec.filesystem("reference", fo=references, remote_protocol="http", asynchronous=True, remote_options={"asynchronous": True})
    image = zarr.open_group(zarr.storage.FsspecStore(system, read_only=True, path=""), mode="r", zarr_format=2)["image"]
    return {"fsspec + h5py": by_h5py, "kerchunk + zarr-python": timed(image)}


def scroll(rows: Rows, binary: Path, distant: Server, file: Path) -> None:
    times = {}
    for name, source in (("from a local disk", str(file)), ("over the network", f"http://127.0.0.1:{distant.port}/{file.name}")):
        with voltile(binary, source) as server:
            server.get(path(file.stem, 10, 0, 0))
            began = time.monotonic()
            for z in range(64, 64 + SCROLL):
                server.get(path(file.stem, z, 1, 1))
            times[name] = time.monotonic() - began
        rows.add(f"scroll of {SCROLL} slices {name} (s)", times[name])
    rows.add("scroll, share of the local rate", times["from a local disk"] / times["over the network"])


TARGETS = {
    "chain of requests: h5py's default format": "≤ 16",
    'chain of requests: libver="latest"': "≤ 12",
    "chain of requests: metadata kept from the last start": "≤ 3",
    "cold tile, round trips at most": "≤ 2",
    "cold tile, fsspec + h5py against voltile": "≥ 8",
    "cold tile, kerchunk + zarr-python against voltile": "≥ 3",
    "scroll, share of the local rate": "≥ 0.6",
    "bytes fetched for each byte of the chunks needed": "≤ 1.15",
}


def table(rows: Rows, options: argparse.Namespace, busy: float) -> str:
    lines = [
        "## Files in object storage",
        "",
        f"{watch.today()}, {watch.processor()}, {watch.cores()} cores, load average {busy:.1f} before the start. By",
        f"`scripts/side-by-side --remote`: medians of {options.rounds} rounds. One file of 256×2048×2048 u8 in chunks of 64³ (gzip)",
        f"on a web server of this machine whose answers take {1000 * DELAY:.0f} ms longer. Python's times are without drawing.",
        *(["**Smoke test: the volume is small.**"] if options.small else []),
        "",
        "| what | measured | target |",
        "|---|---|---|",
    ]
    for title, values in rows.figures.items():
        lines.append(f"| {title} | {report.figure(statistics.median(values))} | {TARGETS.get(title, '')} |")
    return "\n".join([*lines, ""])


def main() -> int:
    options = arguments()
    busy = os.getloadavg()[0]
    file = volumes.make(volumes.plan(options.volumes, options.small)).file("gzip")
    newer = file.with_name("latest.h5")
    latest(file, newer)
    rows = Rows()
    with far(file.parent) as distant:
        for turn in range(options.rounds):
            with tempfile.TemporaryDirectory(prefix="remote-") as work:
                chains(rows, options.voltile.resolve(), distant, [file, newer], Path(work))
            cold(rows, options.voltile.resolve(), distant, file, options.tiles, turn)
            scroll(rows, options.voltile.resolve(), distant, file)
    text = table(rows, options, busy)
    print(f"\n{text}")
    to = options.report or (None if options.small else ROOT / "benches" / "RESULTS.md")
    if to:
        report.write(to, text, START, END)
        print(f"written: {to}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("remote: stopped")
    except ValueError as problem:
        sys.exit(f"remote: {problem}")
    except (OSError, RuntimeError) as problem:
        print(f"remote: {problem}", file=sys.stderr)
        sys.exit(2)
