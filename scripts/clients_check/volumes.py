"""The served channels and their voxels as h5py reads them, configured explicitly, so that voltile has nothing to guess."""

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
        """Reads the box (z, y, x) at the origin of a stored level, as far as the level reaches; as component, z, y, x."""
        with h5py.File(self.file, "r") as file:
            data, where, kept = file[path], [], ""
            for axis, extent in zip(self.axes, data.shape, strict=True):
                if axis in self.index or (axis == "c" and self.kind != "rgb"):
                    where.append(self.index.get(axis, 0))
                elif axis == "t":
                    where.append(time)
                else:
                    where.append(slice(0, {"c": 3, **dict(zip("zyx", box))}[axis]))
                    kept += axis
            voxels = data[tuple(where)]
        missing = [axis for axis in "czyx" if axis not in kept]
        voxels = voxels.reshape(voxels.shape + (1,) * len(missing))
        voxels = voxels.transpose([(kept + "".join(missing)).index(axis) for axis in "czyx"])
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
    return out, re.sub(r'(?m)^file = "(.*)"$', lambda match: f"file = {json.dumps(str(folder / match[1]))}", text)


def configuration(channels: list[Channel], more: dict[str, str]) -> str:
    """The configuration of channels; `more` has further lines for the table of a dataset, by token."""
    out = []
    for token in dict.fromkeys(channel.token for channel in channels):
        own = [channel for channel in channels if channel.token == token]
        out += [f'[datasets."{token}"]', f"file = {json.dumps(str(own[0].file))}", more.get(token, "")]
        for channel in own:
            out += [
                f'[datasets."{token}".channels."{channel.name}"]',
                f"path = {json.dumps(channel.path)}",
                f'axes = "{channel.axes}"',
                f'kind = "{channel.kind}"',
            ]
            if channel.index:
                out.append("index = {" + ", ".join(f"{axis} = {at}" for axis, at in channel.index.items()) + "}")
    return "\n".join(out) + "\n"


def made(folder: Path) -> tuple[list[Channel], str]:
    """Volumes of noise and labels of every type, and their configuration."""
    rng = np.random.default_rng(7)
    channels: list[Channel] = []

    def noise(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        kind = np.dtype(dtype)
        if kind.kind == "b":
            return rng.integers(0, 2, shape).astype(bool)
        if kind.kind == "f":
            return rng.normal(size=shape).astype(kind)
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max, shape, dtype=kind.newbyteorder("="), endpoint=True).astype(kind)

    def ids(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        z, y, x = (-(-extent // edge) for extent, edge in zip(shape, (3, 5, 7)))
        blocks = noise((z, y, x), dtype).repeat(3, 0).repeat(5, 1).repeat(7, 2)
        return blocks[: shape[0], : shape[1], : shape[2]]

    def add(token: str, data: np.ndarray, axes: str = "zyx", kind: str = "image", **storage: object) -> None:
        with h5py.File(folder / f"{token}.h5", "w") as file:
            file.create_dataset("raw", data=data, **storage)
        channels.append(Channel(token, "raw", folder / f"{token}.h5", "/raw", axes, kind))

    types = ["?", "u1", "i1", *(order + kind for order in "<>" for kind in ("u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"))]
    for dtype in types:
        name = dtype.replace("?", "bool").replace("<", "little_").replace(">", "big_")
        gzip = {"chunks": (32, 32, 32), "compression": "gzip"}
        add(f"{name}.gzip", noise((40, 67, 33), dtype), **gzip)
        add(f"{name}.plain", noise((33, 47, 64), dtype), chunks=(16, 16, 16))
        if np.dtype(dtype).kind != "f":
            add(f"{name}.labels", ids((33, 64, 50), dtype), kind="labels", **gzip)
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
    channels.append(Channel("sparse", "raw", folder / "sparse.h5", "/raw", "zyx"))
    with h5py.File(folder / "series.h5", "w") as file:
        file.create_dataset("movie", data=noise((3, 2, 20, 60, 70), "u2"), chunks=(1, 1, 16, 32, 32), compression="gzip")
        file.create_dataset("cells", data=ids((20, 60, 70), "u4"), chunks=(16, 32, 32), compression="gzip")
    series = folder / "series.h5"
    channels += [Channel("series", name, series, "/movie", "tczyx", index={"c": at}) for at, name in enumerate("ab")]
    channels.append(Channel("series", "cells", series, "/cells", "zyx", "labels"))
    channels = [Channel(f"made.{c.token}", c.name, c.file, c.path, c.axes, c.kind, c.index) for c in channels]
    more = {
        "made.odd": "voxel_size = [4.5, 4.5, 40]\noffset = [7, -70, 13]",
        "made.wide": "voxel_size = [4, 4, 40]\noffset = [10, 0, 5]",
        "made.isotropic": 'scaling = "isotropic"\noffset = [-3, 5, 9]',
    }
    return channels, configuration(channels, more)


def demo(voltile: Path, folder: Path) -> tuple[list[Channel], str]:
    """The channels of the demo volume, which `serve --demo` makes below `folder`."""
    command = [voltile, "serve", "--demo", "--bind", "127.0.0.1:0"]
    with Process(command, folder / "demo.log", {"XDG_CACHE_HOME": str(folder)}) as server:
        server.wait_until(lambda: "voltile listening on" in server.said())
    (file,) = folder.glob("voltile/demo-*.h5")
    channels = [Channel("demo", name, file, f"/{name}", "zyx") for name in ("em", "nuclei", "actin")]
    channels.append(Channel("demo", "segmentation", file, "/segmentation", "zyx", "labels"))
    channels.append(Channel("demo", "time", file, "/time", "tzyx"))
    return channels, configuration(channels, {})


def real(shared: Path) -> tuple[list[Channel], str]:
    """Up to four volumes of each real file of other projects."""
    channels = []
    for pattern in REAL:
        for path in sorted((shared / "data").resolve().glob(pattern)):
            with h5py.File(path, "r") as file:
                found: list[str] = []
                file.visititems(lambda name, item, found=found: found.append(name) if is_volume(item) else None)
            for number, name in enumerate(found[:4]):
                token = "".join(c if c.isalnum() or c in "_-." else "_" for c in f"real.{path.stem}.{number}")
                kind = "labels" if any(word in name.lower() for word in ("label", "segmentation", "ids")) else "image"
                channels.append(Channel(token, "raw", path, f"/{name}", "zyx", kind))
    return channels, configuration(channels, {})


def is_volume(item: h5py.HLObject) -> bool:
    return isinstance(item, h5py.Dataset) and item.ndim == 3 and item.dtype.kind in "iuf" and item.size > 0
