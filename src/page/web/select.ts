// Shows one label: the others are dimmed or hidden, by the ids of the voxels under each pixel of a tile. Colours would
// not do, as several labels have the same one.

import type { Box } from "./geometry";
import type { Values } from "./voxels";

/** A selected label, as written in the URL. */
export interface Selection {
  id: string;
  /** Whether the others are hidden rather than dimmed. */
  alone: boolean;
}

/** The opacity of the other labels, of 255. */
const DIMMED = 48;

/** Dims or hides pixels (red, green, blue, opacity; `across` in a row) of other labels in place; `ids` are those of a box. */
export function select(pixels: Uint8ClampedArray, across: number, ids: Values, { width, rows, top, left }: Box, { id, alone }: Selection): void {
  // Compared as the array holds them; signed ids are given as they are in the file.
  const wanted = typeof ids[0] === "bigint" ? BigInt(id) : Number(id);
  rows.forEach((row, y) => {
    for (let x = 0; x < width; x += 1) {
      if (ids[row * width + x] === wanted) continue;
      const opacity = 4 * ((y + top) * across + x + left) + 3;
      pixels[opacity] = alone ? 0 : Math.min(pixels[opacity] ?? 0, DIMMED);
    }
  });
}
