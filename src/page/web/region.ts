// The panel of measured rectangles: the area of each, and of every visible channel the mean,
// standard deviation, least and greatest value of the exact voxels. Several rectangles can be kept
// in one table.

import {
  type Channel,
  type Dataset,
  firstOf,
  isGap,
  labelOf,
  missingOf,
  type PlaneName,
  timeOf,
  type Triple,
  volume,
} from "./data";
import { button, h, table } from "./dom";
import { at, AXES, AXIS_NAMES, clamp } from "./geometry";
import { measurable, type Measured, type MeasureEvents, MeasurePanel } from "./measure";
import type { Pane } from "./pane";
import { unitOf } from "./scale";
import { csvText, written } from "./text";
import { drawable } from "./view";
import { boxAddress, type Part, readVoxels, type VoxelBox } from "./voxels";

/** The most voxels of one request. */
const STRIP = 2 ** 21;
/** The most voxels of a rectangle. */
const MAX_VOXELS = 2 ** 26;

/** Numbers about the voxels of a channel in a rectangle; null where there are no values. */
interface Statistics {
  channel: Channel;
  /** The number of voxels with a value. */
  voxels: number;
  /** The number of voxels that stand for missing data. */
  missing: number;
  mean: number | null;
  /** The standard deviation of a sample: divided by one less than the number of voxels. */
  deviation: number | null;
  least: number | null;
  greatest: number | null;
  /** The number of labels, if the channel has labels. */
  labels: number | null;
}

/** A measured rectangle. `start` and `end` are voxels of the dataset, one slice thick. */
interface Region extends Part {
  plane: PlaneName;
  time: number;
  /** Its area in words. */
  area: string;
  statistics: Statistics[];
}

/** The rectangles in the table of each dataset, by its token, while the page is open. */
const tables = new Map<string, Region[]>();

/** Adds up the values of a channel. */
class Tally {
  private voxels = 0;
  private missing = 0;
  // Sums of the differences from the first value, which stay exact for values far from zero.
  private origin: number | null = null;
  private sum = 0;
  private squares = 0;
  private least = Infinity;
  private greatest = -Infinity;
  private readonly ids = new Set<number | bigint>();

  constructor(private readonly channel: Channel) {}

  /** Adds the voxels of a box of level 0 that has this first voxel and size. */
  add({ values, gaps }: VoxelBox, start: Triple, size: Triple): void {
    const isAbsent = gaps?.length ? absentIn(gaps, start, size) : null;
    const declared = missingOf(this.channel);
    for (let i = 0; i < values.length; i += 1) {
      const exact = values[i] ?? 0;
      if (isAbsent?.[i] || isGap(declared, exact)) {
        this.missing += 1;
      } else {
        this.voxels += 1;
        if (this.channel.kind === "labels") this.ids.add(exact);
        else this.addValue(Number(exact));
      }
    }
  }

  private addValue(value: number): void {
    this.origin ??= value;
    const difference = value - this.origin;
    this.sum += difference;
    this.squares += difference ** 2;
    this.least = Math.min(this.least, value);
    this.greatest = Math.max(this.greatest, value);
  }

  result(): Statistics {
    const { channel, voxels, missing, origin, sum, squares, ids } = this;
    ids.delete(0);
    ids.delete(0n);
    const isLabels = channel.kind === "labels";
    const isEmpty = origin === null;
    const variance = (squares - (sum * sum) / voxels) / (voxels - 1);
    return {
      channel,
      voxels,
      missing,
      mean: isEmpty ? null : origin + sum / voxels,
      deviation: isEmpty || voxels < 2 ? null : Math.sqrt(Math.max(0, variance)),
      least: isEmpty ? null : this.least,
      greatest: isEmpty ? null : this.greatest,
      labels: isLabels ? ids.size : null,
    };
  }
}

