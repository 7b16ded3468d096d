"""The layers that WEBKNOSSOS's Python library finds by `datasource-properties.json`, if it is there."""

import math
import warnings

import numpy as np

from checks.report import Report
from checks.servers import Voltile

from . import expected
from .volumes import Channel


def check(server: Voltile, channels: list[Channel], described: dict, report: Report) -> None:
    """Compares the levels that are not large, at the first time point."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # readers of other formats are missing
            import webknossos
    except ImportError:
        report.skip("WEBKNOSSOS", "it could not be installed")
        return
    by_name = {channel["name"]: channel for channel in described["channels"]}
    for version in ("0.4", "0.5"):
        dataset = webknossos.Dataset.open(f"{server.base}/zarr/{version}/{channels[0].token}", read_only=True)
        for channel in channels:
            described = by_name[channel.name]
            layer = dataset.layers.get(channel.name.lstrip("."))
            if layer is None:
                has_none = described["dtype"] in ("bool", "float16") or (channel.kind == "rgb" and described["dtype"] != "uint8")
                report.add(f"WEBKNOSSOS {version} {channel.token}/{channel.name}", has_none, "the layer is missing", "WEBKNOSSOS")
                continue
            sizes = {level["factor"][0]: level for level in described["levels"]}
            voxels = expected.levels(channel, described["levels"], 0)
            for mag in layer.mags.values():
                level = sizes.get(mag.mag.x)
                wanted = voxels.get(level["level"]) if level else None
                if wanted is None or math.prod(level["size"]) > wanted[0].size:
                    continue
                is_mean = level["path"] is None and channel.kind != "labels"

                def read(mag=mag, shape=wanted.shape) -> np.ndarray:
                    found = mag.read()
                    return (found[0] if described["times"] else found).reshape(shape)

                name = f"{version} {channel.token}/{channel.name} level {level['level']}"
                expected.compare(report, "WEBKNOSSOS", name, read, wanted, is_mean)
