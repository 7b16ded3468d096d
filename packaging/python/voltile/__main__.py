"""`python -m voltile` is the program `voltile`."""

import os
import sys

from ._program import path

if __name__ == "__main__":
    program = path()
    os.execv(program, [program, *sys.argv[1:]])
