// The display range of a channel in the data's own values: two handles over its histogram, two
// fields in which any number can be typed, the exponent between them, and buttons.

import { baseWindow, type Channel, type Histogram, labelOf, sum } from "./data";
import { h, svg } from "./dom";
import { clamp } from "./geometry";
import { tidy, written } from "./text";
import { isGamma, LEAST_GAMMA, MAX_GAMMA, type Shown } from "./view";

type Range = [number, number];

/** Requests of the control. */
export interface WindowEvents {
  /** Another range or exponent was chosen; `moves` says whether a handle is still moving. */
  chosen(part: { window?: Range | null; gamma?: number }, moves: boolean): void;
  /** The range is to become that of what is visible. */
  auto(): void;
  /** The slider is to span all values, even rare ones, or only the usual ones. */
  spanned(all: boolean): void;
}

/** The number of steps from one end of the slider to the other. */
const STEPS = 512;
/** The numbers of bars that a histogram may have; data with few values has few bars. */
const BARS = [64, 32, 16, 8];
/** How long a handle does not move before it is at rest, in milliseconds. */
const REST = 300;

/** Adds neighbouring counts together, so that there are at most `bars` of them. */
function pooled(counts: number[], bars: number): number[] {
  const width = Math.ceil(counts.length / bars);
  const firsts = Array.from({ length: Math.ceil(counts.length / width) }, (_, i) => i * width);
  return firsts.map((first) => sum(counts.slice(first, first + width)));
}

/** The bars of a histogram: as many as possible with at most an eighth of them empty. */
function barsOf({ counts }: Histogram): number[] {
  const choices = BARS.map((bars) => pooled(counts, bars));
  const isDense = (bars: number[]) => bars.filter((count) => count === 0).length <= bars.length / 8;
  return choices.find(isDense) ?? choices[0] ?? [];
}

/**
 * The histogram as a shape across the slider, whose ends are `low` and `high`. Heights are
 * logarithms: otherwise the many voxels of the background would flatten all other bars.
 */
function shape(histogram: Histogram, [low, high]: Range): SVGElement {
  const { lo, hi } = histogram;
  const counts = barsOf(histogram);
  const most = Math.log1p(Math.max(...counts, 1));
  const across = (i: number) => {
    const value = lo + ((hi - lo) * i) / counts.length;
    return ((value - low) / (high - low || 1)).toFixed(4);
  };
  const bars = counts.map((count, i) => {
    const top = 1 - (Math.log1p(count) / most) * 0.95;
    return `L${across(i)} ${top.toFixed(4)}H${across(i + 1)}`;
  });
  return svg(
    "svg",
    { viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { d: `M${across(0)} 1${bars.join("")}V1Z` }),
  );
}

/** The value of all sampled voxels if they are equal; null otherwise. */
export function onlyValue({ lo, hi, counts }: Histogram): number | null {
  if (lo === hi) return lo;
  const filled = counts.flatMap((count, i) => (count ? [i] : []));
  // Each bin of an 8-bit type is one value.
  const areValues = counts.length === 256 && hi - lo === 255;
  return areValues && filled.length === 1 ? lo + (filled[0] ?? 0) : null;
}

export class WindowControl {
  readonly element: HTMLElement;
  private readonly range: Range;
  /** Whether handles choose whole numbers. */
  private readonly isWhole: boolean;
  private readonly handles: [HTMLInputElement, HTMLInputElement];
  private readonly fields: [HTMLInputElement, HTMLInputElement];
  private readonly gammaSlider: HTMLInputElement;
  private readonly gammaField: HTMLInputElement;
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
    const { name, dtype, central_histogram: central } = channel;
    const histogram = (all ? null : central) ?? channel.histogram;
    this.range = histogram ? [histogram.lo, histogram.hi] : baseWindow(channel);
    this.isWhole = /int/.test(dtype) && Math.abs(this.range[1] - this.range[0]) >= 100;
    const label = labelOf(channel);
    const handle = (says: string) =>
      h("input", {
        type: "range",
        min: "0",
        max: String(STEPS),
        className: "handle",
        "aria-label": `${says} of ${label}`,
        oninput: () => this.moved(),
        onchange: () => this.rested(),
      });
    const field = (says: string, i: number) =>
      h("input", {
        type: "text",
        inputMode: "decimal",
        className: "number",
        // `lowest-NAME` or `highest-NAME`
        id: `${says.split(" ")[0]?.toLowerCase()}-${name}`,
        "aria-label": `${says} of ${label}, as a number`,
        onchange: () => this.typed(i),
      });
    this.handles = [handle("Lowest value"), handle("Highest value")];
    this.fields = [field("Lowest value", 0), field("Highest value", 1)];
    const gammaInput = (part: object) => h("input", { "aria-label": `Gamma of ${label}`, ...part });
    this.gammaSlider = gammaInput({
      type: "range",
      min: "-1",
      max: "1",
      step: "0.01",
      oninput: () => this.chooseGamma(10 ** Number(this.gammaSlider.value), true),
      onchange: () => this.rested(),
    });
    this.gammaField = gammaInput({
      type: "text",
      inputMode: "decimal",
      className: "number short",
      id: `gamma-${name}`,
      onchange: () => this.chooseGamma(Number(this.gammaField.value), false),
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
      h("label", { className: "field" }, "Gamma", this.gammaSlider, this.gammaField),
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
    for (const [i, handle] of this.handles.entries()) {
      const value = chosen[i] ?? 0;
      const step = Math.round(((value - low) / (high - low || 1)) * STEPS);
      // A handle stays where it is while it is moved, although its value is rounded.
      if (!this.timer) handle.value = String(step);
      handle.setAttribute("aria-valuetext", String(tidy(value)));
    }
    for (const [i, field] of this.fields.entries()) {
      if (document.activeElement !== field) field.value = String(tidy(chosen[i] ?? 0));
    }
    if (!this.timer) this.gammaSlider.value = String(Math.log10(gamma));
    this.gammaField.value = String(gamma);
    this.reset.hidden = window === null && gamma === 1;
  }

  private moved(): void {
    const [low, high] = this.range;
    const value = (input: HTMLInputElement, i: 0 | 1) => {
      const before = (this.shown.window ?? baseWindow(this.channel))[i];
      const place = Math.round(((before - low) / (high - low || 1)) * STEPS);
      // A handle that was not moved keeps its number, which may lie beyond the end of the slider.
      if (input.value === String(clamp(place, 0, STEPS))) return before;
      const exact = low + (Number(input.value) / STEPS) * (high - low);
      return this.isWhole ? Math.round(exact) : Number(exact.toPrecision(5));
    };
    this.beginMove();
    this.events.chosen({ window: [value(this.handles[0], 0), value(this.handles[1], 1)] }, true);
  }

  private chooseGamma(gamma: number, moves: boolean): void {
    const rounded = moves ? Number(gamma.toFixed(2)) : gamma;
    if (!isGamma(rounded)) {
      this.gammaField.value = String(clamp(rounded || 1, LEAST_GAMMA, MAX_GAMMA));
      return;
    }
    if (moves) this.beginMove();
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

  /** Writes the numbers again if something else was typed. */
  private restore(): void {
    const chosen = this.shown.window ?? baseWindow(this.channel);
    for (const [i, field] of this.fields.entries()) field.value = String(tidy(chosen[i] ?? 0));
  }

  /** Counts the handle as moving until it has not moved for a while. */
  private beginMove(): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.rested(), REST);
  }

  private rested(): void {
    window.clearTimeout(this.timer);
    this.timer = 0;
    this.events.chosen({}, false);
  }
}
