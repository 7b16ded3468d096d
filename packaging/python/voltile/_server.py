"""Servers: started here, or running elsewhere."""

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

# Seconds for which a description is taken for current.
FRESH = 1.0


class Server(Mapping[str, Volume]):
    """The channels that a server serves: `server["CHANNEL"]` if it has one dataset, `server["DATASET/CHANNEL"]` always.

    Shows itself in Jupyter as voltile's page. A started server stops at the end of a `with` block, with `stop()`, when
    nothing refers to it, its volumes or arrays made of them any more, and with this Python.
    """

    def __init__(self, client: Client, program: Optional[Program] = None):
        self._client, self._program = client, program
        self._asked = 0.0
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
        known = self.datasets
        if dataset is None and len(known) != 1:
            raise ValueError(f"name one of the datasets: {', '.join(known)}")
        return Neuroglancer(self._client, dataset or known[0])

    def __getitem__(self, name: str) -> Volume:
        channels = self._channels()
        found = channels.get(name)
        if found is None and (alone := self.datasets) and len(alone) == 1:
            found = channels.get(name.removeprefix(f"{alone[0]}/"))
        if found is None:
            raise KeyError(f"there is no channel {name}; there are: {', '.join(channels)}")
        return Volume(self._client, *found)

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
        known = self.datasets
        return Frame(self._client, f"#{known[0]}" if len(known) == 1 else "").html()

    def _describe(self) -> List[Dict[str, Any]]:
        """The datasets, as the server describes them: files may change, and folders get new ones."""
        if time.monotonic() - self._asked > FRESH or not self._asked:
            described = self._client.json("datasets.json")
            if not isinstance(described, dict) or "datasets" not in described:
                raise Error(f"{self._client.place} is no voltile: it does not describe datasets")
            self._datasets, self._asked = described["datasets"], time.monotonic()
        return self._datasets

    def _channels(self) -> Dict[str, Tuple[str, Dict[str, Any]]]:
        datasets = self._describe()
        return {
            channel["name"] if len(datasets) == 1 else f"{dataset['token']}/{channel['name']}": (dataset["token"], channel)
            for dataset in datasets
            for channel in dataset["channels"]
        }


def serve(
    paths: Union[Source, Sequence[Source]] = (), *, config: Optional[Source] = None, demo: bool = False, **settings: Any
) -> Server:
    """Starts a server of files, folders, and addresses such as `s3://bucket/brain.h5`, and returns when it listens.

    It listens on a free port of 127.0.0.1, and answers only with its own random secret, so no other user of this machine
    sees the data. `config` is a configuration file; `demo=True` serves the demo volume; each further keyword is a table of
    settings, such as `cache={"chunks": "4 GiB"}`. Raises `Error` with what the program says if it does not start.
    """
    if "access" in settings:
        raise ValueError("access cannot be set: the server has a secret of its own; for others, start voltile yourself")
    sources = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    # A setting comes after it, and wins.
    # No balancer has to notice that it stops.
    flags = ["--set", 'server.bind="127.0.0.1:0"', "--set", 'server.drain_delay="0s"']
    for name, value in settings.items():
        flags += ["--set", f"{name}={_toml(value)}"]
    flags += ["--config", os.fspath(config)] if config is not None else []
    flags += ["--demo"] if demo else []
    program = Program(flags, [os.fspath(source) for source in sources])
    return Server(Client(f"{program.page}k/{program.secret}/", program), program)


def connect(address: str) -> Server:
    """A server that runs already, by the address of its page; with the secret, if it has one: `http://host/k/SECRET/`."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{address!r} is not an address such as http://127.0.0.1:8080/")
    path = parts.path if parts.path.endswith("/") else f"{parts.path}/"
    return Server(Client(urllib.parse.urlunsplit((parts.scheme, parts.netloc, path, "", ""))))


def _toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(str(key))} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value)
