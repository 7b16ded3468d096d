"""The server of oracle_check, which is a plain module: its package needs the oracle."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "oracle_check"))

from server import Refused as Refused
from server import Server as Server
