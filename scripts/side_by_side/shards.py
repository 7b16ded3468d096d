"""Four shards, two at a time with one thread each, against one process with two threads: processor time, summed.

What they make must be equal: the decoded voxels of a pyramid, the files of warmed tiles.
"""

import hashlib
import resource
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py

from .pixels import Wrong
from .servers import Setting

SHARDS, AT_ONCE = 4, 2


def pyramid(setting: Setting, source: Path) -> float:
    """The processor time of shards and assembly, relative to that of one process."""
    one, four = setting.work / "one.pyramid", setting.work / "four.pyramid"
    command = [setting.voltile, "pyramid", source]
    single = spent([[*command, "--output", one, "--threads", AT_ONCE]])
    command += ["--output", four]
    shards = spent([[*command, "--threads", 1, "--shard", f"{index}/{SHARDS}"] for index in range(SHARDS)])
    shards += spent([[*command, "--assemble"]])
    if levels(one) != levels(four):
        raise Wrong("the levels that shards made differ from those of one process")
    one.unlink()
    four.unlink()
    return shards / single


def warm(setting: Setting, source: Path) -> float:
    """The processor time of shards, relative to that of one process."""
    one, four = setting.work / "one.tiles", setting.work / "four.tiles"
    command = [setting.voltile, "warm", source, "--plane", "xy", "--set", 'cache.disk="1 TiB"']
    single = spent([[*command, "--into", one, "--set", f"render.threads={AT_ONCE}"]])
    command += ["--into", four, "--set", "render.threads=1"]
    shards = spent([[*command, "--shard", f"{index}/{SHARDS}"] for index in range(SHARDS)])
    if tiles(one) != tiles(four):
        raise Wrong("the tiles that shards warmed differ from those of one process")
    shutil.rmtree(one)
    shutil.rmtree(four)
    return shards / single


def spent(commands: list[list]) -> float:
    """Runs commands, two at a time; returns the seconds of processor time of all."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(run, commands))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def run(command: list) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{command[1]}: {done.stderr.strip()[-400:]}")


def levels(path: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}

    def add(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = hashlib.sha256(f"{item.dtype} {item.shape}".encode() + item[()].tobytes()).digest()

    with h5py.File(path) as file:
        file.visititems(add)
    return found


def tiles(directory: Path) -> dict[str, bytes]:
    return {
        str(tile.relative_to(directory)): hashlib.sha256(tile.read_bytes()).digest()
        for tile in (directory / "tiles").rglob("*.png")
    }
