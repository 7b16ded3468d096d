"""Validates `voltile bench` against other tools that measure the same work: criterion and load generators.

`voltile bench FILE` and criterion (`benches/stages/files.rs`) render the same tiles on one thread, cold and with
decoded chunks; `voltile bench URL` and wrk request the same tiles from one server, cold and cached. They are run in
turn in each round, and ratios are computed within a round, so that temporary slowdowns of the machine affect both
sides. Cached tiles are also requested with h2load, because wrk reads in pieces of 8 KiB, and the client shares the
cores with the server. Started by `scripts/bench --agree`. Exit status: 0 measured, 2 it could not run.
"""

import argparse
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import criterion, load, pixels, report, volumes, watch
from .servers import MIB, ROOT, Missing, Server, Setting, fetch, program, running
from .tiles import SIDE, Tile

LAYOUTS = {"gzip": "64³ gzip", "plain": "64³", "planes": "(1,512,512) gzip", "contiguous": "contiguous"}
PLANES = ("xy", "xz", "yz")
COMPRESSED = ("gzip", "planes")
# How many times more tiles of an uncompressed layout: rendering these is mostly copying, and the voxels must exceed the
# processor's cache.
MORE = 64
SLICES = range(32, 48)  # whose tiles are requested from a server
CLIENTS, THREADS = 8, 2
START, END = "<!-- agree -->", "<!-- /agree -->"


@dataclass(frozen=True)
class Means:
    """The programs and parameters of the measurements."""

    voltile: Path
    stages: Path
    made: volumes.Volumes
    work: Path
    tiles: int
    seconds: int


@dataclass(frozen=True)
class Pair:
    """One figure from both tools; over HTTP also the processor time (µs) per response: of both clients, then of the
    server with each client."""

    ours: float
    other: float
    costs: tuple[float, float, float, float] | None = None


# By layout, plane (over HTTP: the other tool) and state.
Pairs = dict[tuple[str, str, str], list[Pair]]


def arguments() -> argparse.Namespace:
    about = "Compares voltile bench with criterion, wrk and h2load."
    parser = argparse.ArgumentParser("scripts/bench --agree --", description=about)
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="number of rounds (default: 5)")
    add("--seconds", type=int, default=1, help="duration of a measurement over HTTP (default: 1)")
    add("--tiles", type=int, default=4, help=f"cold tiles of a compressed layout; others: {MORE} times (default: 4)")
    add("--small", action="store_true", help="smoke test with volumes of a sixteenth; the figures mean little")
    add("--only", choices=("files", "http"), help="measure only files or only servers")
    add("--layout", action="append", choices=tuple(LAYOUTS), help="measure only this layout; may be repeated")
    add("--add", action="store_true", help="add rounds to those in --json, for machines that are rarely idle for long")
    add("--volumes", type=Path, default=ROOT / "target" / "bench-volumes", help="folder (default: %(default)s)")
    add("--voltile", type=Path, default=ROOT / "target" / "release" / "voltile", help="binary (default: built first)")
    add("--stages", type=Path, help="the binary of benches/stages.rs (default: built first)")
    add("--json", type=Path, default=ROOT / "target" / "agree.json", help="raw figures (default: %(default)s)")
    add("--report", type=Path, help="output file (default: benches/RESULTS.md; none with --small, --only or --layout)")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    busy = os.getloadavg()[0]
    pairs = known(options.json) if options.add else {}
    with tempfile.TemporaryDirectory(prefix="agree-") as work:
        made = volumes.make(volumes.plan(options.volumes, options.small))
        stages = (options.stages or criterion.built("stages")).resolve()
        means = Means(options.voltile.resolve(), stages, made, Path(work), options.tiles, options.seconds)
        before = min((len(some) for key, some in pairs.items() if key[0] in (options.layout or LAYOUTS)), default=0)
        for turn in range(before, before + options.rounds):
            for key, pair in measured(means, options, turn):
                pairs.setdefault(key, []).append(pair)
                print(f"round {turn + 1}/{before + options.rounds}  {' '.join(key):26} {pair}", flush=True)
                save(options.json, pairs)
    text = table(pairs, options, busy)
    print(f"\n{text}")
    part = options.small or options.only or options.layout
    to = options.report or (None if part else ROOT / "benches" / "RESULTS.md")
    if to:
        report.write(to, text, START, END)
        print(f"written: {to}")
    return 0


def known(raw: Path) -> Pairs:
    """The rounds of earlier runs."""
    saved = json.loads(raw.read_text()) if raw.is_file() else {}
    return {tuple(key.split()): [Pair(**pair) for pair in some] for key, some in saved.items()}


