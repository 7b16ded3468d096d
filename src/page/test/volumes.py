"""Makes the volumes of the browser test, and says what their voxels look like: the page's oracle, by h5py alone.

    volumes.py make FOLDER         writes test.h5, ophys.nwb, and voltile.toml, which serves them
    volumes.py many FOLDER COUNT   writes voltile.toml with this number of datasets
    volumes.py another FILE SEED   writes a small file
    volumes.py unzip FILE          prints the files of a ZIP file, which must be sound: a JSON list of names and contents (Base64)
    volumes.py positions FILE      writes 100 positions with two channels each
    volumes.py incomplete FOLDER   writes half.h5, half of which is in a file that is not there, floats.h5 with NaN, and whole.h5
    volumes.py registered FOLDER   writes angles.h5, tiles.h5 and drift.h5, with the XML files of Multiview Reconstruction and
                                   BigStitcher: beads at known places of space; prints the places, in nanometres
    volumes.py microscope FILE SECONDS  appends a slice every 100 ms; prints the number, colour and time of each when it is flushed
    volumes.py answer QUESTIONS ANSWERS  for each line of the pipe QUESTIONS, a JSON list of questions, writes a line to ANSWERS: the
                                   list of answers, or {"error": text}

A question is {file, path, axes, index, at: [[x, y, z], ...], box: [x, y, z], window: [lo, hi] | null, gamma, map, ...}. The
places `at` count boxes of the size `box`. The answer is a list of colours [red, green, blue], one for each place: the mean of the
box (the voxel itself if `box` is 1, 1, 1), windowed, bent by the exponent 1 / gamma, in the colours of a map (the path of its
table). With `slab: [axis, first, last, "max" | "min" | "mean"]` the box has these slices along the axis (0 is x), projected.
`labels: true` asks for colours of labels (`shuffle`: their number), `rgb: true` for stored colours, `values: true` for the values
as text. The rules are those of the documentation, implemented once more.
"""

import base64
import json
import math
import sys
import time
import traceback
import zipfile
from pathlib import Path

import h5py
import numpy as np

CONFIGURATION = """\
[[server.mounts]]
tile_service = "ndtilecache"
[[server.mounts]]
tile_service = "adjustable"
adjustable = true

[datasets.made]
file = "test.h5"
voxel_size = [4, 4, 10]
offset = [3, 20, 7]
[datasets.made.channels.pyramid]
path = "/raw"
axes = "zyx"
levels = [{ path = "/raw", factor = [1, 1, 1] }, { path = "/half", factor = [2, 2, 1] }]
[datasets.made.channels.ids]
path = "/ids"
axes = "zyx"
kind = "labels"

[[access]]
secrets = "secrets.txt"
datasets = ["hidden"]
[datasets.hidden]
file = "test.h5"
[datasets.hidden.channels.pyramid]
path = "/raw"
axes = "zyx"

[datasets.placed]
file = "test.h5"
[datasets.placed.channels.em]
path = "/raw"
axes = "zyx"
window = "full"
[datasets.placed.channels.part]
path = "/part"
axes = "zyx"
kind = "labels"
offset = [300, 100, 2]
names = "part.csv"

[datasets.ophys]
file = "ophys.nwb"

[datasets.stained]
file = "test.h5"
[datasets.stained.channels.a]
path = "/film"
axes = "tczyx"
index = { t = 0, c = 0 }
window = [100, 3000]
[datasets.stained.channels.b]
path = "/film"
axes = "tczyx"
index = { t = 0, c = 1 }
window = [100, 3000]

[datasets.looks]
file = "test.h5"
[datasets.looks.channels.hot]
path = "/hot"
axes = "zyx"
[datasets.looks.channels.signed]
path = "/signed"
axes = "zyx"

[datasets.empty]
file = "test.h5"
[datasets.empty.channels.nothing]
path = "/empty"
axes = "zyx"

[datasets.film]
file = "test.h5"
[datasets.film.channels.first]
path = "/film"
axes = "tczyx"
index = { c = 0 }
window = [100, 3000]
[datasets.film.channels.second]
path = "/film"
axes = "tczyx"
index = { c = 1 }
window = [100, 3000]
[datasets.film.channels.colours]
path = "/rgb"
axes = "zyxc"
kind = "rgb"
"""


