"""The small parts: the systemd units, the Dockerfile, the wheel."""

import importlib.util
import json
import re
import sys
from pathlib import Path

from checks.report import Report
from checks.runner import ROOT
from checks.servers import Voltile, datasets, find, run

from .deb import built, glibc

# The exposure that `systemd-analyze security` may find at most, in tenths: 10 is "safe", 100 "unsafe".
EXPOSURE = 20
TILE = "/ndtilecache/tilecache/wide/raw/xy/1/0_0_0.png"
VOLUME = ROOT / "fixtures" / "wide.h5"


def unit(report: Report, place: Path, args) -> None:
    """The systemd units, checked by systemd's own linter."""
    analyze = find("systemd-analyze")
    if not analyze:
        return report.skip("the systemd unit", "systemd-analyze is not installed")
    units = [place / name for name in ("voltile.service", "voltile.socket")]
    for copy in units:
        # systemd-analyze looks for the unit's program. It is not installed here, so the copies name the one that was built.
        copy.write_text((ROOT / "packaging" / copy.name).read_text().replace("/usr/bin/voltile", str(args.voltile)))
    done = run(analyze, "verify", "--man=no", "--recursive-errors=no", *units)
    report.add("systemd-analyze verify has nothing to say", done.returncode == 0 and not done.stdout, done.stdout)
    done = run(analyze, "security", "--offline=true", f"--threshold={EXPOSURE}", units[0])
    report.ran(f"systemd-analyze security finds an exposure of at most {EXPOSURE / 10}", done)
    print("        " + done.stdout.strip().splitlines()[-1].strip())


def docker(report: Report, place: Path, args) -> None:
    """The Dockerfile, checked by a linter; and its health check, which is run without a container."""
    dockerfile = ROOT / "packaging" / "Dockerfile"
    report.ran("hadolint accepts the Dockerfile", run(Path(sys.prefix) / "bin" / "hadolint", dockerfile))
    health = json.loads(re.search(r"HEALTHCHECK.*\n +CMD (\[.*\])", dockerfile.read_text())[1])
    with Voltile(args.voltile, place, datasets({"wide": VOLUME}), report) as server:
        command = [word.replace("8080", server.address.rpartition(":")[2]) for word in health]
        report.ran("the health check finds a running server healthy", run(*command))
        unknown = [word.replace("/livez", "/nothing") for word in command]
        report.ran("and one that does not answer 200 unhealthy", run(*unknown), status=1)
    report.ran("and one that has ended", run(*command), status=1)


def wheel(report: Report, place: Path, args) -> None:
    """The wheel, installed by pip into a new environment: its program must render the same tile as the one that was built."""
    package = built("wheel", args.release)
    python = place / "venv" / "bin" / "python"
    report.ran("a venv can be made", run(sys.executable, "-m", "venv", place / "venv"))
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", package]
    report.ran("pip installs the wheel", run(*install))
    voltile = python.with_name("voltile")
    version = run(voltile, "--version").stdout
    is_right = version.startswith("voltile ") and version == run(args.voltile, "--version").stdout
    report.add("the installed program runs", is_right, version)
    tiles = []
    for program, name in ((voltile, "wheel.png"), (args.voltile, "own.png")):
        done = run(program, "render", TILE, "-o", place / name, VOLUME, cwd=place)
        report.ran(f"a tile is rendered as {name}", done)
        tiles.append((place / name).read_bytes())
    report.add("the tiles are the same", tiles[0] == tiles[1] and tiles[0].startswith(b"\x89PNG"))
    compatible(report, place, package, args.release)
    report.ran("pip removes it", run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "voltile"))
    report.add("nothing of the program is left", not voltile.exists())


def compatible(report: Report, place: Path, package: Path, is_release: bool) -> None:
    """Checks that the name of a wheel allows only systems whose glibc is new enough for the program."""
    report.ran("the wheel can be unpacked", run(sys.executable, "-m", "zipfile", "-e", package, place / "unpacked"))
    needed = glibc(next(place.glob("unpacked/*.data/scripts/voltile")))
    # `voltile-1.2.0-py3-none-manylinux_2_28_x86_64.whl`: for glibc 2.28 and newer.
    platform = re.search(r"manylinux_(\d+)_(\d+)_\w+(?=[.]whl$)", package.name)
    is_right = platform is not None and tuple(map(int, platform.groups())) >= needed
    report.add(f"its name says that it needs glibc {'.'.join(map(str, needed))}", is_right, package.name)
    done = run(Path(sys.prefix) / "bin" / "auditwheel", "show", package)
    report.add("auditwheel agrees", platform is not None and platform[0] in done.stdout, done.stdout)
    if is_release and importlib.util.find_spec("ziglang"):
        report.add("it needs no newer glibc than RHEL 8 has", needed <= (2, 28))
