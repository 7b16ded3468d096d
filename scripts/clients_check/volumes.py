"""The channels that are served, and their voxels as h5py reads them.

Channels are configured explicitly, so that voltile has nothing to guess.
"""

import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401  (registers the filters)
import numpy as np

from checks.runner import ROOT
from checks.servers import Process

REAL = ("em/**/*.h5", "ilastik/*.h5", "plantseg/*.h5", "fluo/*.h5")


@dataclass(frozen=True)
class Channel:
    """A configured channel."""

    token: str
    name: str
    file: Path
    path: str
    axes: str
    kind: str = "image"
    index: dict = field(default_factory=dict, hash=False)

    def level(self, path: str, box: tuple[int, int, int], time: int) -> np.ndarray:
        """The voxels (component, z, y, x) of a box at the origin of a stored level. `box` has the extents z, y, x; what lies
        beyond the end of the level is cut off."""
        extents = {"c": 3, **dict(zip("zyx", box))}
        where, kept = [], ""
        with h5py.File(self.file, "r") as file:
            for axis in self.axes:
                if axis in self.index or (axis == "c" and self.kind != "rgb"):
                    where.append(self.index.get(axis, 0))
                elif axis == "t":
                    where.append(time)
                else:
                    where.append(slice(0, extents[axis]))
                    kept += axis
            voxels = file[path][tuple(where)]
        # Missing axes are appended with extent 1. Then all are put into the order c, z, y, x.
        missing = "".join(axis for axis in "czyx" if axis not in kept)
        order = kept + missing
        voxels = voxels.reshape(voxels.shape + (1,) * len(missing))
        voxels = voxels.transpose([order.index(axis) for axis in "czyx"])
        return np.ascontiguousarray(voxels.astype(voxels.dtype.newbyteorder("=")))


def fixtures() -> tuple[list[Channel], str]:
    """The channels of the fixtures, and their configuration."""
    folder = ROOT / "fixtures"
    text = (folder / "voltile.toml").read_text()
    config = tomllib.loads(text)
    out = []
    for token, dataset in config["datasets"].items():
        for name, channel in dataset["channels"].items():
            file = folder / channel.get("file", dataset["file"])
            kind, index = channel.get("kind", "image"), channel.get("index", {})
            out.append(Channel(token, name, file, channel["path"], channel["axes"], kind, index))
    # The text is copied into another folder, so the names of files are made absolute.
    absolute = re.sub(r'(?m)^file = "(.*)"$', lambda match: f"file = {json.dumps(str(folder / match[1]))}", text)
    return out, absolute


def configuration(channels: list[Channel], more: dict[str, str]) -> str:
    """The configuration of channels. `more` (token -> lines) is added to the tables of datasets."""
    out = []
    for token in dict.fromkeys(channel.token for channel in channels):
        own = [channel for channel in channels if channel.token == token]
        out += [f'[datasets."{token}"]', f"file = {json.dumps(str(own[0].file))}", more.get(token, "")]
        for channel in own:
            out.append(f'[datasets."{token}".channels."{channel.name}"]')
            out.append(f'path = {json.dumps(channel.path)}\naxes = "{channel.axes}"\nkind = "{channel.kind}"')
            if channel.index:
                out.append("index = {" + ", ".join(f"{axis} = {at}" for axis, at in channel.index.items()) + "}")
    return "\n".join(out) + "\n"