/** For each voxel of a box, 1 if it lies in one of the gaps and 0 otherwise. */
function absentIn(gaps: Part[], start: Triple, size: Triple): Uint8Array {
  const isAbsent = new Uint8Array(volume(size));
  for (const gap of gaps) {
    const within = (value: number, axis: number) =>
      clamp(value - at(start, axis), 0, at(size, axis));
    const from = gap.start.map(within) as Triple;
    const to = gap.end.map(within) as Triple;
    for (let z = from[2]; z < to[2]; z += 1) {
      for (let y = from[1]; y < to[1]; y += 1) {
        const row = (z * size[1] + y) * size[0];
        isAbsent.fill(1, row + from[0], row + to[0]);
      }
    }
  }
  return isAbsent;
}

/** Reads the part of a rectangle that lies in a channel, in strips along an axis. */
async function statisticsOf(
  dataset: Dataset,
  channel: Channel,
  time: number,
  rectangle: Part,
  axis: number,
  signal: AbortSignal,
): Promise<Statistics> {
  const first = firstOf(channel);
  const whole = channel.levels[0]?.size ?? [0, 0, 0];
  // In voxels of the channel.
  const from = rectangle.start.map((value, i) => Math.max(0, value - at(first, i))) as Triple;
  const to = rectangle.end.map((value, i) =>
    Math.min(at(whole, i), value - at(first, i)),
  ) as Triple;
  const extent = to.map((end, i) => end - at(from, i)) as Triple;
  const tally = new Tally(channel);
  // Outside of the channel there are no voxels.
  if (extent.some((length) => length <= 0)) return tally.result();
  const rowVoxels = volume(extent) / at(extent, axis);
  const step = Math.max(1, Math.floor(STRIP / rowVoxels));
  for (let begin = at(from, axis); begin < at(to, axis); begin += step) {
    const start: Triple = [...from];
    const size: Triple = [...extent];
    start[axis] = begin;
    size[axis] = Math.min(step, at(to, axis) - begin);
    const address = boxAddress({ dataset, channel, time, level: 0, start, size });
    tally.add(await readVoxels(address, signal), start, size);
  }
  return tally.result();
}

/** The rectangle between two points, to the nearest edges of voxels, of at least one voxel. */
function rectangleOf(plane: PlaneName, from: Triple, to: Triple): Part {
  const start: Triple = [0, 0, 0];
  const end: Triple = [0, 0, 0];
  for (const axis of [0, 1, 2] as const) {
    const isSlice = axis === AXES[plane].slice;
    start[axis] = isSlice ? Math.floor(from[axis]) : Math.round(Math.min(from[axis], to[axis]));
    const far = isSlice ? start[axis] : Math.round(Math.max(from[axis], to[axis]));
    end[axis] = Math.max(start[axis] + 1, far);
  }
  return { start, end };
}

/** The extent of a rectangle in voxels, and its area if the size of a voxel is known. */
function areaOf(plane: PlaneName, { start, end }: Part, channel: Channel | undefined): string {
  const { column, row } = AXES[plane];
  const wide = at(end, column) - at(start, column);
  const high = at(end, row) - at(start, row);
  const voxels = `${wide} × ${high} voxels`;
  const voxel = channel?.voxel_size;
  if (!voxel) return voxels;
  const area = wide * at(voxel, column) * high * at(voxel, row);
  return `${voxels}, ${written(area)} ${unitOf(channel)}²`;
}

export class RegionPanel extends MeasurePanel {
  /** The rectangle that was measured last, unless it is in the table. */
  private last: Region | null = null;

  constructor(pane: Pane, scene: () => Measured, events: MeasureEvents) {
    super("rectangle", "Region", pane, scene, events);
    if (this.inTable.length) this.restart(this.content());
    this.showTable();
  }

  /** The rectangles in the table. */
  private get inTable(): Region[] {
    return tables.get(this.scene().dataset.token) ?? [];
  }

  private set inTable(regions: Region[]) {
    tables.set(this.scene().dataset.token, regions);
    this.showTable();
  }

  /** Draws the rectangles of the table that lie in the slice and the time point that are shown. */
  private showTable(): void {
    const { view } = this.scene();
    const { plane } = this.pane;
    const slice = Math.floor(at(view.at, AXES[plane].slice));
    const numbered = this.inTable.map((region, i) => ({ region, says: String(i + 1) }));
    const here = numbered.filter(
      ({ region }) =>
        region.plane === plane &&
        region.time === view.time &&
        at(region.start, AXES[plane].slice) === slice,
    );
    this.drag.showOthers(
      here.map(({ region, says }) => ({ ends: [region.start, region.end], says })),
    );
  }