def make(folder: Path) -> None:
    """Writes the volumes. Nothing in them repeats, so a picture of the wrong place, slice, level or time cannot look right."""
    random = np.random.default_rng(5)
    with h5py.File(folder / "test.h5", "w") as file:
        smooth = random.integers(30, 220, (9, 90, 160)).repeat(8, 1).repeat(8, 2)
        raw = (smooth[:, :701, :1201] + random.integers(0, 20, (9, 701, 1201))).astype("u1")
        file.create_dataset("raw", data=raw, chunks=(3, 128, 128), compression="gzip")
        # Sizes are rounded down, as in Imaris's files. Values are no means, so that a derived level would look different.
        file["half"] = raw[:, 0:700:2, 0:1200:2] // 2 + 100
        file["ids"] = random.integers(0, 7, (9, 90, 160)).repeat(8, 1).repeat(8, 2)[:, :701, :1201].astype("u4") * 1000003
        file["part"] = file["ids"][2:7, 100:400, 300:700]
        file["film"] = random.integers(0, 3500, (4, 2, 6, 40, 70)).repeat(5, 3).repeat(5, 4).astype("u2")
        file["empty"] = np.zeros((3, 40, 50), "u2")
        # A few hot and a few black pixels, so that the range of all values differs from that of most.
        hot = random.integers(81, 973, (3, 200, 350)).astype("u2")
        hot.flat[5:200_000:20_000], hot.flat[7:200_000:20_000] = 65535, 0
        file["hot"] = hot
        file["signed"] = random.integers(-300, 501, (3, 20, 35)).repeat(10, 1).repeat(10, 2).astype("i2")
        file["rgb"] = random.integers(0, 256, (6, 20, 35, 3)).repeat(10, 1).repeat(10, 2).astype("u1")
    regions = [f"{label * 1000003},Region {'ABCDEFG'[label]}\n" for label in range(7)]
    (folder / "part.csv").write_text("id,name\n" + "".join(regions))
    with h5py.File(folder / "ophys.nwb", "w") as file:
        file.attrs["nwb_version"] = "2.6.0"
        movie = file.create_group("acquisition/movie")
        movie.attrs["neurodata_type"] = "TwoPhotonSeries"
        movie.attrs["comments"] = "awake mouse on a wheel"
        movie["data"] = random.integers(0, 3500, (5, 30, 20)).repeat(5, 1).repeat(5, 2).astype("u2")
        movie["starting_time"] = 0.0
        movie["starting_time"].attrs["rate"] = 4.0
        file["processing/ophys/summary/mean"] = random.integers(0, 3500, (30, 20)).repeat(10, 0).repeat(10, 1).astype("f4")
        file["processing/ophys/summary/mean"].attrs["neurodata_type"] = "GrayscaleImage"
    (folder / "secrets.txt").write_text("secret-of-the-browser-test/+\n")
    (folder / "voltile.toml").write_text(CONFIGURATION)


def many(folder: Path, count: int) -> None:
    """A configuration with `count` datasets, which are all the same small volume."""
    folder.mkdir()
    with h5py.File(folder / "small.h5", "w") as file:
        file["raw"] = np.random.default_rng(7).integers(0, 255, (2, 64, 64)).astype("u1")
    tables = [f'[datasets."d{i:04}"]\nfile = "small.h5"\n[datasets."d{i:04}".channels.raw]\npath = "/raw"\n' for i in range(count)]
    (folder / "voltile.toml").write_text("".join(tables))


