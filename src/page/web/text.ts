// Texts as people search, read and copy them.

import { h } from "./dom";

/**
 * A test whether all of the words occur in a text, in upper or lower case; words are separated by
 * spaces.
 */
export function wordFilter(words: string): (text: string) => boolean {
  const wanted = words.toLowerCase().split(/\s+/);
  return (text) => {
    const lower = text.toLowerCase();
    return wanted.every((word) => lower.includes(word));
  };
}

/** A name that may be broken after a slash or an underscore. */
export const breakable = (name: string): (Node | string)[] =>
  name.split(/(?<=[/_])/).flatMap((part, i) => (i ? [h("wbr"), part] : [part]));

const POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/**
 * A number as people write it: with commas between thousands; very large and very small ones with a
 * power of ten.
 */
export function written(value: number, digits = 6): string {
  const size = Math.abs(value);
  if (!Number.isFinite(value) || size === 0 || (size >= 1e-4 && size < 1e9))
    return Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 9 });
  const [number = "", power = ""] = value.toExponential(digits - 1).split("e");
  const raised = [...power.replace("+", "")]
    .map((digit) => (digit === "-" ? "⁻" : POWERS[Number(digit)]))
    .join("");
  return `${Number(number)} × 10${raised}`;
}

/** A table as text: commas between cells, each row on a line of its own. */
export function csvText(rows: (string | number | bigint)[][]): string {
  const cellText = (cell: string | number | bigint) => {
    const text = String(cell);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => `${row.map(cellText).join()}\n`).join("");
}

/** A number without the digits that only its type adds: a 32-bit 0.1 is not 0.10000000149. */
export const tidy = (value: number): number =>
  Number.isInteger(value) ? value : Number(value.toPrecision(7));

/** A number of bytes in a unit that suits it. */
export function bytesText(bytes: number): string {
  if (bytes < 2 ** 20) return `${Math.ceil(bytes / 2 ** 10).toLocaleString("en")} KiB`;
  if (bytes < 2 ** 30) return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  return `${(bytes / 2 ** 30).toFixed(1)} GiB`;
}
