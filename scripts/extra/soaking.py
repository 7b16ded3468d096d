"""Many clients that request random tiles for a long time; each answer is decoded and compared with the volume's voxels."""

import collections
import http.client
import io
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy
from PIL import Image

EDGE, PLANES = 700, 24  # of a volume: the rows and columns of a slice, the number of slices
HANGS_UP = 0.01  # the share of requests after which the client closes the connection


class Volume:
    """A file of noise that is replaced now and then. A request may see the voxels from before or after the last replacement, the
    two `generations`. `prefix` begins the addresses of its tiles."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.random, self.prefix = path, numpy.random.default_rng(seed), ""
        self.lock = threading.Lock()
        self.generations: list[numpy.ndarray] = []
        self.replace()

    def replace(self) -> None:
        # Blocks of 10 x 10 voxels, each with a mean of its own, and noise: with noise alone, all PNGs would be about as large.
        coarse = self.random.integers(0, 180, (PLANES, EDGE // 10, EDGE // 10), dtype="u1").repeat(10, 1).repeat(10, 2)
        voxels = coarse + self.random.integers(0, 70, coarse.shape, dtype="u1")
        new = self.path.with_suffix(".new")
        with h5py.File(new, "w") as file:
            file.create_dataset("raw", data=voxels, chunks=(8, 128, 128), compression="gzip", compression_opts=1)
        with self.lock:
            self.generations = [*self.generations[-1:], voxels]
            # Noted before the file is renamed, because a client may see the new file at once.
            self.replaced = time.monotonic()
            new.rename(self.path)

    def visible(self) -> list[numpy.ndarray]:
        """The voxels of the generations that a request may see now."""
        with self.lock:
            return list(self.generations)


def tile(voxels: numpy.ndarray, plane: str, at: int, row: int, column: int) -> numpy.ndarray:
    """The pixels that a tile of the slice `at` must show."""
    section = voxels.take(at, axis=("xy", "xz", "yz").index(plane))
    part = section[row * 512 : (row + 1) * 512, column * 512 : (column + 1) * 512]
    pixels = numpy.zeros((512, 512), "u1")
    pixels[: part.shape[0], : part.shape[1]] = part
    return pixels


def decoded(body: bytes) -> numpy.ndarray | None:
    """The pixels of a PNG; `None` if it is damaged."""
    try:
        return numpy.asarray(Image.open(io.BytesIO(body)))
    except (OSError, ValueError, SyntaxError):  # what Pillow raises for damaged files
        return None


class Soak:
    """Clients that request tiles at a port. `excuses(status, body, volume, began, ended)` says whether a request was expected to
    fail as it did; if an exception was raised, `status` is its name."""

    def __init__(self, volumes: list[Volume], port: int, excuses: Callable[..., bool]) -> None:
        self.volumes, self.port, self.excuses = volumes, port, excuses
        self.statuses: collections.Counter[str] = collections.Counter()
        self.distinct: set[str] = set()
        self.faults: list[tuple] = []
        # When each request began, and how long it took.
        self.times: list[tuple[float, float]] = []
        self.lock, self.over = threading.Lock(), threading.Event()

    def run(self, minutes: float, clients: int, disturb: Callable[[], None], look: Callable[[], str]) -> None:
        """Runs clients and `disturb` for some minutes; every ten seconds prints the counts and the text that `look` returns."""
        threads = [threading.Thread(target=self.client, args=(number,), daemon=True) for number in range(clients)]
        threads.append(threading.Thread(target=disturb, daemon=True))
        for thread in threads:
            thread.start()
        began = time.monotonic()
        while time.monotonic() - began < 60 * minutes:
            time.sleep(min(10, 60 * minutes))
            counts = ", ".join(f"{key}: {count}" for key, count in sorted(self.statuses.items()))
            print(f"{time.monotonic() - began:6.0f} s  {counts}  {look()}", flush=True)
        self.over.set()
        for thread in threads:
            thread.join(130)

    def client(self, seed: int) -> None:
        """Requests random tiles over one connection, and checks the answers."""
        chance, connection = random.Random(seed), None
        while not self.over.is_set():
            volume, plane = chance.choice(self.volumes), chance.choice(["xy", "xy", "xz", "yz"])
            at = chance.randrange(PLANES if plane == "xy" else EDGE)
            row, column = chance.randrange(2 if plane == "xy" else 1), chance.randrange(2)
            path = f"{volume.prefix}/ndtilecache/tilecache/{volume.path.stem}/raw/{plane}/{at}/{row}_{column}_0.png"
            before, began = volume.visible(), time.monotonic()
            try:
                connection = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
                connection.request("GET", path)
                if chance.random() < HANGS_UP:
                    connection.close()
                    continue
                answer = connection.getresponse()
                status, body = str(answer.status), answer.read()
            except (OSError, http.client.HTTPException) as error:
                status, body, connection = type(error).__name__, b"", None
            took = time.monotonic() - began
            if status == "200":
                # The file may have been replaced since the request began.
                pixels, generations = decoded(body), [*before, *volume.visible()]
                is_right = any(numpy.array_equal(pixels, tile(voxels, plane, at, row, column)) for voxels in generations)
            else:
                is_right = self.excuses(status, body, volume, began, time.monotonic())
            with self.lock:
                self.statuses[status] += 1
                self.distinct.add(path)
                self.times.append((began, took))
                if not is_right:
                    self.faults.append((status, path, b"" if status == "200" else body[:200]))

    def judge(self, report) -> None:
        """Prints the counts, and reports whether all answers were right."""
        print(f"{self.statuses['200']} tiles checked, {len(self.distinct)} distinct; answers: {dict(self.statuses)}")
        report.add("tiles were checked", self.statuses["200"] > 0)
        text = "every tile is right, and no request fails without a reason"
        report.add(text, not self.faults, f"{len(self.faults)} faults: {self.faults[:10]}")
