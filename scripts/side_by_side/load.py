"""Asks the servers: wrk where rates are measured, a plain Python client where the times of one client are.

wrk looks at status codes and counts bytes, and does not look into bodies: that would cost it more than some servers
need for a tile. So `pixels` looks at some answers before, and here the bytes per answer must be what a tile can be.
"""

import http.client
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

from . import pixels
from .servers import Server

HERE = Path(__file__).parent
LEAST_BYTES = 10_000  # the smallest tile of the volumes is far above


def wrk(server: Server, work: Path, lists: list[list[str]], each: int, seconds: int) -> float:
    """Answers per second; `each` connections for each of the lists of paths."""
    for number, paths in enumerate(lists):
        (work / f"list.{number}").write_text("\n".join(paths) + "\n")
    return run(server, lists[0][0], len(lists), each, seconds, {"SIDE_BY_SIDE_LIST": str(work / "list")}, LEAST_BYTES)


def wrk_one(server: Server, path: str, connections: int, seconds: int, size: int) -> float:
    """Answers per second for one path, whose answer has at least `size` bytes."""
    return run(server, path, 1, connections, seconds, {}, size)


def run(server: Server, path: str, threads: int, each: int, seconds: int, extra: dict[str, str], size: int) -> float:
    command = ["wrk", "-t", str(threads), "-c", str(threads * each), "-d", f"{seconds}s", "--timeout", "30s"]
    done = subprocess.run(
        [*command, "-s", str(HERE / "walk.lua"), f"http://127.0.0.1:{server.port}{path}"],
        capture_output=True,
        text=True,
        env=os.environ | extra,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines or not lines[-1].startswith("{"):
        raise pixels.Wrong(f"wrk failed: {(done.stderr or done.stdout).strip()}")
    told = json.loads(lines[-1])
    if told["refused"] or told["lost"] or not told["requests"]:
        raise pixels.Wrong(f"{server.name}: {told['refused']} refused, {told['lost']} lost of {told['requests']}")
    if told["bytes"] / told["requests"] < size:
        raise pixels.Wrong(f"{server.name}: {told['bytes'] / told['requests']:.0f} bytes per answer, not {size}")
    return told["requests"] / told["microseconds"] * 1e6


def alone(server: Server, paths: list[str], seconds: float) -> list[float]:
    """Milliseconds that one client waited for each tile, one after another; every answer is looked at."""
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    times: list[float] = []
    end = time.monotonic() + seconds
    for path in paths:
        if time.monotonic() > end:
            break
        start = time.perf_counter()
        client.request("GET", path)
        answer = client.getresponse()
        body = answer.read()
        times.append((time.perf_counter() - start) * 1000)
        if answer.status != 200:
            raise pixels.Wrong(f"{server.name} answered {answer.status} to {path}")
        pixels.look_whole(server.name, body)
    client.close()
    return times


def wrk_version() -> str:
    if not shutil.which("wrk"):
        return "none"
    words = subprocess.run(["wrk", "-v"], capture_output=True, text=True)
    return (words.stdout + words.stderr).split("\n")[0].split(" [")[0]
