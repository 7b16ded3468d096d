"""OME-Zarr images, read by TensorStore and zarr-python and, if they are installed, by the libraries of OME-Zarr."""

import warnings
from functools import partial

import numpy as np
import zarr

from checks.report import Report
from checks.servers import Refused, Voltile

from . import expected, viv
from .volumes import Channel

# Version of OME-Zarr -> TensorStore's driver, and the version of Zarr.
VERSIONS = {"0.4": ("zarr", 2), "0.5": ("zarr3", 3)}
warnings.filterwarnings("ignore", module="zarr")


def document(server: Voltile, version: str, path: str) -> dict:
    """OME-Zarr's metadata of a group."""
    if version == "0.4":
        return server.json(f"/zarr/{version}/{path}/.zattrs")
    return server.json(f"/zarr/{version}/{path}/zarr.json")["attributes"]["ome"]


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
        if members and all(name in by_name for name in members):
            image(server, version, whole, [by_name[name] for name in members], descriptions, report)
        for name in labels_of(server, version, whole):
            image(server, version, f"{whole}/labels/{name}", [by_name[name]], descriptions, report, is_nested=True)


def by_zarr(url: str, zarr_format: int, box: tuple[slice, ...]) -> np.ndarray:
    """The voxels that zarr-python reads of an array."""
    return zarr.open_array(url, mode="r", zarr_format=zarr_format)[box]


def labels_of(server: Voltile, version: str, path: str) -> list[str]:
    try:
        return document(server, version, f"{path}/labels")["labels"]
    except Refused:
        return []


def image(
    server: Voltile, version: str, path: str, channels: list[Channel], descriptions: dict, report: Report, is_nested: bool = False
) -> None:
    """Compares all levels of the image that channels form, at the first and the last time point. Checks its metadata, too, unless
    the image `is_nested` in another."""
    driver, zarr_format = VERSIONS[version]
    (multiscale,) = document(server, version, path)["multiscales"]
    axes = "".join(axis["name"] for axis in multiscale["axes"])
    described = descriptions[channels[0].name]
    is_label = channels[0].kind == "labels"
    times = sorted({0, (described["times"] or 1) - 1})
    channel_levels = {}
    for time in times:
        channel_levels[time] = [expected.levels(channel, descriptions[channel.name]["levels"], time) for channel in channels]
    derived = {level["level"] for level in described["levels"] if level["path"] is None}
    for position, dataset in enumerate(multiscale["datasets"]):
        number = int(dataset["path"])
        url = f"{server.base}/zarr/{version}/{path}/{number}"
        for time in times:
            voxels = [levels.get(number) for levels in channel_levels[time]]
            if any(channel_voxels is None for channel_voxels in voxels):
                continue
            wanted, box = expected.image_voxels(voxels, axes, time)
            is_mean = number in derived and not is_label
            name = f"{path} {version} level {number}" + (f" time {time}" if time else "")
            spec = {"driver": driver, "kvstore": {"driver": "http", "base_url": f"{url}/"}}
            read = partial(expected.by_tensorstore, spec, box)
            expected.compare(report, "TensorStore", f"{driver} {name}", read, wanted, is_mean)
            expected.compare(report, "zarr-python", name, partial(by_zarr, url, zarr_format, box), wanted, is_mean)
            by_viv(f"{server.base}/zarr/{version}/{path}", position, time, axes, name, wanted, is_mean, report)
    if not is_nested:
        listed(server, version, path, sorted(dataset["path"] for dataset in multiscale["datasets"]), report)
        validate(server, version, path, report)


def by_viv(url: str, position: int, time: int, axes: str, name: str, wanted: np.ndarray, is_mean: bool, report: Report) -> None:
    """Compares the first, the middle and the last section of a level with what Viv reads, unless it cannot read such images. All
    sections would take too long: Viv reads them one by one, and decodes the same chunks for each."""
    reader = viv.reader()
    sections = [0]
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


def open_group(server: Voltile, version: str, path: str) -> zarr.Group:
    return zarr.open_group(f"{server.base}/zarr/{version}/{path}", mode="r", zarr_format=VERSIONS[version][1])


def listed(server: Voltile, version: str, path: str, arrays: list[str], report: Report) -> None:
    """Checks that zarr-python lists the nodes of a group. Over HTTP it needs consolidated metadata for that."""
    wanted = arrays + (["labels"] if labels_of(server, version, path) else [])
    found = sorted(open_group(server, version, path))
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
        model.from_zarr(open_group(server, version, path))
    except Exception as error:  # whatever it raises
        why = f"{type(error).__name__}: {str(error)[:500]}"
    report.add(f"ome-zarr-models {path} {version}", not why, why, "ome-zarr-models")


def readers(server: Voltile, channels: list[Channel], described: dict, report: Report) -> None:
    """Compares an image and its labels, at all time points, with what ome-zarr-py and napari-ome-zarr read."""
    token = channels[0].token
    descriptions = {entry["name"]: entry for entry in described["channels"]}
    wanted: dict[str, list[np.ndarray]] = {"image": [], "labels": []}
    for channel in channels:
        description = descriptions[channel.name]
        times = range(description["times"] or 1)
        wanted[channel.kind].append(np.stack([expected.levels(channel, description["levels"], time)[0] for time in times]))
    for version in VERSIONS:
        url = f"{server.base}/zarr/{version}/{token}.ome.zarr"
        for client, read in (("ome-zarr-py", by_ome_zarr), ("napari-ome-zarr", by_napari)):
            try:
                arrays = read(url)
            except ImportError:
                report.skip(client, "it could not be installed")
                continue
            except Exception as error:  # whatever it raises
                report.add(f"{client} {url}", False, f"{type(error).__name__}: {str(error)[:300]}")
                continue
            for kind, channel_voxels in wanted.items():
                # Clients may leave out axes of extent 1.
                voxels = np.squeeze(np.concatenate(channel_voxels, axis=1))
                is_there = any(np.array_equal(np.squeeze(array), voxels) for array in arrays)
                report.add(f"{client} {kind} {version}", is_there, f"{[array.shape for array in arrays]}", client)


def by_ome_zarr(url: str) -> list[np.ndarray]:
    """The finest level of each node that ome-zarr-py finds."""
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

    return [np.asarray(node.data[0]) for node in Reader(parse_url(url))() if node.data]


def by_napari(url: str) -> list[np.ndarray]:
    """The finest level of each layer that napari-ome-zarr's reader makes."""
    from napari_ome_zarr import napari_get_reader

    return [np.asarray(data[0] if isinstance(data, list) else data) for data, *_ in napari_get_reader(url)(url)]
