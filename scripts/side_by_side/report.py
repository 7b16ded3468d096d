"""Formats the measurements as a table: the medians of the figures, and the medians of the ratios between servers."""

import statistics
from dataclasses import dataclass, field
from pathlib import Path

from .rows import Row, Sample


@dataclass
class Results:
    """One row's samples: for each server one of each round; or the reason why a server has no more."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def latest(self) -> str:
        """The servers' figures in the last round, as text."""
        return ", ".join(f"{name} {figure(samples[-1].value)}" for name, samples in self.samples.items() if samples)

    def median(self, server: str, note: str = "") -> float | None:
        """The median of a server's values, or of its notes with this name; `None` if there are none."""
        samples = self.samples.get(server, [])
        if note:
            values = [sample.notes[note] for sample in samples if note in sample.notes]
        else:
            values = [sample.value for sample in samples]
        return statistics.median(values) if values else None


def figure(value: float) -> str:
    """Formats a number with three significant digits; from 100 on, as a whole number."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratios(row: Row, results: Results, peer: str) -> list[float]:
    """How many times better the row's subject is than a peer: one factor for each round, in ascending order."""
    factors = []
    for subject_sample, peer_sample in zip(results.samples.get(row.subject, []), results.samples.get(peer, [])):
        if row.unit in ("ms", "s"):
            factors.append(peer_sample.value / subject_sample.value)
        else:
            factors.append(subject_sample.value / peer_sample.value)
    return sorted(factors)


def cell(row: Row, results: Results, server: str) -> str:
    """The median with its unit, and the medians of the notes in brackets. Without a median, the reason why there is none."""
    if server in results.missing:
        return results.missing[server].splitlines()[0]
    samples = results.samples.get(server, [])
    if not samples:
        return "–"
    notes = [f"{figure(results.median(server, note))} {note}" for note in samples[-1].notes]
    space = "" if row.unit == "/s" else " "
    return f"{figure(results.median(server))}{space}{row.unit}" + (f" ({', '.join(notes)})" if notes else "")


def verdicts(row: Row, results: Results) -> list[tuple[str, bool | None]]:
    """The comparisons with the peers and with the row's limit, as texts; each with whether it meets its target, or `None` if that
    cannot be said."""
    comparisons: list[tuple[str, bool | None]] = []
    for peer, target in row.peers.items():
        text, is_met = f"{peer}: {cell(row, results, peer)}", None
        if factors := ratios(row, results, peer):
            median = statistics.median(factors)
            text += f", {figure(median)} × ({figure(factors[0])} to {figure(factors[-1])})"
            is_met = median >= target if target else None
        text += f", target ≥ {target:.3g} ×" if target else ""
        comparisons.append((text, is_met))
    value = results.median(row.subject)
    if row.limit and value is not None:
        comparisons.append((f"target ≤ {row.limit:.3g}", value <= row.limit))
    return comparisons


def table(rows: list[Row], results: dict[str, Results], about: list[str]) -> str:
    lines = [*about, "", f"| work | {rows[0].subject} | compared with: times better (least to most) |", "|---|---|---|"]
    marks = {True: "✓ ", False: "**✗** ", None: ""}
    for row in rows:
        compared = "; ".join(f"{marks[is_met]}{text}" for text, is_met in verdicts(row, results[row.key]))
        lines.append(f"| {row.title} | {cell(row, results[row.key], row.subject)} | {compared} |")
    return "\n".join([*lines, ""])


def write(path: Path, text: str, mark: str) -> None:
    """Replaces what the file has between the markers with `text`. A file without the markers gets them at its end."""
    begin, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    before = path.read_text() if path.is_file() else "# Results\n"
    if begin not in before:
        before = f"{before.rstrip()}\n\n{begin}\n{end}\n"
    head, rest = before.split(begin, 1)
    tail = rest.split(end, 1)[1] if end in rest else "\n"
    path.write_text(f"{head}{begin}\n{text}{end}{tail}")
