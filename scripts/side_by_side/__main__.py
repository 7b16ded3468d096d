"""Measures every row for every server in several rounds, and writes the results.

Within a round, the servers of a row are measured one after another, each round starting with a different server. Two servers
are compared by their figures of the same round, so that a temporary slowdown of the machine affects both. Exit status: 0
measured (missed targets are marked, but are not failures), 1 a server sent a wrong response, 2 side-by-side could not run.
"""

import argparse
import http.client
import os
import re
import signal
import sys
import tempfile
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from checks.runner import ROOT
from checks.servers import Refused, run

from . import chart, remote, report, rows, volumes
from .rows import Bench, Row
from .servers import Setting
from .tiles import Wrong

TARGET = ROOT / "target"
REAL = ROOT.parent / "shared" / "data" / "em" / "flyem_medulla_520x520x64.h5"
CHART = ROOT / "fixtures" / "speed.svg"
PACKAGES = ("h5py", "fastapi", "uvicorn", "pillow", "imagecodecs", "isal", "numpy", "fsspec", "remfile", "kerchunk", "zarr")
# The text above each table in benches/RESULTS.md, by the mark of the table (see report.write).
ABOUT = {
    "side-by-side": """## Side by side, over HTTP

lab: FastAPI, h5py, Pillow, an LRU of tiles, two uvicorn workers. expert: chunk index, mmap or pread, prefix decode by
libdeflate, shared decoded chunks, ISA-L, bare ASGI. nginx and writev send ready bytes. limit: libdeflate alone decodes what
the tiles need, from memory on all cores. one core: voltile on one core. Cache budgets are the same for all servers: 64 MiB
of encoded tiles, 64 MiB of decoded chunks (512 MiB for the scroll); cold rows exceed them before any chunk is requested
again. Before each measurement, tiles of each server are compared with h5py's pixels. cpu: processor time of the server per
response. Real data is mirrored to the same size, with the same chunks and compression.""",
    "remote": f"""## Files in object storage

One file on a web server of this machine whose answers take {1000 * remote.DELAY:.0f} ms longer. Python's times are without
drawing.""",
    "headline": """## The headline figures

Of README's chart: random tiles of real and of uncompressed data for 8 clients, for one client, and a scroll.""",
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("scripts/side-by-side", description="Compares voltile with other tile servers.")
    add = parser.add_argument
    add("--remote", action="store_const", dest="mark", const="remote", help="files on a server 20 ms away, also read by Python")
    add("--headline", action="store_const", dest="mark", const="headline", help="the figures of README's chart, and the chart")
    add("--against", type=Path, metavar="BINARY", help="compare with another voltile only, such as the last release")
    add("--rounds", type=int, default=5, help="number of rounds (default: 5)")
    add("--seconds", type=int, default=2, help="duration of a measurement; doubled for slow rows (default: 2)")
    add("--only", type=re.compile, metavar="REGEX", help="measure only rows whose key matches; see --list")
    add("--list", action="store_true", help="list the rows and exit")
    add("--small", action="store_true", help="smoke test with volumes of a sixteenth; the figures mean little")
    add("--report", type=Path, help="output file (default: benches/RESULTS.md; none with --small, --only or --against)")
    add("--volumes", type=Path, default=TARGET / "bench-volumes", help="folder, takes 4 or 5 GiB (default: %(default)s)")
    add("--voltile", type=Path, default=TARGET / "release" / "voltile", help="the binary (default: built first)")
    parser.set_defaults(mark="side-by-side")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    load_average = os.getloadavg()[0]
    all_rows = remote.rows() if options.mark == "remote" else rows.rows(REAL.is_file())
    if options.mark == "headline":
        all_rows = [row for row in all_rows if row.key in chart.TITLES]
    if options.against:
        all_rows = [replace(row, peers={"against": None}) for row in all_rows if row.subject == "voltile"]
    chosen = [row for row in all_rows if not options.only or options.only.search(row.key)]
    if options.list or not chosen:
        for row in chosen or all_rows:
            print(f"{row.key:20} {row.title}")
        return 0 if options.list else 2
    for binary in filter(None, (options.voltile, options.against)):
        if not binary.is_file():
            raise OSError(f"there is no {binary}")
    generated = volumes.make(options.volumes, options.small, REAL)
    with tempfile.TemporaryDirectory(prefix="side-by-side-") as work:
        setting = Setting(Path(work), options.voltile.resolve(), options.against and options.against.resolve())
        results, faults = measure(Bench(setting, generated, options.seconds), chosen, options.rounds)
    write(options, chosen, results, describe(options, generated, load_average))
    for fault in faults:
        print(f"WRONG: {fault}", file=sys.stderr)
    return 1 if faults else 0


def measure(bench: Bench, chosen: list[Row], rounds: int) -> tuple[dict[str, report.Results], list[str]]:
    """The results by the key of their row, and what was wrong with servers' responses."""
    results = {row.key: report.Results() for row in chosen}
    faults: list[str] = []
    for turn in range(rounds):
        for row in chosen:
            read_through(bench.volumes.file(row.token))
            first = turn % len(row.servers)
            for name in row.servers[first:] + row.servers[:first]:
                if fault := add_sample(bench, row, name, turn, results[row.key]):
                    faults.append(fault)
            print(f"round {turn + 1}/{rounds}  {row.key:20} {results[row.key].latest()} {row.unit}", flush=True)
    return results, faults


def add_sample(bench: Bench, row: Row, name: str, turn: int, results: report.Results) -> str | None:
    """Measures a server, and adds the sample to the row's results, or else the reason why the server is left out from now on.
    Returns what was wrong with a response."""
    if name in results.missing:
        return None
    try:
        results.samples.setdefault(name, []).append(row.measure(bench, name, turn))
    except Refused as reason:
        results.missing[name] = str(reason)
        print(f"{row.key}: {name} is left out: {reason}", flush=True)
    except (Wrong, OSError, http.client.HTTPException) as wrong:
        results.missing[name] = f"wrong: {wrong}"
        return f"{row.key}, {name}: {wrong}"
    return None


def write(options: argparse.Namespace, chosen: list[Row], results: dict, about: list[str]) -> None:
    text = report.table(chosen, results, about)
    print(f"\n{text}")
    # Without --report, only a full comparison replaces the published results.
    is_part = options.small or options.only or options.against
    default = None if is_part else ROOT / "benches" / "RESULTS.md"
    if path := options.report or default:
        report.write(path, text, options.mark)
        if options.mark == "headline":
            chart.draw(results, CHART)
        print(f"written: {path}")


def describe(options: argparse.Namespace, generated: volumes.Volumes, load_average: float) -> list[str]:
    """The lines above a table: how, where and with which programs and volumes its figures were measured."""
    z, y, x = generated.shape
    binaries = filter(None, (options.voltile, options.against))
    commit = run("git", "-C", ROOT, "rev-parse", "--short", "HEAD").stdout.strip()
    versions = " against ".join(run(binary, "--version").stdout.strip() for binary in binaries)
    return [
        ABOUT[options.mark],
        "",
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, {processor()}, {len(os.sched_getaffinity(0))} cores shared by servers",
        f"and load generator, load average {load_average:.1f} before the start. {versions}, repository at `{commit}`. By",
        f"`scripts/side-by-side`: medians of {options.rounds} rounds of {options.seconds} s; in each, all servers in turn.",
        f"Volume: {z}×{y}×{x} u8, like electron microscopy; 64³ gzip-4 chunks, ratio {generated.ratio:.2f}; a warm page cache.",
        *(["**Smoke test: these volumes fit into the caches.**"] if options.small else []),
        ", ".join(f"{name} {version(name)}" for name in PACKAGES) + ".",
    ]


def processor() -> str:
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return model[1] if model else os.uname().machine


def read_through(path: Path) -> None:
    """Reads a file to bring it into the page cache."""
    with open(path, "rb", buffering=0) as file:
        while file.read(8 << 20):
            pass


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("side-by-side: stopped")
    except (OSError, Refused) as problem:
        print(f"side-by-side: {problem}", file=sys.stderr)
        sys.exit(2)
