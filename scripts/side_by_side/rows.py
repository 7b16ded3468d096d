"""The rows of the table: the workloads, the servers compared, and voltile's targets.

Each row is measured for one server at a time, by a function that starts the server, checks its pixels (which also makes
it open its files), and returns one number: tiles per second, or in the row's unit. `limit` is not a server, but the
rate of decompression alone. The rows for render threads use `voltile bench` instead of a server.
"""

import json
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from . import chunks, criterion, labels, limit, load, neuroglancer, pixels, replicas, shards, tiles, watch
from .servers import MIB, Missing, Server, Setting, fetch, running
from .tiles import Tile
from .volumes import Volumes

CLIENTS = 8
LOOKED_AT = 3
SCROLL_CHUNKS = 512 * MIB
VISITS = 3


@dataclass(frozen=True)
class Bench:
    """The parameters common to all rows."""

    setting: Setting
    volumes: Volumes
    seconds: int
    labels: Path
    encoder: Path | None = None  # the binary of benches/segmentation.rs, if it is built already

    def set(self, *tokens: str, **more) -> Setting:
        return replace(self.setting, files=[self.volumes.file(token) for token in tokens], **more)


@dataclass(frozen=True)
class Sample:
    """One measurement, and additional figures by name."""

    value: float
    notes: dict[str, float] = field(default_factory=dict)

    def noting(self, name: str, value: float) -> "Sample":
        return replace(self, notes=self.notes | {name: value})


@dataclass(frozen=True)
class Target:
    """A target for voltile. With `other`: to be at least `bound` times better than it. Without: a figure of at most
    `bound`, or at least `bound` if `least`."""

    other: str | None
    bound: float
    text: str
    least: bool = False


@dataclass(frozen=True)
class Row:
    key: str
    title: str
    servers: tuple[str, ...]
    measure: Callable[[Bench, str, int], Sample]
    targets: tuple[Target, ...]
    unit: str = "/s"


def check_some(server: Server, path: Path, some: list[Tile]) -> None:
    """Checks tiles from the end of the list, so that they do not warm the caches for the measurement."""
    for tile in some[-LOOKED_AT:]:
        pixels.compare(server.name, fetch(server, address(server, path, tile)), path, tile)


