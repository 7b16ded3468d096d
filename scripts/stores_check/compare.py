"""Compares the answers of two servers of the same datasets, at random positions of every channel."""

import io
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from checks.report import Report
from checks.servers import CLEAN, Refused, Voltile, datasets, run

from .files import File

# Occurs in messages about data that voltile does not read from stores.
LOCAL_ONLY = "from local disks only"
# Occurs in messages about a virtual dataset whose sources are missing. Only the local server looks for sources.
SOURCES_MISSING = "sources are missing"
BATCH = 40  # files that are served together
TILE = 512  # pixels along each side


def token_of(number: int, file: File) -> str:
    name = file.key.rpartition("/")[2]
    return f"f{number}." + re.sub(r"\W", "_", name, flags=re.ASCII)


@dataclass(frozen=True)
class Comparison:
    """Compares voltile's answers for files on disk and in stores.

    `per_format` is the number of random positions that are requested of each channel in each format."""

    voltile: Path
    place: Path
    report: Report
    rng: random.Random
    per_format: int

    def serve(self, files: dict[str, object], environment: dict[str, str]) -> Voltile:
        return Voltile(self.voltile, self.place, datasets(files), self.report, environment=environment)

    def faults(self, files: dict[str, object], environment: dict[str, str]) -> dict[str, str]:
        """Token -> the reason why voltile does not open the dataset."""
        config = self.place / "check.toml"
        config.write_text(datasets(files))
        done = run(self.voltile, "check", "--config", config, env={**CLEAN, **environment}, timeout=1800)
        if "panicked" in done.stdout or done.returncode not in (0, 1):
            raise Refused(f"voltile check ended with status {done.returncode}\n{done.stdout[-2000:]}")
        # The program prints:
        # 1 thing is wrong:
        #   datasets."f3.layouts_h5".channels.raw: REASON
        faults = done.stdout.partition(" wrong:\n")[2]
        return dict(re.findall(r"^ *datasets\.\"?([\w.-]+?)\"?\.(?:file|channels\S*): (.*)$", faults, re.MULTILINE))

    def in_batches(self, files: list[File], address: Callable[[File], str], environment: dict[str, str]) -> None:
        """Compares what voltile serves of each file from disk with what it serves of `address(file)` in the store."""
        by_token = {token_of(number, file): file for number, file in enumerate(files) if file.is_hdf5}
        tokens = list(by_token)
        for first in range(0, len(tokens), BATCH):
            batch = {token: by_token[token] for token in tokens[first : first + BATCH]}
            local = {token: file.path for token, file in batch.items()}
            remote = {token: address(file) for token, file in batch.items()}
            local_faults, remote_faults = self.faults(local, {}), self.faults(remote, environment)
            opened = []
            for token, file in batch.items():
                local_fault, remote_fault = local_faults.get(token, ""), remote_faults.get(token, "")
                may_differ = LOCAL_ONLY in remote_fault or SOURCES_MISSING in local_fault
                is_right = bool(local_fault) == bool(remote_fault) or may_differ
                why = f"local: {local_fault or 'opened'}; remote: {remote_fault or 'opened'}"
                self.report.add(f"{file.key} is opened or refused alike", is_right, why)
                if not local_fault and not remote_fault:
                    opened.append(token)
            if not opened:
                continue
            try:
                with (
                    self.serve({token: local[token] for token in opened}, {}) as from_disk,
                    self.serve({token: remote[token] for token in opened}, environment) as from_store,
                ):
                    for token in opened:
                        self.dataset(from_disk, from_store, token, batch[token].key)
            except Refused as refused:
                self.report.add(f"batch {first // BATCH}", False, str(refused))

    def dataset(self, from_disk: Voltile, from_store: Voltile, token: str, key: str) -> None:
        """Compares the descriptions of the channels of a dataset, and answers at random positions."""
        try:
            local_channels = from_disk.json(f"/datasets/{token}.json")["channels"]
            remote_channels = {channel["name"]: channel for channel in from_store.json(f"/datasets/{token}.json")["channels"]}
            for channel in local_channels:
                name = channel["name"]
                if name not in remote_channels:
                    self.report.add(f"{key} {name} is left out, and why is logged", LOCAL_ONLY in from_store.said())
                    continue
                expected, found = description(channel), description(remote_channels[name])
                # The colour of a channel in composites depends on the other channels.
                if len(remote_channels) != len(local_channels):
                    found["composite_colour"] = expected.get("composite_colour")
                wrong = [part for part in expected if expected[part] != found.get(part)]
                self.report.add(f"{key} {name} is described alike", not wrong, f"{wrong} differ")
                for path in self.positions(from_disk, token, channel):
                    self.answer(from_disk, from_store, path, f"{key} {path}")
        except (Refused, KeyError, OSError) as error:
            self.report.add(f"{key} was not compared", False, f"{type(error).__name__}: {error}")

    def answer(self, from_disk: Voltile, from_store: Voltile, path: str, what: str) -> None:
        """Compares the answers for a path: their statuses and, after status 200, their contents."""
        expected_status, expected = from_disk.get(path)
        status, body = from_store.get(path)
        if status != expected_status:
            self.report.add(what, False, f"{status} instead of {expected_status}: {body[:200]!r}")
        else:
            is_right = status != 200 or body == expected or (path.endswith(".png") and has_same_pixels(body, expected))
            self.report.add(what, is_right, "other contents")

    def positions(self, server: Voltile, token: str, channel: dict) -> list[str]:
        """The paths of random tiles in three planes, boxes of voxels, and chunks in precomputed and in Zarr."""
        rng, name, out = self.rng, channel["name"], []
        levels = channel["levels"]
        for _ in range(self.per_format):
            number = rng.randrange(len(levels))
            size = levels[number]["size"]
            for plane, (across, down, along) in {"xy": (0, 1, 2), "xz": (0, 2, 1), "yz": (1, 2, 0)}.items():
                row, column = (rng.randrange(-(-size[axis] // TILE)) for axis in (down, across))
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
            return []  # the format lacks the channel's voxel type
        out = []
        for _ in range(self.per_format):
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
        for _ in range(self.per_format):
            level = self.rng.choice(images[0]["datasets"])["path"]
            array = server.json(f"{root}/{level}/.zarray")
            at = [str(self.rng.randrange(-(-extent // chunk))) for extent, chunk in zip(array["shape"], array["chunks"])]
            out.append(f"{root}/{level}/{array['dimension_separator'].join(at)}")
        return out


def description(channel: dict) -> dict:
    """The description of a channel without how its levels are stored: that differs between stores and disks."""
    levels = [{part: level[part] for part in ("level", "size", "factor", "path")} for level in channel["levels"]]
    return {**channel, "levels": levels}


def has_same_pixels(png: bytes, expected: bytes) -> bool:
    return np.array_equal(np.asarray(Image.open(io.BytesIO(png))), np.asarray(Image.open(io.BytesIO(expected))))
