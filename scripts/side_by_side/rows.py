"""The rows of the table: the workloads, the servers compared, and voltile's targets.

A row is measured by a function that starts a server, checks its pixels (so the server has opened its files), and returns one
number: responses per second, or a number in the row's unit.
"""

import contextlib
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from checks.runner import ROOT

from . import chunks, limit, load, tiles
from .servers import MIB, Server, Setting, fetch, running
from .tiles import Tile, Wrong, compare
from .volumes import Volumes

CLIENTS = 8
COMPARED = 3  # the number of responses that are compared with h5py's voxels before a measurement
SCROLL_CHUNKS = 512 * MIB  # the budget for decoded chunks in a scroll
KILL_EVERY = 20  # seconds between the kills of replicas
THICK = 32  # the number of slices of a slab
COUNTER = re.compile(r"^(voltile_\w+_total) (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Bench:
    """The parameters common to all rows."""

    setting: Setting
    volumes: Volumes
    seconds: int

    def serving(self, *tokens: str, **more) -> Setting:
        """The setting for a server of some volumes."""
        return replace(self.setting, files=[self.volumes.file(token) for token in tokens], **more)


@dataclass(frozen=True)
class Sample:
    """One measurement, with additional figures (`notes`) by name."""

    value: float
    notes: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A workload, for which the server `subject` is compared with its `peers`.

    The targets: the subject must be better than each peer by the peer's factor (`None`: no target), and its value must be at most
    `limit`. `token` names the volume that is read.
    """

    key: str
    title: str
    measure: Callable[[Bench, str, int], Sample]
    peers: dict[str, float | None] = field(default_factory=dict)
    unit: str = "/s"
    token: str = "gzip"
    limit: float | None = None
    subject: str = "voltile"

    @property
    def servers(self) -> list[str]:
        return [*self.peers, self.subject]


def check_some(server: Server, path: Path, some: list[Tile]) -> None:
    """Compares a few tiles with h5py's voxels. Takes the last ones of the list, because the measurement begins with the first
    ones, for which the caches must stay cold."""
    for tile in some[-COMPARED:]:
        compare(server.name, fetch(server, tile.path(path.stem)), path, tile)


def measured(server: Server, seconds: int, load_server: Callable[[], float]) -> Sample:
    """The rate that `load_server` returns. The notes are voltile's cache hit rates, the processor time for each response, and the
    kernel's share of that time."""
    counters_before = counters(server)
    user, system = spent(server)
    rate = load_server()
    user_after, system_after = spent(server)
    kernel = system_after - system
    used = user_after - user + kernel
    notes = {"ms cpu": used * 1000 / (rate * seconds), "% of it kernel": 100 * kernel / used if used else 0.0}
    return Sample(rate, hit_rates(server, counters_before) | notes)


def counters(server: Server) -> dict[str, int]:
    """voltile's own counters; empty for other servers."""
    if server.name not in ("voltile", "against"):
        return {}
    return {name: int(value) for name, value in COUNTER.findall(fetch(server, "/metrics").decode())}


def hit_rates(server: Server, before: dict[str, int]) -> dict[str, float]:
    """The percentages of tiles and chunks that came from a cache since the counters were `before`. They show whether a row that
    is meant to be cold was cold."""
    added = {name: value - before.get(name, 0) for name, value in counters(server).items()}
    rates = {}
    for note, hit, miss in (("% tile hits", "tile_cache_hits", "renders"), ("% chunk hits", "chunk_cache_hits", "chunk_reads")):
        hits_added, misses_added = added.get(f"voltile_{hit}_total", 0), added.get(f"voltile_{miss}_total", 0)
        if hits_added + misses_added:
            rates[note] = 100 * hits_added / (hits_added + misses_added)
    return rates


def spent(server: Server) -> tuple[float, float]:
    """The processor time in seconds of the server's processes, including workers: in user mode, and in the kernel."""
    user = system = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has just ended
            # `412 (name) S 1 409 …`. After the name, word 2 is the process group, 11 the time in user mode and 12 the time in the
            # kernel, both in ticks.
            words = stat.read_text().rpartition(")")[2].split()
            if int(words[2]) == server.process.pid:
                user += int(words[11])
                system += int(words[12])
    tick = os.sysconf("SC_CLK_TCK")
    return user / tick, system / tick


def cold(bench: Bench, name: str, turn: int, token: str, plane: str, clients: int, longer: int) -> Sample:
    """Tiles in cold order (see tiles.py), requested for `longer` times the usual duration."""
    path, some = bench.volumes.file(token), tiles.cold(plane, bench.volumes.shape, turn)
    if name == "limit":
        return Sample(limit.rate(path, some, bench.seconds * longer))
    with running(name, bench.serving(token, neighbours=False)) as server:
        check_some(server, path, some)
        paths, seconds = [tile.path(token) for tile in some], bench.seconds * longer
        return measured(server, seconds, lambda: load.wrk(server, bench.setting.work, [paths], clients, seconds))


def scroll(bench: Bench, name: str, turn: int, token: str) -> Sample:
    """Four viewers that scroll. Each has four connections, because a viewer requests all visible tiles at once."""
    path = bench.volumes.file(token)
    walks = [tiles.scroll(bench.volumes.shape, client, turn) for client in range(4)]
    with running(name, bench.serving(token, chunks=SCROLL_CHUNKS)) as server:
        # A tile of another plane, so that no tile of the scroll is cached.
        check_some(server, path, tiles.cold("xz", bench.volumes.shape, turn)[:1])
        paths, seconds = [[tile.path(token) for tile in walk] for walk in walks], bench.seconds * 2
        return measured(server, seconds, lambda: load.wrk(server, bench.setting.work, paths, 4, seconds))


def hits(bench: Bench, name: str, turn: int, connections: int, token: str = "gzip") -> Sample:
    """One cached tile, requested again and again; nginx and writev send a PNG made by voltile."""
    tile, setting = tiles.cold("xy", bench.volumes.shape, turn)[0], bench.serving(token)
    path = tile.path(token)
    if name in ("nginx", "writev"):
        with running("voltile", setting) as server:
            png = fetch(server, path)
        path = "/tile.png"
        setting = replace(setting, published={path: png})
    with running(name, setting) as server:
        body = fetch(server, path)
        compare(name, body, bench.volumes.file(token), tile)
        load_server = partial(load.wrk, server, bench.setting.work, [[path]], connections, bench.seconds, len(body))
        return measured(server, bench.seconds, load_server)


def cost(bench: Bench, name: str, turn: int) -> Sample:
    """The processor time in ms for a cached tile of real data."""
    sample = hits(bench, name, turn, CLIENTS, "real")
    return Sample(sample.notes["ms cpu"], {"/s": sample.value})


def passed(bench: Bench, name: str, turn: int, token: str, form: str) -> Sample:
    """Stored chunks that are passed on as they are. `form` is their addresses' format: the name of a method of `chunks.Box`."""
    path, some = bench.volumes.file(token), chunks.on_grid(bench.volumes.shape, turn)
    published = chunks.stored(path, some, token) if name == "nginx" else {}
    address_form = {"nginx": "file", "lab": "precomputed"}.get(name, form)  # nginx and lab offer a single format
    with running(name, bench.serving(token, published=published)) as server:
        paths = [getattr(box, address_form)(token) for box in some]
        size = min(chunks.check(server, path, paths[at], some[at]) for at in range(-COMPARED, 0))
        least = size // 2  # the mean response must have this size; other chunks may be compressed better than those checked
        load_server = partial(load.wrk, server, bench.setting.work, [paths], CLIENTS, bench.seconds, least, chunks.HEADERS)
        return measured(server, bench.seconds, load_server)


def slab(bench: Bench, name: str, turn: int, is_warm: bool) -> Sample:
    """Compares the maximum of THICK slices with the last of these slices alone. For both, the same part of each chunk is decoded,
    because gzip is decoded from a chunk's first slice on; so only the projection differs.

    The value is the ratio of the times if the chunks are cold, and their difference in ms if they are cached.
    """
    shape = bench.volumes.shape
    slices, down, across = tiles.counts("xy", shape)
    groups = math.ceil(slices / tiles.EDGE) * down * across
    some = tiles.cold("xy", shape, turn)[:groups]  # one of each group of tiles that share chunks
    slice_times, slab_times = [], []
    with running(name, bench.serving("gzip", neighbours=False)) as server:
        checked = some.pop()
        first, end = slab_of(checked)
        body = fetch(server, checked.view(f"{first}-{end}.max"))
        compare(server.name, body, bench.volumes.file("gzip"), checked, (first, end))
        for number, tile in enumerate(some):
            first, end = slab_of(tile)
            if is_warm:
                # Decodes the chunks. The two views that are measured have one slice less: they need the same chunks, but no
                # tile of theirs is cached.
                fetch(server, tile.view(f"{first}-{end}.max"))
                slice_times.append(took(server, tile.view(f"{end - 2}")))
                slab_times.append(took(server, tile.view(f"{first}-{end - 1}.max")))
            # Chunks are cold only once, so each of these tiles is measured either as a slice or as a slab.
            elif number % 2:
                slice_times.append(took(server, tile.view(f"{end - 1}")))
            else:
                slab_times.append(took(server, tile.view(f"{first}-{end}.max")))
    slice_ms, slab_ms = statistics.median(slice_times), statistics.median(slab_times)
    value = slab_ms - slice_ms if is_warm else slab_ms / slice_ms
    return Sample(value, {"ms slice": slice_ms, "ms slab": slab_ms})


def slab_of(tile: Tile) -> tuple[int, int]:
    """The first THICK slices of the tile's chunks: the first slice, and the one after the last."""
    first = tile.number // tiles.EDGE * tiles.EDGE
    return first, first + THICK


def took(server: Server, path: str) -> float:
    """The time of an answer in ms."""
    began = time.perf_counter()
    fetch(server, path)
    return (time.perf_counter() - began) * 1000


def replicated(bench: Bench, name: str, turn: int) -> Sample:
    """How often three replicas (with a Redis, behind nginx) render each distinct tile, while one replica is killed."""
    counted = bench.setting.work / "replicas.json"
    command = [sys.executable, ROOT / "scripts" / "extra" / "soak-replicas", "--voltile", bench.setting.binary(name)]
    command += ["--minutes", 2 * KILL_EVERY / 60, "--every", KILL_EVERY, "--faults", "replica", "--json", counted]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise Wrong(f"replicas: {(done.stdout + done.stderr).strip()[-400:]}")
    figures = json.loads(counted.read_text())
    return Sample(figures["renders"] / figures["distinct"])


def cold_row(token: str, plane: str, title: str, peers: dict[str, float | None], longer: int = 1, clients: int = CLIENTS) -> Row:
    key = f"{token}-{plane}" if clients > 1 else f"alone-{plane}"
    who = f"{clients} clients" if clients > 1 else "1 client"
    measure = partial(cold, token=token, plane=plane, clients=clients, longer=longer)
    return Row(key, f"cold random {plane}, {title}, {who}", measure, peers, token=token)


def scroll_row(token: str, title: str, peers: dict[str, float | None]) -> Row:
    measure = partial(scroll, token=token)
    return Row(f"{token}-scroll", f"scroll along z, {title}, 2×2 viewport, 4 clients", measure, peers, token=token)


def hits_row(connections: int, peers: dict[str, float | None]) -> Row:
    measure = partial(hits, connections=connections)
    return Row(f"hits-{connections}", f"hits, {connections} connections", measure, peers | {"nginx": 1.1, "writev": 0.9})


def cost_row() -> Row:
    title = f"processor time of a cached tile of real data, {CLIENTS} connections"
    return Row("hit-cost", title, cost, {"nginx": None, "writev": None}, "ms", "real")


def passed_row(token: str, form: str, title: str, peers: dict[str, float | None]) -> Row:
    """A row of chunks in a format for programs that read volumes rather than tiles."""
    return Row(f"{token}-{form}", title, partial(passed, token=token, form=form), peers, token=token)


def slab_rows() -> list[Row]:
    title = f"the maximum of {THICK} slices compared with a single slice, 64³ gzip chunks"
    return [
        Row("slab-cold", f"{title}, cold", partial(slab, is_warm=False), unit="×", limit=1.3),
        Row("slab-warm", f"{title}, chunks cached", partial(slab, is_warm=True), unit="ms", limit=8),
    ]


def rows(has_real: bool) -> list[Row]:
    gzip, plain, real = "64³ gzip chunks", "uncompressed 64³ chunks", "real data"
    no_targets = {"lab": None, "expert": None}
    real_rows = [cold_row("real", "xy", real, no_targets, longer=2), scroll_row("real", real, no_targets), cost_row()]
    return [
        cold_row("gzip", "xy", gzip, {"lab": 4, "expert": None, "one core": None, "limit": 0.85}, longer=2),
        cold_row("gzip", "xy", gzip, {"lab": 5, "expert": None}, longer=2, clients=1),
        cold_row("gzip", "xz", gzip, {"lab": 2.2, "expert": None, "limit": 0.95}, longer=2),
        cold_row("gzip", "yz", gzip, {"lab": 2.2, "expert": None, "limit": 0.95}, longer=2),
        scroll_row("gzip", gzip, {"lab": 60, "expert": 5}),
        *slab_rows(),
        # Real data compresses and decodes differently from the synthetic volume.
        *(real_rows if has_real else []),
        cold_row("plain", "xy", plain, {"lab": 25, "expert": 4}),
        cold_row("plain", "xz", plain, {"lab": 6, "expert": None}),
        cold_row("plain", "yz", plain, {"lab": 6, "expert": None}),
        cold_row("contiguous", "yz", "contiguous", {"lab": 10, "expert": None}),
        Row("replicas", "renders of three replicas for each distinct tile, one killed", replicated, {}, "×", limit=1.1),
        passed_row("gzip", "precomputed", f"precomputed: {gzip} passed through", {"lab": 50, "nginx": 0.8}),
        passed_row("gzip", "zarr", f"Zarr 0.4: {gzip} passed through", {"lab": 50, "nginx": 0.8}),
        passed_row("plain", "precomputed", f"precomputed: {plain}", {"nginx": 0.7}),
        hits_row(8, no_targets),
        hits_row(32, {}),
    ]
