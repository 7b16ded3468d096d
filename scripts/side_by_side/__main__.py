"""Measures every row for every server in several rounds, and writes the results.

Within a round, the servers of a row are measured one after another, each round starting with a different one. Ratios
are computed within a round, so that temporary slowdowns of the machine affect both sides. Exit status: 0 measured
(missed targets are listed, but are not failures), 1 a server gave a wrong response, 2 it could not run.
"""

import argparse
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from . import load, neuroglancer, report, servers, volumes, watch
from .pixels import Wrong
from .rows import Bench, Row, rows
from .servers import ROOT, Missing, Setting

TARGET = ROOT / "target"
SHARED = ROOT.parent / "shared" / "data" / "em"
REAL = SHARED / "flyem_medulla_520x520x64.h5"
LABELS = SHARED / "flyem_training2_groundtruth_z128.h5"
PACKAGES = ("compressed-segmentation", "h5py", "fastapi", "uvicorn", "pillow", "imagecodecs", "isal", "numpy")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("scripts/side-by-side", description="Compares voltile with other tile servers.")
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="number of rounds (default: 5)")
    add("--seconds", type=int, default=2, help="duration of a measurement; doubled for slow rows (default: 2)")
    add("--only", type=re.compile, metavar="REGEX", help="measure only rows whose key matches; see --list")
    add("--list", action="store_true", help="list the rows and exit")
    add("--small", action="store_true", help="smoke test with volumes of a sixteenth; the figures mean little")
    add("--report", type=Path, help="output file (default: benches/RESULTS.md; none with --small or --only)")
    add("--json", type=Path, default=TARGET / "side-by-side.json", help="raw figures (default: %(default)s)")
    add("--real", type=Path, default=REAL, help="a file with a 3-dimensional uint8 dataset, for the rows of real data (default: %(default)s, if it exists)")
    add("--labels", type=Path, default=LABELS, help="a file with a 3-dimensional dataset of labels, for the row of labels (default: %(default)s, if it exists)")
    add("--encoder", type=Path, help="the binary of benches/segmentation.rs (default: built for the row of labels)")
    add("--volumes", type=Path, default=TARGET / "bench-volumes", help="folder, takes 6 GiB (default: %(default)s)")
    add("--voltile", type=Path, default=TARGET / "release" / "voltile", help="the binary (default: built first)")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    busy = os.getloadavg()[0]
    planned = volumes.plan(options.volumes, options.small)
    every = rows(planned, options.real.is_file(), options.labels.is_file())
    chosen = [row for row in every if not options.only or options.only.search(row.key)]
    if options.list or not chosen:
        print("\n".join(f"{row.key:14} {row.title}" for row in (chosen or every)))
        return 0 if options.list else 2
    for needed in (shutil.which("wrk"), options.voltile.is_file()):
        if not needed:
            print(f"side-by-side: wrk (Debian: wrk) and {options.voltile} are needed", file=sys.stderr)
            return 2
    with tempfile.TemporaryDirectory(prefix="side-by-side-") as work:
        made = volumes.make(planned)
        volumes.make_real(made, options.real)
        setting = Setting(Path(work), options.voltile.resolve(), [])
        encoder = options.encoder.resolve() if options.encoder else None
        bench = Bench(setting, made, options.seconds, options.labels, encoder)
        started = time.monotonic()
        results, faults = measure(bench, chosen, options.rounds)
    write(options, chosen, results, describe(options, made, busy), time.monotonic() - started)
    for fault in faults:
        print(f"WRONG: {fault}", file=sys.stderr)
    return 1 if faults else 0


def measure(bench: Bench, chosen: list[Row], rounds: int) -> tuple[dict[str, report.Results], list[str]]:
    results = {row.key: report.Results() for row in chosen}
    faults: list[str] = []
    for turn in range(rounds):
        for row in chosen:
            watch.read_through(files_of(bench, row))
            first = turn % len(row.servers)
            for name in row.servers[first:] + row.servers[:first]:
                faults += measure_one(bench, row, name, turn, results[row.key])
            print(f"round {turn + 1}/{rounds}  {row.key:14} {results[row.key].latest()} {row.unit}", flush=True)
    return results, faults


