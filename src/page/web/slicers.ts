// The sliders at the bottom: slices of each visible plane, and time. Numbers can also be typed.

import { type Dataset, endOf, type PlaneName, timeCount, type Triple } from "./data";
import { h, icon, iconButton } from "./dom";
import { at, AXES, AXIS_NAMES, clamp } from "./geometry";
import { drawable, planesOf, stepped, type View, type ViewChange, visible } from "./view";
import { when } from "./when";

/** Speeds of the player, in pictures a second. */
const RATES = [1, 2, 5, 10, 20];

/** A labelled slider with buttons for the previous and next position, and a field to type it. */
class Slicer {
  private readonly range = h("input", { type: "range", min: "0", step: "1" });
  private readonly number = h("input", { type: "number" });
  private readonly total = h("span", { className: "total" });
  readonly element: HTMLElement;
  /** The number of the first position. */
  private first = 0;

  /** `go` gets a position, which counts from 0. */
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
    this.go(clamp(Number(this.range.value) + step, 0, Number(this.range.max)));
  }

  /** Shows a position of `count`; `says` is read out after its number. */
  show(value: number, count: number, first: number, says = ""): void {
    this.range.setAttribute("aria-valuetext", `${value + first}${says && `, ${says}`}`);
    this.first = first;
    this.range.max = String(count - 1);
    this.range.value = String(value);
    if (document.activeElement !== this.number) this.number.value = String(value + first);
    this.total.textContent = `of ${first}–${first + count - 1}`;
    this.element.hidden = count < 2;
  }
}

/** The sliders of a view, and the player, which moves one of them. */
export class Slicers {
  readonly element = h("div", { className: "slicers" });
  readonly player: HTMLElement;
  private readonly planes: Record<PlaneName, Slicer>;
  private readonly time: Slicer;
  private readonly button = iconButton("play", "Play (k), backwards (K)", () => this.toggle(1));
  /** Chooses what is played, where there are both time points and slices. */
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
  /** The request of the next frame; 0 while nothing plays. */
  private playing = 0;
  /** When the next picture is due, in milliseconds of `performance.now`. */
  private due = 0;
  /** The number of time points, and of slices along each axis. */
  private extent: { times: number; size: Triple } | null = null;

  /**
   * `ready` says whether the whole picture is on the screen; `active` is the plane whose slices are
   * played.
   */
  constructor(
    private readonly change: ViewChange,
    private readonly ready: () => boolean,
    private readonly active: () => PlaneName,
  ) {
    const slicer = (plane: PlaneName) => {
      const axis = AXES[plane].slice;
      const name = AXIS_NAMES[axis] ?? "";
      return new Slicer(name, `Slice along ${name}`, `axis-${name}`, (to) =>
        change((view) => stepped(view, plane, to - Math.floor(at(view.at, axis)))),
      );
    };
    this.planes = { xy: slicer("xy"), xz: slicer("xz"), yz: slicer("yz") };
    this.time = new Slicer("t", "Time", "axis-t", (to) =>
      change((view) => ({ ...view, time: to })),
    );
    this.player = h("div", { className: "player" }, this.button, this.along, this.rate, this.when);
    const sliders = [...Object.values(this.planes), this.time];
    this.element.append(...sliders.map((slider) => slider.element));
  }

  show(dataset: Dataset, view: View): void {
    const size = endOf(drawable(dataset, view));
    for (const [plane, slicer] of Object.entries(this.planes) as [PlaneName, Slicer][]) {
      const axis = AXES[plane].slice;
      slicer.show(Math.floor(at(view.at, axis)), at(size, axis), at(dataset.offset, axis));
      slicer.element.hidden ||= !planesOf(view.arrangement).includes(plane);
    }
    const on = visible(dataset, view);
    const times = timeCount(on);
    this.when.textContent = when(on, view.time);
    this.time.show(view.time, times, 0, this.when.textContent);
    this.along.hidden = times === 1 || this.planes[this.active()].element.hidden;
    const hasSlices = Object.values(this.planes).some((slicer) => !slicer.element.hidden);
    this.player.hidden = times === 1 && !hasSlices;
    this.extent = { times, size };
  }

  /**
   * Begins to play, or stops. `direction` is 1 for forwards and -1 for backwards. A series plays
   * along time unless the person has chosen slices; other datasets play along slices.
   */
  toggle(direction: number): void {
    if (this.playing) return this.stop();
    this.direction = direction;
    this.due = performance.now();
    const frame = (now: number) => {
      this.playing = requestAnimationFrame(frame);
      // A late picture delays the next one; no picture is left out.
      if (now < this.due || !this.ready()) return;
      const pause = 1000 / Number(this.rate.value);
      this.due = Math.max(this.due + pause, now);
      this.next();
    };
    this.playing = requestAnimationFrame(frame);
    this.showPlaying();
  }

  stop(): void {
    cancelAnimationFrame(this.playing);
    this.playing = 0;
    this.showPlaying();
  }

  /** Shows on the button whether something plays. */
  private showPlaying(): void {
    this.button.replaceChildren(icon(this.playing ? "pause" : "play"));
    this.button.setAttribute("aria-pressed", String(this.playing !== 0));
  }

  /** The next time point or slice in the direction; after the last comes the first. */
  private next(): void {
    const { extent, direction } = this;
    if (!extent) return;
    const after = (here: number, count: number) => (here + direction + count) % count;
    if (extent.times > 1 && (this.along.hidden || this.along.value === "t")) {
      return this.change((view) => ({ ...view, time: after(view.time, extent.times) }));
    }
    const plane = this.active();
    const axis = AXES[plane].slice;
    this.change((view) => {
      const here = Math.floor(at(view.at, axis));
      return stepped(view, plane, after(here, at(extent.size, axis)) - here);
    });
  }
}
