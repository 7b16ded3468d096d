"""Starts the compared servers, one at a time, and stops them even after errors.

All listen on free ports of 127.0.0.1, log to files, and get the same cache budgets for encoded tiles and decoded
chunks. Each is started for one measurement only, so that its caches are empty at the start. If a server is not
available (no nginx, no cargo), `Missing` gives the reason, which is shown in the table.
"""

import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
START_SECONDS, STOP_SECONDS = 60.0, 10.0
IIPSRV = Path("/usr/lib/iipimage-server/iipsrv.fcgi")


class Missing(Exception):
    """A server cannot be started, with the reason."""


@dataclass
class Setting:
    """The files to serve, and the cache budgets in bytes."""

    work: Path
    voltile: Path
    files: list[Path]
    tiles: int = 64 * MIB
    chunks: int = 64 * MIB
    neighbours: bool = True
    sets: tuple[str, ...] = ()  # more settings of voltile
    ready: bytes = b""  # the PNG that nginx and writev serve
    published: dict[str, bytes] = field(default_factory=dict)  # more files of nginx, by path
    folders: dict[str, Path] = field(default_factory=dict)  # folders of nginx, by path
    headers: dict[str, dict[str, str]] = field(default_factory=dict)  # of nginx's responses, by location
    slices: Path | None = None  # the folder with the TIFFs for iipsrv


@dataclass
class Server:
    """A running server: its port and processes."""

    name: str
    port: int
    processes: list[subprocess.Popen] = field(default_factory=list)
    log: Path = Path(os.devnull)

    @property
    def pid(self) -> int:
        return self.processes[0].pid

    def start(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        """In a new process group, so that workers are stopped too; a new session might be scheduled separately."""
        with open(self.log, "ab") as log:
            self.processes.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=os.environ | (environment or {}),
                    process_group=0,
                )
            )

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait(self, ready) -> None:
        end = time.monotonic() + START_SECONDS
        while not ready():
            if any(p.poll() is not None for p in self.processes) or time.monotonic() > end:
                raise Missing(f"{self.name} did not start:\n" + "\n".join(self.said().splitlines()[-8:]))
            time.sleep(0.01)

    def stop(self) -> None:
        for one in self.processes:
            end(one)


def end(process: subprocess.Popen) -> None:
    """SIGTERM to the process group, then SIGKILL to what is left of it."""
    for number, patience in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)


@contextlib.contextmanager
def running(name: str, setting: Setting) -> Iterator[Server]:
    server = Server(name, free_port(), log=setting.work / f"{name}.log")
    server.log.write_bytes(b"")
    try:
        STARTERS[name](server, setting)
        yield server
    finally:
        server.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def start_voltile(server: Server, setting: Setting, threads: int | None = None) -> None:
    sets = [f"cache.tiles={setting.tiles}", f"cache.chunks={setting.chunks}", *setting.sets]
    if threads:
        sets.append(f"render.threads={threads}")
    if not setting.neighbours and knows_neighbours(setting.voltile):
        sets.append("render.neighbours=0")
    flags = [word for one in sets for word in ("--set", one)]
    command = [str(setting.voltile), "serve", *map(str, setting.files)]
    server.start([*command, "--bind", f"127.0.0.1:{server.port}", *flags])
    server.wait(lambda: "voltile listening on" in server.said())


@functools.cache
def knows_neighbours(voltile: Path) -> bool:
    example = subprocess.run([voltile, "config", "example"], capture_output=True, text=True)
    return "neighbours" in example.stdout


def python(server: Server, setting: Setting, app: str, *flags: str) -> None:
    environment = {
        "SIDE_BY_SIDE_FILES": os.pathsep.join(map(str, setting.files)),
        "SIDE_BY_SIDE_TILES": str(setting.tiles),
        "SIDE_BY_SIDE_CHUNKS": str(setting.chunks),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, "-m", "uvicorn", f"side_by_side.{app}:app", "--app-dir", str(ROOT / "scripts")]
    fast = ["--loop", "uvloop", "--http", "httptools", "--no-access-log"]
    server.start([*command, "--host", "127.0.0.1", "--port", str(server.port), *fast, *flags], environment)