  override again(): void {
    this.showTable();
    super.again();
  }

  protected async resultBetween(from: Triple, to: Triple, signal: AbortSignal): Promise<Node[]> {
    const { dataset, view } = this.scene();
    const { plane } = this.pane;
    const rectangle = rectangleOf(plane, from, to);
    const voxels = volume(rectangle.end.map((end, axis) => end - at(rectangle.start, axis)));
    if (voxels > MAX_VOXELS) {
      const most = `at most ${written(MAX_VOXELS)} are read`;
      throw new Error(
        `The rectangle has ${written(voxels)} voxels; ${most}. Choose a smaller one.`,
      );
    }
    const { time } = view;
    const { row } = AXES[plane];
    const statistics = await Promise.all(
      measurable(dataset, view).map((channel) =>
        statisticsOf(dataset, channel, time, rectangle, row, signal),
      ),
    );
    const area = areaOf(plane, rectangle, drawable(dataset, view)[0]);
    this.last = { ...rectangle, plane, time, area, statistics };
    return this.content();
  }

  /** The table, and buttons for it. */
  private content(): Node[] {
    const { last, inTable } = this;
    const regions = last ? [...inTable, last] : inTable;
    const buttons: HTMLElement[] = [];
    if (last) buttons.push(button("Keep in the table", () => this.keep(last)));
    buttons.push(...this.csvButtons(csvOf(this.scene().dataset, regions)));
    if (inTable.length) buttons.push(button("Empty the table", () => this.empty()));
    const hint = "Drag another rectangle, or type its ends.";
    return [
      h("output", { className: last ? "length" : "reason" }, last?.area ?? hint),
      h(
        "div",
        { className: "about", tabIndex: 0, role: "region", "aria-label": "Rectangles" },
        tableOf(regions),
      ),
      h("div", { className: "field buttons" }, ...buttons),
    ];
  }

  /** Puts the rectangle into the table, so that another one can be measured. */
  private keep(region: Region): void {
    this.last = null;
    this.inTable = [...this.inTable, region];
    this.restart(this.content());
  }

  private empty(): void {
    this.inTable = [];
    this.show(this.content());
  }
}

const numbersOf = ({ mean, deviation, least, greatest }: Statistics): (number | null)[] => [
  mean,
  deviation,
  least,
  greatest,
];

/** A table of rectangles, numbered, with a row for each channel. */
function tableOf(regions: Region[]): HTMLTableElement {
  const rows = regions.flatMap(({ statistics }, i) =>
    statistics.map((each) => {
      const { channel, labels, voxels, missing } = each;
      const count = voxels.toLocaleString("en");
      const counts = missing ? `${count}, ${missing.toLocaleString("en")} missing` : count;
      const numbers = numbersOf(each).map((value) => (value === null ? "" : written(value)));
      const labelCells = [`${labels} label${labels === 1 ? "" : "s"}`, "", "", ""];
      return [i + 1, labelOf(channel), ...(labels === null ? numbers : labelCells), counts];
    }),
  );
  return table(["", "Channel", "Mean", "Std. dev.", "Min", "Max", "Voxels"], rows);
}

/** The same as text, with exact numbers and the ends of each rectangle. */
function csvOf(dataset: Dataset, regions: Region[]): string {
  const bounds = AXIS_NAMES.flatMap((name) => [`${name} first`, `${name} end`]);
  const head = ["region", "channel", "mean", "deviation", "least", "greatest", "labels"];
  const rows = regions.flatMap(({ start, end, time, statistics }, i) => {
    const ends = dataset.offset.flatMap((offset, axis) => [
      at(start, axis) + offset,
      at(end, axis) + offset,
    ]);
    return statistics.map((each) => [
      i + 1,
      labelOf(each.channel),
      ...numbersOf(each).map((value) => value ?? ""),
      each.labels ?? "",
      each.voxels,
      each.missing,
      ...ends,
      timeOf(each.channel, time) ?? "",
    ]);
  });
  return csvText([[...head, "voxels", "missing", ...bounds, "time"], ...rows]);
}
