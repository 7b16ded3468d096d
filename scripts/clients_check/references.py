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

# The address of the files in the references. Nothing listens there: `image` replaces addresses by paths.
PUBLIC = "https://data.example/"
SETTING = f'[server]\nreferences = "{PUBLIC}"\n'
# The registered ids of the HDF5 filters that numcodecs has, and Blosc's number of a compressor that numcodecs lacks.
DEFLATE, SHUFFLE, FLETCHER32, BZIP2, BLOSC, ZSTD = FILTERS = (1, 2, 3, 307, 32001, 32015)
SNAPPY = 3


def check(server: Voltile, channels: list[Channel], described: dict, report: Report) -> None:
    """Compares the stored levels of each channel, and of the image that all channels form, with h5py.

    voltile must refuse references for exactly those channels that Zarr cannot express."""
    token = channels[0].token
    descriptions = {channel["name"]: channel for channel in described["channels"]}
    # References name files relative to the configuration's folder or, if a file lies elsewhere, relative to the folder of the
    # dataset's own file, which is the outermost one here.
    own = min((channel.file.parent for channel in channels), key=lambda folder: len(folder.parts))
    folders = own, server.config.parent
    for channel in channels:
        name = f"references {token}/{channel.name}"
        paths = [level["path"] for level in descriptions[channel.name]["levels"] if level["path"]]
        is_expressible = all(can_express(channel, path) for path in paths)
        status, body = server.get(f"/references/{token}/{channel.name}.json")
        why = body[:300].decode(errors="replace")
        if not is_expressible:
            is_right = status == 404 and "cannot be read without HDF5" in why and f"the dataset {channel.path} " in why
            report.add(f"{name} are refused, and why is said", is_right, why)
        elif status != 200:
            report.add(f"{name} are served", False, why)
        else:
            image(f"{token}/{channel.name}", json.loads(body), folders, [channel], descriptions, report)
    by_name = {channel.name: channel for channel in channels}
    metadata = document(server, "0.4", f"{token}.ome.zarr")
    members = [entry["label"] for entry in metadata.get("omero", {}).get("channels", [])]
    status, body = server.get(f"/references/{token}.json")
    # If a channel cannot be expressed, the image may have no references; its channels have been checked above.
    if len(members) > 1 and set(members) <= set(by_name) and status == 200:
        image(token, json.loads(body), folders, [by_name[name] for name in members], descriptions, report)


def image(
    name: str, references: dict, folders: tuple[Path, Path], channels: list[Channel], descriptions: dict, report: Report
) -> None:
    """Compares the image that channels form with h5py, at the first and the last time point.

    `references` is the document that voltile served. Its files lie below one of the folders."""
    for reference in references["refs"].values():
        # Either the contents themselves, or [address, offset, length].
        if isinstance(reference, list):
            paths = [folder / unquote(reference[0].removeprefix(PUBLIC)) for folder in folders]
            reference[0] = str(next(path for path in paths if path.is_file()))
    files = fsspec.filesystem("reference", fo=references, asynchronous=True, skip_instance_cache=True)
    group = zarr.open_group(zarr.storage.FsspecStore(files, read_only=True, path=""), mode="r", zarr_format=2)
    (multiscale,) = group.attrs["multiscales"]
    axes = "".join(axis["name"] for axis in multiscale["axes"])
    levels = [dataset["path"] for dataset in multiscale["datasets"]]
    stored = {channel: [level for level in descriptions[channel.name]["levels"] if level["path"]] for channel in channels}
    described = descriptions[channels[0].name]
    wanted = {str(level["level"]) for level in stored[channels[0]]}
    report.add(f"references {name}: the levels", wanted <= set(levels), f"{levels}, expected {wanted}")
    for time in sorted({0, (described["times"] or 1) - 1}):
        channel_levels = [expected.levels(channel, stored[channel], time) for channel in channels]
        for level in channel_levels[0]:
            wanted, box = expected.image_voxels([levels[level] for levels in channel_levels], axes, time)
            what = f"references {name} level {level} time {time}"
            expected.compare(report, "zarr-python", what, lambda: group[str(level)][box], wanted)


def can_express(channel: Channel, path: str) -> bool:
    """Whether Zarr can express how a dataset is stored, according to h5py."""
    with h5py.File(channel.file, "r") as file:
        data = file[path]
        creation, stored_type = data.id.get_create_plist(), data.id.get_type()
        filters = [creation.get_filter(number) for number in range(creation.get_nfilters())]
        for filter_id, _, values, _ in filters:
            # The seventh value of Blosc's filter is the compressor.
            if filter_id not in FILTERS or (filter_id == BLOSC and len(values) > 6 and values[6] == SNAPPY):
                return False
        is_integer, bits = isinstance(stored_type, h5py.h5t.TypeIntegerID), 8 * stored_type.get_size()
        is_packed = is_integer and (stored_type.get_precision() != bits or stored_type.get_offset() != 0)
        layout = creation.get_layout()
        if is_packed or layout in (h5py.h5d.COMPACT, h5py.h5d.VIRTUAL):
            return False
        chunk = data.chunks or (1,) * (data.ndim - 2) + data.shape[-2:]
        if creation.get_external_count():
            return has_whole_sections(creation, channel.file.parent, chunk, data)
        if layout == h5py.h5d.CHUNKED:
            # h5py does not tell whether partial chunks at the edges are unfiltered; only this fixture has such chunks.
            has_raw_edges = bool(filters) and data.file.filename.endswith("unfiltered_edges.h5")
            for number in range(data.id.get_num_chunks()):
                stored = data.id.get_chunk_info(number)
                ends = np.add(stored.chunk_offset, chunk)
                if stored.filter_mask or (has_raw_edges and np.any(ends > data.shape)):
                    return False
        # A chunk must hold the voxels of one channel only.
        spanned = [axis for axis, extent in zip(channel.axes, chunk) if extent > 1]
        if any(axis == "c" or axis in channel.index for axis in spanned):
            return False
        # Zarr knows only voxels in C order (t, z, y, x) and in Fortran order (x, y, z, t).
        order = ["tzyx".index(axis) for axis in spanned]
        return order in (sorted(order), sorted(order, reverse=True))


def has_whole_sections(creation: h5py.h5p.PropDCID, folder: Path, chunk: tuple, data: h5py.Dataset) -> bool:
    """Whether each section (`chunk`) lies in one external raw file that exists and is long enough."""
    section_bytes = int(np.prod(chunk)) * data.dtype.itemsize
    data_bytes = data.size * data.dtype.itemsize
    # Raw files hold consecutive pieces of the dataset; here begin..end in bytes.
    end = 0
    for number in range(creation.get_external_count()):
        name, offset, length = creation.get_external(number)
        begin, end = end, min(end + length, data_bytes)
        raw = folder / name.decode()
        if end % section_bytes or not raw.is_file() or raw.stat().st_size < offset + end - begin:
            return False
    return True
