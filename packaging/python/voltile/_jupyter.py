"""The output of a cell of a notebook: the page or Neuroglancer in a frame, or a link to it.

Only pages of the same origin may show voltile in a frame. So the frame has an address of Jupyter itself, where
jupyter-server-proxy passes requests on to voltile. If the proxy is not installed, the cell shows a link.
"""

import glob
import html
import importlib.util
import json
import os
import secrets
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, List, Optional

from ._client import Client, Error, quoted

STYLE = "width: 100%; height: 600px; border: 1px solid #8884"
# A placeholder for the server's address, which only the browser knows.
BASE = "voltile-address/"
# The time limit for an answer of Jupyter, in seconds.
ANSWER_TIMEOUT = 5.0


class Frame:
    """A page of the server, shown in a cell."""

    def __init__(self, client: Client, path: str = ""):
        self._client, self._path = client, path

    def html(self) -> str:
        """The page in a frame, or a link."""
        if route := _route(self._client):
            return f'<iframe src="{html.escape(route + self._path)}" style="{STYLE}" allowfullscreen></iframe>'
        return _link(self._client, self._client.address + self._path)


class Neuroglancer:
    """Neuroglancer with channels of a dataset, shown in the cell of a notebook or opened by its `address`."""

    def __init__(self, client: Client, dataset: str, channel: Optional[str] = None, time: Optional[int] = None):
        viewer: Optional[str] = client.json("datasets.json").get("neuroglancer")
        if viewer is None:
            raise Error("this voltile has no Neuroglancer; server.neuroglancer may name one")
        described = client.json(f"datasets/{quoted(dataset)}.json")
        wanted = [entry for entry in described["channels"] if channel in (None, entry["name"])]
        shown = [entry for entry in wanted if "neuroglancer" not in entry["left_out"]]
        if not shown:
            reasons = [f"{entry['name']}: {entry['left_out']['neuroglancer']}" for entry in wanted]
            raise Error("; ".join(reasons))
        # Layers are drawn in this order, and labels must lie above the images.
        shown.sort(key=lambda entry: bool(entry["kind"] == "labels"))
        at = "" if time is None else f"@{time}"
        url = f"precomputed://{BASE}neuroglancer/{quoted(dataset)}"
        layers = []
        for entry, layer in zip(shown, _layers(shown)):
            source = _source(f"{url}/{quoted(entry['name'])}{at}", described, entry, time or 0)
            layers.append({"source": source, **layer})
        self._client, self._viewer = client, viewer
        self._state = json.dumps({"layers": layers, "layout": "4panel"})

    @property
    def address(self) -> str:
        """The address for a browser on this machine; it contains the secret, if there is one."""
        state = self._state.replace(BASE, self._client.address)
        return f"{urllib.parse.urljoin(self._client.address, self._viewer)}#!{urllib.parse.quote(state)}"

    def __repr__(self) -> str:
        return self.address

    def _repr_html_(self) -> str:
        route = _route(self._client)
        if route is None or urllib.parse.urlsplit(self._viewer).scheme:
            return _link(self._client, self.address)
        name = f"voltile-{secrets.token_hex(8)}"
        # Sources must be whole addresses. Only the browser knows how they begin, so a script in the cell completes them. In its
        # strings `<` is escaped, because `</script>` would end it.
        base, viewer, state = (json.dumps(text).replace("<", "\\u003c") for text in (route, self._viewer, self._state))
        return (
            f'<iframe id="{name}" style="{STYLE}" allowfullscreen></iframe>'
            f"<script>(() => {{ const base = new URL({base}, location.origin).href;"
            f' const state = {state}.replaceAll("{BASE}", base);'
            f' document.getElementById("{name}").src = new URL({viewer}, base) + "#!" + encodeURIComponent(state); }})()</script>'
        )


def _source(url: str, dataset: Dict[str, Any], channel: Dict[str, Any], time: int) -> Any:
    """The address of a channel, with its transform to nanometres if the files say where it lies in space.

    The server's matrix (three rows of three factors and a shift) transforms places in voxels, where the first voxel's centre
    is 0. Neuroglancer's matrix transforms places in the unit of the voxel's size, where the first voxel begins at its offset.
    """
    transform = channel["transform"]
    if transform is None:
        return url
    matrix = transform["matrix"]
    # Sorted by time: the last change that is not later than `time` holds.
    for change in transform["by_time"]:
        if change["time"] <= time:
            matrix = change["matrix"]
    nanometres = transform["nanometres"]
    voxel = channel["voxel_size"] or [1.0] * 3
    offset = channel["offset"] or [0] * 3
    # The centre of the first voxel in Neuroglancer's coordinates of the source.
    first = [(0.5 + dataset["offset"][axis] + offset[axis]) * voxel[axis] for axis in range(3)]
    rows = []
    for *per_voxel, shift in matrix:
        factors = [factor / edge for factor, edge in zip(per_voxel, voxel)]
        moved = sum(factor * place for factor, place in zip(factors, first))
        rows.append([*factors, (shift - moved) * nanometres])

    def lengths(edges: List[float]) -> Dict[str, Any]:
        return {name: [edge * 1e-9, "m"] for name, edge in zip("xyz", edges)}

    source = lengths([edge * nanometres for edge in voxel])
    return {"url": url, "transform": {"matrix": rows, "inputDimensions": source, "outputDimensions": lengths([1.0] * 3)}}


