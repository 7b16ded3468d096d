"""References to stored chunks, read by zarr-python through fsspec without voltile."""

import json
from pathlib import Path
from urllib.parse import unquote

import fsspec
import h5py
import numpy as np
import zarr

from checks.report import Report
from checks.servers import Voltile

from . import expected
from .volumes import Channel
from .zarr_images import document

# The public address that references name; nothing listens there: `image` replaces it by paths.
PUBLIC = "https://data.example/"
SETTING = f'[server]\nreferences = "{PUBLIC}"\n'
# The registered ids of the filters that numcodecs has, and the number of the compressor of Blosc that numcodecs lacks.
DEFLATE, SHUFFLE, FLETCHER32, BZIP2, BLOSC, ZSTD = FILTERS = (1, 2, 3, 307, 32001, 32015)
SNAPPY = 3


def check(server: Voltile, channels: list[Channel], described: dict, report: Report) -> None:
    """Compares the stored levels of each channel with h5py; a channel that Zarr cannot express must be refused, and no other.
    Then compares the image that all channels form."""
    token = channels[0].token
    descriptions = {channel["name"]: channel for channel in described["channels"]}
    # References name files relative to the folder of the configuration. A file that is not below it is named relative to the
    # folder of the dataset's own file.
    own = min((channel.file.parent for channel in channels), key=lambda folder: len(folder.parts))
    folders = own, server.config.parent
    for channel in channels:
        paths = [level["path"] for level in descriptions[channel.name]["levels"] if level["path"]]
        is_expected = all(is_mapped(channel, path) for path in paths)
        status, body = server.get(f"/references/{token}/{channel.name}.json")
        if is_expected and status == 200:
            image(f"{token}/{channel.name}", json.loads(body), folders, [channel], descriptions, report)
            continue
        why = body[:300].decode(errors="replace")
        is_told = "cannot be read without HDF5" in why and f"the dataset {channel.path} " in why
        served = "served" if is_expected else "not served, and why"
        report.add(f"references {token}/{channel.name} are {served}", not is_expected and status == 404 and is_told, why)
    by_name = {channel.name: channel for channel in channels}
    metadata = document(server, "0.4", f"{token}.ome.zarr")
    members = [entry["label"] for entry in metadata.get("omero", {}).get("channels", [])]
    status, body = server.get(f"/references/{token}.json")
    # If a channel cannot be expressed, the image may have no references; its channels have been checked above.
    if len(members) > 1 and set(members) <= set(by_name) and status == 200:
        image(token, json.loads(body), folders, [by_name[name] for name in members], descriptions, report)


def image(
    name: str, found: dict, folders: tuple[Path, Path], channels: list[Channel], descriptions: dict, report: Report
) -> None:
    """Compares the levels of channels that form an image with h5py, at the first and the last time point. Public addresses in
    the references are replaced by paths of files in one of the folders."""
    for value in found["refs"].values():
        if isinstance(value, list):
            paths = [folder / unquote(value[0].removeprefix(PUBLIC)) for folder in folders]
            value[0] = str(next(path for path in paths if path.is_file()))
    files = fsspec.filesystem("reference", fo=found, asynchronous=True, skip_instance_cache=True)
    group = zarr.open_group(zarr.storage.FsspecStore(files, read_only=True, path=""), mode="r", zarr_format=2)
    (multiscale,) = group.attrs["multiscales"]
    axes = "".join(axis["name"] for axis in multiscale["axes"])
    levels = [dataset["path"] for dataset in multiscale["datasets"]]
    stored = {channel: [level for level in descriptions[channel.name]["levels"] if level["path"]] for channel in channels}
    described = descriptions[channels[0].name]
    wanted = {str(level["level"]) for level in stored[channels[0]]}
    report.add(f"references {name}: the levels", wanted <= set(levels), f"{levels}, expected {wanted}")
    for time in sorted({0, (described["times"] or 1) - 1}):
        each = [expected.levels(channel, stored[channel], time) for channel in channels]
        for level in each[0]:
            voxels = np.concatenate([one[level] for one in each])[None]
            sizes = dict(zip("tczyx", voxels.shape))
            voxels = voxels.reshape([sizes[axis] for axis in axes])
            where = tuple(slice(time, time + 1) if axis == "t" and described["times"] else slice(0, sizes[axis]) for axis in axes)
            read = lambda level=level, where=where: group[str(level)][where]  # noqa: E731
            expected.compare(report, "zarr-python", f"references {name} level {level} time {time}", read, voxels)


def is_mapped(channel: Channel, path: str) -> bool:
    """Whether Zarr can express how a dataset is stored, according to h5py."""
    with h5py.File(channel.file, "r") as file:
        data = file[path]
        creation, kind = data.id.get_create_plist(), data.id.get_type()
        filters = [creation.get_filter(number) for number in range(creation.get_nfilters())]
        is_known = all(
            number in FILTERS and not (number == BLOSC and len(values) > 6 and values[6] == SNAPPY) for number, _, values, _ in filters
        )
        bits = 8 * kind.get_size()
        is_packed = isinstance(kind, h5py.h5t.TypeIntegerID) and (kind.get_precision() != bits or kind.get_offset() != 0)
        layout = creation.get_layout()
        if not is_known or is_packed or layout in (h5py.h5d.COMPACT, h5py.h5d.VIRTUAL):
            return False
        chunk = data.chunks or (1,) * (data.ndim - 2) + data.shape[-2:]
        if creation.get_external_count():
            return has_whole_sections(creation, channel.file.parent, chunk, data)
        if layout == h5py.h5d.CHUNKED:
            stored = [data.id.get_chunk_info(number) for number in range(data.id.get_num_chunks())]
            is_cut = lambda at: any(begin + edge > extent for begin, edge, extent in zip(at, chunk, data.shape))  # noqa: E731
            # h5py does not tell whether partial chunks at the edges are unfiltered; only this fixture has such chunks.
            may_skip = filters and data.file.filename.endswith("unfiltered_edges.h5")
            if any(one.filter_mask or (may_skip and is_cut(one.chunk_offset)) for one in stored):
                return False
        spanned = [axis for axis, extent in zip(channel.axes, chunk) if extent > 1]
        if any(axis == "c" or axis in channel.index for axis in spanned):
            return False
        # Zarr has voxels in C or in Fortran order.
        order = ["tzyx".index(axis) for axis in spanned]
        return order in (sorted(order), sorted(order, reverse=True))


def has_whole_sections(creation: h5py.h5p.PropDCID, folder: Path, chunk: tuple, data: h5py.Dataset) -> bool:
    """Whether each section lies in one external raw file that exists and is long enough."""
    section_bytes, data_bytes = int(np.prod(chunk)) * data.dtype.itemsize, data.size * data.dtype.itemsize
    end = 0
    for number in range(creation.get_external_count()):
        name, offset, length = creation.get_external(number)
        begin, end = end, min(end + length, data_bytes)
        raw = folder / name.decode()
        if end % section_bytes or not raw.is_file() or raw.stat().st_size < offset + end - begin:
            return False
    return True
