"""Random tile addresses of a dataset, and the different URLs of each.

Most addresses lie inside the volume; some lie beyond its edges (black), beyond its last level or its last time (404). If the
oracle would read more than MAX_VOXELS for a tile, a finer level is chosen, which keeps a run short.
"""

import random
import re
from dataclasses import dataclass, replace

import oracle

TILE = 512
MAX_VOXELS = 3_000_000
FAR = (10**12, 2**63 - 1)  # valid numbers, large enough to overflow unchecked arithmetic


@dataclass(frozen=True)
class Address:
    """One tile of one channel; `time` is None if the URL omits it."""

    token: str
    channel: str
    plane: str
    time: int | None
    slice: int
    row: int
    column: int
    level: int

    def simple(self) -> str:
        return f"/{self.token}/{self.channel}/{self._tail()}"

    def mcfc(self, channels: str) -> str:
        """`channels` as in the URL: name, name: or name:COLOUR, joined by commas."""
        return f"/mcfc/{self.token}/{channels}/{self._tail()}"

    def viking(self) -> str | None:
        """None if the address cannot be expressed: Viking's form has only the xy plane, and only the first time."""
        if self.plane != "xy" or self.time:
            return None
        return f"/viking/{self.token}/volume/{self.channel}/{self.level}/X{self.column}_Y{self.row}_Z{self.slice}.png"

    def _tail(self) -> str:
        time = "" if self.time is None else f"{self.time}/"
        return f"{self.plane}/{time}{self.slice}/{self.row}_{self.column}_{self.level}.png"


def last_level(channel: oracle.Channel) -> int:
    """The last level r that exists: 2^(r-1) is at most the longer side of level 0."""
    _, y, x = channel.size(channel.levels[0], 0)
    return max(y, x).bit_length()


def exists(dataset: oracle.Dataset, level: int) -> bool:
    """Whether tiles of the level exist, of any channel: one channel that has the level is enough."""
    return level <= max(last_level(c) for c in dataset.channels.values())


def choose(dataset: oracle.Dataset, rng: random.Random) -> Address:
    """An address of any channel. If channels differ in size, only levels that all of them have are chosen."""
    channel = rng.choice(list(dataset.channels.values()))
    plane, time = rng.choice(oracle.PLANES), choose_time(channel.n_times(channel.levels[0]), rng)
    blank = Address(dataset.token, channel.name, plane, time, 0, 0, 0, 0)
    if rng.random() < 0.03:
        beyond = 1 + max(last_level(c) for c in dataset.channels.values())
        return replace(blank, level=rng.choice([beyond, beyond + 1, 64, 10**9]))
    last = min(last_level(c) for c in dataset.channels.values())
    level = rng.randint(0, last) if rng.random() < 0.15 else min(last, int(rng.expovariate(0.7)))
    while level and cost(channel, plane, level) > MAX_VOXELS:
        level -= 1
    depth, rows, columns, shift = extents(dataset, channel, plane, level)
    slice_ = choose_slice(depth, shift, rng)
    row = choose_index(-(-rows // TILE), rng)
    column = choose_index(-(-columns // TILE), rng)
    return replace(blank, level=level, slice=slice_, row=row, column=column)


def choose_time(times: int, rng: random.Random) -> int | None:
    if rng.random() < 0.04:
        return times  # the first that does not exist
    return rng.choice([None, rng.randrange(times), rng.randrange(times)])


def choose_index(count: int, rng: random.Random) -> int:
    """Mostly inside 0..count, with a preference for the first and the last; sometimes beyond."""
    chance = rng.random()
    if chance < 0.06:
        return rng.choice([count, count + rng.randrange(9), *FAR])
    return rng.choice([0, count - 1]) if chance < 0.2 else rng.randrange(count)


def choose_slice(depth: int, shift: int, rng: random.Random) -> int:
    """A slice number: mostly inside `shift`..`shift + depth`."""
    if shift and rng.random() < 0.1:
        return rng.randrange(shift)  # before the offset, so outside
    return min(shift + choose_index(depth, rng), FAR[-1])


def extents(dataset: oracle.Dataset, channel: oracle.Channel, plane: str, level: int) -> tuple[int, int, int, int]:
    """The numbers of slices, rows and columns of the plane at a level, and the number of the first slice."""
    z, y, x = channel.level_size(level)
    zf, f, _ = channel.scale(level)
    ox, oy, oz = dataset.j.get("offset", (0, 0, 0))
    by_plane = {"xy": (z, y, x, oz // zf), "xz": (y, z, x, oy // f), "yz": (x, z, y, ox // f)}
    depth, rows, columns, shift = by_plane[plane]
    voxel_size = dataset.j.get("voxel_size")
    if plane != "xy" and voxel_size and dataset.j.get("orthogonal") != "stored":
        # Pixels are square: the rows are as high as the columns are wide.
        width = voxel_size[0 if plane == "xz" else 1] * f
        rows = max(1, int(rows * voxel_size[2] * zf / width))
    return depth, rows, columns, shift


def cost(channel: oracle.Channel, plane: str, level: int) -> int:
    """The maximum number of stored voxels that are read for one tile."""
    # One voxel of the level is made of a box of stored voxels. Axes are z, y, x.
    stored, box = channel.source(level)
    size = channel.size(stored, 0)
    one_slice = [min(extent, edge) for extent, edge in zip(size, box)]
    one_tile = [min(extent, TILE * edge) for extent, edge in zip(size, box)]
    if plane == "xy":
        return one_slice[0] * one_tile[1] * one_tile[2]
    # Where pixels are square, the rows of a tile may need all sections.
    if plane == "xz":
        return size[0] * one_slice[1] * one_tile[2]
    return size[0] * one_tile[1] * one_slice[2]


def composite(dataset: oracle.Dataset, rng: random.Random) -> str:
    """Two to six channels of the dataset for an mcfc URL, occasionally with labels or RGB, which cannot be composited."""
    names = list(dataset.channels)
    images = [c.name for c in dataset.channels.values() if not c.label and not c.j.get("rgb")]
    if images and rng.random() < 0.9:
        names = images
    return ",".join(coloured(rng.choice(names), rng) for _ in range(rng.randint(2, 6)))


def coloured(name: str, rng: random.Random) -> str:
    return name + rng.choice(["", ":", *(f":{colour}" for colour in oracle.ORDER)])


def vary(url: str, rng: random.Random) -> str:
    """The same address as some clients write it: with leading zeros, doubled slashes or a query."""
    head, _, name = url.rpartition("/")
    if rng.random() < 0.15:
        name = re.sub(r"\d+", lambda number: "0" * rng.randrange(4) + number[0], name)
    if rng.random() < 0.1:
        head = head.replace("/", "//")
    return f"{head}/{name}" + ("?nocache=1" if rng.random() < 0.1 else "")
