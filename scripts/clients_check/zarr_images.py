"""OME-Zarr images, read by TensorStore and zarr-python, and by ome-zarr-py, ome-zarr-models and napari-ome-zarr if there."""

import warnings
from functools import partial

import numpy as np
import tensorstore
import zarr

from checks.report import Report
from checks.servers import Refused, Voltile

from . import expected, viv
from .volumes import Channel

VERSIONS = {"0.4": ("zarr", 2), "0.5": ("zarr3", 3)}
warnings.filterwarnings("ignore", module="zarr")


def document(server: Voltile, version: str, path: str) -> dict:
    """OME-Zarr's metadata of a group."""
    file = ".zattrs" if version == "0.4" else "zarr.json"
    value = server.json(f"/zarr/{version}/{path}/{file}")
    return value if version == "0.4" else value["attributes"]["ome"]


def check(server: Voltile, channels: list[Channel], described: dict, report: Report) -> None:
    """Compares each channel of a dataset, the image that several channels form, and the labels of that image."""
    token = channels[0].token
    by_name = {channel.name: channel for channel in channels}
    descriptions = {channel["name"]: channel for channel in described["channels"]}
    for version in VERSIONS:
        for channel in channels:
            image(server, version, f"{token}/{channel.name}.ome.zarr", [channel], descriptions, report)
        whole = f"{token}.ome.zarr"
        metadata = document(server, version, whole)
        members = [entry["label"] for entry in metadata.get("omero", {}).get("channels", [])]
        if all(name in by_name for name in members) and members:
            image(server, version, whole, [by_name[name] for name in members], descriptions, report)
        for name in labels_of(server, version, whole):
            image(server, version, f"{whole}/labels/{name}", [by_name[name]], descriptions, report, is_nested=True)


def labels_of(server: Voltile, version: str, path: str) -> list[str]:
    try:
        return document(server, version, f"{path}/labels")["labels"]
    except Refused:
        return []


def image(
    server: Voltile, version: str, path: str, channels: list[Channel], descriptions: dict, report: Report, is_nested: bool = False
) -> None:
    """Compares all levels at the first and the last time point; and the metadata, unless the image `is_nested` in another."""
    driver, zarr_format = VERSIONS[version]
    (multiscale,) = document(server, version, path)["multiscales"]
    axes = "".join(axis["name"] for axis in multiscale["axes"])
    described = descriptions[channels[0].name]
    is_label = channels[0].kind == "labels"
    times = sorted({0, (described["times"] or 1) - 1})
    stored = [(channel, descriptions[channel.name]["levels"]) for channel in channels]
    each = {time: [expected.levels(channel, levels, time) for channel, levels in stored] for time in times}
    by_level = {level["level"]: level for level in described["levels"]}
    for position, dataset in enumerate(multiscale["datasets"]):
        number = int(dataset["path"])
        url = f"{server.base}/zarr/{version}/{path}/{number}"
        for time in times:
            voxels = [levels.get(number) for levels in each[time]]
            if any(own is None for own in voxels):
                continue
            wanted = np.concatenate(voxels)[None]
            sizes = dict(zip("tczyx", wanted.shape))
            wanted = wanted.reshape([sizes[axis] for axis in axes])
            where = tuple(slice(time, time + 1) if axis == "t" and described["times"] else slice(0, sizes[axis]) for axis in axes)
            is_mean = by_level[number]["path"] is None and not is_label

            def by_tensorstore(url=url, where=where) -> np.ndarray:
                store = {"driver": driver, "kvstore": {"driver": "http", "base_url": f"{url}/"}}
                return tensorstore.open(store, open=True, read=True).result()[where].read().result()

            def by_zarr(url=url, where=where) -> np.ndarray:
                return zarr.open_array(url, mode="r", zarr_format=zarr_format)[where]

            name = f"{path} {version} level {number}" + (f" time {time}" if time else "")
            expected.compare(report, "TensorStore", f"{driver} {name}", by_tensorstore, wanted, is_mean)
            expected.compare(report, "zarr-python", name, by_zarr, wanted, is_mean)
            by_viv(f"{server.base}/zarr/{version}/{path}", position, time, axes, name, wanted, is_mean, report)
    if not is_nested:
        listed(server, version, path, sorted(dataset["path"] for dataset in multiscale["datasets"]), report)
        validate(server, version, path, report)


