"""Starts the compared servers, one at a time, and stops them even after errors.

Each server is started for one measurement only, so that its caches are empty at the start. If a server is not available (no
nginx, no cargo), `Refused` gives the reason, which is shown in the table.
"""

import functools
import os
import subprocess
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from checks.nginx import Nginx
from checks.runner import ROOT
from checks.servers import Process, Refused, free_port, listens, need

MIB = 1 << 20
# Filled by str.format: braces that nginx is to see are doubled.
NGINX_HTTP_BLOCK = """types {{ image/png png; }}
    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    keepalive_requests 1000000000;
    open_file_cache max=2048 inactive=1h;
    server {{ listen 127.0.0.1:{port} reuseport; root {root}; }}"""


@dataclass(frozen=True)
class Setting:
    """What a server is started with, for one measurement."""

    work: Path
    voltile: Path
    against: Path | None = None  # another voltile to compare with; its server has the name `against`
    files: list[Path] = field(default_factory=list)
    tiles: int = 64 * MIB  # the budget of the cache of encoded tiles
    chunks: int = 64 * MIB  # the budget of the cache of decoded chunks
    neighbours: bool = True  # whether voltile prefetches neighbours
    published: dict[str, bytes] = field(default_factory=dict)  # the files that nginx and writev send, by path

    def binary(self, name: str) -> Path:
        return self.against if name == "against" else self.voltile


class Server(Process):
    """A running server at a port."""

    def __init__(self, name: str, port: int, command: list, work: Path, environment: dict[str, str] | None = None):
        self.name, self.port = name, port
        super().__init__(command, work / f"{name}.log", environment)


def running(name: str, setting: Setting) -> Server | Nginx:
    """Starts a server by its name in the table; at the end of a `with` block it is stopped."""
    return STARTERS[name](name, setting)


def fetch(server: Server, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=120) as answer:
        return answer.read()


def voltile(name: str, setting: Setting, *more: str) -> Server:
    """A voltile with `more` configuration, as `key=value`."""
    port = free_port()
    command = [need("taskset", "util-linux"), "-c", "0"] if name == "one core" else []
    command += [setting.binary(name), "serve", *setting.files, "--bind", f"127.0.0.1:{port}"]
    neighbours = [] if setting.neighbours else ["render.neighbours=0"]
    for option in (f"cache.tiles={setting.tiles}", f"cache.chunks={setting.chunks}", *more, *neighbours):
        command += ["--set", option]
    server = Server(name, port, command, setting.work)
    server.wait_until(lambda: "voltile listening on" in server.said())
    return server


def python(name: str, setting: Setting, *flags: str) -> Server:
    """A server written in Python (the module `name` of this package), run by uvicorn."""
    port = free_port()
    environment = {
        "SIDE_BY_SIDE_FILES": os.pathsep.join(map(str, setting.files)),
        "SIDE_BY_SIDE_TILES": str(setting.tiles),
        "SIDE_BY_SIDE_CHUNKS": str(setting.chunks),
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, "-B", "-m", "uvicorn", f"side_by_side.{name}:app", "--app-dir", ROOT / "scripts"]
    command += ["--host", "127.0.0.1", "--port", port]
    command += ["--loop", "uvloop", "--http", "httptools", "--no-access-log"]  # the fastest that uvicorn has
    return Server(name, port, [*command, *flags], setting.work, environment)


def lab(name: str, setting: Setting) -> Server:
    """A typical lab's server, with two workers; see lab.py."""
    server = python(name, setting, "--workers", "2")
    server.wait_until(lambda: server.said().count("Application startup complete") == 2)
    return server


def expert(name: str, setting: Setting) -> Server:
    """The optimised Python server; see expert.py."""
    server = python(name, setting, "--lifespan", "off")
    server.wait_for_port(server.port)
    return server


def nginx(name: str, setting: Setting) -> Nginx:
    """nginx with one worker for each core; it keeps the published files open, and they stay in the page cache."""
    place, root = setting.work / name, setting.work / name / "www"
    for path, contents in setting.published.items():
        file = root / path.removeprefix("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(contents)
    server = Nginx(place, lambda port: NGINX_HTTP_BLOCK.format(port=port, root=root), "auto")
    server.name = name
    return server


@functools.cache
def built_writev() -> Path:
    """Builds writev, a separate cargo project; returns its binary."""
    project, target = ROOT / "benches" / "side_by_side" / "writev", ROOT / "target" / "writev"
    command = [need("cargo", "cargo"), "build", "--release", "--locked", "--quiet", "--target-dir", target]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"writev could not be built: {done.stderr.strip()[-400:]}")
    return target / "release" / "writev"


def writev(name: str, setting: Setting) -> Server:
    """A server that sends one tile for each request, and does nothing else: the upper limit for cached tiles."""
    tile, port = setting.work / "writev.png", free_port()
    tile.write_bytes(setting.published["/tile.png"])
    server = Server(name, port, [built_writev(), port, tile], setting.work)
    server.wait_until(lambda: listens(port))
    return server


STARTERS = {
    "voltile": voltile,
    "against": voltile,
    "one core": voltile,
    "lab": lab,
    "expert": expert,
    "nginx": nginx,
    "writev": writev,
}
