// Texts as people look for them, and as they fit on the page.

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
