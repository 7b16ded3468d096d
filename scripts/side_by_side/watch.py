"""Metrics of the servers (voltile's own, processor time), and facts about the machine."""

import contextlib
import os
import re
from pathlib import Path

from .servers import Server, fetch

COUNTER = re.compile(r"^(voltile_\w+_total) (\d+)", re.MULTILINE)


def counters(server: Server) -> dict[str, int]:
    """voltile's own counters; empty for other servers."""
    if server.name not in ("voltile", "against"):
        return {}
    return {name: int(value) for name, value in COUNTER.findall(fetch(server, "/metrics").decode())}


def shares(server: Server, before: dict[str, int]) -> dict[str, float]:
    """The cache hit rates of tiles and chunks since `before` in percent, to verify that cold rows are cold."""
    grown = {name: value - before.get(name, 0) for name, value in counters(server).items()}
    found = {}
    for kind, hit, made in (("tile hits %", "tile_cache_hits", "renders"), ("chunk hits %", "chunk_cache_hits", "chunk_reads")):
        some, others = (grown.get(f"voltile_{name}_total", 0) for name in (hit, made))
        found |= {kind: 100 * some / (some + others)} if some + others else {}
    return found


def spent(server: Server) -> float:
    """Processor time in seconds used by the server's processes, including workers."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has just ended
            words = stat.read_text().rpartition(")")[2].split()
            ticks += (int(words[11]) + int(words[12])) * (int(words[2]) == server.process.pid)
    return ticks / os.sysconf("SC_CLK_TCK")


def processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else os.uname().machine


def read_through(path: Path) -> None:
    """Reads a file to bring it into the page cache."""
    with open(path, "rb", buffering=0) as file:
        while file.read(8 << 20):
            pass
