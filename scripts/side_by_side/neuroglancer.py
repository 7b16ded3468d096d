"""Neuroglancer in headless Chromium: how long a person waits for four panels, with voltile and with nginx.

voltile serves the program and a volume with stored levels whose chunks it passes through. nginx serves the same from
files: the program's files that the page requests, as voltile sends them, with the same headers; voltile's `info`; and the
stored bytes of the chunks of all levels, as `deflate`. The volume and the chunks are made once.

Each visit is checked: the same chunks were requested, no visible one is missing, every panel shows the same pixels as
in the first visit, and those of xy, xz and yz are h5py's voxels.
"""

import functools
import io
import json
import os
import subprocess
import urllib.parse
import urllib.request
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

from .pixels import Wrong
from .servers import ROOT, Missing, Server, Setting, fetch, program, running
from .volumes import Volumes

PROGRAM = "/neuroglancer/"
BROWSER = Path(__file__).with_suffix(".mjs")
PLAYWRIGHT = ROOT / "src" / "page" / "node_modules" / "playwright-core"
PATIENCE = 150  # seconds, longer than the browser's own
# Headers that decide how a browser treats a file.
HEADERS = ("Content-Type", "Content-Encoding", "Content-Security-Policy", "Referrer-Policy", "Cache-Control")
ACCEPTED = "gzip, deflate"
SHADER = "#uicontrol invlerp normalized\nvoid main() { emitGrayscale(normalized()); }\n"
# The part of a panel's pixels that must be those of the voxels. A few are hidden by buttons.
LEAST_EQUAL = 0.98


@dataclass(frozen=True)
class Scene:
    """What is opened, what nginx needs to serve it, and what the first visit requested and showed."""

    volume: Path
    source: str  # the path of the precomputed volume
    levels: dict[str, str]  # the dataset of each level, by key
    copy: Path  # the folder of nginx's chunks
    fragment: str
    published: dict[str, bytes]
    headers: dict[str, dict[str, str]]
    program: frozenset[str]
    chunks: frozenset[str]
    panels: list[np.ndarray]


@dataclass(frozen=True)
class Visit:
    """One visit: the seconds until all was loaded, and until the first request for data; the requested paths; the visible
    chunks that Neuroglancer counted; and the pixels of the panels: xy, xz, three dimensions, yz."""

    seconds: float
    first: float
    paths: list[str]
    needed: int
    panels: list[np.ndarray]

    def chunks(self, source: str) -> frozenset[str]:
        return frozenset(path for path in self.paths if path.startswith(source) and not path.endswith("/info"))

    def program(self, source: str) -> frozenset[str]:
        return frozenset(path for path in self.paths if not path.startswith(source))


def files(volumes: Volumes) -> list[Path]:
    """The files that are read, for bringing them into the page cache."""
    copied = (path for path in copy_of(volumes).rglob("*") if path.is_file())
    return [path for path in (volumes.file("pyramid"), *copied) if path.is_file()]


def copy_of(volumes: Volumes) -> Path:
    return volumes.folder / "precomputed"


@functools.cache
def scene(voltile: Path, volumes: Volumes, work: Path) -> Scene:
    """Makes what is missing, and opens the volume once, in order to know what the page requests."""
    volume = make_pyramid(voltile, volumes)
    with running("voltile", Setting(work, voltile, [volume])) as server:
        (dataset,) = json.loads(fetch(server, "/datasets.json"))["datasets"]
        (channel,) = dataset["channels"]
        source = f"{PROGRAM}{dataset['token']}/{channel['name']}"
        info = json.loads(fetch(server, f"{source}/info"))
        # All levels are in one group; the description has only those that are larger than a tile.
        group = channel["levels"][0]["path"].removesuffix("0")
        levels = {scale["key"]: f"{group}{scale['key']}" for scale in info["scales"]}
        copy = make_copy(volumes, volume, info, levels)
        fragment = json.dumps(state(info, volumes.shape))
        found = Scene(volume, source, levels, copy, fragment, {}, {}, frozenset(), frozenset(), [])
        first = visit(found, server, work)
        asked, chunks = first.program(source), first.chunks(source)
        published, headers = recorded(server, source, asked, min(chunks))
    seen = {"program": asked, "chunks": chunks, "panels": first.panels}
    found = replace(found, published=published, headers=headers, **seen)
    check_voxels(volume, levels["0"], found.panels)
    return found


