// Draws labels from the ids of voxels: one of them dimming or hiding the others, in other colours
// than the server's, or their outlines. The server's tiles would not do, as several labels have the
// same colour.

import type { Box } from "./geometry";
import type { Parts } from "./paint";
import type { Values } from "./voxels";

/** A selected label, as written in the URL. */
export interface Selection {
  id: string;
  /** Whether the others are hidden rather than dimmed. */
  alone: boolean;
}

/** How labels are drawn. */
export interface LabelLook {
  selected: Selection | null;
  /** 0 for the server's colours; other numbers give others. */
  shuffle: number;
  outlines: boolean;
}

/** Whether the server's tiles look so. */
export const isServed = ({ selected, shuffle, outlines }: LabelLook): boolean =>
  !selected && !shuffle && !outlines;

/** The opacity of the labels beside the selected one, of 255. */
const DIMMED = 48;
/** The 64-bit golden ratio, by which the server spreads ids over the colours. */
const GOLDEN = 0x9e3779b97f4a7c15n;

/** The odd number by which ids are spread: after that of the server, numbers of SplitMix64. */
function spread(shuffle: number): bigint {
  if (!shuffle) return GOLDEN;
  const mixed = (z: bigint, shift: bigint, factor: bigint) =>
    BigInt.asUintN(64, (z ^ (z >> shift)) * factor);
  const z = mixed(
    mixed(BigInt.asUintN(64, BigInt(shuffle) * GOLDEN), 30n, 0xbf58476d1ce4e5b9n),
    27n,
    0x94d049bb133111ebn,
  );
  return (z ^ (z >> 31n)) | 1n;
}

/**
 * The colour of a label: the server's rule (`base::color`), unless it is shuffled. Label 0 has
 * none.
 */
export function labelColour(id: bigint, shuffle: number): Parts {
  const hash = (BigInt.asUintN(64, id * spread(shuffle)) >> 32n) * 6n;
  const rise = Number((157n * ((hash >> 24n) & 255n)) / 255n);
  const [high, low, up, down] = [242, 85, 85 + rise, 242 - rise];
  const wheel: Parts[] = [
    [high, up, low],
    [down, high, low],
    [low, high, up],
    [low, down, high],
    [up, low, high],
    [high, low, down],
  ];
  return wheel[Number(hash >> 32n)] ?? [0, 0, 0];
}

/** The ids of a box as places in a list of the ids that occur, of which 0 is the first. */
function numbered(ids: Values): { places: Uint32Array; occurring: string[] } {
  const known = new Map<number | bigint, number>();
  const occurring = ["0"];
  let [before, place]: [number | bigint | undefined, number] = [undefined, 0];
  const places = Uint32Array.from(ids as ArrayLike<number>, (id: number | bigint) => {
    if (id === before) return place;
    before = id;
    // Signed ids are as they are in the file.
    place = Number(id) === 0 ? 0 : (known.get(id) ?? occurring.push(String(id)) - 1);
    known.set(id, place);
    return place;
  });
  return { places, occurring };
}

/**
 * Draws labels on the pixels of a tile (red, green, blue, opacity; `side` in a row and column),
 * which are clear; `ids` are those of a box, which may be larger than the tile.
 */
export function drawLabels(
  pixels: Uint8ClampedArray,
  side: number,
  ids: Values,
  { width, rows, top, left }: Box,
  look: LabelLook,
): void {
  const { selected, shuffle, outlines } = look;
  const { places, occurring } = numbered(ids);
  const opacity = (id: string) =>
    !selected || id === selected.id ? 255 : selected.alone ? 0 : DIMMED;
  const painted = new Uint8ClampedArray(4 * occurring.length);
  occurring.forEach(
    (id, i) => i && painted.set([...labelColour(BigInt(id), shuffle), opacity(id)], 4 * i),
  );
  // Whole pixels are copied, so the order of bytes in a word does not matter.
  const colours = new Uint32Array(painted.buffer);
  const words = new Uint32Array(pixels.buffer, pixels.byteOffset, side * side);
  // Outside of the volume, labels go on.
  const differs = (place: number, row: number | undefined, x: number) =>
    row !== undefined && x >= 0 && x < width && places[row * width + x] !== place;
  rows.forEach((row, y) => {
    if (y + top < 0 || y + top >= side) return;
    for (let x = Math.max(0, -left); x < Math.min(width, side - left); x += 1) {
      const place = places[row * width + x] ?? 0;
      const isDrawn =
        place &&
        (!outlines ||
          differs(place, row, x - 1) ||
          differs(place, row, x + 1) ||
          differs(place, rows[y - 1], x) ||
          differs(place, rows[y + 1], x));
      if (isDrawn) words[(y + top) * side + x + left] = colours[place] ?? 0;
    }
  });
}
