"""Neuroglancer's precomputed format, read by TensorStore and CloudVolume."""

import json
from functools import partial

import numpy as np
from cloudvolume import CloudVolume

from checks.report import Report
from checks.servers import Voltile

from . import expected
from .volumes import Channel


def offered(voxels: np.ndarray, is_label: bool) -> np.ndarray | None:
    """The voxels in the type in which voltile serves them in this format; `None` if the format has no type for them."""
    dtype = voxels.dtype
    if is_label and dtype.kind == "i":
        return voxels.astype(np.int64).view(np.uint64)
    if dtype == np.float64 or dtype == np.int64:
        return None
    wider = {"bool": np.uint8, "float16": np.float32}
    return voxels.astype(wider.get(dtype.name, dtype))


def by_cloudvolume(url: str, scale: int, box: tuple[slice, ...]) -> np.ndarray:
    """The voxels that CloudVolume reads of a volume."""
    return CloudVolume(f"precomputed://{url}", mip=scale, progress=False, fill_missing=False, use_https=True)[box]


def check(server: Voltile, channel: Channel, described: dict, report: Report) -> None:
    """Compares all levels of a channel at its first and its last time point."""
    times = sorted({0, (described["times"] or 1) - 1})
    for time in times:
        volume = f"{channel.token}/{channel.name}" + (f"@{time}" if time else "")
        is_label = channel.kind == "labels"
        levels = expected.levels(channel, described["levels"], time)
        has_type = offered(levels[0], is_label) is not None
        status, body = server.get(f"/neuroglancer/{volume}/info")
        info = json.loads(body)
        if status != 200:
            is_right = not has_type and status == 404 and "neuroglancer" in described["left_out"]
            report.add(f"precomputed {volume} is left out: {info['detail']}", is_right, part="precomputed")
            continue
        report.add(f"precomputed {volume} is served", has_type, part="precomputed")
        for number, scale in enumerate(info["scales"]):
            voxels = levels.get(int(scale["key"]))
            if voxels is None:
                continue
            is_mean = described["levels"][int(scale["key"])]["path"] is None and not is_label
            wanted = offered(voxels, is_label).transpose(3, 2, 1, 0)
            box = tuple(slice(begin, begin + extent) for begin, extent in zip(scale["voxel_offset"], wanted.shape))
            name = f"{volume} level {scale['key']}"
            url = f"{server.base}/neuroglancer/{volume}"
            spec = {"driver": "neuroglancer_precomputed", "kvstore": f"{url}/", "scale_index": number}
            read = partial(expected.by_tensorstore, spec, box)
            expected.compare(report, "TensorStore", f"precomputed {name}", read, wanted, is_mean)
            expected.compare(report, "CloudVolume", name, partial(by_cloudvolume, url, number, box), wanted, is_mean)