def make_pyramid(voltile: Path, volumes: Volumes) -> Path:
    """The volume with stored levels, by `voltile pyramid`."""
    made = volumes.file("pyramid")
    if made.is_file() and made.stat().st_mtime < volumes.file("gzip").stat().st_mtime:
        made.unlink()
    if not made.is_file():
        print(f"making {made} (once)", flush=True)
        command = [voltile, "pyramid", volumes.file("gzip"), "--rechunk", made]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Missing(f"voltile pyramid: {done.stderr.strip()[-400:]}")
    return made


def make_copy(volumes: Volumes, volume: Path, info: dict, levels: dict[str, str]) -> Path:
    """The precomputed volume as files: `info`, and the stored bytes of each chunk."""
    copy = copy_of(volumes)
    done = copy / "info"
    text = json.dumps(info)
    is_new = done.is_file() and done.stat().st_mtime > volume.stat().st_mtime
    if is_new and done.read_text() == text:
        return copy
    print(f"making {copy} (once)", flush=True)
    done.unlink(missing_ok=True)
    with h5py.File(volume) as file:
        for scale in info["scales"]:
            folder = copy / scale["key"]
            folder.mkdir(parents=True, exist_ok=True)
            for name, stored in stored_chunks(file, scale, levels[scale["key"]]):
                (folder / name).write_bytes(stored)
    done.write_text(text)
    return copy


def stored_chunks(file: h5py.File, scale: dict, path: str | None) -> Iterator[tuple[str, bytes]]:
    """The name and the stored bytes of each chunk of a level; a few are decoded and compared."""
    image = file[path] if path else None
    # Axes before z, y and x have one position in each chunk.
    shape = image.chunks[:-4:-1] if image is not None else None
    if image is None or scale["chunk_sizes"] != [list(shape)] or image.compression != "gzip" or image.fletcher32:
        raise Missing(f"voltile does not pass the stored chunks of level {scale['key']} through")
    places = []
    image.id.chunk_iter(lambda chunk: places.append(chunk.chunk_offset))
    for number, first in enumerate(places):
        ends = [min(at + edge, extent) for at, edge, extent in zip(first, image.chunks, image.shape)]
        offsets = scale["voxel_offset"][::-1]
        spans = [f"{at + offset}-{end + offset}" for at, end, offset in zip(first[-3:], ends[-3:], offsets)]
        _, stored = image.id.read_direct_chunk(first)
        if number % 256 == 0 and zlib.decompress(stored) != image[tuple(map(slice, first, ends))].tobytes():
            raise Missing(f"the chunks of level {scale['key']} are not deflated voxels")
        yield "_".join(reversed(spans)), stored


def state(info: dict, shape: tuple[int, int, int]) -> dict:
    """Neuroglancer's state: four panels at the middle, one voxel of level 0 per pixel, without lines over the voxels."""
    nanometres = info["scales"][0]["resolution"]
    layer = {"type": "image", "name": "image", "shader": SHADER, "shaderControls": {"normalized": {"range": [0, 255]}}}
    plain = dict.fromkeys(("showAxisLines", "showScaleBar", "showDefaultAnnotations"), False)
    return {
        "dimensions": {axis: [size * 1e-9, "m"] for axis, size in zip("xyz", nanometres)},
        "position": [middle(extent) for extent in reversed(shape)],
        "crossSectionScale": 1,
        "projectionScale": 1024,
        "layers": [layer | {"source": "precomputed://@source@"}],
        "layout": "4panel",
        **plain,
    }


def middle(extent: int) -> float:
    """A quarter of a voxel beyond the middle, so that no pixel's centre is on a boundary of voxels."""
    return extent // 2 + 0.25


