// Draws labels from the ids of voxels: with one label selected, in other colours than the server's,
// or as outlines. The server's tiles do not suffice for that, as several labels have the same
// colour.

import type { Box } from "./geometry";
import type { Parts } from "./paint";
import type { Values } from "./voxels";

/** A selected label, as written in the URL. */
export interface Selection {
  id: string;
  /** Whether all other labels are hidden rather than dimmed. */
  alone: boolean;
}

/** How labels are drawn. */
export interface LabelLook {
  selected: Selection | null;
  /** 0 for the server's colours; every other number gives the labels other colours. */
  shuffle: number;
  outlines: boolean;
}

/** Whether the server's tiles have this look. */
export const isServed = ({ selected, shuffle, outlines }: LabelLook): boolean =>
  !selected && !shuffle && !outlines;

/** The opacity (of 255) of all other labels while one is selected. */
const DIMMED = 48;
/** The 64-bit golden ratio, by which the server spreads ids over the colours. */
const GOLDEN = 0x9e3779b97f4a7c15n;

const bits64 = (value: bigint): bigint => BigInt.asUintN(64, value);

/**
 * The odd number by which ids are multiplied to spread them over the colours: the server's for
 * shuffle 0, else a number of the generator SplitMix64.
 */
function spread(shuffle: number): bigint {
  if (!shuffle) return GOLDEN;
  let mixed = bits64(BigInt(shuffle) * GOLDEN);
  mixed = bits64((mixed ^ (mixed >> 30n)) * 0xbf58476d1ce4e5b9n);
  mixed = bits64((mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
  return (mixed ^ (mixed >> 31n)) | 1n;
}

/**
 * The colour of a label other than 0: by the server's rule (`base::color`) for shuffle 0, else
 * another one.
 *
 * The upper 32 bits of the spread id are a place on a wheel of six sections: red, yellow, green,
 * cyan, blue, magenta, and red again. Of six times that number, the bits above 32 are the section,
 * and the 8 bits below are the place in it.
 */
export function labelColour(id: bigint, shuffle: number): Parts {
  const hash = (bits64(id * spread(shuffle)) >> 32n) * 6n;
  const high = 242;
  const low = 85;
  const rise = Number((BigInt(high - low) * ((hash >> 24n) & 255n)) / 255n);
  const up = low + rise;
  const down = high - rise;
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

/** The labels of a box: a list of its ids, and for each voxel the index in the list. */
interface IndexedLabels {
  /** The ids that occur, as in the file; the first is 0, which is no label. */
  ids: string[];
  indices: Uint32Array;
}

function indexLabels(voxels: Values): IndexedLabels {
  // For each id its index in `ids`; files have numbers or 64-bit integers.
  const known = new Map<number | bigint, number>([
    [0, 0],
    [0n, 0],
  ]);
  const ids = ["0"];
  const indices = new Uint32Array(voxels.length);
  // Neighbours mostly have the same label.
  let previous: number | bigint = 0;
  let index = 0;
  for (let i = 0; i < voxels.length; i += 1) {
    const id = voxels[i] ?? 0;
    if (id !== previous) {
      previous = id;
      if (!known.has(id)) known.set(id, ids.push(String(id)) - 1);
      index = known.get(id) ?? 0;
    }
    indices[i] = index;
  }
  return { ids, indices };
}

/** The pixel of each label, as a 32-bit word; clear for the first, which is no label. */
function wordsOf(ids: string[], { selected, shuffle }: LabelLook): Uint32Array {
  const bytes = new Uint8ClampedArray(4 * ids.length);
  for (const [i, id] of ids.entries()) {
    if (i === 0) continue;
    const unselected = selected?.alone ? 0 : DIMMED;
    const opacity = !selected || id === selected.id ? 255 : unselected;
    bytes.set([...labelColour(BigInt(id), shuffle), opacity], 4 * i);
  }
  // Whole pixels are copied later, so the order of the bytes in a word does not matter.
  return new Uint32Array(bytes.buffer);
}

/**
 * Draws labels on the clear pixels of a tile (red, green, blue, opacity; `side` in a row and
 * column). `voxels` are the ids of a box, which may be larger than the tile.
 */
export function drawLabels(
  pixels: Uint8ClampedArray,
  side: number,
  voxels: Values,
  { width, rows, top, left }: Box,
  look: LabelLook,
): void {
  const { ids, indices } = indexLabels(voxels);
  const colours = wordsOf(ids, look);
  const words = new Uint32Array(pixels.buffer, pixels.byteOffset, side * side);
  // Labels are taken to go on outside of the box.
  const differs = (index: number, row: number | undefined, x: number) =>
    row !== undefined && x >= 0 && x < width && indices[row * width + x] !== index;
  for (const [y, row] of rows.entries()) {
    if (y + top < 0 || y + top >= side) continue;
    for (let x = Math.max(0, -left); x < Math.min(width, side - left); x += 1) {
      const index = indices[row * width + x] ?? 0;
      const isDrawn =
        !look.outlines ||
        differs(index, row, x - 1) ||
        differs(index, row, x + 1) ||
        differs(index, rows[y - 1], x) ||
        differs(index, rows[y + 1], x);
      if (isDrawn) words[(y + top) * side + x + left] = colours[index] ?? 0;
    }
  }
}
