// The display range of a channel in the data's own values: two handles over its histogram, two
// fields in which any number can be typed, the exponent between them, and buttons.

import { baseWindow, type Channel, type Histogram } from "./data";
import { h } from "./dom";
import { written } from "./text";
import { isGamma, LEAST_GAMMA, MAX_GAMMA, type Shown } from "./view";

type Range = [number, number];

/** What the control asks for. */
export interface WindowEvents {
  /** Another range or exponent; `moves` while a handle does. */
  chosen(part: { window?: Range | null; gamma?: number }, moves: boolean): void;
  /** The range of what is visible. */
  auto(): void;
  /** Whether the slider spans all values, also those that hardly occur. */
  spanned(all: boolean): void;
}

const STEPS = 512;
/** The bars of a histogram: as many as leave hardly a gap, for data that has few values. */
const BARS = [64, 32, 16, 8];
/** A handle that has not moved for so many milliseconds is at rest. */
const REST = 300;
const SPACE = "http://www.w3.org/2000/svg";

function pooled(counts: number[], bars: number): number[] {
  const each = Math.ceil(counts.length / bars);
  return Array.from({ length: Math.ceil(counts.length / each) }, (_, i) =>
    counts.slice(i * each, (i + 1) * each).reduce((sum, count) => sum + count, 0),
  );
}

/**
 * The histogram as a shape across the slider; the heights are logarithms, or the background would
 * flatten all else.
 */
function shape(histogram: Histogram, [low, high]: [number, number]): SVGElement {
  const svg = document.createElementNS(SPACE, "svg");
  svg.setAttribute("viewBox", "0 0 1 1");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const { lo, hi } = histogram;
  const all = BARS.map((bars) => pooled(histogram.counts, bars));
  const counts =
    all.find((bars) => bars.filter((count) => count === 0).length <= bars.length / 8) ??
    all[0] ??
    [];
  const most = Math.log1p(Math.max(...counts, 1));
  const place = (i: number) => (lo + ((hi - lo) * i) / counts.length - low) / (high - low || 1);
  const bars = counts.map((count, i) => {
    const top = 1 - (Math.log1p(count) / most) * 0.95;
    return `L${place(i).toFixed(4)} ${top.toFixed(4)}H${place(i + 1).toFixed(4)}`;
  });
  const path = document.createElementNS(SPACE, "path");
  path.setAttribute("d", `M${place(0).toFixed(4)} 1${bars.join("")}V1Z`);
  svg.append(path);
  return svg;
}

/** The value of all sampled voxels, if they have the same one; null otherwise. */
export function onlyValue({ lo, hi, counts }: Histogram): number | null {
  if (lo === hi) return lo;
  const filled = counts.flatMap((count, i) => (count ? [i] : []));
  // The bins of 8-bit types are their values.
  return filled.length === 1 && counts.length === 256 && hi - lo === 255
    ? lo + (filled[0] ?? 0)
    : null;
}

export class WindowControl {
  readonly element: HTMLElement;
  private readonly range: Range;
  private readonly whole: boolean;
  private readonly handles: [HTMLInputElement, HTMLInputElement];
  private readonly fields: [HTMLInputElement, HTMLInputElement];
  private readonly curve: HTMLInputElement;
  private readonly exponent: HTMLInputElement;
  private readonly reset = h(
    "button",
    { type: "button", className: "plain", title: "Back to the server's range" },
    "Reset",
  );
  private shown: Pick<Shown, "window" | "gamma"> = { window: null, gamma: 1 };
  private timer = 0;