def another(file: Path, seed: int) -> None:
    """Writes a small file of one volume, in place of a file that is there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    with h5py.File(new, "w") as made:
        made["raw"] = np.random.default_rng(seed).integers(0, 255, (2, 64, 64)).astype("u1")
    new.rename(file)


def positions(file: Path) -> None:
    random = np.random.default_rng(8)
    with h5py.File(file, "w") as made:
        for position in range(100):
            for channel in range(2):
                made[f"plate_a/position_{position:02}/channel_{channel}"] = random.integers(0, 4000, (2, 40, 60)).astype("u2")


def incomplete(folder: Path) -> None:
    """half.h5, of whose eight slices four are in a file that is not there; floats.h5 with NaN; whole.h5 without gaps."""
    with h5py.File(folder / "first.h5", "w") as made:
        made["data"] = np.full((4, 300, 400), 200, "u2") + np.arange(400, dtype="u2")
    layout = h5py.VirtualLayout((8, 300, 400), "u2")
    for first, name in ((0, "first.h5"), (4, "gone.h5")):
        layout[first : first + 4] = h5py.VirtualSource(name, "data", (4, 300, 400))
    with h5py.File(folder / "half.h5", "w") as made:
        made.create_virtual_dataset("raw", layout)
    with h5py.File(folder / "floats.h5", "w") as made:
        values = np.tile(np.linspace(0, 1, 400, dtype="f4"), (2, 300, 1))
        values[:, 100:200, 100:300] = np.nan
        made["raw"] = values
    with h5py.File(folder / "whole.h5", "w") as made:
        made["raw"] = np.arange(2 * 300 * 400, dtype="u1").reshape(2, 300, 400)


def affine(linear=np.eye(3), shift=(0, 0, 0)) -> np.ndarray:
    """A transform of space as a matrix of 4 x 4."""
    return np.block([[np.asarray(linear, "f8"), np.reshape(shift, (3, 1))], [np.zeros((1, 3)), np.ones((1, 1))]])


def turned(axis: int, degrees: float) -> np.ndarray:
    """The linear part (3 x 3) of a rotation about an axis of space."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    i, j = (axis + 1) % 3, (axis + 2) % 3
    matrix = np.eye(3)
    matrix[i, i], matrix[i, j], matrix[j, i], matrix[j, j] = c, -s, s, c
    return matrix


MICROMETRE = 2  # in units of space: the unit is the shortest edge of a voxel, 0.5 µm
SIZE = (120, 100, 40)  # x, y, z
CENTRE = np.array([60.0, 50.0, 80.0])
CALIBRATION = affine(np.diag([1, 1, 4]))  # from voxels to space: a voxel is four times as long along z
BEADS = np.array([[58.0, 52.0, 78.0], [66.0, 41.0, 70.0], [49.0, 60.0, 91.0]])


def about(centre: np.ndarray, linear: np.ndarray, shift=(0, 0, 0)) -> np.ndarray:
    """A linear transform that keeps the point `centre`, and then a shift."""
    return affine(shift=centre + shift) @ affine(linear) @ affine(shift=-centre)


def registered(folder: Path) -> None:
    """Every voxel is the sum of the beads' light at its place in space.

    A view (setup, time) has the transforms that are written to the XML file; the last one is applied first.
    """
    askew = affine([[1, 0.1, 0], [0, 1, 0.2], [0, 0, 1]], (-6, -12, 0))
    angles = {
        (0, 0): [CALIBRATION],
        (1, 0): [affine(shift=(3.25, -4.5, 5)), about(CENTRE, turned(1, 45)), CALIBRATION],
        (2, 0): [askew, about(CENTRE, turned(2, 200)), CALIBRATION],
        (3, 0): [about(CENTRE, turned(0, 75) @ turned(1, -30)), affine(shift=(0.4, 0.3, -0.2)), CALIBRATION],
    }
    tiles = {(i, 0): [affine(shift=shift), CALIBRATION] for i, shift in enumerate([(0, 0, 0), (-30.3, 11.8, 8.4), (41, -20.4, -12)])}
    drift = {
        (0, 0): [CALIBRATION],
        (0, 1): [affine(shift=(7.5, -5, 4)), CALIBRATION],
        (1, 0): [about(CENTRE, turned(1, 60)), CALIBRATION],
        (1, 1): [affine(shift=(-3, 2, 6)), about(CENTRE, turned(1, 60)), CALIBRATION],
    }
    for name, views in [("angles", angles), ("tiles", tiles), ("drift", drift)]:
        write_registered(folder / f"{name}.h5", views)
    print(json.dumps((BEADS * 1000 / MICROMETRE).tolist()))


