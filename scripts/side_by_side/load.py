"""The load generator, wrk, which checks the statuses of responses and counts their bytes.

It does not check their pixels, because that would take longer than some servers take for a tile. Instead `tiles.compare` checks
some responses beforehand, and the responses to wrk must be large enough in the mean.
"""

import json
import os
import subprocess
from pathlib import Path

from .servers import Server, need
from .tiles import Wrong

LEAST_BYTES = 10_000  # all tiles of the volumes are far larger


def wrk(
    server: Server, work: Path, lists: list[list[str]], connections: int, seconds: int, least: int = LEAST_BYTES,
    headers: tuple[str, ...] = (),
) -> float:  # fmt: skip
    """Measures responses per second. Each list of paths is requested by a thread of its own, with this number of connections.
    The mean response must have at least `least` bytes."""
    environment = dict(os.environ)
    first_path = lists[0][0]
    # A single path needs no list; then Lua, which takes time, is not called for each request (see walk.lua).
    if any(paths != [first_path] for paths in lists):
        environment["SIDE_BY_SIDE_LIST"] = str(work / "list")
    for number, paths in enumerate(lists):
        (work / f"list.{number}").write_text("\n".join(paths) + "\n")
    command = [need("wrk", "wrk"), "-t", len(lists), "-c", len(lists) * connections, "-d", f"{seconds}s", "--timeout", "30s"]
    for header in headers:
        command += ["-H", header]
    command += ["-s", Path(__file__).parent / "walk.lua", f"http://127.0.0.1:{server.port}{first_path}"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines or not lines[-1].startswith("{"):
        raise Wrong(f"wrk failed: {(done.stderr or done.stdout).strip()}")
    counts = json.loads(lines[-1])
    if counts["refused"] or counts["lost"] or not counts["requests"]:
        raise Wrong(f"{server.name}: {counts['refused']} refused, {counts['lost']} lost of {counts['requests']}")
    mean = counts["bytes"] / counts["requests"]
    if mean < least:
        raise Wrong(f"{server.name}: {mean:.0f} bytes per response, not {least}")
    return counts["requests"] / counts["microseconds"] * 1e6
