// How a channel is painted: grey, one of six pure colours, or any other colour, all of which add up
// with other channels; or a colour map, which only a channel alone can have.
//
// The tables of the maps are the server's own files: 256 reds, 256 greens, 256 blues.

import coolwarm from "../../../crates/base/src/maps/coolwarm.lut";
import cyanhot from "../../../crates/base/src/maps/cyanhot.lut";
import fire from "../../../crates/base/src/maps/fire.lut";
import magma from "../../../crates/base/src/maps/magma.lut";
import viridis from "../../../crates/base/src/maps/viridis.lut";

export type Pure = "" | "C" | "M" | "Y" | "R" | "G" | "B";
export type MapName = "inverted" | "fire" | "viridis" | "magma" | "cyanhot" | "coolwarm";
/** `#` and six hexadecimal digits in lower case; links omit the `#`. */
export type Code = `#${string}`;
export type Colour = Pure | MapName | Code;
/** Red, green and blue. */
export type Parts = [number, number, number];

export const PURE: Pure[] = ["", "C", "M", "Y", "R", "G", "B"];
export const MAPS: MapName[] = ["inverted", "fire", "viridis", "magma", "cyanhot", "coolwarm"];
/** The map of values on both sides of zero. */
export const DIVERGING: MapName = "coolwarm";
const NAMES: Record<Pure | MapName, string> = {
  "": "grey",
  C: "cyan",
  M: "magenta",
  Y: "yellow",
  R: "red",
  G: "green",
  B: "blue",
  inverted: "inverted grey",
  fire: "fire",
  viridis: "viridis",
  magma: "magma",
  cyanhot: "cyan hot",
  coolwarm: "cool and warm",
};

export const isCode = (colour: Colour): colour is Code => colour.startsWith("#");

/** Whether a colour is grey or one of the six pure colours, which all tile addresses can name. */
export const isPure = (colour: Colour): colour is Pure => PURE.includes(colour as Pure);

export const nameOfColour = (colour: Colour): string => (isCode(colour) ? colour : NAMES[colour]);

/** A colour as in links, where codes have no `#`; null if it is none. */
export function readColour(text: string): Colour | null {
  if (/^[0-9a-f]{6}$/i.test(text)) return `#${text.toLowerCase()}`;
  return [...PURE, ...MAPS].find((colour) => colour === text) ?? null;
}

export const colourText = (colour: Colour): string => (isCode(colour) ? colour.slice(1) : colour);

/** Which parts a pure colour has, each 0 or 1. */
const PARTS: Record<Pure, Parts> = {
  "": [1, 1, 1],
  C: [0, 1, 1],
  M: [1, 0, 1],
  Y: [1, 1, 0],
  R: [1, 0, 0],
  G: [0, 1, 0],
  B: [0, 0, 1],
};

export const isMap = (colour: Colour): colour is MapName => MAPS.includes(colour as MapName);

/**
 * The colour of a channel that is shown beside others: the one that the server has `offered`, or if
 * another channel has `taken` it, the first that is free, or else cyan.
 */
export const freeColour = (taken: Colour[], offered: Pure): Pure =>
  [offered, ...PURE].find((colour) => colour !== "" && !taken.includes(colour)) ?? "C";

const FILES: Partial<Record<Colour, Uint8Array>> = { coolwarm, cyanhot, fire, magma, viridis };

/** Red, green and blue of a code, 0 to 255 each. */
export const partsOf = (code: Code): Parts =>
  [1, 3, 5].map((start) => parseInt(code.slice(start, start + 2), 16)) as Parts;

/**
 * The pure colour of the parts (red, green, blue) that exceed half of the brightest part of a
 * colour in a file: red for `#ff3000`, yellow for `#ff9000`. Grey for greys and for no colour.
 */
export function nearestPure(colour: string | null): Pure {
  if (!/^#.{6}$/.test(colour ?? "")) return "";
  const parts = partsOf(colour as Code);
  const half = Math.max(...parts) / 2;
  const bright = parts.map((part) => Number(part > half)).join();
  return PURE.find((pure) => PARTS[pure].join() === bright) ?? "";
}

/** The code of red, green and blue. */
export const codeOf = (parts: Parts): Code =>
  `#${parts.map((part) => part.toString(16).padStart(2, "0")).join("")}`;

/** The colour of a shade of 0 to 255, by the server's rules. */
export function paint(colour: Colour, shade: number): Parts {
  const file = FILES[colour];
  if (file) return [file[shade] ?? 0, file[256 + shade] ?? 0, file[512 + shade] ?? 0];
  if (colour === "inverted") return [255 - shade, 255 - shade, 255 - shade];
  if (isCode(colour)) {
    // part * shade / 255, rounded, in whole numbers as on the server.
    return partsOf(colour).map((part) => Math.floor((2 * part * shade + 255) / 510)) as Parts;
  }
  return PARTS[colour as Pure].map((part) => part * shade) as Parts;
}

/** The colours of shades, one after the other: red, green and blue of each. */
export const table = (colour: Colour, shades: Uint8Array): Uint8Array =>
  Uint8Array.from([...shades].flatMap((shade) => paint(colour, shade)));

/** The colour as in addresses of tiles; `alone` says whether the tile has no other channel. */
export function paintName(colour: Colour, alone: boolean): string {
  if (isMap(colour) || isCode(colour)) return colourText(colour);
  if (colour === "" && alone) return "grey";
  return PARTS[colour].map((part) => (part ? "ff" : "00")).join("");
}

const SHADES = [0, 32, 64, 96, 128, 160, 192, 224, 255];

/** A swatch of a colour as a CSS background: a gradient of its shades for grey and maps. */
export function gradient(colour: Colour): string {
  if (colour !== "" && !isMap(colour)) return `rgb(${paint(colour, 255).join()})`;
  const stops = SHADES.map((shade) => `rgb(${paint(colour, shade).join()})`);
  return `linear-gradient(90deg, ${stops.join()})`;
}

/** `count` colours of a map at equal distances, with parts from 0 to 1, for a shader to mix. */
export const stops = (colour: MapName, count: number): Parts[] =>
  Array.from(
    { length: count },
    (_, i) => paint(colour, Math.round((i * 255) / (count - 1))).map((part) => part / 255) as Parts,
  );
