"""Formats the measurements as a table of medians, and medians of the ratios within each round.

The table is written between two markers in a Markdown file; the rest of the file is preserved.
"""

import statistics
from dataclasses import dataclass, field
from pathlib import Path

from .rows import Row, Sample, Target

TIMES = ("ms", "s")  # units of which less is better
BEGIN, END = "<!-- side-by-side -->", "<!-- /side-by-side -->"


@dataclass
class Results:
    """The samples of each server by round, and the reasons for missing ones."""

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
    """How many times better voltile is: the median over the rounds with samples of both."""
    ours, theirs = results.samples.get("voltile", []), results.samples.get(other, [])
    pairs = [(a.value, b.value) for a, b in zip(ours, theirs)]
    if not pairs:
        return None
    return statistics.median(b / a if row.unit in TIMES else a / b for a, b in pairs)


def verdict(row: Row, results: Results, target: Target) -> tuple[str, bool | None]:
    """The result compared with a target as text, and whether the target is met; None if not measured."""
    reached = results.median("voltile") if target.other is None else ratio(row, results, target.other)
    if reached is None:
        return f"not measured ({target.text})", None
    if target.other is None:
        good = reached >= target.bound if target.least else reached <= target.bound
        return f"{figure(reached)} {row.unit} ({target.text})", good
    shown = f"{reached:.0%}" if "%" in target.text else f"{reached:.3g} ×"
    if row.unit == "ms":
        shown = f"1/{reached:.3g}"
    if row.unit == "s":
        shown = f"{1 / reached:.3g} ×"
    return f"{shown} ({target.text})", reached >= target.bound


def cell(row: Row, results: Results, server: str) -> str:
    """The median with its unit, and the 95th percentile if known; or the reason why there is none."""
    if server in results.missing:
        return results.missing[server].splitlines()[0]
    value = results.median(server)
    late = results.note(server, "p95")
    unit = row.unit if row.unit == "/s" else f" {row.unit}"
    text = figure(value) + (unit if value is not None else "")
    return text + (f" (p95 {figure(late)})" if late else "")


def others(row: Row, results: Results) -> str:
    names = {"limit": "inflate limit", "voltile-1": "voltile, 1 thread", "package": "compressed-segmentation"}
    shown = [server for server in row.servers if server not in ("lab", "expert", "voltile")]
    return "; ".join(f"{names.get(server, server)}: {cell(row, results, server)}" for server in shown)


def line(row: Row, results: Results) -> str:
    verdicts = [verdict(row, results, target) for target in row.targets]
    marks = {True: "✓", False: "**✗**", None: "?"}
    said = "; ".join(f"{marks[good]} {text}" for text, good in verdicts)
    if (held := results.note("voltile", "bytes per chunk")) is not None:
        said += f"; memory grew by {held:.0f} bytes per chunk, including all buffers"
    cells = [row.title, *(cell(row, results, s) for s in ("lab", "expert")), others(row, results) or "–"]
    return "| " + " | ".join([*cells, cell(row, results, "voltile"), said]) + " |"


def effort(rows: list[Row], all_results: dict[str, Results]) -> list[str]:
    """A second table: processor time per response, which other load on the machine affects less than rates."""
    timed = [row for row in rows if all_results[row.key].note("voltile", "cpu ms") is not None]
    known = ("lab", "expert", "iipsrv", "nginx", "writev", "voltile")
    servers = [server for server in known if any(server in row.servers for row in timed)]
    if not timed:
        return []
    lines = ["Processor time of the servers per response, in ms:", ""]
    lines += ["| work | " + " | ".join(servers) + " |", "|---" * (len(servers) + 1) + "|"]
    for row in timed:
        costs = (figure(all_results[row.key].note(server, "cpu ms")) for server in servers)
        lines.append(f"| {row.title} | " + " | ".join(costs) + " |")
    return lines


def coldness(rows: list[Row], all_results: dict[str, Results]) -> str:
    """The highest cache hit rates of the cold rows, from voltile's own counters."""
    cold = [all_results[row.key].samples for row in rows if "cold" in row.title or row.key.startswith("plain")]
    ours = [samples.get(name, []) for samples in cold for name in ("voltile", "voltile-1")]
    found = [sample.notes for samples in ours for sample in samples]
    worst = {kind: max((notes.get(kind, 0.0) for notes in found), default=0.0) for kind in ("tile hits", "chunk hits")}
    tiles, chunks = worst["tile hits"], worst["chunk hits"]
    return f"- Cache hit rates of voltile in cold rows: at most {tiles:.1%} of tiles, at most {chunks:.1%} of chunks."


def missed(rows: list[Row], all_results: dict[str, Results]) -> list[str]:
    found = []
    for row in rows:
        for target in row.targets:
            text, good = verdict(row, all_results[row.key], target)
            if good is False:
                found.append(f"{row.title}: {text}")
    return found


def table(rows: list[Row], all_results: dict[str, Results], about: list[str]) -> str:
    head = ["work", "lab", "expert", "others", "voltile", "reached (target)"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += [line(row, all_results[row.key]) for row in rows]
    return "\n".join([*about, coldness(rows, all_results), "", *lines, "", *effort(rows, all_results), ""])


def write(path: Path, text: str, begin: str = BEGIN, end: str = END) -> None:
    """Writes `text` between the markers, which are appended to the file if missing."""
    before = path.read_text() if path.is_file() else "# Results\n"
    if begin not in before:
        before = f"{before.rstrip()}\n\n{begin}\n{end}\n"
    head, rest = before.split(begin, 1)
    tail = rest.split(end, 1)[1] if end in rest else "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{head}{begin}\n{text}{end}{tail}")
