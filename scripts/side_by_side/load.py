"""The load generator, wrk. It checks statuses and counts bytes. It does not check bodies, because that would cost more than some
servers need for a tile: `tiles.compare` checks some responses beforehand, and here the mean response must be large enough.
"""

import json
import os
import subprocess
from pathlib import Path

from .servers import Server, need
from .tiles import Wrong

LEAST_BYTES = 10_000  # all tiles of the volumes are far larger


def wrk(
    server: Server, work: Path, lists: list[list[str]], each: int, seconds: int, size: int = LEAST_BYTES,
    headers: tuple[str, ...] = (),
) -> float:  # fmt: skip
    """Responses per second, with one thread and `each` connections for each list of paths. The mean response must have at least
    `size` bytes. If all lists have the same single path, Lua is not called for each request (see walk.lua)."""
    environment = dict(os.environ)
    is_single_path = lists == [lists[0][:1]] * len(lists)
    if not is_single_path:
        environment["SIDE_BY_SIDE_LIST"] = str(work / "list")
    for number, paths in enumerate(lists):
        (work / f"list.{number}").write_text("\n".join(paths) + "\n")
    command = [need("wrk", "wrk"), "-t", len(lists), "-c", len(lists) * each, "-d", f"{seconds}s", "--timeout", "30s"]
    command += [word for header in headers for word in ("-H", header)]
    command += ["-s", Path(__file__).parent / "walk.lua", f"http://127.0.0.1:{server.port}{lists[0][0]}"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines or not lines[-1].startswith("{"):
        raise Wrong(f"wrk failed: {(done.stderr or done.stdout).strip()}")
    counts = json.loads(lines[-1])
    if counts["refused"] or counts["lost"] or not counts["requests"]:
        raise Wrong(f"{server.name}: {counts['refused']} refused, {counts['lost']} lost of {counts['requests']}")
    if counts["bytes"] / counts["requests"] < size:
        raise Wrong(f"{server.name}: {counts['bytes'] / counts['requests']:.0f} bytes per response, not {size}")
    return counts["requests"] / counts["microseconds"] * 1e6