def save(raw: Path, pairs: Pairs) -> None:
    saved = {" ".join(key): [vars(pair) for pair in some] for key, some in pairs.items()}
    raw.parent.mkdir(parents=True, exist_ok=True)
    raw.write_text(json.dumps(saved, indent=1))


def measured(means: Means, options: argparse.Namespace, turn: int) -> Iterator[tuple[tuple[str, str, str], Pair]]:
    for token in options.layout or LAYOUTS:
        watch.read_through([means.made.file(token)])
        if options.only != "http":
            yield from of_file(means, token, turn)
        if options.only != "files":
            yield from of_server(means, token, turn)


def bench(means: Means, *words: object) -> list[dict]:
    """The rows that `voltile bench` prints, for level 0 only."""
    command = [str(word) for word in (means.voltile, "bench", *words, "--level", 0, "--pattern", "random", "--json")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)["rows"]


def of_file(means: Means, token: str, turn: int) -> Iterator[tuple[tuple[str, str, str], Pair]]:
    """Milliseconds per tile, measured by voltile bench and by criterion."""
    path, seed = means.made.file(token), turn + 1
    most = means.tiles * (1 if token in COMPRESSED else MORE)
    sides = {"bench": lambda: files_by_bench(means, path, seed, most), "criterion": lambda: files_by_criterion(means, path, seed, most)}
    # They alternate in going first.
    names = sorted(sides, reverse=turn % 2 == 1)
    found = {name: sides[name]() for name in names}
    for key in ((state, plane) for plane in PLANES for state in ("cold", "kept")):
        yield (token, key[1], key[0]), Pair(found["bench"][key], found["criterion"][key])


def files_by_bench(means: Means, path: Path, seed: int, most: int) -> dict[tuple[str, str], float]:
    usual = (path, "--threads", 1, "--seed", seed, "--seconds", 60)
    cold = bench(means, *usual, "--state", "chunks", "--tiles", most)
    # The same tiles as criterion's group "kept" (benches/stages/files.rs).
    kept = bench(means, *usual, "--state", "warm", "--tiles", 1024, "--max", 64, "--x", 0, 0, "--y", 0, 0)
    rows = [("cold", row) for row in cold] + [("kept", row) for row in kept]
    return {(state, row["plane"]): row["latency"]["mean"] for state, row in rows}


def files_by_criterion(means: Means, path: Path, seed: int, most: int) -> dict[tuple[str, str], float]:
    extra = {
        "VOLTILE_BENCH_FILES": str(path),
        "VOLTILE_BENCH_TILES": str(most),
        "VOLTILE_BENCH_SEED": str(seed),
    }
    home = criterion.run(means.stages, means.work, "^file (cold|kept)/", extra)
    found = {}
    for state, plane in ((state, plane) for state in ("cold", "kept") for plane in PLANES):
        mean = criterion.estimate(home, f"file {state}/{path.stem}/{plane}", "mean")
        # One iteration renders 64 kept tiles, or all cold ones.
        found[state, plane] = mean * 1e3 / (64 if state == "kept" else most)
    return found