def files_of(bench: Bench, row: Row) -> list[Path]:
    """The files that a row reads, by its key."""
    if row.key == "segmentation":
        return [bench.labels]
    if row.key == "neuroglancer":
        return neuroglancer.files(bench.volumes)
    token = next((t for t in ("plain", "planes", "contiguous", "many", "real") if row.key.startswith(t)), "gzip")
    tiffs = sorted((bench.volumes.folder / "tiff").iterdir()) if token == "planes" else []
    return [bench.volumes.file(token), *tiffs]


def measure_one(bench: Bench, row: Row, name: str, turn: int, into: report.Results) -> list[str]:
    """Adds one sample, or the reason why there is none; returns faults."""
    if name in into.missing:
        return []
    try:
        into.samples.setdefault(name, []).append(row.measure(bench, name, turn))
    except Missing as reason:
        into.missing[name] = str(reason)
        print(f"{row.key}: {name} is left out: {reason}", flush=True)
    except (Wrong, OSError, http.client.HTTPException) as wrong:
        into.missing[name] = f"wrong: {wrong}"
        return [f"{row.key}, {name}: {wrong}"]
    return []


def write(options: argparse.Namespace, chosen: list[Row], results: dict, about: list[str], taken: float) -> None:
    text = report.table(chosen, results, about)
    raw = {"about": about, "rows": {key: asdict(found) for key, found in results.items()}}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(raw, indent=1))
    print(f"\n{text}")
    if missed := report.missed(chosen, results):
        print("targets missed:\n" + "\n".join(f"  {one}" for one in missed))
    to = options.report or (None if options.small or options.only else ROOT / "benches" / "RESULTS.md")
    if to:
        report.write(to, text)
    print(f"{taken:.0f} s of measuring; raw figures in {options.json}" + (f", the table in {to}" if to else ""))


def said(*command: object) -> str:
    try:
        return subprocess.run([str(word) for word in command], capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def describe(options: argparse.Namespace, made: volumes.Volumes, busy: float) -> list[str]:
    z, y, x = made.shape
    head = said("git", "-C", ROOT, "rev-parse", "--short", "HEAD") or "?"
    ours = said(options.voltile, "--version")
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return [
        "## Side by side, over HTTP",
        "",
        f"{watch.today()}, {watch.processor()}, {watch.cores()} cores shared by servers and load generator,",
        f"load average {busy:.1f} before the start. {ours}, repository at `{head}`.",
        f"Medians of {options.rounds} rounds; in each, all servers in turn; ratios are computed within a round. Made",
        f"by `scripts/side-by-side`; {options.seconds} s per measurement (compressed and scrolling rows twice that).",
        *(["**Smoke test: these volumes fit into the caches.**"] if options.small else []),
        "",
        f"- Volume: {z}×{y}×{x} u8, like electron microscopy; 64³ gzip-4 chunks, ratio {made.ratio:.2f}, unless",
        "  noted otherwise. The page cache is warm. Each server is restarted for each measurement. Cache budgets are",
        "  the same for all servers: 64 MiB of encoded tiles, 64 MiB of decoded chunks (512 MiB for the scroll); cold",
        "  rows exceed them before any chunk is requested again.",
        f"- Real data: {options.real.name}, mirrored to the same size, with the same chunks and compression.",
        "- lab: FastAPI, h5py, Pillow, an LRU of tiles, two uvicorn workers. expert: chunk index, mmap or pread,",
        "  prefix decode by libdeflate, shared decoded chunks, ISA-L, bare ASGI. iipsrv sends JPEG, from TIFF tiles",
        "  with the same compressed bytes as the chunks. Before each measurement, tiles of each server are compared",
        "  with h5py's pixels.",
        "- inflate limit: libdeflate decoding the bytes that the tiles need, from memory, on all cores, no server.",
        "- Neuroglancer: headless Chromium without a graphics card opens four panels (1280×800 pixels, one voxel of level 0",
        "  per pixel) of a file by `voltile pyramid --rechunk`, with an empty cache; the time is from the beginning of the",
        "  navigation until Neuroglancer has drawn all visible chunks. nginx sends the same program with the same headers,",
        "  and the stored bytes of the chunks from files. In every visit the same chunks are requested, all panels show the",
        "  same pixels, and those of the planes are compared with h5py.",
        f"- Labels: {options.labels.name}, as unsigned 64-bit numbers; blocks of 8×8×8. voltile's time",
        "  is that of reading boxes from a file and encoding them, less that of reading. Both encodings are decoded by the",
        "  Python package and compared.",
        f"- {packages}; {load.wrk_version()}; {servers.nginx_version()}.",
    ]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("side-by-side: stopped")
