"""Neuroglancer's precomputed format, read by TensorStore and CloudVolume."""

import json

import numpy as np
import tensorstore
from cloudvolume import CloudVolume

from checks.report import Report
from checks.servers import Voltile

from . import expected
from .volumes import Channel


def offered(voxels: np.ndarray, is_label: bool) -> np.ndarray | None:
    """The voxels converted to the type in which voltile offers them in this format; `None` if the format has no such type."""
    kind = voxels.dtype
    if is_label and kind.kind == "i":
        return voxels.astype(np.int64).view(np.uint64)
    if kind == np.float64 or kind == np.int64:
        return None
    return voxels.astype({"bool": "u1", "float16": "f4"}.get(kind.name, kind))


def check(server: Voltile, channel: Channel, described: dict, report: Report) -> None:
    """Compares all levels of a channel at its first and its last time point."""
    times = sorted({0, (described["times"] or 1) - 1})
    for time in times:
        volume = f"{channel.token}/{channel.name}" + (f"@{time}" if time else "")
        is_label = channel.kind == "labels"
        levels = expected.levels(channel, described["levels"], time)
        status, body = server.get(f"/neuroglancer/{volume}/info")
        info = json.loads(body)
        if status != 200:
            is_right = offered(levels[0], is_label) is None and status == 404 and "neuroglancer" in described["left_out"]
            report.add(f"precomputed {volume} is left out: {info['detail']}", is_right, part="precomputed")
            continue
        report.add(f"precomputed {volume} is served", offered(levels[0], is_label) is not None, part="precomputed")
        for number, scale in enumerate(info["scales"]):
            voxels = levels.get(int(scale["key"]))
            if voxels is None:
                continue
            is_mean = described["levels"][int(scale["key"])]["path"] is None and not is_label
            wanted = offered(voxels, is_label).transpose(3, 2, 1, 0)
            first = scale["voxel_offset"]
            where = tuple(slice(at, at + n) for at, n in zip(first, wanted.shape))
            name = f"{volume} level {scale['key']}"

            def by_tensorstore(number=number, where=where, volume=volume) -> np.ndarray:
                spec = {"driver": "neuroglancer_precomputed", "kvstore": f"{server.base}/neuroglancer/{volume}/", "scale_index": number}
                return tensorstore.open(spec).result()[where].read().result()

            def by_cloudvolume(number=number, where=where, volume=volume) -> np.ndarray:
                source = f"precomputed://{server.base}/neuroglancer/{volume}"
                reader = CloudVolume(source, mip=number, progress=False, fill_missing=False, use_https=True)
                return np.asarray(reader[where])

            expected.compare(report, "TensorStore", f"precomputed {name}", by_tensorstore, wanted, is_mean)
            expected.compare(report, "CloudVolume", name, by_cloudvolume, wanted, is_mean)
