// Slabs: the maximum, minimum or mean of the slices around the one that is shown, or of all slices.
// The server projects the voxels of the level that is drawn, at most as many of its slices as the
// level's `slab` says.

import { isGap, type Missing, sum } from "./data";
import type { Values } from "./voxels";

export type Mode = "max" | "min" | "mean";

/** A number of slices of level 0 around the slice that is shown; infinitely many for all. */
export interface Slab {
  mode: Mode;
  slices: number;
}

export const MODES: Mode[] = ["max", "min", "mean"];
export const MODE_NAMES: Record<Mode, string> = { max: "maximum", min: "minimum", mean: "mean" };
/** The number of slices of a slab when it is first switched on. */
export const USUAL = 9;

/**
 * The first slice of a slab around a slice, and the slice after its last, in a stack of `count`
 * slices.
 */
export function around({ slices }: Slab, slice: number, count: number): [number, number] {
  if (slices >= count) return [0, count];
  const first = slice - Math.floor(slices / 2);
  return [Math.max(0, first), Math.min(count, first + slices)];
}

/**
 * The most slices of a level that a slab can touch. The level has `count` slices, each as thick as
 * `thickness` slices of level 0.
 */
export function mostTouched({ slices }: Slab, thickness: number, count: number): number {
  const touching = Math.ceil(slices / thickness);
  // A slab that does not begin at the edge of a slice of the level may touch one more.
  const isExact = thickness === 1 || !Number.isFinite(slices);
  return Math.min(count, isExact ? touching : touching + 1);
}

/**
 * The number of slices of the next thicker slab in a stack of `count` slices: 3, 5, 9, 17, … up to
 * all, then 3 again.
 */
export function thicker(slices: number, count: number): number {
  if (slices >= count) return 3;
  const more = slices * 2 - 1;
  return more >= count ? Infinity : more;
}

/** A slab as in links. */
export const slabText = ({ mode, slices }: Slab): string =>
  `${mode}:${Number.isFinite(slices) ? slices : "all"}`;

export function readSlab(text: string | null): Slab | null {
  const [, mode, slices] = /^(max|min|mean):(\d+|all)$/.exec(text ?? "") ?? [];
  if (!mode || Number(slices) === 0) return null;
  return { mode: mode as Mode, slices: slices === "all" ? Infinity : Number(slices) };
}

/** A slab in words. */
export const inWords = ({ mode, slices }: Slab): string =>
  `${MODE_NAMES[mode]} of ${Number.isFinite(slices) ? `${slices} slices` : "all slices"}`;

/** The value that a slab shows for a column of voxels; null if all of them are missing. */
export function projected({ mode }: Slab, values: Values, missing: Missing): number | null {
  const present = Array.from(values).filter((value) => !isGap(missing, value));
  const numbers = present.map(Number);
  if (!numbers.length) return null;
  if (mode === "mean") return sum(numbers) / numbers.length;
  return mode === "max" ? Math.max(...numbers) : Math.min(...numbers);
}