def write_registered(file: Path, views: dict) -> None:
    """Writes the voxels of views, and the XML file with their transforms."""
    index = np.stack([*np.meshgrid(*map(np.arange, SIZE), indexing="ij"), np.ones(SIZE)], -1)
    with h5py.File(file, "w") as made:
        for (setup, time), transforms in views.items():
            place = (index @ np.linalg.multi_dot([np.eye(4), *transforms]).T)[..., :3]
            # A bead is a Gaussian with a standard deviation of 2.5 units.
            light = sum(np.exp(-((place - bead) ** 2).sum(-1) / 2 / 2.5**2) for bead in BEADS)
            made[f"t{time:05}/s{setup:02}/0/cells"] = (light * 1000).round().astype("u2").T
            if f"s{setup:02}" not in made:
                made[f"s{setup:02}/resolutions"], made[f"s{setup:02}/subdivisions"] = np.ones((1, 3)), np.full((1, 3), 16)
    setups, times = (sorted({view[i] for view in views}) for i in (0, 1))
    size = " ".join(map(str, SIZE))
    voxel = "<voxelSize><unit>µm</unit><size>0.5 0.5 2.0</size></voxelSize>"
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>', '<SpimData version="0.2">', '<BasePath type="relative">.</BasePath>',
        f'<SequenceDescription><ImageLoader format="bdv.hdf5"><hdf5 type="relative">{file.name}</hdf5></ImageLoader><ViewSetups>',
        *(f"<ViewSetup><id>{i}</id><name>angle {i}</name><size>{size}</size>{voxel}</ViewSetup>" for i in setups),
        f'</ViewSetups><Timepoints type="range"><first>0</first><last>{times[-1]}</last></Timepoints></SequenceDescription>',
        "<ViewRegistrations>",
    ]
    for (setup, time), transforms in views.items():
        lines.append(f'<ViewRegistration timepoint="{time}" setup="{setup}">')
        for transform in transforms:
            numbers = " ".join(map(repr, map(float, transform[:3].ravel())))
            lines.append(f'<ViewTransform type="affine"><Name>one of them</Name><affine>{numbers}</affine></ViewTransform>')
        lines.append("</ViewRegistration>")
    file.with_suffix(".xml").write_text("\n".join([*lines, "</ViewRegistrations>", "</SpimData>"]))


def microscope(file: Path, seconds: float) -> None:
    """Appends slices in SWMR mode, each of one colour. For each slice prints its number, its colour, and the time of its flush
    in milliseconds since 1970."""
    end = time.time() + seconds
    with h5py.File(file, "w", libver="latest") as made:
        shape, chunks = (0, 2048, 2048), (1, 512, 512)
        raw = made.create_dataset("raw", shape, "u1", maxshape=(None, *shape[1:]), chunks=chunks, compression="gzip")
        made.swmr_mode = True
        number = 0
        while time.time() < end:
            colour = (37 * number + 11) % 251
            raw.resize(number + 1, axis=0)
            raw[number] = np.full(shape[1:], colour, "u1")
            raw.flush()
            print(json.dumps([number, colour, time.time() * 1000]), flush=True)
            number += 1
            time.sleep(0.1)


