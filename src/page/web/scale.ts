// Lengths with units, and the scale bar.

import type { Channel, PlaneName } from "./data";
import { at, AXES } from "./geometry";

/** The greatest width of the scale bar on the screen, in CSS pixels. */
const MAX_PIXELS = 190;
/** Units of length in metres, the largest first. */
const METRES: [number, string][] = [
  [1, "m"],
  [1e-2, "cm"],
  [1e-3, "mm"],
  [1e-6, "µm"],
  [1e-9, "nm"],
  [1e-10, "Å"],
];
/** Long names of units in the singular, in lower case. */
const LONG_NAMES: Record<string, string> = {
  meter: "m",
  metre: "m",
  centimeter: "cm",
  millimeter: "mm",
  millimetre: "mm",
  micrometer: "µm",
  micrometre: "µm",
  micron: "µm",
  um: "µm",
  nanometer: "nm",
  nanometre: "nm",
  angstrom: "å",
};

/** A unit's length in metres, by any of its usual names; null if it is not a unit of length. */
export function metres(unit: string | null): number | null {
  // There are two letters mu in Unicode.
  const name = (unit ?? "").trim().toLowerCase().replace("μ", "µ");
  const short = LONG_NAMES[name] ?? LONG_NAMES[name.replace(/s$/, "")] ?? name;
  return METRES.find(([, symbol]) => symbol.toLowerCase() === short)?.[0] ?? null;
}

/** The largest of 1, 2 and 5 times a power of ten that does not exceed a number. */
function roundBelow(most: number): number {
  const power = 10 ** Math.floor(Math.log10(most));
  const digit = [5, 2, 1].find((each) => each * power <= most) ?? 1;
  return digit * power;
}

/** A length as text; a known unit is converted to one that suits the length. */
export function words(length: number, unit: string | null, digits = 2): string {
  const metre = metres(unit);
  if (metre === null) return `${Number(length.toPrecision(digits))} ${unit ?? "voxels"}`;
  const inMetres = length * metre;
  // A length that rounding made slightly shorter than a unit is written in that unit.
  const [size, symbol] = METRES.find(([each]) => inMetres >= each * 0.999) ?? [1e-9, "nm"];
  return `${Number((inMetres / size).toPrecision(digits))} ${symbol}`;
}

/** The unit of a channel's lengths; null if lengths can only be given in voxels. */
export const unitOf = (channel: Channel | undefined): string | null =>
  channel?.voxel_size ? (channel.voxel_unit ?? "units") : null;

/** A scale bar: its length on the picture and in words. */
export interface Bar {
  pixels: number;
  says: string;
}

/** The width of a voxel in a plane, in the channel's unit; 1 if lengths are in voxels. */
const voxelWidth = (channel: Channel | undefined, plane: PlaneName): number =>
  channel?.voxel_size ? at(channel.voxel_size, AXES[plane].column) : 1;

/**
 * The bar of the longest round length that is at most `most` pixels long; null if voxels have no
 * width. `zoom` is in pixels per column.
 */
export function roundBar(
  channel: Channel | undefined,
  plane: PlaneName,
  zoom: number,
  most = MAX_PIXELS,
): Bar | null {
  const perPixel = voxelWidth(channel, plane) / zoom;
  if (!Number.isFinite(perPixel) || perPixel <= 0) return null;
  const length = roundBelow(perPixel * most);
  return { pixels: length / perPixel, says: words(length, unitOf(channel)) };
}

/**
 * The bar of a length that a person has typed, such as `10 µm`; a number alone is in the channel's
 * unit, or in voxels. Null if the text is not a length that the channel's voxels can be compared
 * with.
 */
export function typedBar(
  channel: Channel | undefined,
  plane: PlaneName,
  zoom: number,
  text: string,
): Bar | null {
  const [, number = "", unit = ""] = /^\s*(\d+[.,]?\d*)\s*(\S*)\s*$/.exec(text) ?? [];
  let length = Number(number.replace(",", "."));
  if (unit) {
    const typedMetres = metres(unit);
    const ownMetres = metres(unitOf(channel));
    if (typedMetres === null || ownMetres === null) return null;
    length *= typedMetres / ownMetres;
  }
  const width = voxelWidth(channel, plane);
  if (!length || !width) return null;
  return { pixels: (length / width) * zoom, says: words(length, unitOf(channel), 6) };
}

/** Draws the bar for a channel in a plane; `zoom` is in CSS pixels per column. */
export function showScale(
  element: HTMLElement,
  channel: Channel | undefined,
  plane: PlaneName,
  zoom: number,
): void {
  const bar = roundBar(channel, plane, zoom);
  element.hidden = !bar;
  if (!bar) return;
  element.style.width = `${bar.pixels}px`;
  element.textContent = bar.says;
}
