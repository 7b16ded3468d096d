"""The served datasets: the oracle's unusual volumes, generated once, and the real files of the shared folder.

The axes, windows, offsets and voxel sizes of the real files are chosen at random, so each seed serves them differently.
Everything is configured explicitly, so that voltile has nothing to guess.
"""

import hashlib
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import oracle  # noqa: F401  (before h5py: it sets HDF5's search path for external files, which HDF5 reads when loaded)
import h5py
import hdf5plugin  # noqa: F401  (registers the filters)
import numpy as np
import to_config

# Without MINC files, whose scales the oracle does not know.
GENUINE = ("em/**/*.h5", "ilastik/*.h5", "plantseg/*.h5")
# Left out, too: voltile maps its ids to bodies, which the oracle does not know.
MAPPED = "flyem_training2_groundtruth_z128.h5"
# End of a token -> the stored axes, where they differ from AXES_BY_RANK.
AXES = {
    "2d3c.data": "yxc",
    "2d_Probabilities.exported_data": "yxc",
    "smallVideo.data": "tyxc",
    "train_3Dc_3D.raw": "czyx",
}
AXES_BY_RANK = {2: "yx", 3: "zyx", 4: "zyxc", 5: "tzyxc"}


def make(shared: Path, folder: Path) -> None:
    """Generates the unusual volumes in `folder`, unless the same generator has already done so."""
    sources = [shared / "oracle" / name for name in ("make_volumes.py", "requirements.txt")]
    wanted = hashlib.sha256(b"".join(p.read_bytes() for p in sources) + str(shared.resolve()).encode()).hexdigest()
    stamp = folder / "generator.sha256"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    print(f"generating the oracle's volumes in {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-B", str(sources[0]), "--out", str(folder)], check=True, stdout=subprocess.DEVNULL)
    stamp.write_text(wanted)


def unusual(folder: Path) -> dict[str, dict]:
    """Token -> description of each unusual volume."""
    paths = [path for path in sorted(folder.glob("*.json")) if path.name != "cases.json"]
    descriptions = [json.loads(path.read_text()) for path in paths]
    return {description["token"]: description for description in descriptions}


def cases(folder: Path) -> dict[str, list[dict]]:
    """Token -> its cases from cases.json, with the keys url, npy (relative to the folder) and tol."""
    out: dict[str, list[dict]] = {}
    for case in json.loads((folder / "cases.json").read_text()):
        out.setdefault(case["desc"].removesuffix(".json"), []).append(case)
    return out


def genuine(shared: Path, seed: int) -> dict[str, dict]:
    """Token -> description of each volume in the real files (GENUINE)."""
    data = (shared / "data").resolve()
    paths = [path for pattern in GENUINE for path in data.glob(pattern) if path.name != MAPPED]
    out = {}
    for path in sorted(paths):
        with h5py.File(path, "r") as file:
            names: list[str] = []
            file.visit(names.append)
            for name in names:
                if is_volume(file[name]):
                    token = token_of(path.relative_to(data), name)
                    out[token] = describe(token, path, file[name], random.Random(f"{seed} {token}"))
    return out


def is_volume(item: h5py.HLObject) -> bool:
    return isinstance(item, h5py.Dataset) and 2 <= item.ndim <= 5 and item.dtype.kind in "iuf" and item.size > 0


def token_of(path: Path, name: str) -> str:
    """As in data.em.FILE.GROUP.DATASET."""
    dotted = ".".join(["data", *path.with_suffix("").parts, *name.split("/")])
    return re.sub(r"[^\w.-]", "_", dotted, flags=re.ASCII)


def describe(token: str, path: Path, item: h5py.Dataset, rng: random.Random) -> dict:
    """The description of one dataset of a real file, in the oracle's format, with random display settings."""
    unusual_axes = [axes for end, axes in AXES.items() if token.endswith(end)]
    stored = unusual_axes[0] if unusual_axes else AXES_BY_RANK[item.ndim]
    axes = stored
    if rng.random() < 0.4:
        axes = "".join(rng.sample(stored, len(stored)))
    out = {"token": token, "file": str(path), "isotropic": rng.random() < 0.4}
    out["channels"] = channels(item, axes, axes == stored, rng)
    if rng.random() < 0.6:
        x = rng.choice([1.0, 4.6, 6.0])
        out["voxel_size"] = [x, rng.choice([x, 8.0]), rng.choice([x, x / 3, 9.0, 30.0, 50.0])]
        if rng.random() < 0.2:
            out["orthogonal"] = "stored"
    if rng.random() < 0.4:
        out["offset"] = [rng.randrange(300) for _ in "xyz"]
    return out


def channels(item: h5py.Dataset, axes: str, as_stored: bool, rng: random.Random) -> list[dict]:
    """Up to three image channels, one of labels if the voxels are integers, and an RGB channel if possible."""
    common = {"dataset": item.name, "axes": axes}
    extent = item.shape[axes.index("c")] if "c" in axes else 1
    out = []
    for i in sorted(rng.sample(range(extent), min(extent, 3))):
        index = {"index": {"c": i}} if "c" in axes else {}
        out.append({"name": f"c{i}", **common, **index, **window(item, rng)})
    if item.dtype.kind in "iu":
        first = {key: value for key, value in out[0].items() if key != "window"}
        out.append({**first, "name": "as-labels", "label": True})
    if item.dtype == np.uint8 and as_stored and axes.endswith("c") and extent in (3, 4):
        out.append({"name": "as.rgb", **common, "rgb": True})
    return out


def window(item: h5py.Dataset, rng: random.Random) -> dict:
    """No window, or a random one around the values: increasing, inverted or empty; for integers, sometimes with halves."""
    if rng.random() < 0.3:
        return {}
    values = item[item.shape[0] // 2].astype(np.float64)
    are_finite = np.isfinite(values).all()
    least, most = (float(values.min()), float(values.max())) if are_finite else (0.0, 1.0)
    low = least + (most - least) * rng.uniform(-0.1, 0.4)
    high = least + (most - least) * rng.uniform(0.6, 1.1)
    if item.dtype.kind in "iu":
        half = 0.5 if rng.random() < 0.2 else 0
        low, high = round(low) + half, round(high) + half
    chance = rng.random()
    if chance < 0.15:
        return {"window": [high, low]}
    return {"window": [low, low] if chance < 0.2 else [low, high]}


def configuration(folder: Path, descriptions: list[dict]) -> str:
    """A voltile configuration that serves the descriptions, whose file names are relative to `folder`."""
    return "\n\n".join(to_config.dataset(str(folder), description) for description in descriptions) + "\n"
