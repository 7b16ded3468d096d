"""Metrics of the servers (voltile's own, processor time, memory), and facts about the machine."""

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from .servers import Server, fetch

COUNTER = re.compile(r"^(voltile_\w+_total) (\d+)", re.MULTILINE)
GAUGE = re.compile(r"^(voltile_\w+_bytes) (\d+)", re.MULTILINE)
SIZE = re.compile(r"^(\w+):\s+(\d+) kB", re.MULTILINE)


def counters(server: Server) -> dict[str, int]:
    """voltile's own counters; empty for other servers."""
    if not server.name.startswith("voltile"):
        return {}
    return {name: int(value) for name, value in COUNTER.findall(fetch(server, "/metrics").decode())}


def gauges(server: Server) -> dict[str, int]:
    """voltile's gauges in bytes."""
    return {name: int(value) for name, value in GAUGE.findall(fetch(server, "/metrics").decode())}


def shares(server: Server, before: dict[str, int]) -> dict[str, float]:
    """The cache hit rates of tiles and chunks since `before`, to verify that cold rows are cold."""
    grown = {name: value - before.get(name, 0) for name, value in counters(server).items()}
    get = lambda name: grown.get(f"voltile_{name}_total", 0)  # noqa: E731
    pairs = {
        "tile hits": (get("tile_cache_hits"), get("renders")),
        "chunk hits": (get("chunk_cache_hits"), get("chunk_reads")),
    }
    return {name: hit / (hit + made) for name, (hit, made) in pairs.items() if hit + made}


def status(pid: int) -> dict[str, float]:
    """Memory figures of a process in MiB: VmHWM, RssAnon, RssFile and others."""
    text = Path(f"/proc/{pid}/status").read_text()
    return {name: int(size) / 1024 for name, size in SIZE.findall(text)}


@contextlib.contextmanager
def peak_of_its_own(server: Server) -> Iterator[dict[str, float]]:
    """The server's peak anonymous memory (RssAnon, MiB) while in this context, sampled twenty times a second.

    VmHWM, the peak that the system records, is not suitable: it includes mapped file pages, which belong to the page
    cache and can be reclaimed at any time.
    """
    seen, over = {"peak": 0.0}, threading.Event()

    def look() -> None:
        with contextlib.suppress(OSError):  # the server may have ended
            while not over.wait(0.05):
                seen["peak"] = max(seen["peak"], status(server.pid)["RssAnon"])

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def spent(server: Server) -> float:
    """Processor time in seconds used by the server's processes, including workers."""
    groups, ticks = {process.pid for process in server.processes}, 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has just ended
            words = stat.read_text().rpartition(")")[2].split()
            ticks += (int(words[11]) + int(words[12])) * (int(words[2]) in groups)
    return ticks / os.sysconf("SC_CLK_TCK")


def cores() -> int:
    return len(os.sched_getaffinity(0))


def processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else os.uname().machine


def read_through(paths: list[Path]) -> None:
    """Reads files to bring them into the page cache."""
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(8 << 20):
                pass


def today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())
