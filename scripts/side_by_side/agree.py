"""Rows that validate `voltile bench FILE` against criterion (`benches/stages/files.rs`).

Both render the same tiles on one thread, cold and with decoded chunks.
"""

import functools
import json
import os
import re
from functools import partial
from pathlib import Path

from checks.runner import ROOT
from checks.servers import Refused, need, run

from .rows import Bench, Row, Sample

LAYOUTS = {"gzip": "64³ gzip", "plain": "64³", "contiguous": "contiguous"}
# Tiles in a measurement, and how many times more of an uncompressed layout: rendering these is mostly copying, and the
# voxels must exceed the processor's cache.
COLD, MORE, KEPT = 4, 64, 64
QUICK = ("--warm-up-time", "0.2", "--measurement-time", "0.5", "--nresamples", "1001", "--noplot")


@functools.cache
def built() -> Path:
    """Builds benches/stages.rs; returns its binary, whose name cargo prints."""
    print("building benches/stages.rs", flush=True)
    done = run(need("cargo", "cargo"), "bench", "--locked", "--no-run", "--bench", "stages", cwd=ROOT)
    found = re.search(r"Executable benches/stages\.rs \((.+)\)", done.stdout)
    if done.returncode or not found:
        raise Refused(f"benches/stages.rs could not be built:\n{done.stdout}")
    return (ROOT / found[1]).resolve()


def rendered(bench: Bench, name: str, turn: int, token: str, plane: str, state: str) -> Sample:
    """Milliseconds per tile of a file."""
    path, most = bench.volumes.file(token), COLD * (1 if token == "gzip" else MORE)
    if name == "bench":
        words = [path, "--plane", plane, "--threads", 1, "--seed", turn + 1, "--seconds", 60]
        words += ["--state", "chunks", "--tiles", most] if state == "cold" else ["--state", "warm", "--tiles", 1024]
        # The same tiles as criterion's group "kept".
        words += [] if state == "cold" else ["--max", 64, "--x", 0, 0, "--y", 0, 0]
        done = run(bench.setting.voltile, "bench", *words, "--level", 0, "--pattern", "random", "--json", stderr=None)
        if done.returncode:
            raise Refused(f"voltile bench ended with status {done.returncode}")
        (row,) = json.loads(done.stdout)["rows"]
        return Sample(row["latency"]["mean"])
    home, group = bench.setting.work / "criterion", f"file {state}/{path.stem}/{plane}"
    told = {"CRITERION_HOME": home, "VOLTILE_BENCH_FILES": path, "VOLTILE_BENCH_TILES": most, "VOLTILE_BENCH_SEED": turn + 1}
    environment = os.environ | {key: str(value) for key, value in told.items()}
    done = run(built(), "--bench", *QUICK, f"^{group}$", cwd=bench.setting.work, env=environment)
    if done.returncode:
        raise Refused(f"criterion: {done.stdout}")
    mean = json.loads((home / group / "new" / "estimates.json").read_text())["mean"]["point_estimate"] / 1e6
    # One iteration renders all tiles.
    return Sample(mean / (KEPT if state == "kept" else most))


def rows() -> list[Row]:
    found = []
    for token, title in LAYOUTS.items():
        for plane in ("xy", "xz", "yz"):
            for state in ("cold", "kept"):
                measure = partial(rendered, token=token, plane=plane, state=state)
                key, what = f"{token}-{plane}-{state}", f"{title}, {plane}, {state} chunks"
                found.append(Row(key, what, measure, {"criterion": None}, "ms", token, subject="bench"))
    return found