  /** `all`: whether the slider spans all values. */
  constructor(
    private readonly channel: Channel,
    all: boolean,
    private readonly events: WindowEvents,
  ) {
    const { label, name, dtype, central_histogram: central } = channel;
    const histogram = (all ? null : central) ?? channel.histogram;
    this.range = histogram ? [histogram.lo, histogram.hi] : baseWindow(channel);
    this.whole = /int/.test(dtype) && Math.abs(this.range[1] - this.range[0]) >= 100;
    const of = label ?? name;
    const handle = (says: string) =>
      h("input", {
        type: "range",
        min: "0",
        max: String(STEPS),
        className: "handle",
        "aria-label": `${says} of ${of}`,
        oninput: () => this.moved(),
        onchange: () => this.rested(),
      });
    const field = (says: string, i: number) =>
      h("input", {
        type: "text",
        inputMode: "decimal",
        className: "number",
        id: `${says.split(" ")[0]?.toLowerCase()}-${name}`,
        "aria-label": `${says} of ${of}, as a number`,
        onchange: () => this.typed(i),
      });
    this.handles = [handle("Lowest value"), handle("Highest value")];
    this.fields = [field("Lowest value", 0), field("Highest value", 1)];
    const exponent = (part: object) => h("input", { "aria-label": `Gamma of ${of}`, ...part });
    this.curve = exponent({
      type: "range",
      min: "-1",
      max: "1",
      step: "0.01",
      oninput: () => this.bent(10 ** Number(this.curve.value), true),
      onchange: () => this.rested(),
    });
    this.exponent = exponent({
      type: "text",
      inputMode: "decimal",
      className: "number short",
      id: `gamma-${name}`,
      onchange: () => this.bent(Number(this.exponent.value), false),
    });
    const button = (text: string, title: string, onclick: () => void) =>
      h("button", { type: "button", title, onclick }, text);
    const span = h(
      "button",
      {
        type: "button",
        id: `span-${name}`,
        "aria-pressed": all,
        title: "Lets the slider span all values, including the lowest and highest 0.01 %",
        onclick: () => events.spanned(!all),
      },
      "All values",
    );
    this.reset.addEventListener("click", () => events.chosen({ window: null, gamma: 1 }, false));
    this.element = h(
      "div",
      { className: "window" },
      h(
        "div",
        { className: "track" },
        histogram ? shape(histogram, this.range) : null,
        ...this.handles,
      ),
      h("div", { className: "ends" }, ...this.range.map((end) => h("span", {}, written(end)))),
      h("div", { className: "field" }, this.fields[0], h("span", {}, "to"), this.fields[1]),
      h("label", { className: "field" }, "Gamma", this.curve, this.exponent),
      h(
        "div",
        { className: "field buttons" },
        button("Auto", "The range of what is visible", () => events.auto()),
        button("Invert", "Exchanges black and white", () => {
          const [low, high] = this.shown.window ?? baseWindow(channel);
          events.chosen({ window: [high, low] }, false);
        }),
        central ? span : null,
        this.reset,
      ),
    );
  }

  /** Shows what is chosen. */
  show({ window, gamma }: Pick<Shown, "window" | "gamma">): void {
    this.shown = { window, gamma };
    const chosen = window ?? baseWindow(this.channel);
    const [low, high] = this.range;
    this.handles.forEach((input, i) => {
      const value = chosen[i] ?? 0;
      // Not under the finger: the value is rounded, the handle is not.
      if (!this.timer)
        input.value = String(Math.round(((value - low) / (high - low || 1)) * STEPS));
      input.setAttribute("aria-valuetext", String(value));
    });
    this.fields.forEach(
      (input, i) => document.activeElement === input || (input.value = String(chosen[i] ?? 0)),
    );
    if (!this.timer) this.curve.value = String(Math.log10(gamma));
    this.exponent.value = String(gamma);
    this.reset.hidden = window === null && gamma === 1;
  }

  private moved(): void {
    const [low, high] = this.range;
    const value = (input: HTMLInputElement, i: 0 | 1) => {
      const before = (this.shown.window ?? baseWindow(this.channel))[i];
      const place = String(Math.round(((before - low) / (high - low || 1)) * STEPS));
      // A handle at the edge may stand for a number beyond it, which stays.
      if (input.value === String(Math.min(Math.max(Number(place), 0), STEPS))) return before;
      const exact = low + (Number(input.value) / STEPS) * (high - low);
      return this.whole ? Math.round(exact) : Number(exact.toPrecision(5));
    };
    this.waits();
    this.events.chosen({ window: [value(this.handles[0], 0), value(this.handles[1], 1)] }, true);
  }

  private bent(gamma: number, moves: boolean): void {
    const rounded = moves ? Number(gamma.toFixed(2)) : gamma;
    if (!isGamma(rounded)) {
      this.exponent.value = String(Math.min(Math.max(rounded || 1, LEAST_GAMMA), MAX_GAMMA));
      return;
    }
    if (moves) this.waits();
    this.events.chosen({ gamma: rounded }, moves);
  }

  private typed(i: number): void {
    const numbers = [...(this.shown.window ?? baseWindow(this.channel))] as Range;
    const text = this.fields[i]?.value.trim().replace(",", ".") ?? "";
    const number = Number(text);
    if (text === "" || !Number.isFinite(number)) return this.restore();
    numbers[i] = number;
    this.events.chosen({ window: numbers }, false);
  }

  /** What was typed is no number. */
  private restore(): void {
    this.fields.forEach(
      (input, i) => (input.value = String((this.shown.window ?? baseWindow(this.channel))[i])),
    );
  }

  private waits(): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.rested(), REST);
  }

  private rested(): void {
    window.clearTimeout(this.timer);
    this.timer = 0;
    this.events.chosen({}, false);
  }
}
