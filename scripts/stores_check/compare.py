"""Compares the answers of two servers of the same datasets, at random positions of every channel."""

import io
import random
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from checks.report import Report
from checks.servers import CLEAN, Refused, Voltile, datasets, run

from .files import File

# Part of the error for data that voltile does not read from stores.
LOCAL_ONLY = "from local disks only"
# Part of a fault that is found only in files on disk, because voltile does not read virtual datasets in stores.
SOURCES_MISSING = "sources are missing"
BATCH = 40  # files that are served together


def token_of(number: int, file: File) -> str:
    return f"f{number}." + "".join(c if c.isalnum() and c.isascii() else "_" for c in file.key.rsplit("/", 1)[-1])


@dataclass(frozen=True)
class Comparison:
    """The program, the folder for its files, and `each` positions of each kind."""

    voltile: Path
    place: Path
    report: Report
    rng: random.Random
    each: int

    def serve(self, files: dict[str, object], environment: dict[str, str]) -> Voltile:
        return Voltile(self.voltile, self.place, datasets(files), self.report, environment=environment)

    def faults(self, files: dict[str, object], environment: dict[str, str]) -> dict[str, str]:
        """The datasets that voltile does not open, with the reason."""
        config = self.place / "check.toml"
        config.write_text(datasets(files))
        done = run(self.voltile, "check", "--config", config, env={**CLEAN, **environment}, timeout=1800)
        if "panicked" in done.stdout or done.returncode not in (0, 1):
            raise Refused(f"voltile check ended with status {done.returncode}\n{done.stdout[-2000:]}")
        problems = done.stdout.partition(" wrong:\n")[2]
        return dict(re.findall(r"^ *datasets\.\"?([\w.-]+?)\"?\.(?:file|channels\S*): (.*)$", problems, re.MULTILINE))

    def in_batches(self, files: list[File], address, environment: dict[str, str]) -> None:
        """Compares files, read from the store (`address(file)` is the address there) and from the disk."""
        by_token = {token_of(number, file): file for number, file in enumerate(files) if file.is_hdf5}
        tokens = list(by_token)
        for first in range(0, len(tokens), BATCH):
            batch = {token: by_token[token] for token in tokens[first : first + BATCH]}
            local = {token: file.path for token, file in batch.items()}
            remote = {token: address(file) for token, file in batch.items()}
            refused_local, refused_remote = self.faults(local, {}), self.faults(remote, environment)
            for token in batch:
                one, other = refused_local.get(token), refused_remote.get(token)
                is_explained = LOCAL_ONLY in (other or "") or SOURCES_MISSING in (one or "")
                is_alike = (one is None) == (other is None) or is_explained
                self.report.add(f"{batch[token].key} is opened alike", is_alike, f"local: {one}; remote: {other}")
            both = [token for token in batch if token not in refused_local and token not in refused_remote]
            if not both:
                continue
            try:
                with (
                    self.serve({token: local[token] for token in both}, {}) as from_disk,
                    self.serve({token: remote[token] for token in both}, environment) as from_store,
                ):
                    for token in both:
                        self.dataset(from_disk, from_store, token, batch[token].key)
            except Refused as refused:
                self.report.add(f"batch {first // BATCH}", False, str(refused))

    def dataset(self, from_disk: Voltile, from_store: Voltile, token: str, key: str) -> None:
        """Compares the descriptions of the channels of a dataset, and answers at random positions."""
        try:
            expected, found = (server.json(f"/datasets/{token}.json") for server in (from_disk, from_store))
            channels = {channel["name"]: channel for channel in found["channels"]}
            # A channel's composite colour depends on the other channels: it is compared only if both have the same.
            is_whole = len(channels) == len(expected["channels"])
            for channel in expected["channels"]:
                name = channel["name"]
                if name not in channels:
                    self.report.add(f"{key} {name} is served", LOCAL_ONLY in from_store.said(), "it is missing")
                    continue
                one, other = described(channel), described(channels[name])
                wrong = [part for part in one if one[part] != other.get(part) and (is_whole or part != "composite_colour")]
                self.report.add(f"{key} {name} is described alike", not wrong, f"{wrong} differ")
                for path in self.positions(from_disk, token, channel):
                    self.one_path(from_disk, from_store, path, f"{key} {path}")
        except (Refused, KeyError, OSError) as error:
            self.report.add(f"{key} was not compared", False, f"{type(error).__name__}: {error}")

    def one_path(self, from_disk: Voltile, from_store: Voltile, path: str, what: str) -> None:
        (status, expected), (found_status, found) = from_disk.get(path), from_store.get(path)
        if status != found_status:
            self.report.add(what, False, f"{found_status} instead of {status}: {found[:200]!r}")
        else:
            is_right = status != 200 or found == expected or is_equal(path, expected, found)
            self.report.add(what, is_right, "other contents")

    def positions(self, server: Voltile, token: str, channel: dict) -> list[str]:
        """The paths of random tiles in three planes, boxes of voxels, and chunks in precomputed and in Zarr."""
        rng, name, out = self.rng, channel["name"], []
        levels = channel["levels"]
        for _ in range(self.each):
            number = rng.randrange(len(levels))
            size = levels[number]["size"]
            for plane, (across, down, along) in {"xy": (0, 1, 2), "xz": (0, 2, 1), "yz": (1, 2, 0)}.items():
                row, column = (rng.randrange(-(-size[axis] // 512)) for axis in (down, across))
                slice_ = rng.randrange(size[along])
                out.append(f"/ndtilecache/tilecache/{token}/{name}/{plane}/{slice_}/{row}_{column}_{number}.png")
            first = [rng.randrange(extent) for extent in size]
            end = [min(extent, at + rng.randrange(1, 60)) for at, extent in zip(first, size)]
            box = "_".join(f"{at}-{to}" for at, to in zip(first, end))
            out.append(f"/voxels/{token}/{name}/{number}/{box}.npy")
        return out + self.precomputed(server, token, name) + self.zarr(server, token, name)

    def precomputed(self, server: Voltile, token: str, name: str) -> list[str]:
        try:
            info = server.json(f"/neuroglancer/{token}/{name}/info")
        except Refused:
            return []  # the format has no such type
        out = []
        for _ in range(self.each):
            scale = self.rng.choice(info["scales"])
            parts = []
            for extent, chunk, offset in zip(scale["size"], scale["chunk_sizes"][0], scale["voxel_offset"]):
                at = self.rng.randrange(-(-extent // chunk)) * chunk
                parts.append(f"{at + offset}-{min(at + chunk, extent) + offset}")
            out.append(f"/neuroglancer/{token}/{name}/{scale['key']}/{'_'.join(parts)}")
        return out

    def zarr(self, server: Voltile, token: str, name: str) -> list[str]:
        root = f"/zarr/0.4/{token}/{name}.ome.zarr"
        try:
            images = server.json(f"{root}/.zattrs")["multiscales"]
        except Refused:
            return []
        out = []
        for _ in range(self.each):
            level = self.rng.choice(images[0]["datasets"])["path"]
            array = server.json(f"{root}/{level}/.zarray")
            at = [str(self.rng.randrange(-(-extent // chunk))) for extent, chunk in zip(array["shape"], array["chunks"])]
            out.append(f"{root}/{level}/{array['dimension_separator'].join(at)}")
        return out


def described(channel: dict) -> dict:
    """The description of a channel without the storage of its levels, which differs between stores and disks."""
    levels = [{part: level[part] for part in ("level", "size", "factor", "path")} for level in channel["levels"]]
    return {**channel, "levels": levels}


def is_equal(path: str, expected: bytes, found: bytes) -> bool:
    """Whether two pictures have the same pixels; false for other contents."""
    if not path.endswith(".png"):
        return False
    one, other = (np.asarray(Image.open(io.BytesIO(body))) for body in (expected, found))
    return one.shape == other.shape and np.array_equal(one, other)
