"""Rows of people who scroll at the same time, each with a viewport of 2x2 tiles through one of twenty datasets.

Every tenth of a second the next slice is due. Each tile of a viewport has a connection of its own, and each person an
address, as different computers have. A connection asks for the newest slice that is due. Tiles of slices that it had no time
for are late, and so are tiles that arrive more than 200 ms after their slice was due. The datasets are hard links to one
volume: they share the system's page cache, and no other cache. The people are a process of their own.
"""

import asyncio
import json
import math
import os
import random
import resource
import socket
import subprocess
import sys
from dataclasses import replace
from itertools import product

import uvloop
from checks.runner import ROOT

from . import tiles
from .rows import Bench, Row, Sample, check_some, spent
from .servers import running
from .tiles import SIDE, Wrong

TOKEN = "real"
DATASETS, RATE, LATEST = 20, 10, 0.2
WARM, SECONDS = 4, 10
ACCEPTED, MANY = 5, 50  # percent late; people of the other figure


def most(bench: Bench, name: str, turn: int) -> Sample:
    """How many people there can be until ACCEPTED percent of their tiles are late."""

    def is_too_late(people: int) -> bool:
        return crowd(bench, name, turn, people)["% late"] > ACCEPTED

    fits, late = 0, 1
    while not is_too_late(late):
        fits, late = late, late * 2
    while late - fits > max(1, fits // 10):
        middle = (fits + late) // 2
        fits, late = (fits, middle) if is_too_late(middle) else (middle, late)
    notes = crowd(bench, name, turn, MANY)
    return Sample(fits, {f"{note} with {MANY}": value for note, value in notes.items()})


def crowd(bench: Bench, name: str, turn: int, people: int) -> dict[str, float]:
    """The percentage of late tiles, and what a tile costs the server and whom it is for."""
    source, folder = bench.volumes.file(TOKEN), bench.volumes.folder / "people"
    folder.mkdir(exist_ok=True)
    files = [folder / f"{TOKEN}{number}.h5" for number in range(DATASETS)]
    for file in files:
        if not file.exists():
            os.link(source, file)
    cache = DATASETS * math.prod(bench.volumes.shape) // 10
    setting = replace(bench.setting, files=files, tiles=cache // 8, chunks=cache * 7 // 8)
    with running(name, setting) as server:
        for file in files:
            check_some(server, file, tiles.cold("xz", bench.volumes.shape, turn)[:1])
        command = [sys.executable, "-B", "-m", "side_by_side.people", server.port, people, turn, *bench.volumes.shape]
        before = spent(server)
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT / "scripts")
        used = spent(server) - before
    if done.returncode:
        raise Wrong(f"{name}: {done.stderr.strip()[-400:]}")
    found = json.loads(done.stdout)
    each = 1000 / found["answers"]
    load = {"% late": found["late"], "ms cpu for a tile": used * each, "ms cpu of the person": found["spent"] * each}
    print(f"    {name}, {people} people: " + ", ".join(f"{value:.2f} {note}" for note, value in load.items()), flush=True)
    return load


# What follows runs in the process of the people.


class Count:
    """Tiles of slices that were due while it was measured."""

    def __init__(self, start: float):
        self.start, self.end = start + WARM, start + WARM + SECONDS
        self.tiles = self.late = self.answers = 0

    def add(self, due: float, is_late: bool) -> None:
        if self.start <= due < self.end:
            self.tiles, self.late = self.tiles + 1, self.late + is_late


async def look(port: int, person: int, corner: tuple[int, int], first: int, slices: int, start: float, count: Count) -> None:
    """One tile of a viewport that goes through all slices cyclically, beginning with `first` at the time `start`."""
    loop, buffer = asyncio.get_running_loop(), memoryview(bytearray(SIDE * SIDE * 2))
    with socket.socket() as connection:
        connection.setblocking(False)
        connection.bind((f"127.0.1.{person + 1}", 0))
        await loop.sock_connect(connection, ("127.0.0.1", port))
        step = 0
        while start + step / RATE < count.end:
            await asyncio.sleep(start + step / RATE - loop.time())
            newest = max(step, int((loop.time() - start) * RATE + 1e-6))
            for skipped in range(step, newest):
                count.add(start + skipped / RATE, True)
            tile = tiles.Tile("xy", (first + newest) % slices, *corner)
            await fetch(loop, connection, tile.path(f"{TOKEN}{person % DATASETS}"), buffer)
            due, step, count.answers = start + newest / RATE, newest + 1, count.answers + 1
            count.add(due, loop.time() - due > LATEST)


async def fetch(loop: asyncio.AbstractEventLoop, connection: socket.socket, path: str, buffer: memoryview) -> None:
    """Requests a tile, and forgets it."""
    await loop.sock_sendall(connection, f"GET {path} HTTP/1.1\r\nHost: people\r\n\r\n".encode())
    got = 0
    while (end := buffer.obj.find(b"\r\n\r\n", 0, got)) < 0:
        got += await loop.sock_recv_into(connection, buffer[got:])
    head = bytes(buffer[:end]).lower()
    if not head.startswith(b"http/1.1 200"):
        raise Wrong(f"{path}: {head.decode()}")
    left = int(head.partition(b"content-length:")[2].split(None, 1)[0]) - (got - end - 4)
    while left:
        left -= await loop.sock_recv_into(connection, buffer[:left])


async def scrolling(port: int, people: int, seed: int, shape: tiles.Shape) -> dict[str, float]:
    chance, loop = random.Random(seed), asyncio.get_running_loop()
    slices, rows, columns = tiles.sides("xy", shape)
    start = loop.time() + 0.5
    count, looks = Count(start), []
    for person in range(people):
        row, column = chance.randrange(rows - 1), chance.randrange(columns - 1)
        first, phase = chance.randrange(slices), chance.random() / RATE
        for down, across in product(range(2), range(2)):
            looks.append(look(port, person, (row + down, column + across), first, slices, start + phase, count))
    await asyncio.gather(*looks)
    use = resource.getrusage(resource.RUSAGE_SELF)
    return {"late": 100 * count.late / count.tiles, "answers": count.answers, "spent": use.ru_utime + use.ru_stime}


def rows() -> list[Row]:
    title = f"people who scroll 2×2 tiles at {RATE} slices/s through {DATASETS} datasets, of which the caches hold a tenth, "
    title += f"until {ACCEPTED} % of tiles are later than {1000 * LATEST:.0f} ms"
    return [Row("people", title, most, {"expert": 2}, "people", TOKEN)]


if __name__ == "__main__":
    port, people, seed, *shape = map(int, sys.argv[1:])
    print(json.dumps(uvloop.run(scrolling(port, people, seed, shape))))
