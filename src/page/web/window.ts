// The display window of a channel: two handles over its histogram, in the data's own values.

import type { Histogram } from "./data";
import { h } from "./dom";

export interface WindowChoice {
  /** The range of the slider. */
  range: [number, number];
  /** The server's window. */
  base: [number, number];
  /** The user's window; null is the server's. */
  chosen: [number, number] | null;
  histogram: Histogram | null;
  /** Whether values are integers. */
  whole: boolean;
}

const STEPS = 512;
const BARS = 32;
const SPACE = "http://www.w3.org/2000/svg";

const short = (value: number): string => String(Number(value.toPrecision(4)));

/** Wide enough bars to be visible, even if only some values occur. */
function pooled(counts: number[]): number[] {
  const each = Math.ceil(counts.length / BARS);
  return Array.from({ length: Math.ceil(counts.length / each) }, (_, i) =>
    counts.slice(i * each, (i + 1) * each).reduce((sum, count) => sum + count, 0));
}

/** The histogram as a shape across the slider; the highest bars are cut, because they would flatten all others. */
function shape(histogram: Histogram, [low, high]: [number, number]): SVGElement {
  const svg = document.createElementNS(SPACE, "svg");
  svg.setAttribute("viewBox", "0 0 1 1");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const { lo, hi } = histogram;
  const counts = pooled(histogram.counts);
  const most = [...counts].sort((a, b) => b - a)[2] || Math.max(...counts, 1);
  const place = (i: number) => (lo + ((hi - lo) * i) / counts.length - low) / (high - low || 1);
  const bars = counts.map((count, i) => {
    const top = 1 - Math.min(1, Math.sqrt(count / most)) * 0.95;
    return `L${place(i).toFixed(4)} ${top.toFixed(4)}H${place(i + 1).toFixed(4)}`;
  });
  const path = document.createElementNS(SPACE, "path");
  path.setAttribute("d", `M${place(0).toFixed(4)} 1${bars.join("")}V1Z`);
  svg.append(path);
  return svg;
}

/** The slider; `choose` gets the window, or null when it is reset. */
export function windowSlider(choice: WindowChoice, choose: (window: [number, number] | null) => void): HTMLElement {
  const [low, high] = choice.range;
  const position = (value: number) => String(Math.round(((value - low) / (high - low || 1)) * STEPS));
  const value = (input: HTMLInputElement) => {
    const exact = low + (Number(input.value) / STEPS) * (high - low);
    return choice.whole ? Math.round(exact) : Number(exact.toPrecision(5));
  };
  const handle = (label: string) =>
    h("input", { type: "range", min: "0", max: String(STEPS), className: "handle", "aria-label": label });
  const handles = [handle("Lowest value, black"), handle("Highest value, brightest")] as const;
  const said = h("output", {});
  const reset = h("button", { type: "button", className: "plain", title: "Back to the server's window" }, "Reset");
  const put = (window: [number, number]) => {
    handles.forEach((input, i) => {
      input.value = position(window[i] ?? 0);
      input.setAttribute("aria-valuetext", short(window[i] ?? 0));
    });
    said.textContent = `${short(window[0])} – ${short(window[1])}`;
  };
  put(choice.chosen ?? choice.base);
  reset.hidden = choice.chosen === null;
  const moved = () => {
    const window = handles.map(value) as [number, number]; // crossed handles invert, as in the configuration
    said.textContent = `${short(window[0])} – ${short(window[1])}`;
    reset.hidden = false;
    choose(window);
  };
  handles.forEach((input) => input.addEventListener("input", moved));
  reset.addEventListener("click", () => {
    put(choice.base);
    reset.hidden = true;
    choose(null);
  });
  return h("div", { className: "window" },
    h("div", { className: "field" }, "Window", said, reset),
    h("div", { className: "track" }, choice.histogram && shape(choice.histogram, choice.range), ...handles));
}