def made(folder: Path) -> tuple[list[Channel], str]:
    """Volumes of noise and labels of every type, and their configuration."""
    rng = np.random.default_rng(7)
    channels: list[Channel] = []

    def noise(shape: tuple[int, ...], code: str) -> np.ndarray:
        dtype = np.dtype(code)
        if dtype.kind == "b":
            return rng.integers(0, 2, shape).astype(bool)
        if dtype.kind == "f":
            return rng.normal(size=shape).astype(dtype)
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype.newbyteorder("="), endpoint=True).astype(dtype)

    def ids(shape: tuple[int, int, int], code: str) -> np.ndarray:
        """Random ids; each fills a block of 3, 5, 7 voxels."""
        z, y, x = shape
        blocks = noise((-(-z // 3), -(-y // 5), -(-x // 7)), code)
        return blocks.repeat(3, 0).repeat(5, 1).repeat(7, 2)[:z, :y, :x]

    def add(token: str, data: np.ndarray, axes: str = "zyx", kind: str = "image", **storage: object) -> None:
        with h5py.File(folder / f"{token}.h5", "w") as file:
            file.create_dataset("raw", data=data, **storage)
        channels.append(Channel(f"made.{token}", "raw", folder / f"{token}.h5", "/raw", axes, kind))

    codes = "? u1 i1 <u2 <i2 <u4 <i4 <u8 <i8 <f2 <f4 <f8 >u2 >i2 >u4 >i4 >u8 >i8 >f2 >f4 >f8"
    for code in codes.split():
        name = code.replace("?", "bool").replace("<", "little_").replace(">", "big_")
        gzip = {"chunks": (32, 32, 32), "compression": "gzip"}
        add(f"{name}.gzip", noise((40, 67, 33), code), **gzip)
        add(f"{name}.plain", noise((33, 47, 64), code), chunks=(16, 16, 16))
        if np.dtype(code).kind != "f":
            add(f"{name}.labels", ids((33, 64, 50), code), kind="labels", **gzip)
    add("contiguous", noise((19, 35, 41), "u2"))
    add("shuffled", noise((70, 80, 90), "<u2"), chunks=(32, 64, 32), compression="gzip", shuffle=True)
    add("plane", noise((333, 777), "u2"), "yx", chunks=(100, 100), compression="gzip")
    add("odd", noise((7, 211, 333), "u1"), chunks=(3, 50, 77), compression="gzip")
    add("xyz", noise((60, 50, 40), "u2"), "xyz", chunks=(16, 16, 16), compression="gzip")
    add("wide", noise((9, 1100, 1300), "u2"), chunks=(4, 256, 256), compression="gzip")
    add("isotropic", noise((65, 600, 700), "u1"), chunks=(64, 64, 64), compression="gzip")
    add("rgb", noise((20, 60, 70, 3), "u1"), "zyxc", "rgb")
    with h5py.File(folder / "sparse.h5", "w") as file:
        data = file.create_dataset("raw", (128, 128, 128), "i2", chunks=(64, 64, 64), compression="gzip", fillvalue=-7)
        data[64:, :64, :64] = noise((64, 64, 64), "i2")
    channels.append(Channel("made.sparse", "raw", folder / "sparse.h5", "/raw", "zyx"))
    series = folder / "series.h5"
    with h5py.File(series, "w") as file:
        file.create_dataset("movie", data=noise((3, 2, 20, 60, 70), "u2"), chunks=(1, 1, 16, 32, 32), compression="gzip")
        file.create_dataset("cells", data=ids((20, 60, 70), "u4"), chunks=(16, 32, 32), compression="gzip")
    channels.append(Channel("made.series", "a", series, "/movie", "tczyx", index={"c": 0}))
    channels.append(Channel("made.series", "b", series, "/movie", "tczyx", index={"c": 1}))
    channels.append(Channel("made.series", "cells", series, "/cells", "zyx", "labels"))
    more = {
        "made.odd": "voxel_size = [4.5, 4.5, 40]\noffset = [7, -70, 13]",
        "made.wide": "voxel_size = [4, 4, 40]\noffset = [10, 0, 5]",
        "made.isotropic": 'scaling = "isotropic"\noffset = [-3, 5, 9]',
    }
    return channels, configuration(channels, more)


def demo(voltile: Path, folder: Path) -> tuple[list[Channel], str]:
    """The channels of the demo volume. `serve --demo` makes it unless it is there already; `folder` is for the server's log."""
    command = [voltile, "serve", "--demo", "--bind", "127.0.0.1:0"]
    with Process(command, folder / "demo.log") as server:
        server.wait_until(lambda: "voltile listening on" in server.said())
        file = Path(re.search(r"the demo volume is (.+)", server.said())[1])
    channels = [Channel("demo", name, file, f"/{name}", "zyx") for name in ("em", "nuclei", "actin")]
    channels.append(Channel("demo", "segmentation", file, "/segmentation", "zyx", "labels"))
    channels.append(Channel("demo", "time", file, "/time", "tzyx"))
    return channels, configuration(channels, {})


def real(shared: Path) -> tuple[list[Channel], str]:
    """Up to four volumes of each real file in the shared folder, and their configuration."""
    channels = []
    for pattern in REAL:
        for path in sorted((shared / "data").resolve().glob(pattern)):
            with h5py.File(path, "r") as file:
                names: list[str] = []
                file.visit(names.append)
                volumes = [name for name in names if is_volume(file[name])]
            for number, name in enumerate(volumes[:4]):
                token = re.sub(r"[^\w.-]", "_", f"real.{path.stem}.{number}")
                kind = "labels" if any(word in name.lower() for word in ("label", "segmentation", "ids")) else "image"
                channels.append(Channel(token, "raw", path, f"/{name}", "zyx", kind))
    return channels, configuration(channels, {})


def is_volume(item: h5py.HLObject) -> bool:
    return isinstance(item, h5py.Dataset) and item.ndim == 3 and item.dtype.kind in "iuf" and item.size > 0
