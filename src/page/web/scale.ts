// The scale bar: the longest round length that fits.

import type { Channel, PlaneName } from "./data";
import { at, AXES } from "./geometry";

const MAX_PIXELS = 190;
const METRES: [number, string][] = [
  [1, "m"],
  [1e-2, "cm"],
  [1e-3, "mm"],
  [1e-6, "µm"],
  [1e-9, "nm"],
  [1e-10, "Å"],
];

/** A unit's length in metres, by any of its usual names; null if it is not a unit of length. */
export function metres(unit: string | null): number | null {
  const name = (unit ?? "")
    .trim()
    .toLowerCase()
    .replace("μ", "µ")
    .replace(/^um$|^microns?$/, "µm");
  const long: Record<string, string> = {
    meter: "m",
    metre: "m",
    centimeter: "cm",
    millimeter: "mm",
    micrometer: "µm",
    micrometre: "µm",
    nanometer: "nm",
    nanometre: "nm",
    angstrom: "å",
    millimetre: "mm",
  };
  const short = long[name.replace(/s$/, "")] ?? name;
  return METRES.find(([, symbol]) => symbol.toLowerCase() === short)?.[0] ?? null;
}

/** The largest of 1, 2 and 5 times a power of ten that does not exceed a number. */
function round(most: number): number {
  const power = 10 ** Math.floor(Math.log10(most));
  return ([5, 2, 1].find((digit) => digit * power <= most) ?? 1) * power;
}

/** A length as text; known units are converted to a suitable one. */
export function words(length: number, unit: string | null, digits = 2): string {
  const metre = metres(unit);
  if (metre === null) return `${Number(length.toPrecision(digits))} ${unit ?? "voxels"}`;
  const fits = METRES.find(([size]) => length * metre >= size * 0.999) ?? [1e-9, "nm"];
  return `${Number(((length * metre) / fits[0]).toPrecision(digits))} ${fits[1]}`;
}

/**
 * A bar of a round length: its pixels, at most so many, and its length as text; `zoom` is in pixels
 * per column.
 */
export function bar(
  channel: Channel | undefined,
  plane: PlaneName,
  zoom: number,
  most = MAX_PIXELS,
): { pixels: number; says: string } | null {
  const voxel = channel?.voxel_size ? at(channel.voxel_size, AXES[plane].column) : null;
  const perPixel = (voxel ?? 1) / zoom;
  if (!Number.isFinite(perPixel) || perPixel <= 0) return null;
  const length = round(perPixel * most);
  return {
    pixels: length / perPixel,
    says: words(length, voxel === null ? null : (channel?.voxel_unit ?? "units")),
  };
}

/**
 * A bar of a length that a person has typed, such as `10 µm`; a number alone is in the file's unit,
 * or in voxels. Null if it is none.
 */
export function barOf(
  channel: Channel | undefined,
  plane: PlaneName,
  zoom: number,
  text: string,
): { pixels: number; says: string } | null {
  const [, number = "", unit = ""] = /^\s*(\d+[.,]?\d*)\s*(\S*)\s*$/.exec(text) ?? [];
  const [length, voxel] = [
    Number(number.replace(",", ".")),
    channel?.voxel_size ? at(channel.voxel_size, AXES[plane].column) : null,
  ];
  const [of, ours] = [metres(unit), metres(channel?.voxel_unit ?? null)];
  if (!length || (unit && (of === null || ours === null || !voxel))) return null;
  const own = unit ? (length * (of ?? 1)) / (ours ?? 1) : length;
  return {
    pixels: (own / (voxel ?? 1)) * zoom,
    says: words(own, voxel === null ? null : (channel?.voxel_unit ?? "units"), 6),
  };
}

/** Draws the bar for a channel in a plane; `zoom` is in CSS pixels per column. */
export function showScale(
  element: HTMLElement,
  channel: Channel | undefined,
  plane: PlaneName,
  zoom: number,
): void {
  const found = bar(channel, plane, zoom);
  element.hidden = !found;
  if (!found) return;
  element.style.width = `${found.pixels}px`;
  element.textContent = found.says;
}
