// The control of slabs: their kind, and how many slices they have.

import { h } from "./dom";
import { at, AXES, AXIS_NAMES } from "./geometry";
import { hasSlabs } from "./layers";
import { endOf, type Dataset, type PlaneName } from "./data";
import { type Mode, MODE_NAMES, MODES, thicker, USUAL } from "./slab";
import { inSight, isOn, planesOf, type View } from "./view";

type Change = (to: (view: View) => View) => void;

export class Thickness {
  readonly element: HTMLElement;
  private readonly kind: HTMLSelectElement;
  private readonly number = h("input", {
    type: "text",
    inputMode: "numeric",
    id: "slab-slices",
    className: "number short",
    "aria-label": "Slices of the slab; all for the whole stack",
    title: "Slices of the slab; “all” for the whole stack",
    onchange: () => this.typed(),
  });
  private readonly words = h("span", {}, "slices");
  private slices = USUAL;
  private most = 1;

  /** `active`: the plane whose slices are counted. */
  constructor(
    private readonly change: Change,
    private readonly active: () => PlaneName,
  ) {
    const onchange = () => this.choose((this.kind.value || null) as Mode | null);
    this.kind = h(
      "select",
      {
        id: "slab",
        title: "One slice, or a slab of slices (b)",
        "aria-label": "One slice, or a slab of slices",
        onchange,
      },
      h("option", { value: "" }, "one slice"),
      ...MODES.map((mode) => h("option", { value: mode }, MODE_NAMES[mode])),
    );
    this.element = h(
      "div",
      { className: "thickness", role: "group", "aria-label": "Slab" },
      this.kind,
      this.number,
      this.words,
    );
  }

  show(dataset: Dataset, view: View, adjust: boolean): void {
    const channels = inSight(dataset, view);
    const { slice } = AXES[this.active()];
    this.most = at(endOf(channels), slice);
    this.slices = view.slab?.slices ?? this.slices;
    this.element.hidden =
      !adjust ||
      !channels.some((channel) => isOn(view, channel) && hasSlabs(channel)) ||
      planesOf(view.arrangement).every((plane) => at(endOf(channels), AXES[plane].slice) === 1);
    this.kind.value = view.slab?.mode ?? "";
    this.number.hidden = this.words.hidden = !view.slab;
    this.words.textContent = `of ${this.most} along ${AXIS_NAMES[slice]}`;
    if (document.activeElement !== this.number)
      this.number.value = Number.isFinite(this.slices) ? String(this.slices) : "all";
  }

  private choose(mode: Mode | null): void {
    const { slices } = this;
    this.change((view) => ({ ...view, slab: mode && { mode, slices } }));
  }

  private typed(): void {
    const text = this.number.value.trim().toLowerCase();
    const slices = text === "all" ? Infinity : Number(text);
    if ((Number.isInteger(slices) && slices > 0) || slices === Infinity) this.slices = slices;
    const { slices: chosen } = this;
    this.change((view) => ({ ...view, slab: view.slab && { ...view.slab, slices: chosen } }));
    this.number.blur();
  }

  /** The next kind of slab, after the last one slice again. */
  next(): void {
    if (this.element.hidden) return;
    const kinds = [null, ...MODES];
    const { slices } = this;
    this.change((view) => {
      const mode = kinds[(kinds.indexOf(view.slab?.mode ?? null) + 1) % kinds.length] ?? null;
      return { ...view, slab: mode && { mode, slices } };
    });
  }

  /** A thicker slab, after the whole stack a thin one again. */
  thicker(): void {
    if (this.element.hidden) return;
    const { most, slices } = this;
    this.change((view) => ({
      ...view,
      slab: { mode: view.slab?.mode ?? "max", slices: view.slab ? thicker(slices, most) : slices },
    }));
  }
}
