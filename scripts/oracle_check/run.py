"""The main program: volumes, configuration, server, comparison in several processes, report.

A random address depends only on the seed, its token and its number, so a failure can be reproduced with the seed and
`--only`, however the work was distributed.
"""

import argparse
import multiprocessing
import re
import shlex
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from . import volumes
from .compare import Checker, Outcome
from .server import Refused, Server

BATCH = 7  # addresses of one dataset per task of the process pool
TRIED = 10  # random addresses to try for an excepted dataset
SHOWN = 5  # failures printed in full

checker: Checker  # set in each process of the pool by `prepare`


@dataclass(frozen=True)
class Setup:
    """The constants of a run."""

    args: argparse.Namespace
    folder: Path
    descriptions: dict[str, dict]
    cases: dict[str, list[dict]]
    excepted: dict[str, str]

    def wanted(self) -> list[str]:
        """Tokens that match --only, including excepted ones."""
        return [t for t in self.descriptions if re.search(self.args.only, t)]


def main(args: argparse.Namespace, folder: Path, excepted: dict[str, str]) -> int:
    start = time.monotonic()
    print(f"seed {args.seed}", flush=True)
    volumes.make(args.shared, folder)
    descriptions = {**volumes.made(folder), **volumes.genuine(args.shared, args.seed)}
    setup = Setup(args, folder, descriptions, volumes.cases(folder), excepted)
    if not setup.wanted():
        print(f"no dataset's token matches {args.only!r}", file=sys.stderr)
        return 2
    served = [t for t in setup.wanted() if t not in excepted]
    each = -(-args.addresses // max(1, len(descriptions.keys() - excepted.keys())))
    outcomes, wrong = check(setup, served, each) if served else ([], [])
    print_datasets(served, outcomes)
    failed = [o for o in outcomes if o.faults]
    print_failures(setup, failed, wrong)
    skipped = print_excepted(setup)
    print(f"{sum(o.asked for o in outcomes)} tiles requested in {time.monotonic() - start:.0f} s, seed {args.seed}")
    print(f"{len(outcomes) - len(failed)} passed, {len(failed) + len(wrong)} failed, {skipped} skipped")
    return 1 if failed or wrong else 0


def check(
    setup: Setup, tokens: list[str], each: int, config_name: str = "oracle-check.toml"
) -> tuple[list[Outcome], list[str]]:
    """Serves the datasets, compares cases and `each` random addresses of each; returns outcomes and server faults."""
    config = setup.folder / config_name
    volumes.write_config(setup.folder, [setup.descriptions[t] for t in tokens], config)
    try:
        server = Server(setup.args.voltile, config)
    except Refused as why:
        return [], [str(why)]
    try:
        outcomes = compare(setup, server.address, tokens, each)
    finally:
        wrong = server.stop()
    return outcomes, wrong


def compare(setup: Setup, address: str, tokens: list[str], each: int) -> list[Outcome]:
    tasks = [(token, setup.cases.get(token, []), range(0)) for token in tokens]
    tasks += [(token, [], range(i, min(each, i + BATCH))) for i in range(0, each, BATCH) for token in tokens]
    known = (address, setup.folder, setup.descriptions, setup.args.seed)
    with ProcessPoolExecutor(setup.args.jobs, multiprocessing.get_context("fork"), prepare, known) as pool:
        return [outcome for batch in pool.map(work, tasks) for outcome in batch]


def prepare(*known) -> None:
    global checker
    checker = Checker(*known)


def work(task: tuple[str, list[dict], range]) -> list[Outcome]:
    token, cases, numbers = task
    return [checker.case(token, c) for c in cases] + [checker.random_address(token, n) for n in numbers]


def print_datasets(served: list[str], outcomes: list[Outcome]) -> None:
    for token in served:
        of_token = [o for o in outcomes if o.token == token]
        bad = sum(bool(o.faults) for o in of_token)
        verdict = f"FAILED {bad}" if bad else "ok" if of_token else "not compared"
        print(f"{token:62} {len(of_token):4} addresses {sum(o.asked for o in of_token):5} tiles  {verdict}")


def print_failures(setup: Setup, failed: list[Outcome], wrong: list[str]) -> None:
    """The first failures in full, and the command that reproduces them."""
    for text in [*wrong, *("\n".join(o.faults) for o in interleaved(failed)[:SHOWN])]:
        print(f"\nFAILED {text}")
    if len(failed) > SHOWN:
        print(f"\n... and {len(failed) - SHOWN} more")
    if failed or wrong:
        print(f"\nseed {setup.args.seed}; configuration and log: {setup.folder}/oracle-check.toml, .log")
        print(f"to reproduce:\n    {reproduce(setup, failed)}\n")


def interleaved(failed: list[Outcome]) -> list[Outcome]:
    """The first failure of every dataset, then the second of every dataset, and so on."""
    seen: Counter[str] = Counter()
    ranked = []
    for outcome in failed:
        ranked.append((seen[outcome.token], outcome))
        seen[outcome.token] += 1
    return [outcome for _, outcome in sorted(ranked, key=lambda r: r[0])]


def reproduce(setup: Setup, failed: list[Outcome]) -> str:
    args = setup.args
    tokens = list(dict.fromkeys(o.token for o in failed))
    only = f"^({'|'.join(map(re.escape, tokens))})$" if 0 < len(tokens) <= SHOWN else args.only
    command = [sys.argv[0], "--seed", str(args.seed), "--addresses", str(args.addresses)]
    command += ["--shared", str(args.shared), "--voltile", str(args.voltile)]
    return shlex.join(command + (["--only", only] if only else []))


def print_excepted(setup: Setup) -> int:
    """Prints the skipped datasets with their reasons, and tries them with --try-excepted; returns their number."""
    for token in sorted(setup.excepted.keys() - setup.descriptions.keys()):
        print(f"{token} is excepted, but there is no such dataset")
    skipped = [t for t in setup.wanted() if t in setup.excepted]
    for token in skipped:
        tried = f"; {attempt(setup, token)}" if setup.args.try_excepted else ""
        print(f"{token:62} skipped: {setup.excepted[token]}{tried}", flush=True)
    return len(skipped)


def attempt(setup: Setup, token: str) -> str:
    """Serves and compares one excepted dataset; returns the result as text."""
    outcomes, wrong = check(setup, [token], TRIED, "oracle-check-tried.toml")
    bad = sum(bool(o.faults) for o in outcomes)
    if wrong:
        return "still fails: " + wrong[0].splitlines()[0]
    return f"still fails: {bad} of {len(outcomes)} addresses" if bad else "PASSES NOW: remove it from the table"