def address(server: Server, path: Path, tile: Tile) -> str:
    if server.name != "iipsrv":
        return tile.path(path.stem)
    across = -(-pixels.width(path) // tiles.SIDE)
    return f"/iipsrv?FIF={tile.number}.tif&JTL=0,{tile.row * across + tile.column}"


def asked(server: Server, seconds: int, ask: Callable[[], float]) -> Sample:
    """A rate, with voltile's cache hit rates and the processor time per response."""
    before, spent = watch.counters(server), watch.spent(server)
    rate = ask()
    each = (watch.spent(server) - spent) * 1000 / (rate * seconds)
    return Sample(rate, watch.shares(server, before) | {"cpu ms": each})


def cold(bench: Bench, name: str, turn: int, token: str, plane: str, longer: int = 1) -> Sample:
    path, some = bench.volumes.file(token), tiles.cold(plane, bench.volumes.shape, turn)
    if name == "limit":
        need = limit.plane if token == "planes" else limit.cubes
        return Sample(limit.rate(path, some, need, bench.seconds * longer))
    with running(name, bench.set(token, neighbours=False, slices=bench.volumes.folder / "tiff")) as server:
        check_some(server, path, some)
        paths = [address(server, path, tile) for tile in some]
        seconds = bench.seconds * longer
        return asked(server, seconds, lambda: load.wrk(server, bench.setting.work, [paths], CLIENTS, seconds))


def alone(bench: Bench, name: str, turn: int) -> Sample:
    path, some = bench.volumes.file("gzip"), tiles.cold("xy", bench.volumes.shape, turn)
    with running(name, bench.set("gzip", neighbours=False)) as server:
        check_some(server, path, some)
        before = watch.counters(server)
        times = load.alone(server, [address(server, path, tile) for tile in some], bench.seconds * 2)
        late = statistics.quantiles(times, n=20)[18] if len(times) > 1 else times[0]
        return Sample(statistics.median(times), {"p95": late} | watch.shares(server, before))


def scroll(bench: Bench, name: str, turn: int, token: str = "gzip") -> Sample:
    """Four clients with four connections each, because a viewer requests all visible tiles at once."""
    path = bench.volumes.file(token)
    walks = [tiles.scroll(bench.volumes.shape, client, turn) for client in range(4)]
    if name == "limit":
        return Sample(limit.rate(path, [tile for step in zip(*walks) for tile in step], limit.scrolled, bench.seconds))
    with running(name, bench.set(token, chunks=SCROLL_CHUNKS)) as server:
        check_some(server, path, tiles.cold("xz", bench.volumes.shape, turn)[:1])
        paths = [[tile.path(token) for tile in walk] for walk in walks]
        seconds = bench.seconds * 2
        return asked(server, seconds, lambda: load.wrk(server, bench.setting.work, paths, 4, seconds))


def hits(bench: Bench, name: str, turn: int, connections: int) -> Sample:
    """One cached tile; nginx and writev send a PNG made by voltile."""
    path, tile = bench.volumes.file("gzip"), tiles.cold("xy", bench.volumes.shape, turn)[0]
    ready = ready_tile(bench, tile) if name in ("nginx", "writev") else b""
    where = "/tile.png" if ready else tile.path("gzip")
    with running(name, bench.set("gzip", ready=ready)) as server:
        body = fetch(server, where)
        pixels.compare(name, body, path, tile)
        seconds = bench.seconds
        return asked(server, seconds, lambda: load.wrk_one(server, where, connections, seconds, len(body)))


def ready_tile(bench: Bench, tile: Tile) -> bytes:
    with running("voltile", bench.set("gzip")) as server:
        return fetch(server, tile.path("gzip"))


def passed(bench: Bench, name: str, turn: int, token: str, form: str) -> Sample:
    """Stored chunks, as they are; nginx sends them from files."""
    path, some = bench.volumes.file(token), chunks.on_grid(bench.volumes.shape, turn)
    published = chunks.stored(path, some, token) if name == "nginx" else {}
    form = {"nginx": "file", "lab": "precomputed"}.get(name, form)
    with running(name, bench.set(token, published=published)) as server:
        paths = [getattr(box, form)(token) for box in some]
        size = min(chunks.check(server, path, paths[at], some[at]) for at in range(-LOOKED_AT, 0))
        ask = partial(load.wrk, server, bench.setting.work, [paths], CLIENTS, bench.seconds, size // 2, chunks.HEADERS)
        return asked(server, bench.seconds, ask)


def boxes(bench: Bench, name: str, turn: int) -> Sample:
    """Boxes around the corners of compressed chunks, which are decoded for them."""
    path, some = bench.volumes.file("gzip"), chunks.off_grid(bench.volumes.shape, turn)
    seconds = bench.seconds * 2
    if name == "limit":
        return Sample(limit.rate(path, some, chunks.touched, seconds))
    with running(name, bench.set("gzip")) as server:
        paths = [box.voxels("gzip") for box in some]
        size = min(chunks.check(server, path, paths[at], some[at]) for at in range(-LOOKED_AT, 0))
        return asked(server, seconds, lambda: load.wrk(server, bench.setting.work, [paths], CLIENTS, seconds, size))


def viewed(bench: Bench, name: str, turn: int) -> Sample:
    """Seconds until Neuroglancer has loaded all visible chunks: the median of visits, each to a server just started."""
    setting = bench.setting
    scene = neuroglancer.scene(setting.voltile, bench.volumes, setting.work)
    visits = []
    for _ in range(VISITS):
        with running(name, neuroglancer.served(scene, setting)) as server:
            visits.append(neuroglancer.visit(scene, server, setting.work))
        neuroglancer.check(scene, visits[-1], name)
    data = statistics.median(visit.seconds - visit.first for visit in visits)
    return Sample(statistics.median(visit.seconds for visit in visits), {"of data": data, "chunks": len(scene.chunks)})


def encoded(bench: Bench, name: str, turn: int) -> Sample:
    """Boxes of labels per second as compressed_segmentation, by one thread."""
    some = labels.boxes(bench.labels)
    if name == "package":
        return Sample(labels.by_package(some, bench.seconds))
    return Sample(labels.by_voltile(some, bench.encoder or criterion.built("segmentation"), bench.setting.work))


def threads(bench: Bench, name: str, turn: int, token: str, plane: str) -> Sample:
    """The speedup of rendering cold tiles with two render threads instead of one, without HTTP."""
    flags = ["--pattern", "random", "--state", "chunks", "--level", "0", "--plane", plane, "--seed", str(turn + 1)]
    flags += ["--threads", "1,2", "--seconds", str(bench.seconds), "--tiles", "100000", "--json"]
    sets = ["--set", f"cache.chunks={bench.setting.chunks}"]
    command = [bench.setting.voltile, "bench", bench.volumes.file(token), *flags, *sets]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{name} bench: {done.stderr.strip()[-400:]}")
    return Sample(json.loads(done.stdout)["scaling"][0]["factor"])


def divided(bench: Bench, name: str, turn: int, work: Callable[[Setting, Path], float]) -> Sample:
    """The processor time of four shards relative to that of one process."""
    return Sample(work(bench.setting, bench.volumes.file("gzip")))


def replicated(bench: Bench, name: str, turn: int) -> Sample:
    """Renders of three replicas, of which one is killed, for each distinct tile."""
    counted = replicas.renders(bench.setting)
    return Sample(counted["renders"] / counted["distinct"], {"tiles": counted["checked"]})


def without_redis(bench: Bench, name: str, turn: int, how: str) -> Sample:
    """Cold tiles that cost little to render, from a server whose Redis went away, or from one that has none."""
    path, some = bench.volumes.file("plain"), tiles.cold("xy", bench.volumes.shape, turn)
    paths, seconds = [tile.path("plain") for tile in some], bench.seconds
    ask = partial(load.wrk, work=bench.setting.work, each=CLIENTS, seconds=seconds)
    setting = bench.set("plain", neighbours=False)
    if name == "none":
        with running("voltile", setting) as server:
            check_some(server, path, some)
            return asked(server, seconds, lambda: ask(server, lists=[paths]))
    with replicas.redis(bench.setting.work) as redis:
        setting = replace(setting, sets=(f"cache.redis=redis://127.0.0.1:{redis.port}",))
        with running(name, setting) as server:
            check_some(server, path, some)
            noticed = replicas.lose(server, redis, how, paths[-100:])
            return asked(server, seconds, lambda: ask(server, lists=[paths])).noting("noticed after s", noticed)


def memory(bench: Bench, name: str, turn: int) -> Sample:
    """Peak memory in MiB beyond the two cache budgets, after cold tiles, scrolls and hits have filled both caches."""
    setting, shape = bench.set("gzip", "plain", "contiguous"), bench.volumes.shape
    quick = [tile.path("plain") for tile in tiles.cold("xy", shape, turn)]
    mixed = [tile.path(token) for token, tile in tiles.mixed(["gzip", "plain", "contiguous"], shape, turn)]
    walks = [[tile.path("gzip") for tile in tiles.scroll(shape, client, turn)] for client in range(4)]
    with running(name, setting) as server, watch.peak_of_its_own(server) as own:
        load.wrk(server, setting.work, [quick], 16, bench.seconds)
        load.wrk(server, setting.work, [mixed], 16, bench.seconds)
        load.wrk(server, setting.work, walks, 4, bench.seconds)
        load.wrk_one(server, walks[0][0], 32, bench.seconds, load.LEAST_BYTES)
        gauges, held = watch.gauges(server), watch.status(server.pid)
        full = {"held in " + cache: gauges.get(f"voltile_{cache}_cache_bytes", 0) / MIB for cache in ("tile", "chunk")}
        beyond = own["peak"] - (setting.tiles + setting.chunks) / MIB
        return Sample(beyond, {"peak": own["peak"], "of files, mapped": held["RssFile"]} | full)


def many(bench: Bench, name: str, turn: int) -> Sample:
    """Seconds from process start to the first tile of a file with very many chunks."""
    path, tile = bench.volumes.file("many"), Tile("xy", turn % bench.volumes.many[0], 0, 0)
    start = time.perf_counter()
    with running(name, bench.set("many")) as server:
        before = watch.status(server.pid)["RssAnon"]
        body = fetch(server, tile.path("many"))
        taken = time.perf_counter() - start
        grown = (watch.status(server.pid)["RssAnon"] - before) * MIB / bench.volumes.many_chunks
        pixels.compare(name, body, path, tile)
        return Sample(taken, {"bytes per chunk": grown})


LAB, EXPERT = partial(Target, "lab"), partial(Target, "expert")
SCALES = Target("voltile-1", 1.9, "≥ 1.9 × one render thread")
TWICE = Target(None, 1.9, "≥ 1.9", least=True)
INFLATE = Target("limit", 0.8, "≥ 80 % of the inflate limit")
PEERS, OURS = ("lab", "expert"), ("voltile", "voltile-1")


def gzip_row(plane: str, *targets: Target) -> Row:
    return Row(
        f"cold-{plane}",
        f"cold random {plane}, {CLIENTS} clients",
        (*PEERS, "limit", *OURS),
        partial(cold, token="gzip", plane=plane, longer=2),
        (*targets, INFLATE, SCALES),
    )


def plain_row(plane: str, *targets: Target) -> Row:
    return Row(
        f"plain-{plane}",
        f"the same, uncompressed 64³ chunks, {plane}",
        (*PEERS, *OURS),
        partial(cold, token="plain", plane=plane),
        (*targets, SCALES),
    )


def hits_row(connections: int, peers: tuple[str, ...]) -> Row:
    return Row(
        f"hits-{connections}",
        f"hits, {connections} connections",
        (*peers, "nginx", "writev", "voltile"),
        partial(hits, connections=connections),
        (Target("nginx", 1.1, "≥ 1.1 × nginx"), Target("writev", 0.9, "≥ 90 % of a bare `writev`")),
    )


def passed_row(key: str, title: str, servers: tuple[str, ...], token: str, form: str, *targets: Target) -> Row:
    return Row(key, title, servers, partial(passed, token=token, form=form), targets)


def chunk_rows() -> list[Row]:
    """Formats for programs that read volumes rather than tiles."""
    near, lab = Target("nginx", 0.8, "≥ 80 % of nginx"), LAB(50, "≥ 50 × lab")
    through = "64³ gzip chunks passed through"
    return [
        passed_row("gzip-precomputed", f"precomputed: {through}", ("lab", "nginx", "voltile"), "gzip", "precomputed", near, lab),
        passed_row("gzip-zarr", f"Zarr 0.4: {through}", ("lab", "nginx", "voltile"), "gzip", "zarr", near, lab),
        passed_row(
            "plain-precomputed",
            "precomputed: uncompressed 64³ chunks",
            ("nginx", "voltile"),
            "plain",
            "precomputed",
            Target("nginx", 0.7, "≥ 70 % of nginx"),
        ),
        Row("boxes", "64³ boxes across eight gzip chunks each", ("limit", "voltile"), boxes, (INFLATE,)),
    ]


def viewer_row() -> Row:
    title = "Neuroglancer in Chromium, four panels, cold: until all visible chunks are loaded"
    target = Target("nginx", 1 / 1.05, "≤ 1.0 × nginx, within 5 % of noise")
    return Row("neuroglancer", title, ("nginx", "voltile"), viewed, (target,), "s")


def labels_row() -> Row:
    title = "`compressed_segmentation`, 64³ u64 boxes of real labels, 1 thread"
    target = Target("package", 5, "≥ 5 × compressed-segmentation")
    return Row("segmentation", title, ("package", "voltile"), encoded, (target,))


def threads_row(token: str, plane: str) -> Row:
    title = f"two render threads against one, without HTTP: {token} {plane}"
    return Row(f"{token}-threads-{plane}", title, ("voltile",), partial(threads, token=token, plane=plane), (TWICE,), "×")


def shards_row(key: str, title: str, work: Callable[[Setting, Path], float]) -> Row:
    title = f"{title} by four shards: processor time against one process"
    target = Target(None, 1.15, "≤ 1.15")
    return Row(f"shards-{key}", title, ("voltile",), partial(divided, work=work), (target,), "×")


def replicas_rows() -> list[Row]:
    once = Target(None, 1.1, "≤ 1.1, and no wrong tile")
    as_fast = Target("none", 0.97, "as fast as without Redis, within 3 % of noise")
    title = "cold random xy, uncompressed 64³ chunks, of a server whose Redis"
    return [
        Row("replicas", "renders of three replicas for each distinct tile, one killed", ("voltile",), replicated, (once,), "×"),
        *(
            Row(f"redis-{how}", f"{title} {how}", ("none", "voltile"), partial(without_redis, how=how), (as_fast,))
            for how in ("stopped", "hangs")
        ),
    ]


def real_rows() -> list[Row]:
    """Real data compresses and decodes differently from the synthetic volume."""
    servers, cold_xy = (*PEERS, "limit", "voltile"), partial(cold, token="real", plane="xy", longer=2)
    return [
        Row("real-xy", f"real data: cold random xy, {CLIENTS} clients", servers, cold_xy, ()),
        Row("real-scroll", "real data: scroll along z", servers, partial(scroll, token="real"), ()),
    ]


def rows(volumes: Volumes, real: bool, has_labels: bool) -> list[Row]:
    cores = watch.cores()
    room = 64 + 8 * cores
    return [
        gzip_row("xy", LAB(4, "≥ 4 × lab")),
        Row("alone", "cold random xy, 1 client, latency", (*PEERS, "voltile"), alone, (LAB(5, "≤ 1/5 of lab"),), "ms"),
        gzip_row("xz", LAB(2.2, "≥ 2.2 × lab")),
        gzip_row("yz", LAB(2.2, "≥ 2.2 × lab")),
        Row(
            "scroll",
            "scroll along z, 2×2 viewport, 4 clients",
            (*PEERS, "limit", "voltile"),
            scroll,
            (LAB(60, "≥ 60 × lab"), EXPERT(5, "≥ 5 × expert")),
        ),
        *(real_rows() if real else []),
        plain_row("xy", LAB(25, "≥ 25 × lab"), EXPERT(4, "≥ 4 × expert")),
        plain_row("xz", LAB(6, "≥ 6 × lab")),
        plain_row("yz", LAB(6, "≥ 6 × lab")),
        Row(
            "contiguous-yz",
            f"cold random yz, contiguous, {CLIENTS} clients",
            (*PEERS, *OURS),
            partial(cold, token="contiguous", plane="yz"),
            (LAB(10, "≥ 10 × lab"), SCALES),
        ),
        Row(
            "planes-xy",
            f"cold random xy, (1,512,512) gzip chunks, {CLIENTS} clients",
            ("iipsrv", "limit", *OURS),
            partial(cold, token="planes", plane="xy"),
            (Target("iipsrv", 4, "≥ 4 × iipsrv"), SCALES),
        ),
        *(threads_row("gzip", plane) for plane in ("xy", "xz", "yz")),
        *(threads_row("plain", plane) for plane in ("xy", "xz", "yz")),
        threads_row("contiguous", "yz"),
        threads_row("planes", "xy"),
        shards_row("pyramid", "a pyramid made", shards.pyramid),
        shards_row("warm", "all xy tiles warmed", shards.warm),
        *replicas_rows(),
        *chunk_rows(),
        viewer_row(),
        *([labels_row()] if has_labels else []),
        hits_row(8, PEERS),
        hits_row(32, ()),
        Row(
            "memory",
            "peak memory beyond the two cache budgets",
            ("voltile",),
            memory,
            (Target(None, room, f"≤ 64 MiB + 8 MiB for each of {cores} render threads"),),
            "MiB",
        ),
        Row(
            "many",
            f"{volumes.many_chunks:,} chunks: from start to first tile",
            ("voltile",),
            many,
            (Target(None, 1.0, "≤ 1 s"),),
            "s",
        ),
    ]


__all__ = ["Bench", "Missing", "Row", "Sample", "rows"]
