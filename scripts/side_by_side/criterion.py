"""Runs the benchmarks of benches/, which are by criterion."""

import functools
import json
import os
import re
import subprocess
from pathlib import Path

from .servers import ROOT, Missing, program

QUICK = ("--warm-up-time", "0.2", "--measurement-time", "0.5", "--nresamples", "1001", "--noplot")


@functools.cache
def built(bench: str) -> Path:
    """Builds a benchmark; returns its binary, whose name cargo prints."""
    print(f"building benches/{bench}.rs", flush=True)
    command = [program("cargo", "cargo"), "bench", "--locked", "--no-run", "--bench", bench]
    done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    found = re.search(rf"Executable benches/{bench}\.rs \((.+)\)", done.stderr)
    if done.returncode or not found:
        raise Missing(f"benches/{bench}.rs could not be built:\n{done.stderr}")
    return (ROOT / found[1]).resolve()


def run(binary: Path, work: Path, what: str, environment: dict[str, str]) -> Path:
    """Runs the benchmarks whose names match a regular expression; returns the folder of the results."""
    home = work / "criterion"
    command = [binary, "--bench", *QUICK, what]
    extra = environment | {"CRITERION_HOME": str(home)}
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, env=os.environ | extra)
    if done.returncode:
        raise Missing(f"{binary}: {done.stderr}")
    return home


def estimate(home: Path, name: str, kind: str) -> float:
    """The mean or the median of a benchmark in seconds."""
    estimates = json.loads((home / name / "new" / "estimates.json").read_text())
    return estimates[kind]["point_estimate"] / 1e9
