// The panel of a line or rectangle that is dragged in a plane: its ends, which can also be typed,
// and what was measured.

import type { Channel, Dataset, Triple } from "./data";
import { button, h, iconButton, save } from "./dom";
import { Drag, type Ends, type Shape } from "./drag";
import { at, AXES } from "./geometry";
import type { Pane } from "./pane";
import { type View, visible } from "./view";

/** The data that a panel measures. */
export interface Measured {
  dataset: Dataset;
  view: View;
}

/** The visible channels that are measured; colour images are not. */
export const measurable = (dataset: Dataset, view: View): Channel[] =>
  visible(dataset, view).filter((channel) => channel.kind !== "rgb");

/** Requests of a panel. */
export interface MeasureEvents {
  copied(text: string): void;
  failed(error: unknown): void;
  closed(): void;
}

export abstract class MeasurePanel {
  readonly element: HTMLElement;
  protected readonly drag: Drag;
  private readonly fields: [HTMLInputElement, HTMLInputElement];
  private readonly result: HTMLElement;
  private ending = new AbortController();
  private ends: Ends | null = null;

  constructor(
    shape: Shape,
    private readonly name: string,
    protected readonly pane: Pane,
    protected readonly scene: () => Measured,
    protected readonly events: MeasureEvents,
  ) {
    this.drag = new Drag(pane, shape, (from, to) => void this.measure(from, to));
    this.fields = [this.field("from"), this.field("to")];
    const hint = `Drag a ${shape} on the picture, or type its ends.`;
    this.result = h("div", {}, h("p", { className: "reason" }, hint));
    const close = iconButton("close", `Close the ${name.toLowerCase()} (Esc)`, () =>
      events.closed(),
    );
    this.element = h(
      "section",
      { className: "measure", "aria-label": name },
      h("div", { className: "field" }, this.fields[0], "to", this.fields[1], close),
      this.result,
    );
    const centre = scene().view.at;
    this.write([centre, centre]);
  }

  /** Measures between two points, and describes the result. */
  protected abstract resultBetween(from: Triple, to: Triple, signal: AbortSignal): Promise<Node[]>;

  private field(end: "from" | "to"): HTMLInputElement {
    return h("input", {
      type: "text",
      className: "number",
      id: `${this.name.toLowerCase()}-${end}`,
      "aria-label": `${this.name} ${end}`,
      onchange: () => this.typed(),
    });
  }

  /** Writes the ends into the fields, except into the one that is being typed in. */
  private write(ends: Ends): void {
    const { offset } = this.scene().dataset;
    const { column, row } = AXES[this.pane.plane];
    for (const [i, field] of this.fields.entries()) {
      if (document.activeElement === field) continue;
      const end = ends[i] as Triple;
      const numbers = [column, row].map((axis) => at(end, axis) + at(offset, axis));
      field.value = numbers.map((number) => Number(number.toFixed(1))).join(", ");
    }
  }

  /** The point that is written in a field, in the slice that is shown. */
  private read(field: HTMLInputElement): Triple {
    const { column, row } = AXES[this.pane.plane];
    const { dataset, view } = this.scene();
    const [across = NaN, down = NaN] = field.value.split(/[\s,]+/).map(Number);
    const point: Triple = [...view.at];
    point[column] = across - at(dataset.offset, column);
    point[row] = down - at(dataset.offset, row);
    return point;
  }

  private typed(): void {
    const from = this.read(this.fields[0]);
    const to = this.read(this.fields[1]);
    if (![...from, ...to].every(Number.isFinite)) {
      return this.events.failed(new Error("An end is two numbers, such as 120, 45"));
    }
    this.drag.show(from, to);
    void this.measure(from, to);
  }

  /** Measures at the same place in the slice that is shown now. */
  again(): void {
    if (!this.ends) return;
    const axis = AXES[this.pane.plane].slice;
    const slice = at(this.scene().view.at, axis);
    const [from, to] = this.ends.map((end): Triple => {
      const moved: Triple = [...end];
      moved[axis] = slice;
      return moved;
    }) as Ends;
    void this.measure(from, to);
  }

  private async measure(from: Triple, to: Triple): Promise<void> {
    this.ending.abort();
    this.ending = new AbortController();
    const { signal } = this.ending;
    this.ends = [from, to];
    try {
      const result = await this.resultBetween(from, to, signal);
      if (signal.aborted) return;
      this.write([from, to]);
      this.show(result);
    } catch (error) {
      if (!signal.aborted) this.events.failed(error);
    }
  }

  /** Shows a result. */
  protected show(result: Node[]): void {
    this.result.replaceChildren(...result);
  }

  /** Shows a result, and lets another line or rectangle be dragged. */
  protected restart(result: Node[]): void {
    this.ends = null;
    this.drag.clear();
    this.show(result);
  }

  /** Buttons that copy and save a table. */
  protected csvButtons(text: string): HTMLButtonElement[] {
    const name = `${this.scene().dataset.token}-${this.name.toLowerCase()}.csv`;
    return [
      button("Copy as CSV", () => this.events.copied(text)),
      button("Save CSV", () => save(text, "text/csv", name)),
    ];
  }

  close(): void {
    this.ending.abort();
    this.drag.close();
    this.element.remove();
  }
}
