"""Compares voltile's answers for tiles with the oracle's tiles: status, headers, PNG format and pixels."""

import http.client
import json
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import oracle

from checks.servers import ask

from . import addresses

PREFIX = "/ndtilecache/tilecache"
np.seterr(all="ignore")  # some volumes contain NaN and infinities
COLOUR_TYPE = {2: 0, 3: 2}  # PNG colour types for grey and RGB, by the number of dimensions of the expected pixels


@dataclass(frozen=True)
class Expected:
    """The expected response for one URL: pixels within a tolerance, or a status."""

    url: str
    answer: np.ndarray | int
    tolerance: int = 0


@dataclass
class Outcome:
    """The result for one address or case: the number of URLs requested, and the faults found."""

    token: str
    asked: int = 0
    faults: list[str] = field(default_factory=list)


class Checker:
    """Compares one server with the oracle. `descriptions` is token -> description, with files relative to `folder`."""

    def __init__(self, address: str, folder: Path, descriptions: dict[str, dict], seed: int):
        self.folder, self.descriptions, self.seed = folder, descriptions, seed
        self.address = address

    @lru_cache(maxsize=None)
    def dataset(self, token: str) -> oracle.Dataset:
        """The oracle's dataset. It caches its tiles, because the URLs of one address show the same ones."""
        out = oracle.Dataset(self.descriptions[token], str(self.folder))
        out.gray = lru_cache(maxsize=None)(out.gray)
        return out

    def case(self, token: str, case: dict) -> Outcome:
        return self._judge(token, [Expected(case["url"], np.load(self.folder / case["npy"]), case.get("tol", 0))])

    def random_address(self, token: str, number: int) -> Outcome:
        """Checks the random address with this number in all URL forms; it depends only on seed, token and number."""
        rng = random.Random(f"{self.seed} {token} {number}")
        dataset = self.dataset(token)
        out = self._judge(token, forms(dataset, addresses.choose(dataset, rng), rng))
        dataset.gray.cache_clear()
        return out

    def _judge(self, token: str, all_expected: Iterable[Expected]) -> Outcome:
        out = Outcome(token)
        for expected in all_expected:
            out.asked += 1
            try:
                wrong = faults(*ask(f"http://{self.address}{PREFIX}{expected.url}"), expected)
            except Exception as error:  # no connection, invalid PNG or JSON: any exception is a fault of the response
                wrong = [f"{type(error).__name__}: {error}"]
            if wrong:
                out.faults.append("\n    ".join([PREFIX + expected.url, *wrong]))
        return out


def forms(dataset: oracle.Dataset, address: addresses.Address, rng: random.Random) -> Iterator[Expected]:
    """The address in each URL form that can express it, with the expected response."""
    channel = dataset.channels[address.channel]
    exists = addresses.exists(dataset, address.level)
    tolerance = tolerance_of(channel, address.level) if exists else 0
    simple = answer_of(dataset, address.simple()) if exists else 404
    yield Expected(addresses.vary(address.simple(), rng), simple, tolerance)
    if viking := address.viking():
        yield Expected(addresses.vary(viking, rng), simple, tolerance)
    colour = rng.choice(oracle.ORDER)
    url = address.mcfc(f"{channel.name}:{colour}")
    yield Expected(addresses.vary(url, rng), in_colour(simple, colour), tolerance)
    channels = addresses.composite(dataset, rng)
    composite = address.mcfc(channels)
    # All channels may be added to the same component, and their differences with them.
    sum_tolerance = tolerance * (channels.count(",") + 1)
    yield Expected(addresses.vary(composite, rng), answer_of(dataset, composite) if exists else 404, sum_tolerance)


def answer_of(dataset: oracle.Dataset, url: str) -> np.ndarray | int:
    """The oracle's pixels, or the status of its error."""
    try:
        return dataset.tile(url)
    except oracle.TileError as error:
        return error.status


def tolerance_of(channel: oracle.Channel, level: int) -> int:
    """Floats of a derived level may differ by one, because the order of summation is not specified."""
    return int(channel.dtype().kind == "f" and channel.source(level)[1] != (1, 1, 1))


def in_colour(simple: np.ndarray | int, colour: str) -> np.ndarray | int:
    """The grey tile in this colour; 404 for labels and RGB, which cannot be composited."""
    if isinstance(simple, int) or simple.ndim != 2:
        return 404
    return np.stack([simple * np.uint8(weight) for weight in oracle.WEIGHT[colour]], -1)


def faults(status: int, headers: http.client.HTTPMessage, body: bytes, expected: Expected) -> list[str]:
    """All faults of a response."""
    wanted = expected.answer if isinstance(expected.answer, int) else 200
    if status != wanted:
        return [f"status {status}, expected {wanted}: {body[:200]!r}"]
    out = []
    if headers["Content-Length"] != str(len(body)):
        out.append(f"Content-Length {headers['Content-Length']}, the body has {len(body)} bytes")
    for name in ("Transfer-Encoding", "Content-Encoding"):
        if headers[name]:
            out.append(f"{name}: {headers[name]}, expected none")
    judge = problem_faults if isinstance(expected.answer, int) else tile_faults
    return out + judge(headers, body, expected)


def problem_faults(headers: http.client.HTTPMessage, body: bytes, expected: Expected) -> list[str]:
    if headers.get_content_type() != "application/problem+json":
        return [f"Content-Type {headers['Content-Type']}, expected application/problem+json"]
    problem = json.loads(body)
    if problem.get("status", expected.answer) != expected.answer or not problem.get("detail"):
        return [f"a problem without its status or its detail: {body[:200]!r}"]
    return []


def tile_faults(headers: http.client.HTTPMessage, body: bytes, expected: Expected) -> list[str]:
    out = []
    if headers["Content-Type"] != "application/png":
        out.append(f"Content-Type {headers['Content-Type']}, expected application/png")
    if not re.fullmatch(r'"[^"]+"', headers["ETag"] or ""):
        out.append(f"ETag {headers['ETag']}, expected a strong one")
    bit_depth, colour_type = body[24], body[25]  # in the IHDR chunk, which comes first
    wanted = COLOUR_TYPE[expected.answer.ndim]
    if (bit_depth, colour_type) != (8, wanted):
        out.append(f"PNG of bit depth {bit_depth}, colour type {colour_type}; expected 8, {wanted}")
    return out + pixel_faults(oracle.decode_png(body), expected)


def pixel_faults(pixels: np.ndarray, expected: Expected) -> list[str]:
    if np.array_equal(pixels, expected.answer):  # the usual case, much cheaper than computing the difference
        return []
    difference = oracle.diff(pixels, expected.answer, expected.tolerance)
    return [difference] if difference else []