# Red, green and blue of the colours of images that are shown together.
COLOURS = {"C": (0, 1, 1), "M": (1, 0, 1), "Y": (1, 1, 0), "R": (1, 0, 0), "G": (0, 1, 0), "B": (0, 0, 1)}


def _layers(channels: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The layers that draw the channels in the same way as the page: several images are added, each in the server's colour."""
    images = [channel["name"] for channel in channels if channel["kind"] == "image"]
    layers = []
    for channel in channels:
        layer = _layer(channel, len(images) > 1)
        if channel["kind"] == "image" and channel["name"] != images[0]:
            layer["blend"] = "additive"
            # Only the first six images have different colours; more are hidden until the user shows them.
            layer["visible"] = images.index(channel["name"]) < len(COLOURS)
        layers.append(layer)
    return layers


def _layer(channel: Dict[str, Any], is_coloured: bool) -> Dict[str, Any]:
    """The layer that draws one channel; an image is grey unless it `is_coloured`."""
    name = channel["label"] or channel["name"]
    if channel["kind"] == "labels":
        return {"name": name, "type": "segmentation"}
    if channel["kind"] == "rgb":
        pixel = "vec3(toNormalized(getDataValue(0)), toNormalized(getDataValue(1)), toNormalized(getDataValue(2)))"
        return {"name": name, "type": "image", "shader": f"void main() {{ emitRGB({pixel}); }}"}
    white = (1, 1, 1)
    red, green, blue = COLOURS.get(channel["composite_colour"] or "", white) if is_coloured else white
    pixel = f"normalized() * vec3({red}., {green}., {blue}.)"
    shader = f"#uicontrol invlerp normalized\nvoid main() {{ emitRGB({pixel}); }}"
    controls = {"normalized": {"range": channel["window"] or [0, 255]}}
    # Without an opacity, Neuroglancer draws images half transparent.
    return {"name": name, "type": "image", "opacity": 1, "shader": shader, "shaderControls": controls}


def _link(client: Client, address: str) -> str:
    text = f'<a href="{html.escape(address)}" target="_blank">voltile at {html.escape(client.place)}</a>'
    if client.is_local and _running_jupyter() is not None:
        text += " (in the cell, if jupyter-server-proxy is installed where Jupyter runs)"
    return text


def _running_jupyter() -> Optional[Dict[str, Any]]:
    """The description of the Jupyter server that has started this kernel: `base_url`, `url`, `token`."""
    try:
        from jupyter_core.paths import jupyter_runtime_dir
    except ImportError:
        return None
    jupyter_pid = os.environ.get("JPY_PARENT_PID", "")
    # jpserver-PID.json, or nbserver-PID.json of the classic notebook.
    for file in glob.glob(os.path.join(jupyter_runtime_dir(), f"??server-{jupyter_pid}.json")):
        with open(file) as opened:
            description: Dict[str, Any] = json.load(opened)
            return description
    prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX")
    return {"base_url": prefix} if prefix else None


def _route(client: Client) -> Optional[str]:
    """The path below Jupyter's address at which a browser reaches the server; `None` if there is none."""
    jupyter = _running_jupyter() if client.is_local else None
    if jupyter is None:
        return None
    here = urllib.parse.urlsplit(client.address)
    path = f"{jupyter['base_url']}proxy/{here.port}{here.path}"
    try:
        request = urllib.request.Request(urllib.parse.urljoin(jupyter["url"], f"{path}livez"))
        request.add_header("Authorization", f"token {jupyter['token']}")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=ANSWER_TIMEOUT) as answer:
            return path if b'"ok"' in answer.read() else None
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
    except (OSError, KeyError):
        pass
    # Jupyter does not answer this kernel. Most likely both have the same packages, and so the proxy, if this kernel has it.
    return path if importlib.util.find_spec("jupyter_server_proxy") else None


def launcher() -> Dict[str, Any]:
    """The entry for jupyter-server-proxy: `voltile/` below Jupyter's address serves the folder in which Jupyter runs."""
    settings = ["server.unix_socket={unix_socket}", 'server.unix_socket_mode="600"', 'server.trusted_proxies=["unix"]']
    flags = []
    for setting in settings:
        flags += ["--set", setting]
    return {
        "command": [sys.executable, "-m", "voltile", "serve", *flags, "."],
        # The proxy puts the socket into a folder that no other user can enter.
        "unix_socket": True,
        "timeout": 60,
        "launcher_entry": {"title": "voltile"},
    }
