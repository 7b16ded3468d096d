"""Reads HDF5 volumes through voltile: as arrays, and in the cells of a notebook as voltile's page.

    import voltile
    brain = voltile.serve("brain.h5")       # starts the program; it stops with this Python
    brain["raw"][40, :512, :512]            # a NumPy array; axes z, y, x

    voltile.connect("https://lab.example/k/SECRET/")    # a server that runs already

The manual is docs/python.md.
"""

from ._client import Error
from ._server import Server, connect, serve
from ._volume import Volume

__all__ = ["Error", "Server", "Volume", "connect", "serve"]