def of_server(means: Means, token: str, turn: int) -> Iterator[tuple[tuple[str, str, str], Pair]]:
    """Tiles per second, measured by voltile bench and by other tools."""
    rows, columns = (extent // SIDE for extent in means.made.shape[1:])
    some = [Tile("xy", number, row, column) for number in SLICES for row in range(rows) for column in range(columns)]
    random.Random(turn).shuffle(some)
    # Cold: many tiles with caches too small to help. Hits: a single tile.
    these = ("--tiles", 1 << 14, "--min", SLICES.start, "--max", SLICES.stop)
    yield (token, "wrk", "cold"), asked(means, token, turn, (1, 8 * MIB), some, these, by_wrk)
    one, hot = ("--tiles", 1, "--min", SLICES.start, "--max", SLICES.start + 1, "--x", 0, 0, "--y", 0, 0), (64 * MIB,) * 2
    for name, other in (("wrk", by_wrk), ("h2load", by_h2load)):
        yield (token, name, "hits"), asked(means, token, turn, hot, [Tile("xy", SLICES.start, 0, 0)], one, other)


def asked(
    means: Means, token: str, turn: int, caches: tuple[int, int], some: list[Tile], words: tuple, other: Callable
) -> Pair:
    setting = Setting(means.work, means.voltile, [means.made.file(token)], *caches, neighbours=False)
    with running("voltile", setting) as server:
        for tile in some[:3]:
            pixels.compare("voltile", fetch(server, tile.path(token)), means.made.file(token), tile)
        sides = {"bench": lambda: by_bench(means, server, words), "other": lambda: other(means, server, token, some)}
        found = {name: costing(server, sides[name]) for name in sorted(sides, reverse=turn % 2 == 1)}
    ours, others = found["bench"], found["other"]
    return Pair(ours[0], others[0], (ours[1], others[1], ours[2], others[2]))


def by_bench(means: Means, server: Server, words: tuple) -> tuple[float, int]:
    """Tiles per second, and the number of requests."""
    url = f"http://127.0.0.1:{server.port}"
    rows = bench(means, url, "--plane", "xy", "--clients", CLIENTS, "--seconds", means.seconds, *words)
    # Both rows measure the same here, because cold tiles stay cold. Only the second one has the requested duration.
    return rows[-1]["tiles_per_second"], sum(row["requests"] for row in rows)


def by_wrk(means: Means, server: Server, token: str, some: list[Tile]) -> tuple[float, int]:
    paths, each = [tile.path(token) for tile in some], CLIENTS // THREADS
    if len(paths) == 1:
        rate = load.run(server, paths[0], THREADS, each, means.seconds, {}, load.LEAST_BYTES)
    else:
        rate = load.wrk(server, means.work, [paths[thread::THREADS] for thread in range(THREADS)], each, means.seconds)
    return rate, round(rate * means.seconds)


def by_h2load(means: Means, server: Server, token: str, some: list[Tile]) -> tuple[float, int]:
    h2load, url = program("h2load", "nghttp2-client"), f"http://127.0.0.1:{server.port}{some[0].path(token)}"
    words = ("--h1", "-t", THREADS, "-c", CLIENTS, "-D", means.seconds, url)
    done = subprocess.run([h2load, *map(str, words)], capture_output=True, text=True)
    finished = re.search(r"^requests: (\d+) total, .* (\d+) succeeded, 0 failed, 0 errored", done.stdout, re.MULTILINE)
    if done.returncode or not finished:
        raise pixels.Wrong(f"h2load failed: {(done.stderr or done.stdout).strip()}")
    return int(finished[2]) / means.seconds, int(finished[2])


def costing(server: Server, ask) -> tuple[float, float, float]:
    """A rate, and the processor time in microseconds per response of the client and of the server."""
    before, served = clients(), watch.spent(server)
    rate, requests = ask()
    return rate, (clients() - before) * 1e6 / requests, (watch.spent(server) - served) * 1e6 / requests


def clients() -> float:
    """Processor time in seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def middle(some: list[Pair], of) -> float:
    return statistics.median(of(pair) for pair in some)


def compared(some: list[Pair], unit: str) -> list[str]:
    ratios = sorted(pair.ours / pair.other for pair in some)
    cells = [f"{report.figure(middle(some, of))}{unit}" for of in (lambda p: p.ours, lambda p: p.other)]
    return [*cells, f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"]


def table(pairs: Pairs, options: argparse.Namespace, busy: float) -> str:
    lines = [
        "## voltile bench compared with other tools",
        "",
        f"{watch.today()}, {watch.processor()}, {watch.cores()} cores, load average {busy:.1f} before the start.",
        f"Made by `scripts/bench --agree`: medians of {max(map(len, pairs.values()), default=0)} rounds, both tools",
        "in turn; ratios of bench to the other tool within a round: median (minimum to maximum). 256×2048×2048 u8.",
        *(["**Smoke test: the volumes are small.**"] if options.small else []),
    ]
    files = {key: some for key, some in pairs.items() if some[0].costs is None}
    if files:
        lines += ["", "Time per tile on one thread, page cache warm, by `voltile bench FILE` and by criterion.", ""]
        lines += ["| layout | plane | chunks | bench | criterion | ratio |", "|---" * 6 + "|"]
        for (token, plane, state), some in files.items():
            lines.append("| " + " | ".join([LAYOUTS[token], plane, state, *compared(some, " ms")]) + " |")
    served = {key: some for key, some in pairs.items() if some[0].costs}
    if served:
        lines += [
            "",
            f"Tiles per second over HTTP, {CLIENTS} connections: the same xy tiles by `voltile bench URL` and by",
            f"another tool ({THREADS} threads); for hits, one tile repeatedly. Client and server share the cores, so a",
            "cheaper client leaves more to the server: the last columns are processor time per response, with bench",
            "and with the other tool.",
            "",
            "| layout | tiles | tool | bench | other | ratio | client, µs | server, µs |",
            "|---" * 8 + "|",
        ]
        for (token, other, state), some in served.items():
            costs = [report.figure(middle(some, lambda pair, n=n: pair.costs[n])) for n in range(4)]
            cells = [LAYOUTS[token], state, other, *compared(some, "/s"), f"{costs[0]}, {costs[1]}", f"{costs[2]}, {costs[3]}"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("agree: stopped")
    except (Missing, pixels.Wrong, OSError) as problem:
        print(f"agree: {problem}", file=sys.stderr)
        sys.exit(2)
