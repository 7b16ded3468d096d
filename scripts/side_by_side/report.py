"""Turns the measurements into a table: medians, and ratios taken round by round before their median is.

The table goes into a part of its own of a Markdown file, between two markers; what is around it stays.
"""

import statistics
from dataclasses import dataclass, field
from pathlib import Path

from .rows import Row, Sample, Target

BEGIN, END = "<!-- side-by-side -->", "<!-- /side-by-side -->"


@dataclass
class Results:
    """Samples of each server, round by round, and why there are none."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def latest(self) -> str:
        return ", ".join(f"{name} {figure(samples[-1].value)}" for name, samples in self.samples.items() if samples)

    def median(self, server: str) -> float | None:
        values = [sample.value for sample in self.samples.get(server, [])]
        return statistics.median(values) if values else None

    def note(self, server: str, name: str) -> float | None:
        values = [sample.notes[name] for sample in self.samples.get(server, []) if name in sample.notes]
        return statistics.median(values) if values else None


def figure(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio(row: Row, results: Results, other: str) -> float | None:
    """How many times better voltile is: the median over rounds that have both."""
    ours, theirs = results.samples.get("voltile", []), results.samples.get(other, [])
    pairs = [(a.value, b.value) for a, b in zip(ours, theirs)]
    if not pairs:
        return None
    return statistics.median(b / a if row.unit == "ms" else a / b for a, b in pairs)


def verdict(row: Row, results: Results, target: Target) -> tuple[str, bool | None]:
    """What was reached against a target, in words, and whether that will do."""
    reached = results.median("voltile") if target.other is None else ratio(row, results, target.other)
    if reached is None:
        return f"not measured ({target.text})", None
    if target.other is None:
        good = reached >= target.bound if target.least else reached <= target.bound
        return f"{figure(reached)} {row.unit} ({target.text})", good
    shown = f"{reached:.0%}" if "%" in target.text else f"{reached:.3g} ×"
    if row.unit == "ms":
        shown = f"1/{reached:.3g}"
    return f"{shown} ({target.text})", reached >= target.bound


def cell(row: Row, results: Results, server: str) -> str:
    """A median with its unit, and the 95th percentile where there is one; or why there is nothing."""
    if server in results.missing:
        return results.missing[server].splitlines()[0]
    value = results.median(server)
    late = results.note(server, "p95")
    unit = row.unit if row.unit == "/s" else f" {row.unit}"
    text = figure(value) + (unit if value is not None else "")
    return text + (f" (p95 {figure(late)})" if late else "")


def others(row: Row, results: Results) -> str:
    names = {"limit": "inflate limit", "voltile-1": "voltile, 1 thread"}
    shown = [server for server in row.servers if server not in ("lab", "expert", "voltile")]
    return "; ".join(f"{names.get(server, server)}: {cell(row, results, server)}" for server in shown)


def line(row: Row, results: Results) -> str:
    verdicts = [verdict(row, results, target) for target in row.targets]
    marks = {True: "✓", False: "**✗**", None: "?"}
    said = "; ".join(f"{marks[good]} {text}" for text, good in verdicts)
    if (held := results.note("voltile", "bytes per chunk")) is not None:
        said += f"; memory grew by {held:.0f} bytes for each chunk, all buffers counted"
    cells = [row.title, *(cell(row, results, s) for s in ("lab", "expert")), others(row, results) or "–"]
    return "| " + " | ".join([*cells, cell(row, results, "voltile"), said]) + " |"


def effort(rows: list[Row], all_results: dict[str, Results]) -> list[str]:
    """A second table: what a tile costs each server, which a busy machine blurs less than it does rates."""
    timed = [row for row in rows if all_results[row.key].note("voltile", "cpu ms") is not None]
    known = ("lab", "expert", "iipsrv", "nginx", "writev", "voltile")
    servers = [server for server in known if any(server in row.servers for row in timed)]
    if not timed:
        return []
    lines = ["Processor time that the servers spent on one answer, in ms:", ""]
    lines += ["| work | " + " | ".join(servers) + " |", "|---" * (len(servers) + 1) + "|"]
    for row in timed:
        costs = (figure(all_results[row.key].note(server, "cpu ms")) for server in servers)
        lines.append(f"| {row.title} | " + " | ".join(costs) + " |")
    return lines


def coldness(rows: list[Row], all_results: dict[str, Results]) -> str:
    """What voltile's own counters say of the rows that ought to be cold: the largest shares met."""
    cold = [all_results[row.key].samples for row in rows if "cold" in row.title or row.key.startswith("plain")]
    ours = [samples.get(name, []) for samples in cold for name in ("voltile", "voltile-1")]
    found = [sample.notes for samples in ours for sample in samples]
    worst = {kind: max((notes.get(kind, 0.0) for notes in found), default=0.0) for kind in ("tile hits", "chunk hits")}
    tiles, chunks = worst["tile hits"], worst["chunk hits"]
    return f"- How cold: of voltile's tiles at most {tiles:.1%}, of its chunks at most {chunks:.1%} came out of a cache."


def missed(rows: list[Row], all_results: dict[str, Results]) -> list[str]:
    found = []
    for row in rows:
        for target in row.targets:
            text, good = verdict(row, all_results[row.key], target)
            if good is False:
                found.append(f"{row.title}: {text}")
    return found


def table(rows: list[Row], all_results: dict[str, Results], about: list[str]) -> str:
    head = ["work", "lab", "expert", "beside", "voltile", "reached (target)"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += [line(row, all_results[row.key]) for row in rows]
    return "\n".join([*about, coldness(rows, all_results), "", *lines, "", *effort(rows, all_results), ""])


def write(path: Path, text: str, begin: str = BEGIN, end: str = END) -> None:
    """Puts `text` between the markers, at the end of the file where it has none."""
    before = path.read_text() if path.is_file() else "# Results\n"
    if begin not in before:
        before = f"{before.rstrip()}\n\n{begin}\n{end}\n"
    head, rest = before.split(begin, 1)
    tail = rest.split(end, 1)[1] if end in rest else "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{head}{begin}\n{text}{end}{tail}")
