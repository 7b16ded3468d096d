"""Writes tiled TIFF files from compressed tiles (deflate, one 8-bit channel, no pyramid)."""

import struct
from pathlib import Path

SHORT, LONG = 3, 4
DEFLATE, BLACK_IS_ZERO = 8, 1


def write(path: Path, height: int, width: int, side: int, tiles: list[bytes]) -> None:
    """`tiles` are in row-major order, each a zlib stream of side x side bytes."""
    offsets, at = [], 8
    for tile in tiles:
        offsets.append(at)
        at += len(tile)
    padding = at % 2
    directory = at + padding
    entries = 10
    lists = directory + 2 + 12 * entries + 4
    fields = [
        (256, LONG, 1, width),
        (257, LONG, 1, height),
        (258, SHORT, 1, 8),
        (259, SHORT, 1, DEFLATE),
        (262, SHORT, 1, BLACK_IS_ZERO),
        (277, SHORT, 1, 1),
        (322, LONG, 1, side),
        (323, LONG, 1, side),
        (324, LONG, len(tiles), lists),
        (325, LONG, len(tiles), lists + 4 * len(tiles)),
    ]
    with open(path, "wb") as out:
        out.write(struct.pack("<2sHI", b"II", 42, directory))
        out.writelines(tiles)
        out.write(b"\0" * padding + struct.pack("<H", entries))
        for tag, kind, count, value in fields:
            out.write(struct.pack("<HHII", tag, kind, count, value))
        out.write(struct.pack(f"<I{len(tiles)}I", 0, *offsets))
        out.write(struct.pack(f"<{len(tiles)}I", *map(len, tiles)))
