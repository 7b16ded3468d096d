"""OME-Zarr images, read by Viv's loaders in Node.js (see viv.mjs). One process reads all images."""

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np

from checks.runner import ROOT

HERE = Path(__file__).resolve().parent
# The folder of the packages. viv.mjs is copied into it, because Node.js looks for packages beside the program.
HOME = ROOT / ".tools" / "clients-node"
PROGRAM, PACKAGES, LOCK = "viv.mjs", "package.json", "package-lock.json"
# JavaScript has no typed arrays of booleans, and typed arrays of half floats only in the newest Node.js.
UNREADABLE = {"bool", "float16"}
# The widths of images that Viv takes for pixels of interleaved colours.
COLOURS = (3, 4)


@functools.cache
def reader() -> "Reader | None":
    """A process of Viv; `None` if Node.js is missing or Viv's packages cannot be fetched."""
    if not (shutil.which("node") and shutil.which("npm")):
        return None
    stamp, lock = HOME / "complete", (HERE / LOCK).read_text()
    HOME.mkdir(parents=True, exist_ok=True)
    if not stamp.is_file() or stamp.read_text() != lock:
        print(f"clients-check: installing Viv into {HOME}", flush=True)
        for name in (PACKAGES, LOCK):
            shutil.copyfile(HERE / name, HOME / name)
        install = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1"]
        if subprocess.run(install, cwd=HOME).returncode:
            return None
        stamp.write_text(lock)
    shutil.copyfile(HERE / PROGRAM, HOME / PROGRAM)
    return Reader()


def reads(voxels: np.ndarray) -> bool:
    """Whether Viv can read an image with voxels of this type and rows of this width."""
    return voxels.dtype.name not in UNREADABLE and voxels.shape[-1] not in COLOURS


class Reader:
    """A process of Node.js that runs viv.mjs. It ends when its input is closed, so at the latest when this process ends."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            ["node", PROGRAM], cwd=HOME, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.file = HOME / f"{os.getpid()}.raw"

    def read(self, url: str, level: int, time: int, sections: list[int], axes: str, shape: tuple[int, ...]) -> np.ndarray:
        """Reads sections of a level (its position in the list of levels) at a time point, from the first row and column on.

        `shape` is the shape of the result, in the order of the image's `axes`."""
        box = dict.fromkeys("yx", 1) | dict(zip(axes, shape))
        request = {"url": url, "level": level, "time": time, "sections": sections, "box": box, "file": str(self.file)}
        print(json.dumps(request), file=self.process.stdin)
        line = self.process.stdout.readline()
        try:
            answer = json.loads(line or '{"error": "Node.js has ended"}')
            if "error" in answer:
                raise OSError(answer["error"])
            return np.fromfile(self.file, answer["dtype"].lower()).reshape(shape)
        finally:
            self.file.unlink(missing_ok=True)
