// The control of slabs: their mode, and how many slices they have.

import { endOf, type Dataset, type PlaneName } from "./data";
import { h } from "./dom";
import { at, AXES, AXIS_NAMES } from "./geometry";
import { hasSlabs } from "./layers";
import { type Mode, MODE_NAMES, MODES, thicker, USUAL } from "./slab";
import { drawable, planesOf, type View, type ViewChange, visible } from "./view";

export class Thickness {
  readonly element: HTMLElement;
  private readonly modeField: HTMLSelectElement;
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
  /** The slices of the slab, also while one slice is shown. */
  private slices = USUAL;
  /** The slices of the whole stack. */
  private most = 1;

  /** `active`: the plane whose slices are counted. */
  constructor(
    private readonly change: ViewChange,
    private readonly active: () => PlaneName,
  ) {
    const onchange = () => this.choose((this.modeField.value || null) as Mode | null);
    this.modeField = h(
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
      this.modeField,
      this.number,
      this.words,
    );
  }

  show(dataset: Dataset, view: View, adjust: boolean): void {
    const size = endOf(drawable(dataset, view));
    const { slice } = AXES[this.active()];
    this.most = at(size, slice);
    this.slices = view.slab?.slices ?? this.slices;
    const isFlat = planesOf(view.arrangement).every((plane) => at(size, AXES[plane].slice) === 1);
    this.element.hidden = !adjust || isFlat || !visible(dataset, view).some(hasSlabs);
    this.modeField.value = view.slab?.mode ?? "";
    this.number.hidden = this.words.hidden = !view.slab;
    this.words.textContent = `of ${this.most} along ${AXIS_NAMES[slice]}`;
    if (document.activeElement === this.number) return;
    this.number.value = Number.isFinite(this.slices) ? String(this.slices) : "all";
  }

  private choose(mode: Mode | null): void {
    const { slices } = this;
    this.change((view) => ({ ...view, slab: mode && { mode, slices } }));
  }

  private typed(): void {
    const text = this.number.value.trim().toLowerCase();
    if (text === "all") this.slices = Infinity;
    else if (/^[1-9]\d*$/.test(text)) this.slices = Number(text);
    const { slices } = this;
    this.change((view) => ({ ...view, slab: view.slab && { ...view.slab, slices } }));
    this.number.blur();
  }

  /** Shows a slab of the next mode; after the last mode, one slice. */
  next(): void {
    if (this.element.hidden) return;
    const modes = [null, ...MODES];
    const { slices } = this;
    this.change((view) => {
      const now = modes.indexOf(view.slab?.mode ?? null);
      const mode = modes[(now + 1) % modes.length] ?? null;
      return { ...view, slab: mode && { mode, slices } };
    });
  }

  /** Makes the slab thicker; after the whole stack, thin again. */
  thicker(): void {
    if (this.element.hidden) return;
    const { most, slices } = this;
    this.change((view) => ({
      ...view,
      slab: { mode: view.slab?.mode ?? "max", slices: view.slab ? thicker(slices, most) : slices },
    }));
  }
}