def start_lab(server: Server, setting: Setting) -> None:
    python(server, setting, "lab", "--workers", "2")
    server.wait(lambda: server.said().count("Application startup complete") == 2)


def start_expert(server: Server, setting: Setting) -> None:
    python(server, setting, "expert", "--lifespan", "off")
    server.wait(lambda: listens(server.port))


def program(name: str, package: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin")
    if not found:
        raise Missing(f"{name} is not installed (Debian: {package})")
    return found


def nginx_version() -> str:
    try:
        printed = subprocess.run([program("nginx", "nginx-light"), "-v"], capture_output=True, text=True)
    except Missing:
        return "no nginx"
    return printed.stderr.strip().removeprefix("nginx version: ")


def configure(where: Path, template: str, **values: object) -> Path:
    text = (Path(__file__).parent / template).read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    (where / template).write_text(text)
    return where / template


def start_nginx(server: Server, setting: Setting, backends: str = "server 127.0.0.1:9;") -> None:
    """One worker per core; the tile is a file, held open and in the page cache."""
    nginx = program("nginx", "nginx-light")
    folder = setting.work / server.name
    (folder / "www").mkdir(parents=True, exist_ok=True)
    for path, contents in ({"/tile.png": setting.ready} | setting.published).items():
        file = folder / "www" / path.removeprefix("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(contents)
    for path, target in setting.folders.items():
        link = folder / "www" / path.removeprefix("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target.resolve())
    user = "user root;" if os.getuid() == 0 else ""
    places = {"port": server.port, "folder": folder, "user": user, "backends": backends}
    written = configure(folder, "nginx.conf", locations=locations(setting), **places)
    server.start([nginx, "-p", str(folder), "-c", str(written), "-e", str(folder / "error.log")])
    server.wait(lambda: listens(server.port))


def locations(setting: Setting) -> str:
    """nginx's configuration of the headers of responses."""
    lines = []
    for rule, headers in setting.headers.items():
        others = {name: value for name, value in headers.items() if name != "Content-Type"}
        added = "".join(f'add_header {name} "{value}"; ' for name, value in others.items())
        kind = headers.get("Content-Type", "application/octet-stream")
        lines.append(f'location {rule} {{ types {{ }} default_type "{kind}"; {added}}}')
    return "\n".join(lines)


def start_iipsrv(server: Server, setting: Setting) -> None:
    """One process per core, because it is single-threaded, behind nginx as its manual recommends."""
    if not IIPSRV.is_file():
        raise Missing(f"{IIPSRV} is not installed (Debian: iipimage-server)")
    ports = [free_port() for _ in range(os.cpu_count() or 1)]
    environment = {
        "FILESYSTEM_PREFIX": f"{setting.slices}/",
        "MAX_IMAGE_CACHE_SIZE": str(setting.tiles // MIB),
        "VERBOSITY": "0",
    }
    for port in ports:
        server.start([str(IIPSRV), "--bind", f"127.0.0.1:{port}", "--backlog", "128"], environment)
    server.wait(lambda: all(map(listens, ports)))
    start_nginx(server, setting, "\n".join(f"server 127.0.0.1:{port};" for port in ports))


@functools.cache
def built_writev() -> Path:
    """Builds writev, a separate cargo project; returns its binary."""
    cargo = program("cargo", "cargo")
    project, target = ROOT / "benches" / "side_by_side" / "writev", ROOT / "target" / "writev"
    done = subprocess.run(
        [cargo, "build", "--release", "--locked", "--quiet", "--target-dir", target],
        cwd=project,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Missing(f"writev could not be built: {done.stderr.strip()[-400:]}")
    return target / "release" / "writev"


def start_writev(server: Server, setting: Setting) -> None:
    tile = setting.work / "writev.png"
    tile.write_bytes(setting.ready)
    server.start([str(built_writev()), str(server.port), str(tile)])
    server.wait(lambda: listens(server.port))


STARTERS = {
    "voltile": start_voltile,
    "voltile-1": functools.partial(start_voltile, threads=1),
    "lab": start_lab,
    "expert": start_expert,
    "nginx": start_nginx,
    "iipsrv": start_iipsrv,
    "writev": start_writev,
}


def fetch(server: Server, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=60) as answer:
        return answer.read()
