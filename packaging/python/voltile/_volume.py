"""A channel of a dataset as an array that is read when it is indexed."""

import concurrent.futures
import importlib
import io
import itertools
import math
import operator
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ._client import Client, Error, quoted
from ._jupyter import Frame, Neuroglancer

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The maximum size of a box, in bytes. A server with the least memory for boxes can make one of this size at a time.
BOX_BYTES = 8 << 20
# The maximum number of boxes that are fetched at the same time.
MAX_REQUESTS = 8

# One axis of a box: start, end (exclusive) and step of its positions, and the slice of the result that they fill.
Part = Tuple[int, int, int, slice]


class Volume:
    """The voxels of a channel at one level and time point; an array with the axes z, y, x, and colours last.

    Indexing reads from the server and returns a NumPy array or a scalar. It follows NumPy's basic indexing: integers, slices with
    steps, `...` and `None`.
    """

    def __init__(self, client: Client, dataset: str, channel: Dict[str, Any], level: int = 0, time: int = 0):
        self._client = client
        self._channel = channel
        self._level = next(entry for entry in channel["levels"] if entry["level"] == level)
        self._time = time
        #: The name of the dataset in addresses.
        self.dataset = dataset
        #: The name of the channel.
        self.name: str = channel["name"]
        #: `image`, `labels` or `rgb`.
        self.kind: str = channel["kind"]
        #: The type of the voxels, in native byte order.
        self.dtype: "np.dtype[Any]" = np.dtype(channel["dtype"])
        self._colours: Optional[Tuple[int, ...]] = None if self.kind == "rgb" else ()

    @property
    def shape(self) -> Tuple[int, ...]:
        """The extents along z, y and x, and the number of colours of an `rgb` channel."""
        if self._colours is None:
            # The description does not have the number of colours, so one voxel is read.
            self._colours = self._fetch([(0, 1)] * 3).shape[3:]
        z, y, x = self._level["size"][::-1]
        return (z, y, x, *self._colours)

    @property
    def ndim(self) -> int:
        """The number of axes: 3, or 4 with colours."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of values."""
        return math.prod(self.shape)

    @property
    def levels(self) -> List[int]:
        """The levels; 0 is the finest."""
        return [level["level"] for level in self._channel["levels"]]

    @property
    def times(self) -> Optional[int]:
        """The number of time points; `None` if it is no time series."""
        times: Optional[int] = self._channel["times"]
        return times

    @property
    def voxel_size(self) -> Optional[Tuple[float, float, float]]:
        """The edges of a voxel of this level along z, y and x, in `voxel_unit`; `None` if they are not known."""
        full = self._channel["voxel_size"]
        if full is None:
            return None
        x, y, z = (edge * factor for edge, factor in zip(full, self._level["factor"]))
        return z, y, x

    @property
    def voxel_unit(self) -> Optional[str]:
        """The unit of `voxel_size`, if the file or the settings state it."""
        unit: Optional[str] = self._channel["voxel_unit"]
        return unit

    @property
    def chunks(self) -> Tuple[int, ...]:
        """The shape of the boxes in which the whole volume would be read."""
        return (*self._box([range(extent) for extent in self.shape[:3]]), *self.shape[3:])

    def level(self, number: int) -> "Volume":
        """The channel at another level."""
        if number not in self.levels:
            raise IndexError(f"there is no level {number} of {self.name}; the levels are {self.levels}")
        return Volume(self._client, self.dataset, self._channel, number, self._time)

    def time(self, point: int) -> "Volume":
        """The channel at another time point."""
        times = self.times or 1
        if not -times <= operator.index(point) < times:
            raise IndexError(f"there is no time point {point} of {self.name}; it has {times}")
        return Volume(self._client, self.dataset, self._channel, self._level["level"], operator.index(point) % times)

    def zarr(self) -> Any:
        """The level as a `zarr.Array`, with the axes t, c, z, y, x as far as the channel has them."""
        zarr = _package("zarr", "zarr")
        path = f"zarr/0.4/{quoted(self.dataset)}/{quoted(self.name)}.ome.zarr/{self._level['level']}"
        array = zarr.open_array(self._client.address + path, mode="r")
        # The server must run as long as the array exists; slices and copies of the array share its store.
        array.store.voltile = self._client
        return array

    def dask(self) -> Any:
        """The volume as a `dask.array.Array`, whose blocks are read when they are computed."""
        array = _package("dask.array", "dask")
        empty: "NDArray[Any]" = np.empty((0,) * self.ndim, self.dtype)
        return array.from_array(self, chunks=self.chunks, name=False, asarray=False, meta=empty)

    def neuroglancer(self) -> Neuroglancer:
        """Neuroglancer with this channel: in the cell, or a link."""
        return Neuroglancer(self._client, self.dataset, self.name, self._time if self.times else None)

    def __getitem__(self, key: Any) -> Any:
        picks, local = _selection(key, self.shape)
        return self._read(picks)[local]

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> "NDArray[Any]":
        if copy is False:
            raise ValueError("the voxels are not in memory: they have to be read")
        return np.asarray(self[...], dtype=dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        time = f", time point {self._time} of {self.times}" if self.times else ""
        place = f"level {self._level['level']} of {len(self.levels)}{time}"
        return f"<voltile.Volume {self.dataset}/{self.name}: {self.shape} {self.dtype}, {place}>"

    def _repr_html_(self) -> str:
        time = f"&time={self._time}" if self._time else ""
        return Frame(self._client, f"#{quoted(self.dataset)}?show={quoted(self.name)}{time}").html()

    def _box(self, picks: Sequence[range]) -> Tuple[int, ...]:
        """The shape of the boxes in which a read is made: whole chunks of the file, but at most `BOX_BYTES`."""
        source = self._level["source"]
        # The stored chunk (x, y, z) in voxels of this level. A level that is derived from the source has larger and fewer voxels.
        factors = zip(source["chunk"], source["factor"], self._level["factor"])
        chunk = [edge * stored // derived for edge, stored, derived in factors]
        # From the first to the last position of the read.
        spans = [abs(pick[-1] - pick[0]) + 1 if pick else 1 for pick in picks]
        box = [max(1, min(edge, extent)) for edge, extent in zip(chunk[::-1], self._level["size"][::-1])]
        voxel_bytes = self.dtype.itemsize * math.prod(self._colours or ())

        def box_bytes() -> int:
            return voxel_bytes * math.prod(min(edge, span) for edge, span in zip(box, spans))

        # Boxes grow along x first, because voxels that follow each other along x are neighbours in the result and in most files.
        # They do not grow along an axis with a step, lest chunks be read only for voxels that are skipped.
        for axis in (2, 1, 0):
            while abs(picks[axis].step) == 1 and box[axis] < spans[axis] and 2 * box_bytes() <= BOX_BYTES:
                box[axis] *= 2
        while box_bytes() > BOX_BYTES:
            axis = box.index(max(box))
            box[axis] = (box[axis] + 1) // 2
        return tuple(min(edge, extent) for edge, extent in zip(box, self._level["size"][::-1]))

    def _read(self, picks: Sequence[range]) -> "NDArray[Any]":
        """The voxels at these positions along z, y, x."""
        # Positions in descending order are read in ascending order, and reversed at the end.
        requested_order = tuple(slice(None, None, -1) if pick.step < 0 else slice(None) for pick in picks)
        picks = [pick[::-1] if pick.step < 0 else pick for pick in picks]
        out: "NDArray[Any]" = np.empty([len(pick) for pick in picks] + list(self.shape[3:]), self.dtype)
        if out.size == 0:
            return out
        boxes = list(itertools.product(*map(_parts, picks, self._box(picks))))

        def fetch(box: Tuple[Part, ...]) -> None:
            voxels = self._fetch([(start, end) for start, end, _, _ in box])
            steps = tuple(slice(None, None, step) for _, _, step, _ in box)
            places = tuple(place for _, _, _, place in box)
            out[places] = voxels[steps]

        if len(boxes) == 1:
            fetch(boxes[0])
        else:
            pool = concurrent.futures.ThreadPoolExecutor(MAX_REQUESTS, "voltile")
            try:
                for _ in pool.map(fetch, boxes):
                    pass
            finally:
                pool.shutdown(cancel_futures=True)
        return out[requested_order]

    def _fetch(self, box: List[Tuple[int, int]]) -> "NDArray[Any]":
        """Fetches a box (start and end along z, y, x); if the server finds it too large, fetches its halves and joins them."""
        place = "_".join(f"{start}-{end}" for start, end in reversed(box))
        time = f"?time={self._time}" if self.times else ""
        path = f"voxels/{quoted(self.dataset)}/{quoted(self.name)}/{self._level['level']}/{place}.npy{time}"
        try:
            voxels: "NDArray[Any]" = np.load(io.BytesIO(self._client.get(path)))
            return voxels
        except Error as error:
            edges = [end - start for start, end in box]
            if error.status != 413 or max(edges) == 1:
                raise
        longest = edges.index(max(edges))
        start, end = box[longest]
        middle = (start + end) // 2
        first_half, second_half = list(box), list(box)
        first_half[longest], second_half[longest] = (start, middle), (middle, end)
        return np.concatenate([self._fetch(first_half), self._fetch(second_half)], longest)


def _parts(pick: range, edge: int) -> Iterator[Part]:
    """Divides ascending positions into parts, one for each block of `edge` voxels in which positions lie.

    `_parts(range(60, 140, 5), 64)` yields (60, 61, 5, slice(0, 1)), (65, 126, 5, slice(1, 14)), (130, 136, 5, slice(14, 16)).
    """

    def count_below(border: int) -> int:
        """The number of positions below the border: the distance to it divided by the step, rounded up."""
        return min(max(0, -((pick.start - border) // pick.step)), len(pick))

    for block in range(pick[0] // edge, pick[-1] // edge + 1):
        first = count_below(block * edge)
        last = count_below((block + 1) * edge)
        if first < last:
            yield pick[first], pick[last - 1] + 1, pick.step, slice(first, last)


def _selection(key: Any, shape: Tuple[int, ...]) -> Tuple[List[range], Tuple[Any, ...]]:
    """The positions to read along z, y and x; and the index that turns the array that was read into the result of the key.

    For `[5, None, ::2]`: one position along z, every second along y, all along x; and `(0, None, :, :)`.
    """
    keys = key if isinstance(key, tuple) else (key,)
    used = sum(item is not None and item is not Ellipsis for item in keys)
    if used > len(shape):
        raise IndexError(f"too many indices: there are {len(shape)} axes, and {used} were indexed")
    ellipses = sum(item is Ellipsis for item in keys)
    if ellipses > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if ellipses == 0:
        keys = (*keys, Ellipsis)
    # The ellipsis stands for the axes that no item indexes. Not `keys.index`, which would compare it with arrays.
    at = next(place for place, item in enumerate(keys) if item is Ellipsis)
    keys = (*keys[:at], *[slice(None)] * (len(shape) - used), *keys[at + 1 :])
    picks: List[range] = []
    local: List[Any] = []
    for item in keys:
        if item is None:
            local.append(None)
            continue
        axis = len(picks)
        picks.append(_positions(item, axis, shape[axis]))
        if axis == 3:
            # All colours are read, so the index applies to the array.
            local.append(item)
        elif isinstance(item, slice):
            local.append(slice(None))
        else:
            local.append(0)
    # With an ellipsis NumPy returns an array, even if it has only one voxel.
    if ellipses == 1:
        local.append(Ellipsis)
    return picks[:3], tuple(local)


def _positions(item: Any, axis: int, extent: int) -> range:
    """The positions along an axis that an index selects."""
    if isinstance(item, slice):
        return range(*item.indices(extent))
    is_array = isinstance(item, (bool, np.bool_)) or getattr(item, "ndim", 0) > 0
    if is_array or not hasattr(item, "__index__"):
        kinds = "integers, slices, ellipsis ('...') and None"
        raise IndexError(f"only {kinds} are valid indices; read a box, and index the array that it returns")
    index = operator.index(item)
    if not -extent <= index < extent:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {extent}")
    return range(index % extent, index % extent + 1)


def _package(name: str, extra: str) -> Any:
    """An optional package; without it, the error says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{name.split('.')[0]} is not installed: pip install 'voltile[{extra}]'") from error
