// The sliders at the bottom: slices of each visible plane, and time. Numbers can also be typed.

import { type Dataset, endOf, type PlaneName } from "./data";
import { h, iconButton } from "./dom";
import { at, AXES, AXIS_NAMES } from "./geometry";
import { inSight, isOn, planesOf, stepped, type View } from "./view";

type Change = (to: (view: View) => View) => void;

/** A labelled slider with buttons for the previous and next position; numbers start at `first`. */
class Slicer {
  private readonly range = h("input", { type: "range", min: "0", step: "1" });
  private readonly number = h("input", { type: "number" });
  private readonly total = h("span", { className: "total" });
  readonly element: HTMLElement;
  private first = 0;

  constructor(label: string, says: string, className: string, private readonly go: (to: number) => void) {
    this.range.setAttribute("aria-label", says);
    this.number.setAttribute("aria-label", `${says}, as a number`);
    this.range.addEventListener("input", () => go(Number(this.range.value)));
    this.number.addEventListener("change", () => {
      if (this.number.value !== "") go(Number(this.number.value) - this.first);
      this.number.blur();
    });
    this.element = h("div", { className: `slicer ${className}`, title: says }, h("b", {}, label),
      iconButton("previous", `${says}: previous`, () => this.by(-1)), this.range,
      iconButton("next", `${says}: next`, () => this.by(1)), this.number, this.total);
  }

  private by(step: number): void {
    this.go(Math.min(Math.max(Number(this.range.value) + step, 0), Number(this.range.max)));
  }

  show(value: number, count: number, first: number): void {
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
  private readonly planes: Record<PlaneName, Slicer>;
  private readonly time: Slicer;

  constructor(change: Change) {
    const slicer = (plane: PlaneName) => {
      const axis = AXIS_NAMES[AXES[plane].slice];
      const go = (to: number) =>
        change((view) => stepped(view, plane, to - Math.floor(at(view.at, AXES[plane].slice))));
      return new Slicer(`${axis}`, `Slice along ${axis}`, `axis-${axis}`, go);
    };
    this.planes = { xy: slicer("xy"), xz: slicer("xz"), yz: slicer("yz") };
    this.time = new Slicer("t", "Time", "axis-t", (to) => change((view) => ({ ...view, time: to })));
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
    const times = channels.filter((channel) => isOn(view, channel)).map((channel) => channel.times ?? 1);
    this.time.show(view.time, Math.max(1, ...times), 0);
  }
}
