"""The wheel: installed by pip into a new environment, the program runs and renders. scripts/python-check has the package."""

import sys
from pathlib import Path

from .report import Report, built, run

TILE = "/ndtilecache/tilecache/wide/raw/xy/1/0_0_0.png"


def check(report: Report, root: Path, place: Path, args) -> None:
    wheel = built(root, "wheel", args.release)
    print(f"        {wheel.name}, {wheel.stat().st_size >> 20} MiB")
    python = place / "venv" / "bin" / "python"
    report.ran("a venv can be made", run(sys.executable, "-m", "venv", place / "venv"))
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", wheel]
    report.ran("pip installs the wheel", run(*install))
    voltile = python.with_name("voltile")
    wanted = run(args.voltile, "--version").stdout
    said = run(voltile, "--version").stdout
    report.add("the installed program runs", said == wanted and said.startswith("voltile "), said)
    tiles = []
    for program, name in ((voltile, "wheel.png"), (args.voltile, "own.png")):
        done = run(program, "render", TILE, "-o", place / name, root / "fixtures" / "wide.h5", cwd=place)
        report.ran(f"a tile is rendered as {name}", done)
        tiles.append((place / name).read_bytes())
    report.add("the tiles are the same", tiles[0] == tiles[1] and tiles[0].startswith(b"\x89PNG"))
    report.ran("pip removes it", run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "voltile"))
    report.add("nothing of the program is left", not voltile.exists())
