"""Load generators: wrk for rates, a plain Python client for the latencies of a single client.

wrk checks status codes and counts bytes, but does not check bodies, which would cost more than some servers need per
tile. Instead, `pixels` checks some responses beforehand, and here the mean response must not be smaller than a tile.
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
LEAST_BYTES = 10_000  # all tiles of the volumes are far larger


def wrk(server: Server, work: Path, lists: list[list[str]], each: int, seconds: int) -> float:
    """Responses per second, with `each` connections and one thread per list of paths."""
    for number, paths in enumerate(lists):
        (work / f"list.{number}").write_text("\n".join(paths) + "\n")
    return run(server, lists[0][0], len(lists), each, seconds, {"SIDE_BY_SIDE_LIST": str(work / "list")}, LEAST_BYTES)


def wrk_one(server: Server, path: str, connections: int, seconds: int, size: int) -> float:
    """Responses per second for one path; the response has at least `size` bytes."""
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
    counts = json.loads(lines[-1])
    if counts["refused"] or counts["lost"] or not counts["requests"]:
        raise pixels.Wrong(f"{server.name}: {counts['refused']} refused, {counts['lost']} lost of {counts['requests']}")
    if counts["bytes"] / counts["requests"] < size:
        raise pixels.Wrong(f"{server.name}: {counts['bytes'] / counts['requests']:.0f} bytes per response, not {size}")
    return counts["requests"] / counts["microseconds"] * 1e6


def alone(server: Server, paths: list[str], seconds: float) -> list[float]:
    """Latencies in milliseconds of sequential requests by one client; every response is checked."""
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
            raise pixels.Wrong(f"{server.name} responded with {answer.status} to {path}")
        pixels.look_whole(server.name, body)
    client.close()
    return times


def wrk_version() -> str:
    if not shutil.which("wrk"):
        return "none"
    words = subprocess.run(["wrk", "-v"], capture_output=True, text=True)
    return (words.stdout + words.stderr).split("\n")[0].split(" [")[0]
