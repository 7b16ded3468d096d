"""Formats the measurements as a table of medians, and medians of the ratios within each round."""

import statistics
from dataclasses import dataclass, field
from pathlib import Path

from .rows import Row, Sample


@dataclass
class Results:
    """The samples of each server by round, and the reasons for missing ones."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def latest(self) -> str:
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
    """A number with three digits, or without decimals."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratios(row: Row, results: Results, peer: str) -> list[float]:
    """How many times better the row's subject is than a peer, in each round with samples of both; sorted."""
    found = []
    for subject, other in zip(results.samples.get(row.subject, []), results.samples.get(peer, [])):
        if row.unit in ("ms", "s"):
            found.append(other.value / subject.value)
        else:
            found.append(subject.value / other.value)
    return sorted(found)


def cell(row: Row, results: Results, server: str) -> str:
    """The median with its unit, and the medians of the notes; or the reason why there is none."""
    if server in results.missing:
        return results.missing[server].splitlines()[0]
    samples = results.samples.get(server, [])
    if not samples:
        return "–"
    notes = [f"{figure(results.median(server, note))} {note}" for note in samples[-1].notes]
    unit = row.unit if row.unit == "/s" else f" {row.unit}"
    return f"{figure(results.median(server))}{unit}" + (f" ({', '.join(notes)})" if notes else "")


def verdicts(row: Row, results: Results) -> list[tuple[str, bool | None]]:
    """Each comparison with a peer, and with the limit, as text; and whether it meets its target, `None` without a target."""
    found: list[tuple[str, bool | None]] = []
    for peer, bound in row.peers.items():
        text, factors = f"{peer}: {cell(row, results, peer)}", ratios(row, results, peer)
        if factors:
            text += f", {figure(statistics.median(factors))} × ({figure(factors[0])} to {figure(factors[-1])})"
        text += f", target ≥ {bound:.3g} ×" if bound else ""
        found.append((text, statistics.median(factors) >= bound if factors and bound else None))
    value = results.median(row.subject)
    if row.limit and value is not None:
        found.append((f"target ≤ {row.limit:.3g}", value <= row.limit))
    return found


def table(rows: list[Row], results: dict[str, Results], about: list[str]) -> str:
    lines = [*about, "", f"| work | {rows[0].subject} | compared with: times better (least to most) |", "|---|---|---|"]
    marks = {True: "✓ ", False: "**✗** ", None: ""}
    for row in rows:
        compared = "; ".join(f"{marks[good]}{text}" for text, good in verdicts(row, results[row.key]))
        lines.append(f"| {row.title} | {cell(row, results[row.key], row.subject)} | {compared} |")
    return "\n".join([*lines, ""])


def write(path: Path, text: str, mark: str) -> None:
    """Writes `text` between the markers, which are appended to the file if missing."""
    begin, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    before = path.read_text() if path.is_file() else "# Results\n"
    if begin not in before:
        before = f"{before.rstrip()}\n\n{begin}\n{end}\n"
    head, rest = before.split(begin, 1)
    tail = rest.split(end, 1)[1] if end in rest else "\n"
    path.write_text(f"{head}{begin}\n{text}{end}{tail}")