def label_colour(label: int, shuffle: int = 0) -> list[int]:
    """The colour of a label: its id is multiplied by an odd number, and 32 bits of the product are the angle on a wheel of six
    sectors. The odd number is a constant or, if the colours are shuffled, the output of SplitMix64 for `shuffle`."""
    factor = z = (0x9E3779B97F4A7C15 * max(1, shuffle)) % 2**64
    if shuffle:
        for shift, multiplier in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = ((z ^ (z >> shift)) * multiplier) % 2**64
        factor = (z ^ (z >> 31)) | 1
    k = (((label * factor) % 2**64) >> 32) * 6  # the sector, and a fraction of 32 bits
    sector, f = k >> 32, (157 * ((k >> 24) & 255)) // 255
    up, down = 85 + f, 242 - f  # parts of colours lie from 85 to 85 + 157
    wheel = [(242, up, 85), (down, 242, 85), (85, 242, up), (85, down, 242), (up, 85, 242), (242, 85, down)]
    return list(wheel[sector]) if label else [0, 0, 0]


def windowed(value: float, window: list[float] | None, gamma: float) -> int:
    """The grey value (0 to 255) of a voxel."""
    if window is None:
        return int(value)
    low, high = window
    share = min(1, max(0, (value - low) / (high - low)))
    return math.floor(255 * share ** (1 / gamma) + 0.5)


def painted(voxels: np.ndarray, question: dict) -> list[int]:
    """The colour of the mean of voxels."""
    mean = math.floor(voxels.astype("f8").mean() + 0.5)
    shade = windowed(mean, question.get("window"), question.get("gamma", 1))
    table = np.fromfile(question["map"], "u1").reshape(3, 256) if question.get("map") else None
    return [shade] * 3 if table is None else [int(part) for part in table[:, shade]]


def answer(question: dict) -> list[list[int]]:
    with h5py.File(question["file"], "r") as file:
        dataset, axes, out = file[question["path"]], question["axes"], []
        for at in question["at"]:
            place = {axis: slice(i * edge, (i + 1) * edge) for axis, i, edge in zip("xyz", at, question["box"])}
            if question.get("slab"):
                number, first, last, mode = question["slab"]
                place["xyz"[number]] = slice(first, last)
            voxels = dataset[tuple(place[a] if a in place else question["index"].get(a, slice(None)) for a in axes)]
            if question.get("slab"):
                voxels = getattr(voxels.astype("f8"), mode)(axis=axes.index("xyz"[number])).reshape(1)
            if question.get("values"):
                out.append(str(voxels.flat[0]))
            elif question.get("labels"):
                out.append(label_colour(int(voxels.flat[0]), question.get("shuffle", 0)))
            elif question.get("rgb"):
                out.append([int(v) for v in voxels.reshape(-1, voxels.shape[-1])[0][:3]])
            else:
                out.append(painted(voxels, question))
        return out


def answer_lines(questions: str, answers: str) -> None:
    with open(questions) as asked, open(answers, "w") as answered:
        for line in asked:
            try:
                reply = json.dumps([answer(question) for question in json.loads(line)])
            except Exception:
                reply = json.dumps({"error": traceback.format_exc()})
            print(reply, file=answered, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    elif sys.argv[1] == "many":
        many(Path(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1] == "another":
        another(Path(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1] == "unzip":
        with zipfile.ZipFile(sys.argv[2]) as archive:
            assert archive.testzip() is None
            print(json.dumps([[name, base64.b64encode(archive.read(name)).decode()] for name in archive.namelist()]))
    elif sys.argv[1] == "positions":
        positions(Path(sys.argv[2]))
    elif sys.argv[1] == "incomplete":
        incomplete(Path(sys.argv[2]))
    elif sys.argv[1] == "registered":
        registered(Path(sys.argv[2]))
    elif sys.argv[1] == "microscope":
        microscope(Path(sys.argv[2]), float(sys.argv[3]))
    else:
        answer_lines(sys.argv[2], sys.argv[3])
