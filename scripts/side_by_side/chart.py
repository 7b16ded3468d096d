"""Draws the headline figures as bars, for README."""

from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape

from .report import Results, figure

# The title of each row in the chart, and its unit.
TITLES = {
    "real-xy": ("random tiles of a gzip volume, 8 clients", "tiles/s"),
    "real-scroll": ("scrolling through it", "tiles/s"),
    "plain-xy": ("random tiles of an uncompressed volume", "tiles/s"),
    "alone-xy": ("random tiles of a gzip volume, one client", "tiles/s"),
}
NAMES = {"lab": "FastAPI and h5py", "expert": "optimised Python", "voltile": "voltile"}
# All in pixels: the picture's width; the height of a bar, and the gap below it; the height of a group's title with the space
# before it; the widths of the servers' names at the left of the bars, and of the figures at their right.
WIDTH, BAR, GAP, HEAD, LEFT, RIGHT = 720, 16, 6, 30, 150, 110
STYLE = """text { font: 13px system-ui, sans-serif; fill: #333 } .title { font-weight: 600 } rect { fill: #9aa4ad }
.voltile { fill: #d9480f } @media (prefers-color-scheme: dark) { text { fill: #ddd } rect { fill: #6b7680 } }"""


def draw(results: dict[str, Results], to: Path) -> None:
    """Writes an SVG with a group of bars for each row. In every group, the bar of the fastest server has the full length."""
    parts, top = [], 8
    for key, (title, unit) in TITLES.items():
        medians = {name: results[key].median(name) for name in NAMES}
        known = {name: value for name, value in medians.items() if value is not None}
        parts.append(text(LEFT, top + 12, f"{title}, {unit}", 'class="title"'))
        top += HEAD - 8
        for name, value in known.items():
            length = value / max(known.values()) * (WIDTH - LEFT - RIGHT)
            parts += bar(name, value, length, top)
            top += BAR + GAP
        top += HEAD // 2
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}">'
    to.write_text("\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""]))


def bar(name: str, value: float, length: float, top: int) -> Iterable[str]:
    """The elements of a bar: the server's name, the rectangle, the figure."""
    yield text(LEFT - 8, top + 13, NAMES[name], 'text-anchor="end"')
    yield f'<rect class="{name}" x="{LEFT}" y="{top}" width="{max(1, length):.1f}" height="{BAR}" rx="2"/>'
    yield text(LEFT + max(1, length) + 6, top + 13, figure(value))


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y}" {more}>{escape(words)}</text>'
