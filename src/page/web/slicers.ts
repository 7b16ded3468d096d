// The sliders at the bottom: slices of each visible plane, and time. Numbers can also be typed.

import { type Dataset, endOf, type PlaneName, type Triple } from "./data";
import { h, icon, iconButton } from "./dom";
import { at, AXES, AXIS_NAMES } from "./geometry";
import { inSight, isOn, planesOf, stepped, type View } from "./view";
import { when } from "./when";

const RATES = [1, 2, 5, 10, 20];

type Change = (to: (view: View) => View) => void;

/** A labelled slider with buttons for the previous and next position; numbers start at `first`. */
class Slicer {
  private readonly range = h("input", { type: "range", min: "0", step: "1" });
  private readonly number = h("input", { type: "number" });
  private readonly total = h("span", { className: "total" });
  readonly element: HTMLElement;
  private first = 0;

  constructor(
    label: string,
    says: string,
    className: string,
    private readonly go: (to: number) => void,
  ) {
    this.range.setAttribute("aria-label", says);
    this.number.setAttribute("aria-label", `${says}, as a number`);
    this.range.addEventListener("input", () => go(Number(this.range.value)));
    this.number.addEventListener("change", () => {
      if (this.number.value !== "") go(Number(this.number.value) - this.first);
      this.number.blur();
    });
    this.number.addEventListener("keydown", (event) => event.key === "Enter" && this.number.blur());
    this.element = h(
      "div",
      { className: `slicer ${className}`, title: says },
      h("b", {}, label),
      iconButton("previous", `${says}: previous`, () => this.by(-1)),
      this.range,
      iconButton("next", `${says}: next`, () => this.by(1)),
      this.number,
      this.total,
    );
  }

  private by(step: number): void {
    this.go(Math.min(Math.max(Number(this.range.value) + step, 0), Number(this.range.max)));
  }

  /** `says`: what the position is besides its number. */
  show(value: number, count: number, first: number, says = ""): void {
    this.range.setAttribute(
      "aria-valuetext",
      [value + first, says].filter((part) => part !== "").join(", "),
    );
    this.first = first;
    this.range.max = String(count - 1);
    this.range.value = String(value);
    if (document.activeElement !== this.number) this.number.value = String(value + first);
    this.total.textContent = `of ${first}–${first + count - 1}`;
    this.element.hidden = count < 2;
  }
}

export class Slicers {
  readonly element = h("div", { className: "slicers" });
  /** Plays along time or slices. */
  readonly player: HTMLElement;
  private readonly planes: Record<PlaneName, Slicer>;
  private readonly time: Slicer;

  private readonly button = iconButton("play", "Play (k), backwards (K)", () => this.toggle(1));
  /** What plays of a series that has slices, too. */
  private readonly along = h(
    "select",
    { id: "play-along", title: "What plays", "aria-label": "What plays" },
    h("option", { value: "t" }, "t"),
    h("option", { value: "slices" }, "slices"),
  );
  private direction = 1;
  private readonly rate = h(
    "select",
    {
      id: "rate",
      title: "Slices or time points a second",
      "aria-label": "Slices or time points a second",
    },
    ...RATES.map((rate) => h("option", { value: String(rate), selected: rate === 5 }, `${rate}/s`)),
  );
  /** When the time point was recorded. */
  private readonly when = h("span", { className: "when" });
  private playing = 0;
  private due = 0;
  private series = false;
  private now: { times: number; size: Triple } | null = null;

  /**
   * `ready`: whether everything that is asked for is on the screen; `active`: the plane that plays
   * if there is no time.
   */
  constructor(
    private readonly change: Change,
    private readonly ready: () => boolean,
    private readonly active: () => PlaneName,
  ) {
    const slicer = (plane: PlaneName) => {
      const axis = AXIS_NAMES[AXES[plane].slice];
      const go = (to: number) =>
        change((view) => stepped(view, plane, to - Math.floor(at(view.at, AXES[plane].slice))));
      return new Slicer(`${axis}`, `Slice along ${axis}`, `axis-${axis}`, go);
    };
    this.planes = { xy: slicer("xy"), xz: slicer("xz"), yz: slicer("yz") };
    this.time = new Slicer("t", "Time", "axis-t", (to) =>
      change((view) => ({ ...view, time: to })),
    );
    this.player = h("div", { className: "player" }, this.button, this.along, this.rate, this.when);
    this.element.append(...Object.values(this.planes).map((one) => one.element), this.time.element);
  }

  show(dataset: Dataset, view: View): void {
    const channels = inSight(dataset, view);
    const size = endOf(channels);
    for (const [plane, slicer] of Object.entries(this.planes) as [PlaneName, Slicer][]) {
      const axis = AXES[plane].slice;
      slicer.show(Math.floor(at(view.at, axis)), at(size, axis), at(dataset.offset, axis));
      slicer.element.hidden ||= !planesOf(view.arrangement).includes(plane);
    }
    const on = channels.filter((channel) => isOn(view, channel));
    const times = on.map((channel) => channel.times ?? 1);
    this.when.textContent = when(on, view.time);
    this.time.show(view.time, Math.max(1, ...times), 0, this.when.textContent);
    this.series = Math.max(1, ...times) > 1;
    const active = this.planes[this.active()].element;
    this.along.hidden = !this.series || active.hidden;
    this.player.hidden =
      !this.series && Object.values(this.planes).every((one) => one.element.hidden);
    this.now = { times: Math.max(1, ...times), size };
  }

  /**
   * Plays along time if there is a series, unless slices are chosen, else along slices: forwards
   * or, at -1, backwards; or stops.
   */
  toggle(direction: number): void {
    if (this.playing) return this.stop();
    this.direction = direction;
    this.due = performance.now();
    const frame = (now: number) => {
      this.playing = requestAnimationFrame(frame);
      // A late picture waits, none is left out.
      if (now < this.due || !this.ready()) return;
      this.due =
        Math.max(this.due, now - 1000 / Number(this.rate.value)) + 1000 / Number(this.rate.value);
      this.next();
    };
    this.playing = requestAnimationFrame(frame);
    this.told();
  }

  stop(): void {
    cancelAnimationFrame(this.playing);
    this.playing = 0;
    this.told();
  }

  private told(): void {
    this.button.replaceChildren(icon(this.playing ? "pause" : "play"));
    this.button.setAttribute("aria-pressed", String(this.playing !== 0));
  }

  /** The next time point or slice in the direction; after the last comes the first. */
  private next(): void {
    const { now, direction } = this;
    if (!now) return;
    const after = (here: number, count: number) => (here + direction + count) % count;
    if (this.series && (this.along.hidden || this.along.value === "t"))
      return this.change((view) => ({ ...view, time: after(view.time, now.times) }));
    const plane = this.active();
    const axis = AXES[plane].slice;
    this.change((view) => {
      const here = Math.floor(at(view.at, axis));
      return stepped(view, plane, after(here, at(now.size, axis)) - here);
    });
  }
}
