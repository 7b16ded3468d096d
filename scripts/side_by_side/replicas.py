"""What sharing tiles costs: replicas behind nginx of which one is killed, and a server whose Redis is away.

The replicas are those of `scripts/soak-replicas`, which compares every tile with the volume.
"""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .pixels import Wrong
from .servers import ROOT, Server, Setting, end, fetch, free_port, listens, program

KILL_AFTER = 20  # seconds
PATIENCE = 20.0  # seconds


def renders(setting: Setting) -> dict[str, float]:
    """Runs three replicas with a Redis behind nginx under mixed load, and kills one of them. Returns what was counted."""
    report = setting.work / "replicas.json"
    command = [sys.executable, ROOT / "scripts" / "soak-replicas", "--voltile", setting.voltile]
    command += ["--minutes", 2 * KILL_AFTER / 60, "--every", KILL_AFTER, "--faults", "replica", "--json", report]
    for name, package in (("redis-server", "redis-server"), ("nginx", "nginx-light")):
        program(name, package)
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise Wrong(f"replicas: {(done.stdout + done.stderr).strip()[-400:]}")
    return json.loads(report.read_text())


class Redis:
    """A Redis that can stop, or hang."""

    def __init__(self, work: Path):
        command = [program("redis-server", "redis-server"), "--bind", "127.0.0.1", "--save", ""]
        self.port = free_port()
        with open(work / "redis.log", "wb") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port)], stdout=log, stderr=log, cwd=work, process_group=0
            )
        wait("Redis to start", lambda: listens(self.port))

    def go_away(self, how: str) -> None:
        self.process.send_signal({"stopped": signal.SIGKILL, "hangs": signal.SIGSTOP}[how])


@contextlib.contextmanager
def redis(work: Path) -> Iterator[Redis]:
    one = Redis(work)
    try:
        yield one
    finally:
        one.process.send_signal(signal.SIGCONT)
        end(one.process)


def lose(server: Server, redis: Redis, how: str, paths: list[str]) -> float:
    """Takes its Redis away from a server that uses it; returns the seconds until tiles no longer wait for it."""
    wait("Redis to be found", lambda: not is_open(server))
    redis.go_away(how)
    start = time.monotonic()
    for path in paths:
        fetch(server, path)
        if is_open(server):
            return time.monotonic() - start
    raise Wrong(f"{server.name}: tiles still wait for Redis, which {how}")


def is_open(server: Server) -> bool:
    return b"\nvoltile_redis_breaker_open 1" in fetch(server, "/metrics")


def wait(what: str, done) -> None:
    until = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > until:
            raise OSError(f"waited {PATIENCE:.0f} s for {what}")
        time.sleep(0.02)
