// Looks for a label in the coarsest level, slab by slab.

import { beginOf, type Channel, type Dataset, shift, type Triple } from "./data";
import { at } from "./geometry";
import { boxAddress, readBox } from "./voxels";

/** The voxels of one request, and of a whole search. */
const SLAB = 2 ** 20;
const MAX_SEARCHED = 2 ** 28;

/**
 * A point inside the label, in voxels of the dataset's level 0; null if it was not found.
 * `progress` is told the part done.
 */
export async function findLabel(
  dataset: Dataset,
  channel: Channel,
  time: number,
  id: string,
  signal: AbortSignal,
  progress: (part: number) => void,
): Promise<Triple | null> {
  const level = channel.levels.at(-1);
  if (!level) return null;
  const [columns, rows, slices] = level.size;
  const thickness = Math.max(1, Math.floor(SLAB / (columns * rows)));
  const last = Math.min(slices, Math.ceil(MAX_SEARCHED / (columns * rows)));
  for (let z = 0; z < last; z += thickness) {
    progress(z / last);
    const size: Triple = [columns, rows, Math.min(thickness, last - z)];
    const start: Triple = [0, 0, z];
    const box = { dataset, channel, time, level: level.level, start, size };
    const ids = await readBox(boxAddress(box), signal);
    const wanted = typeof ids[0] === "bigint" ? BigInt(id) : Number(id);
    const found: number[] = [];
    for (let i = 0; i < ids.length; i += 1) if (ids[i] === wanted) found.push(i);
    const place = found[found.length >> 1]; // in the middle of those found, and on the label
    if (place === undefined) continue;
    const voxel: Triple = [
      place % columns,
      Math.floor(place / columns) % rows,
      z + Math.floor(place / columns / rows),
    ];
    const first = shift(channel, level);
    return voxel.map(
      (value, axis) =>
        at(beginOf(channel), axis) + (value + at(first, axis) + 0.5) * at(level.factor, axis),
    ) as Triple;
  }
  return null;
}
