"""Makes a pyramid and warms tiles on a cluster, and compares them with those that one process makes."""

import hashlib
import subprocess
from pathlib import Path

import h5py
import numpy

from checks.report import Report
from checks.runner import ROOT

SHARDS = range(4)


def check(report: Report, place: Path, voltile: Path, cluster) -> None:
    scripts = ROOT / "packaging" / "slurm"
    volume(place / "brain.h5")
    pyramid(report, scripts / "pyramid.sbatch", place, voltile, cluster)
    warm(report, scripts / "warm.sbatch", place, voltile, cluster)


def volume(path: Path) -> None:
    """Writes two channels, large enough for about a dozen pieces of a pyramid. `raw` is six bits of noise (the upper bits of a
    multiplicative hash) over a slow gradient."""
    numbers = numpy.arange(160 * 900 * 1000, dtype="u4").reshape(160, 900, 1000)
    voxels = ((numbers * 2654435761) >> 26).astype("u1") + (numbers // 700_000).astype("u1")
    with h5py.File(path, "w") as file:
        file.create_dataset("raw", data=voxels, chunks=(32, 128, 128), compression="gzip", compression_opts=1)
        file.create_dataset("ids", data=(numbers[:70, :, :500] // 50_000).astype("u4"), chunks=(16, 128, 128), compression="lzf")


def pyramid(report: Report, script: Path, place: Path, voltile: Path, cluster) -> None:
    brain, unsharded = place / "brain.h5", place / "one.pyramid"
    subprocess.run([voltile, "pyramid", brain, "--output", unsharded], cwd=place, check=True, stdout=subprocess.DEVNULL)
    work = Path(f"{brain}.pyramid.work")
    refusal = cluster.run(script, [str(brain)], None, place)
    report.add("nothing is assembled before the shards", bool(refusal) and not work.exists(), str(refusal))
    wrong = cluster.run_with_a_kill(script, [str(brain)], SHARDS, place, lambda: any(work.glob("*.piece")), assembles=True)
    report.add("four shards of a pyramid, one of them killed and started again, and then assembled", not wrong, "\n".join(wrong))
    if not wrong:
        expected, found = levels(unsharded), levels(Path(f"{brain}.pyramid"))
        report.add(f"its {len(expected)} levels are those of one process", len(expected) > 5 and expected == found)
        report.add("the work folder is gone", not work.exists())


def warm(report: Report, script: Path, place: Path, voltile: Path, cluster) -> None:
    selection = [str(place / "brain.h5"), "--plane", "xy"]
    options = ["--into", str(place / "one"), "--set", "render.threads=1"]
    subprocess.run([voltile, "warm", *selection, *options], cwd=place, check=True, stdout=subprocess.DEVNULL)
    tiles = place / "tiles"
    arguments = [*selection, "--into", str(tiles)]
    wrong = cluster.run_with_a_kill(script, arguments, SHARDS, place, lambda: any(tiles.glob("tiles/*/*/*.png")))
    report.add("four shards of tiles, one of them killed and started again", not wrong, "\n".join(wrong))
    expected, found = files(place / "one"), files(tiles)
    report.add(f"their {len(expected)} tiles are those of one process", len(expected) > 100 and expected == found)


def levels(path: Path) -> dict[str, str]:
    """The type, the shape and a digest of the voxels of every dataset of a file, by name."""
    found = {}

    def add(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = f"{item.dtype} {item.shape} {hashlib.sha256(item[()].tobytes()).hexdigest()}"

    with h5py.File(path) as file:
        file.visititems(add)
    return found


def files(directory: Path) -> dict[str, str]:
    """A digest of every tile in a cache directory, by path."""
    tiles = (directory / "tiles").rglob("*.png")
    return {str(tile.relative_to(directory)): hashlib.sha256(tile.read_bytes()).hexdigest() for tile in tiles}