def by_viv(
    url: str, position: int, time: int, axes: str, name: str, wanted: np.ndarray, is_mean: bool, report: Report
) -> None:
    """Compares the first, the middle and the last section of a level with what Viv reads, if it is installed and reads such
    images. Not all sections: Viv reads them one by one, and decodes the same chunks for each."""
    reader, sections = viv.reader(), [0]
    if "z" in axes:
        along = axes.index("z")
        depth = wanted.shape[along]
        sections = sorted({0, depth // 2, depth - 1})
        wanted = wanted.take(sections, along)
    if reader is None:
        report.skip("Viv", "it could not be installed")
    elif viv.reads(wanted):
        read = partial(reader.read, url, position, time, sections, axes, wanted.shape)
        expected.compare(report, "Viv", name, read, wanted, is_mean)


def listed(server: Voltile, version: str, path: str, arrays: list[str], report: Report) -> None:
    """Checks that zarr-python lists the nodes of a group, which it can only by consolidated metadata."""
    wanted = arrays + (["labels"] if labels_of(server, version, path) else [])
    found = sorted(zarr.open_group(f"{server.base}/zarr/{version}/{path}", mode="r", zarr_format=VERSIONS[version][1]))
    report.add(f"zarr-python lists {path} {version}", found == wanted, f"{found}, expected {wanted}", "zarr-python")


def validate(server: Voltile, version: str, path: str, report: Report) -> None:
    """Checks that ome-zarr-models finds the metadata valid."""
    try:
        from ome_zarr_models.v04.image import Image as Image04
        from ome_zarr_models.v05.image import Image as Image05
    except ImportError:
        return report.skip("ome-zarr-models", "it could not be installed")
    model = {"0.4": Image04, "0.5": Image05}[version]
    why = ""
    try:
        model.from_zarr(zarr.open_group(f"{server.base}/zarr/{version}/{path}", mode="r", zarr_format=VERSIONS[version][1]))
    except Exception as error:  # whatever it raises
        why = f"{type(error).__name__}: {str(error)[:500]}"
    report.add(f"ome-zarr-models {path} {version}", not why, why, "ome-zarr-models")


def readers(server: Voltile, channels: list[Channel], described: dict, report: Report) -> None:
    """Compares an image with labels, opened by the readers of ome-zarr-py and napari-ome-zarr."""
    token = channels[0].token
    wanted = {}
    for channel in channels:
        (own,) = [entry for entry in described["channels"] if entry["name"] == channel.name]
        times = range(own["times"] or 1)
        wanted[channel.name] = np.stack([expected.levels(channel, own["levels"], time)[0] for time in times])
    labels = next(wanted[channel.name] for channel in channels if channel.kind == "labels")
    images = np.concatenate([wanted[channel.name] for channel in channels if channel.kind != "labels"], axis=1)
    for version in VERSIONS:
        url = f"{server.base}/zarr/{version}/{token}.ome.zarr"
        for client, layers in (("ome-zarr-py", by_ome_zarr), ("napari-ome-zarr", by_napari)):
            try:
                found = layers(url)
            except ImportError:
                report.skip(client, "it could not be installed")
                continue
            except Exception as error:  # whatever it raises
                report.add(f"{client} {url}", False, f"{type(error).__name__}: {str(error)[:300]}")
                continue
            for what, voxels in (("image", images), ("labels", labels)):
                same = [array for array in found if np.squeeze(array).shape == np.squeeze(voxels).shape]
                is_there = any(np.array_equal(np.squeeze(array), np.squeeze(voxels)) for array in same)
                report.add(f"{client} {what} {version}", is_there, f"{[array.shape for array in found]}", client)


def by_ome_zarr(url: str) -> list[np.ndarray]:
    """The finest level of each node that ome-zarr-py finds."""
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

    return [np.asarray(node.data[0]) for node in Reader(parse_url(url))() if node.data]


def by_napari(url: str) -> list[np.ndarray]:
    """The finest level of each layer that napari-ome-zarr's reader makes."""
    from napari_ome_zarr import napari_get_reader

    return [np.asarray(data[0] if isinstance(data, list) else data) for data, *_ in napari_get_reader(url)(url)]
