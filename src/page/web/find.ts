// Looks for a label in the coarsest level, block by block.

import { beginOf, type Channel, type Dataset, firstInTiles, type Triple } from "./data";
import { at } from "./geometry";
import { boxAddress, readBox } from "./voxels";

/** The voxels of a block of slices, which is read by one request. */
const BLOCK = 2 ** 20;
/** A search ends after this many voxels. */
const MAX_SEARCHED = 2 ** 28;

/**
 * A point inside a label, in voxels of the dataset's level 0; null if the label was not found.
 * `progress` gets the share of the slices that are searched, from 0 to 1.
 */
export async function findLabel(
  dataset: Dataset,
  channel: Channel,
  time: number,
  id: string,
  signal: AbortSignal,
  progress: (share: number) => void,
): Promise<Triple | null> {
  const level = channel.levels.at(-1);
  if (!level) return null;
  const [columns, rows, slices] = level.size;
  const thickness = Math.max(1, Math.floor(BLOCK / (columns * rows)));
  const last = Math.min(slices, Math.ceil(MAX_SEARCHED / (columns * rows)));
  for (let z = 0; z < last; z += thickness) {
    progress(z / last);
    const size: Triple = [columns, rows, Math.min(thickness, last - z)];
    const start: Triple = [0, 0, z];
    const box = { dataset, channel, time, level: level.level, start, size };
    const ids = await readBox(boxAddress(box), signal);
    const wanted = typeof ids[0] === "bigint" ? BigInt(id) : Number(id);
    const indices: number[] = [];
    for (let i = 0; i < ids.length; i += 1) if (ids[i] === wanted) indices.push(i);
    // Of the label's voxels in the block, the middle one of the list, mostly not at the edge.
    const middle = indices[indices.length >> 1];
    if (middle === undefined) continue;
    const voxel: Triple = [
      middle % columns,
      Math.floor(middle / columns) % rows,
      z + Math.floor(middle / columns / rows),
    ];
    const first = firstInTiles(channel, level);
    const begin = beginOf(channel);
    // The centre of the voxel.
    return voxel.map(
      (value, axis) => at(begin, axis) + (value + at(first, axis) + 0.5) * at(level.factor, axis),
    ) as Triple;
  }
  return null;
}
