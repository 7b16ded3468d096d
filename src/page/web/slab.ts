// Slabs: the maximum, minimum or mean of slices around the one that is shown, or of all. The server
// projects the voxels of the level that is drawn, as many slices of it as the level's `slab`
// allows.

import type { Values } from "./voxels";

export type Mode = "max" | "min" | "mean";

/** A number of slices of level 0 around the slice that is shown; infinitely many for all. */
export interface Slab {
  mode: Mode;
  slices: number;
}

export const MODES: Mode[] = ["max", "min", "mean"];
export const MODE_NAMES: Record<Mode, string> = { max: "maximum", min: "minimum", mean: "mean" };
/** The slices of a slab when it is switched on first. */
export const USUAL = 9;

/** Of `count` slices, the first of a slab around one, and the one after the last. */
export function around({ slices }: Slab, slice: number, count: number): [number, number] {
  if (slices >= count) return [0, count];
  const first = slice - Math.floor(slices / 2);
  return [Math.max(0, first), Math.min(count, first + slices)];
}

/**
 * The most slices of a level that a slab can touch; each is `thickness` slices of level 0 thick.
 */
export const touched = ({ slices }: Slab, thickness: number, count: number): number =>
  Math.min(
    count,
    Math.ceil(slices / thickness) + (thickness > 1 && Number.isFinite(slices) ? 1 : 0),
  );

/** Twice as many slices around the same one, up to all; then one before and one after again. */
export const thicker = (slices: number, count: number): number =>
  slices >= count ? 3 : slices * 2 - 1 >= count ? Infinity : slices * 2 - 1;

/** As in links. */
export const slabText = ({ mode, slices }: Slab): string =>
  `${mode}:${Number.isFinite(slices) ? slices : "all"}`;

export function readSlab(text: string | null): Slab | null {
  const [, mode, slices] = /^(max|min|mean):(\d+|all)$/.exec(text ?? "") ?? [];
  if (!mode || Number(slices) === 0) return null;
  return { mode: mode as Mode, slices: slices === "all" ? Infinity : Number(slices) };
}

/** In words. */
export const inWords = ({ mode, slices }: Slab): string =>
  `${MODE_NAMES[mode]} of ${Number.isFinite(slices) ? `${slices} slices` : "all slices"}`;

/**
 * The value that a slab shows of a column of voxels, without those that stand for missing data;
 * null if there are no others.
 */
export function projected({ mode }: Slab, values: Values, missing: string[]): number | null {
  const numbers = Array.from(values as ArrayLike<number>)
    .filter(
      (value) =>
        !missing.includes(String(value)) && !missing.some((text) => Number(text) === Number(value)),
    )
    .map(Number)
    .filter((value) => !Number.isNaN(value));
  if (!numbers.length) return null;
  if (mode === "mean") return numbers.reduce((sum, value) => sum + value, 0) / numbers.length;
  return numbers.reduce((best, value) =>
    mode === "max" ? Math.max(best, value) : Math.min(best, value),
  );
}