def visit(scene: Scene, server: Server, work: Path) -> Visit:
    """Opens the volume in a new browser."""
    node, chromium = program("node", "nodejs"), os.environ.get("VOLTILE_CHROMIUM")
    if not chromium:
        raise Missing("Chromium is not installed (Debian: chromium)")
    if not PLAYWRIGHT.is_dir():
        raise Missing("playwright-core is not installed (scripts/page --tests)")
    base, picture = f"http://127.0.0.1:{server.port}", work / f"neuroglancer-{server.name}.png"
    fragment = urllib.parse.quote(scene.fragment.replace("@source@", base + scene.source))
    command = [node, BROWSER, chromium, f"{base}{PROGRAM}#!{fragment}", picture]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise Wrong(f"{server.name}: the browser failed: {done.stderr.strip()[-800:]}")
    told = json.loads(done.stdout)
    if told["wrong"] or not 0 < told["needed"] == told["available"]:
        raise Wrong(f"{server.name}: {told['available']} of {told['needed']} visible chunks are there: {told['wrong'][:4]}")
    paths = [url.removeprefix(base).split("#")[0] for url in told["urls"] if url.startswith(base)]
    with Image.open(picture) as shown:
        whole = np.asarray(shown.convert("RGB"))
    boxes = [[round(at) for at in panel] for panel in told["panels"]]
    panels = [whole[y : y + height, x : x + width] for x, y, width, height in boxes]
    return Visit(told["seconds"], told["first"], paths, told["needed"], panels)


def recorded(
    server: Server, source: str, asked: frozenset[str], chunk: str
) -> tuple[dict[str, bytes], dict[str, dict[str, str]]]:
    """The files of the program that were requested, and the headers of all answers, for nginx."""
    published, headers = {}, {}
    for path in sorted(asked):
        body, known = answer(server, path)
        path += "index.html" if path.endswith("/") else ""
        published[path], headers[f"= {path}"] = body, known
    for path, rule in ((f"{source}/info", f"= {source}/info"), (chunk, f"{source}/")):
        headers[rule] = answer(server, path)[1]
    return published, headers


def answer(server: Server, path: str) -> tuple[bytes, dict[str, str]]:
    """The body as sent, and the headers that matter."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", headers={"Accept-Encoding": ACCEPTED})
    with urllib.request.urlopen(request, timeout=60) as got:
        return got.read(), {name: got.headers[name] for name in HEADERS if name in got.headers}


def served(scene: Scene, setting: Setting) -> Setting:
    """The setting of the compared servers."""
    folders = {scene.source: scene.copy}
    return replace(setting, files=[scene.volume], published=scene.published, folders=folders, headers=scene.headers)


def check(scene: Scene, visit: Visit, name: str) -> None:
    """Compares a visit with the first one."""
    asked = visit.chunks(scene.source)
    if asked != scene.chunks:
        raise Wrong(f"{name}: {len(asked)} chunks were requested, {len(scene.chunks)} in the first visit")
    if visit.program(scene.source) != scene.program:
        raise Wrong(f"{name}: other files of the program were requested than in the first visit")
    for number, (shown, known) in enumerate(zip(visit.panels, scene.panels, strict=True)):
        if shown.shape != known.shape or (shown != known).any():
            raise Wrong(f"{name}: panel {number} of {shown.shape} shows other pixels than in the first visit")


def check_voxels(volume: Path, path: str, panels: list[np.ndarray]) -> None:
    """Compares the panels of planes with h5py's voxels; that of three dimensions must only not be empty."""
    xy, xz, space, yz = panels
    with h5py.File(volume) as file:
        image = file[path]
        first = (0,) * (image.ndim - 3)
        z, y, x = (extent // 2 for extent in image.shape[-3:])
        # Rows and columns as in the panels; in yz, z points to the left.
        planes = (
            ("xy", image[*first, z], xy, 1),
            ("xz", image[*first, :, y], xz, 1),
            ("yz", image[*first, :, :, x].T, yz, -1),
        )
    for name, voxels, panel, direction in planes:
        shown, rows = within(panel.shape[0], voxels.shape[0], 1)
        across, columns = within(panel.shape[1], voxels.shape[1], direction)
        differs = np.abs(panel[shown][:, across].astype(int) - voxels[rows][:, columns, np.newaxis]).max(axis=2)
        if (equal := (differs <= 1).mean()) < LEAST_EQUAL:
            raise Wrong(f"only {equal:.1%} of the pixels of panel {name} are h5py's voxels")
    if space.std() < 5:
        raise Wrong("the panel of three dimensions is empty")


def within(pixels: int, voxels: int, direction: int) -> tuple[np.ndarray, np.ndarray]:
    """The pixels along one axis of a panel that lie within the volume, and the voxels that they show."""
    at = np.floor(middle(voxels) + direction * (np.arange(pixels) + 0.5 - pixels / 2)).astype(int)
    (inside,) = np.nonzero((at >= 0) & (at < voxels))
    return inside, at[inside]
