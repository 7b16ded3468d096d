"""Servers that this package starts, and servers that run already."""

import json
import os
import time
import urllib.parse
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ._client import Client, Error
from ._jupyter import Frame, Neuroglancer
from ._program import Program
from ._volume import Volume

# A file, a folder, or an address such as s3://bucket/brain.h5.
Source = Union[str, "os.PathLike[str]"]

# How long a description counts as current, in seconds.
FRESH = 1.0


class Server(Mapping[str, Volume]):
    """The channels that a server serves: `server["CHANNEL"]` if it has one dataset, `server["DATASET/CHANNEL"]` always.

    In Jupyter it is shown as voltile's page. A server that `serve` has started stops at the end of a `with` block, at `stop()`,
    when nothing refers to it, its volumes or their arrays any more, and with this Python.
    """

    def __init__(self, client: Client, program: Optional[Program] = None):
        self._client, self._program = client, program
        self._described_at = 0.0
        self._datasets: List[Dict[str, Any]] = []
        self._describe()

    @property
    def address(self) -> str:
        """The address of the page, with the secret: whoever has it sees everything that is served."""
        return self._client.address

    @property
    def datasets(self) -> List[str]:
        """The names of the datasets."""
        return [dataset["token"] for dataset in self._describe()]

    @property
    def log(self) -> str:
        """The last lines that a server which was started here has logged."""
        return self._program.log if self._program else ""

    def stop(self) -> None:
        """Stops a server that was started here."""
        if self._program:
            self._program.stop()

    def neuroglancer(self, dataset: Optional[str] = None) -> Neuroglancer:
        """Neuroglancer with the channels of a dataset, which must be named if there are several."""
        names = self.datasets
        if dataset is None and len(names) != 1:
            raise ValueError(f"name one of the datasets: {', '.join(names)}")
        return Neuroglancer(self._client, dataset or names[0])

    def __getitem__(self, name: str) -> Volume:
        channels, datasets = self._channels(), self.datasets
        # If there is one dataset, its channels may be named with or without it.
        key = name.removeprefix(f"{datasets[0]}/") if name not in channels and len(datasets) == 1 else name
        if key not in channels:
            raise KeyError(f"there is no channel {name}; there are: {', '.join(channels)}")
        token, channel = channels[key]
        return Volume(self._client, token, channel)

    def __iter__(self) -> Iterator[str]:
        return iter(self._channels())

    def __len__(self) -> int:
        return len(self._channels())

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<voltile.Server at {self._client.place}: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        names = self.datasets
        return Frame(self._client, f"#{names[0]}" if len(names) == 1 else "").html()

    def _describe(self) -> List[Dict[str, Any]]:
        """The server's descriptions of the datasets, asked for again after a while: files change, and folders get new files."""
        if time.monotonic() - self._described_at > FRESH or not self._described_at:
            described = self._client.json("datasets.json")
            if not isinstance(described, dict) or "datasets" not in described:
                raise Error(f"{self._client.place} is no voltile: it does not describe datasets")
            self._datasets = described["datasets"]
            self._described_at = time.monotonic()
        return self._datasets

    def _channels(self) -> Dict[str, Tuple[str, Dict[str, Any]]]:
        """For each channel, by the name that it has here: the token of its dataset, and its description."""
        datasets = self._describe()
        channels = {}
        for dataset in datasets:
            token = dataset["token"]
            for channel in dataset["channels"]:
                name = channel["name"] if len(datasets) == 1 else f"{token}/{channel['name']}"
                channels[name] = (token, channel)
        return channels


def serve(
    paths: Union[Source, Sequence[Source]] = (), *, config: Optional[Source] = None, demo: bool = False, **settings: Any
) -> Server:
    """Starts a server of files, folders, and addresses such as `s3://bucket/brain.h5`, and returns when it listens.

    The server listens on a free port of 127.0.0.1. It answers only requests with its own random secret, so other users of this
    machine do not see the data. `config` is a configuration file; `demo=True` serves the demo volume; each further keyword is a table of
    settings, such as `cache={"chunks": "4 GiB"}`. If the program does not start, `Error` is raised with the program's own text.
    """
    if "access" in settings:
        raise ValueError("access cannot be set: the server has its own secret; to serve other users, start voltile yourself")
    sources = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    # Settings of the caller come later, and win. No drain delay: there is no balancer that must notice the end of the server.
    flags = ["--set", 'server.bind="127.0.0.1:0"', "--set", 'server.drain_delay="0s"']
    for name, value in settings.items():
        flags += ["--set", f"{name}={_toml(value)}"]
    if config is not None:
        flags += ["--config", os.fspath(config)]
    if demo:
        flags.append("--demo")
    program = Program(flags, [os.fspath(source) for source in sources])
    return Server(Client(f"{program.page}k/{program.secret}/", program), program)


def connect(address: str) -> Server:
    """A server that runs already, by the address of its page, including its secret: `http://host/k/SECRET/`."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{address!r} is not an address such as http://127.0.0.1:8080/")
    path = parts.path if parts.path.endswith("/") else f"{parts.path}/"
    return Server(Client(urllib.parse.urlunsplit((parts.scheme, parts.netloc, path, "", ""))))


def _toml(value: Any) -> str:
    """A value in the notation of TOML."""
    if isinstance(value, Mapping):
        items = [f"{_toml(str(key))} = {_toml(item)}" for key, item in value.items()]
        return "{" + ", ".join(items) + "}"
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value)
