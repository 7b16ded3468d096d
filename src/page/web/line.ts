// What is dragged on the picture: a rectangle, or a line with its length and the values along it.

import { type Channel, type Dataset, firstOf, type Triple } from "./data";
import { h, icon } from "./dom";
import { at, AXES } from "./geometry";
import { paint } from "./paint";
import type { Pane } from "./pane";
import { save } from "./picture";
import { words } from "./scale";
import { written } from "./text";
import { inSight, isOn, type Shown, type View } from "./view";
import { boxAddress, readBox } from "./voxels";

const SPACE = "http://www.w3.org/2000/svg";
const MAX_SAMPLES = 4096;
/** The samples of one request, whose box has at most so many voxels squared. */
const RUN = 64;
const AT_ONCE = 6;

function svg(
  tag: string,
  attributes: Record<string, string | number>,
  ...children: Node[]
): SVGElement {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/**
 * Lets a line or a rectangle be dragged in a pane; `done` gets its ends, in points of the volume.
 * Escape gives up.
 */
export class Drag {
  private readonly mark = svg("svg", { class: "mark", "aria-hidden": "true" });
  private readonly ending = new AbortController();
  private from: Triple | null = null;
  private to: Triple | null = null;

  constructor(
    private readonly pane: Pane,
    private readonly shape: "line" | "rectangle",
    private readonly done: (from: Triple, to: Triple) => void,
  ) {
    const { signal } = this.ending;
    const cover = h("div", { className: "cover" });
    cover.append(this.mark);
    pane.element.append(cover);
    signal.addEventListener("abort", () => cover.remove());
    const point = (event: PointerEvent) => {
      const { left, top } = cover.getBoundingClientRect();
      return pane.pointAtPixel(event.clientX - left, event.clientY - top);
    };
    cover.addEventListener("pointerdown", (event) => {
      event.stopPropagation();
      cover.setPointerCapture(event.pointerId);
      // An end that is taken moves, and the other one stays.
      const taken = (event.target as Element).getAttribute("data-end");
      if (taken === null) this.from = this.to = point(event);
      else if (taken === "0") [this.from, this.to] = [this.to, this.from];
    });
    cover.addEventListener("pointermove", (event) => {
      if (!cover.hasPointerCapture(event.pointerId)) return;
      this.to = point(event);
      this.draw();
    });
    cover.addEventListener("pointerup", (event) => {
      if (!this.from || !cover.hasPointerCapture(event.pointerId)) return;
      this.to = point(event);
      cover.classList.add("done");
      this.draw();
      this.done(this.from, this.to);
    });
    pane.onMove(() => this.draw());
  }

  /** Shows given ends. */
  show(from: Triple, to: Triple): void {
    [this.from, this.to] = [from, to];
    this.draw();
  }

  private draw(): void {
    if (!this.from || !this.to || this.ending.signal.aborted) return;
    const [a, b] = [this.pane.pixelOf(this.from), this.pane.pixelOf(this.to)];
    const shape =
      this.shape === "line"
        ? svg("path", { d: `M${a.x} ${a.y}L${b.x} ${b.y}` })
        : svg("rect", {
            x: Math.min(a.x, b.x),
            y: Math.min(a.y, b.y),
            width: Math.abs(b.x - a.x),
            height: Math.abs(b.y - a.y),
          });
    const end = ({ x, y }: { x: number; y: number }, i: number) =>
      svg("circle", { cx: x, cy: y, r: 6, "data-end": i, class: "end" });
    this.mark.replaceChildren(shape, ...[a, b].map(end));
  }

  close(): void {
    this.ending.abort();
  }
}

/**
 * The values along a line: where they are, and those of each channel; none where a channel has no
 * voxel.
 */
export interface Profile {
  unit: string;
  length: number;
  places: Triple[];
  values: { channel: Channel; values: (number | bigint | null)[] }[];
}

/** Reads the voxels along a line, in a plane of the volume. */
export async function profile(
  dataset: Dataset,
  view: View,
  plane: Pane["plane"],
  from: Triple,
  to: Triple,
  signal: AbortSignal,
): Promise<Profile> {
  const channels = inSight(dataset, view).filter(
    (channel) => isOn(view, channel) && channel.kind !== "rgb",
  );
  const { column, row } = AXES[plane];
  const span = (axis: number) => at(to, axis) - at(from, axis);
  const count = Math.min(
    MAX_SAMPLES,
    Math.max(2, Math.ceil(Math.max(Math.abs(span(column)), Math.abs(span(row)))) + 1),
  );
  const places = Array.from(
    { length: count },
    (_, i) =>
      from.map((value, axis) => Math.floor(value + (span(axis) * i) / (count - 1))) as Triple,
  );
  const voxel = inSight(dataset, view)[0]?.voxel_size ?? null;
  const length = Math.hypot(
    span(column) * at(voxel ?? [1, 1, 1], column),
    span(row) * at(voxel ?? [1, 1, 1], row),
  );
  const values = channels.map((channel) => ({
    channel,
    values: places.map<number | bigint | null>(() => null),
  }));
  const runs = values.flatMap((one) =>
    Array.from({ length: Math.ceil(count / RUN) }, (_, i) => ({ one, first: i * RUN })),
  );
  const read = async ({ one, first }: (typeof runs)[number]) => {
    const finest = one.channel.levels[0];
    if (!finest) return;
    const begin = firstOf(one.channel);
    const here = places
      .slice(first, first + RUN)
      .map((place) => place.map((value, axis) => value - at(begin, axis)) as Triple);
    const inside = here.map((place) =>
      place.every((value, axis) => value >= 0 && value < at(finest.size, axis)),
    );
    const within = here.filter((_, i) => inside[i]);
    if (!within.length) return;
    const least = [0, 1, 2].map((axis) =>
      Math.min(...within.map((place) => at(place, axis))),
    ) as Triple;
    const size = [0, 1, 2].map(
      (axis) => Math.max(...within.map((place) => at(place, axis))) - at(least, axis) + 1,
    ) as Triple;
    const box = await readBox(boxAddress(dataset, one.channel, view.time, 0, least, size), signal);
    here.forEach((place, i) => {
      if (!inside[i]) return;
      const [x, y, z] = place.map((value, axis) => value - at(least, axis)) as Triple;
      one.values[first + i] = box[(z * size[1] + y) * size[0] + x] ?? null;
    });
  };
  while (runs.length) await Promise.all(runs.splice(0, AT_ONCE).map(read));
  return {
    unit: voxel ? (inSight(dataset, view)[0]?.voxel_unit ?? "units") : "voxels",
    length,
    places,
    values,
  };
}

/** A line of a table. */
export const csvLine = (cells: (string | number | bigint)[]): string =>
  cells
    .map((cell) => (/[",\n]/.test(String(cell)) ? `"${String(cell).replaceAll('"', '""')}"` : cell))
    .join();

/** As a table: the distance, the place with the dataset's offset, and the values. */
export function csv({ unit, length, places, values }: Profile, offset: Triple): string {
  const head = [
    `distance (${unit})`,
    "x",
    "y",
    "z",
    ...values.map(({ channel }) => channel.label ?? channel.name),
  ];
  const lines = places.map((place, i) =>
    csvLine([
      Number(((length * i) / (places.length - 1)).toPrecision(7)),
      ...place.map((value, axis) => value + at(offset, axis)),
      ...values.map((one) => one.values[i] ?? ""),
    ]),
  );
  return `${[csvLine(head), ...lines].join("\n")}\n`;
}

/** The length with its unit. */
const lengthIn = ({ length, unit }: Profile): string =>
  words(length, unit === "voxels" ? null : unit, 4);

const [WIDE, HIGH] = [320, 110];
/** The height of the text below the plot. */
const AXIS = 14;

function plot(profile: Profile, view: View): SVGElement {
  const { values } = profile;
  const numbers = values.map((one) =>
    one.values.map((value) => (value === null ? NaN : Number(value))),
  );
  const all = numbers.flat().filter(Number.isFinite);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const text = (x: number, y: number, says: string, anchor = "start") => {
    const label = svg("text", { x, y, "text-anchor": anchor });
    label.textContent = says;
    return label;
  };
  const lines = numbers.map((list, c) => {
    let pen = "M";
    const path = list
      .map((value, i) => {
        if (!Number.isFinite(value)) return ((pen = "M"), "");
        const place = `${pen}${((i / (list.length - 1)) * WIDE).toFixed(1)} ${(HIGH - 4 - ((value - low) / (high - low || 1)) * (HIGH - 8)).toFixed(1)}`;
        pen = "L";
        return place;
      })
      .join("");
    const { colour } = view.shown[values[c]?.channel.name ?? ""] as Shown;
    return svg("path", {
      d: path,
      stroke: `rgb(${paint(colour === "inverted" ? "" : colour, 200).join()})`,
    });
  });
  const drawn = svg(
    "svg",
    { viewBox: `0 0 ${WIDE} ${HIGH + AXIS}`, role: "img", class: "plot" },
    ...lines,
  );
  drawn.setAttribute("aria-label", `Values along the line, from ${low} to ${high}`);
  // The distance from the beginning: none, half, all.
  const half = lengthIn({ ...profile, length: profile.length / 2 });
  drawn.append(
    svg("path", {
      d: `M0 ${HIGH}H${WIDE}M1 ${HIGH}v4M${WIDE / 2} ${HIGH}v4M${WIDE - 1} ${HIGH}v4`,
      stroke: "#fff8",
    }),
    text(4, HIGH + 11, "0"),
    text(WIDE / 2, HIGH + 11, half, "middle"),
    text(WIDE - 4, HIGH + 11, lengthIn(profile), "end"),
  );
  if (all.length) drawn.append(text(4, 12, written(high)), text(4, HIGH - 4, written(low)));
  return drawn;
}

/** What a panel of something measured asks for. */
export interface MeasureEvents {
  copied(text: string): void;
  failed(error: unknown): void;
  closed(): void;
}

/**
 * The panel of what is dragged and measured in a plane: its ends, which can be typed, and what is
 * found.
 */
export abstract class MeasurePanel {
  readonly element: HTMLElement;
  private readonly fields: [HTMLInputElement, HTMLInputElement];
  private readonly result: HTMLElement;
  private ending = new AbortController();
  private drag: Drag;
  private ends: [Triple, Triple] | null = null;

  constructor(
    shape: "line" | "rectangle",
    name: string,
    protected readonly pane: Pane,
    protected readonly scene: () => { dataset: Dataset; view: View },
    protected readonly events: MeasureEvents,
  ) {
    this.drag = new Drag(pane, shape, (from, to) => void this.measure(from, to));
    const field = (end: string) =>
      h("input", {
        type: "text",
        className: "number",
        id: `${name.toLowerCase()}-${end}`,
        "aria-label": `${name} ${end}`,
        onchange: () => this.typed(),
      });
    this.fields = [field("from"), field("to")];
    this.result = h(
      "div",
      {},
      h("p", { className: "reason" }, `Drag a ${shape} on the picture, or type its ends.`),
    );
    const close = h(
      "button",
      {
        type: "button",
        className: "icon",
        title: "Close (Esc)",
        "aria-label": `Close the ${name.toLowerCase()}`,
        onclick: () => events.closed(),
      },
      icon("close"),
    );
    this.element = h(
      "section",
      { className: "line", "aria-label": name },
      h("div", { className: "field" }, this.fields[0], "to", this.fields[1], close),
      this.result,
    );
    const centre = scene().view.at;
    this.write(centre, centre);
  }

  /** What is found between two points. */
  protected abstract found(from: Triple, to: Triple, signal: AbortSignal): Promise<Node[]>;

  /** Writes the ends into the fields, unless a person types there. */
  private write(...ends: [Triple, Triple]): void {
    const { offset } = this.scene().dataset;
    const { column, row } = AXES[this.pane.plane];
    this.fields.forEach((field, i) => {
      const text = [column, row]
        .map((axis) => Number((at(ends[i] as Triple, axis) + at(offset, axis)).toFixed(1)))
        .join(", ");
      if (document.activeElement !== field) field.value = text;
    });
  }

  private typed(): void {
    const { column, row } = AXES[this.pane.plane];
    const { dataset, view } = this.scene();
    const ends = this.fields.map((field) => {
      const numbers = field.value.split(/[\s,]+/).map(Number);
      const point: Triple = [...view.at];
      [point[column], point[row]] = [
        (numbers[0] ?? NaN) - at(dataset.offset, column),
        (numbers[1] ?? NaN) - at(dataset.offset, row),
      ];
      return point;
    }) as [Triple, Triple];
    if (!ends.flat().every(Number.isFinite))
      return this.events.failed(new Error("An end is two numbers, such as 120, 45"));
    this.drag.show(...ends);
    void this.measure(...ends);
  }

  /** Reads the values again: another slice or other channels are shown. */
  again(): void {
    if (!this.ends) return;
    const axis = AXES[this.pane.plane].slice;
    const here = this.scene().view.at;
    const [from, to] = this.ends.map((end) =>
      end.map((value, i) => (i === axis ? at(here, i) : value)),
    ) as [Triple, Triple];
    void this.measure(from, to);
  }

  private async measure(from: Triple, to: Triple): Promise<void> {
    this.ending.abort();
    const { signal } = (this.ending = new AbortController());
    this.ends = [from, to];
    try {
      const found = await this.found(from, to, signal);
      if (signal.aborted) return;
      this.write(from, to);
      this.result.replaceChildren(...found);
    } catch (error) {
      if (!signal.aborted) this.events.failed(error);
    }
  }

  /** Buttons that copy and save a table; the file's name ends so. */
  protected table(text: string, name: string): HTMLElement {
    const copy = h(
      "button",
      { type: "button", onclick: () => this.events.copied(text) },
      "Copy as CSV",
    );
    const file = h(
      "button",
      {
        type: "button",
        onclick: () => save(text, "text/csv", `${this.scene().dataset.token}-${name}.csv`),
      },
      "Save CSV",
    );
    return h("div", { className: "field buttons" }, copy, file);
  }

  close(): void {
    this.ending.abort();
    this.drag.close();
    this.element.remove();
  }
}

/** The line's panel: its length, and the values along it. */
export class LinePanel extends MeasurePanel {
  /** The line that was measured last, and its length. */
  measured: { plane: Pane["plane"]; from: Triple; to: Triple; says: string } | null = null;

  constructor(pane: Pane, scene: () => { dataset: Dataset; view: View }, events: MeasureEvents) {
    super("line", "Line", pane, scene, events);
  }

  protected async found(from: Triple, to: Triple, signal: AbortSignal): Promise<Node[]> {
    this.measured = null;
    const { dataset, view } = this.scene();
    const { plane } = this.pane;
    const found = await profile(dataset, view, plane, from, to, signal);
    const says = lengthIn(found);
    this.measured = { plane, from, to, says };
    return [
      h("output", { className: "length" }, `Length ${says}`),
      plot(found, view),
      this.table(csv(found, dataset.offset), "line"),
    ];
  }
}
