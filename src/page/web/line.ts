// The panel of a measured line: its length, and the values along it.

import {
  type Channel,
  type Dataset,
  isGap,
  labelOf,
  missingOf,
  type PlaneName,
  type Triple,
} from "./data";
import { h, svg } from "./dom";
import { at, AXES } from "./geometry";
import { measurable, type Measured, type MeasureEvents, MeasurePanel } from "./measure";
import { paint } from "./paint";
import type { Pane } from "./pane";
import { unitOf, words } from "./scale";
import { csvText, written } from "./text";
import { drawable, shownOf, type View } from "./view";
import { boxAddress, isWithin, readVoxels, voxelAt } from "./voxels";

const MAX_SAMPLES = 4096;
/**
 * The number of samples of one request. The box around them has at most 64² voxels, unless the line
 * has more than `MAX_SAMPLES` voxels and skips some.
 */
const RUN = 64;
/** The number of requests at once. */
const AT_ONCE = 6;

/** A measured line in points of the volume, and its length in words. */
export interface MeasuredLine {
  plane: PlaneName;
  from: Triple;
  to: Triple;
  says: string;
}

/** The values of a channel along a line; null where it has no voxel, or a missing one. */
interface ChannelValues {
  channel: Channel;
  values: (number | bigint | null)[];
}

/** The voxels along a line, and the values there. */
interface Profile {
  /** The unit of the length; null for voxels. */
  unit: string | null;
  length: number;
  places: Triple[];
  channels: ChannelValues[];
}

/** The voxels along a line: one for each column or row, whichever are more. */
function placesAlong(plane: PlaneName, from: Triple, to: Triple): Triple[] {
  const { column, row } = AXES[plane];
  const span = to.map((end, axis) => end - at(from, axis));
  const steps = Math.ceil(Math.max(Math.abs(span[column] ?? 0), Math.abs(span[row] ?? 0)));
  const count = Math.min(MAX_SAMPLES, Math.max(2, steps + 1));
  return Array.from({ length: count }, (_, i) => {
    const part = i / (count - 1);
    return from.map((begin, axis) => Math.floor(begin + (span[axis] ?? 0) * part)) as Triple;
  });
}

/** Reads the voxels along a line in a plane. */
async function profile(
  { dataset, view }: Measured,
  plane: PlaneName,
  from: Triple,
  to: Triple,
  signal: AbortSignal,
): Promise<Profile> {
  const { column, row } = AXES[plane];
  const [first] = drawable(dataset, view);
  const voxel = first?.voxel_size ?? [1, 1, 1];
  const along = (axis: number) => (at(to, axis) - at(from, axis)) * at(voxel, axis);
  const places = placesAlong(plane, from, to);
  const channels = measurable(dataset, view).map((channel): ChannelValues => ({
    channel,
    values: places.map(() => null),
  }));
  const reads: (() => Promise<void>)[] = [];
  for (const each of channels) {
    for (let begin = 0; begin < places.length; begin += RUN) {
      reads.push(() => readRun(dataset, view.time, each, places, begin, signal));
    }
  }
  while (reads.length) await Promise.all(reads.splice(0, AT_ONCE).map((read) => read()));
  return { unit: unitOf(first), length: Math.hypot(along(column), along(row)), places, channels };
}

/** Reads the values of a run of places by one request, of the box around those in the channel. */
async function readRun(
  dataset: Dataset,
  time: number,
  { channel, values }: ChannelValues,
  places: Triple[],
  first: number,
  signal: AbortSignal,
): Promise<void> {
  const voxels = places.slice(first, first + RUN).map((place) => voxelAt(channel, place));
  const existing = voxels.filter((voxel) => voxel !== null);
  if (!existing.length) return;
  const ends = [0, 1, 2].map((axis) => {
    const numbers = existing.map((voxel) => at(voxel, axis));
    return { least: Math.min(...numbers), most: Math.max(...numbers) };
  });
  const start = ends.map(({ least }) => least) as Triple;
  const size = ends.map(({ least, most }) => most - least + 1) as Triple;
  const address = boxAddress({ dataset, channel, time, level: 0, start, size });
  const box = await readVoxels(address, signal);
  const missing = missingOf(channel);
  for (const [i, voxel] of voxels.entries()) {
    if (!voxel || isWithin(box.gaps ?? [], voxel)) continue;
    const [x, y, z] = voxel.map((value, axis) => value - at(start, axis)) as Triple;
    const value = box.values[(z * size[1] + y) * size[0] + x] ?? 0;
    if (!isGap(missing, value)) values[first + i] = value;
  }
}

/** A table of the distance from the beginning, the place with the dataset's offset, and values. */
function csvOf({ unit, length, places, channels }: Profile, offset: Triple): string {
  const names = channels.map(({ channel }) => labelOf(channel));
  const rows = places.map((place, i) => {
    const distance = Number(((length * i) / (places.length - 1)).toPrecision(7));
    const numbers = place.map((value, axis) => value + at(offset, axis));
    return [distance, ...numbers, ...channels.map(({ values }) => values[i] ?? "")];
  });
  return csvText([[`distance (${unit ?? "voxels"})`, "x", "y", "z", ...names], ...rows]);
}

/** The width and height of the plot, and the height of the text below it. */
const WIDTH = 320;
const HEIGHT = 110;
const AXIS_HEIGHT = 14;
/** The space above the greatest and below the least value. */
const MARGIN = 4;

/** The path of values through a plot; it is broken where there is none. */
function curve(values: number[], low: number, high: number): string {
  let path = "";
  let isBroken = true;
  for (const [i, value] of values.entries()) {
    if (Number.isFinite(value)) {
      const x = (i / (values.length - 1)) * WIDTH;
      const part = (value - low) / (high - low || 1);
      const y = HEIGHT - MARGIN - part * (HEIGHT - 2 * MARGIN);
      path += `${isBroken ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
    }
    isBroken = !Number.isFinite(value);
  }
  return path;
}

/** Draws the values of all channels along the line, each in the colour of its channel. */
function plot({ unit, length, channels }: Profile, view: View): SVGElement {
  const numbers = channels.map(({ values }) =>
    values.map((value) => (value === null ? NaN : Number(value))),
  );
  const all = numbers.flat().filter(Number.isFinite);
  const low = Math.min(...all);
  const high = Math.max(...all);
  const curves = channels.map(({ channel }, i) => {
    const { colour } = shownOf(view, channel);
    const shown = paint(colour === "inverted" ? "" : colour, 200);
    return svg("path", { d: curve(numbers[i] ?? [], low, high), stroke: `rgb(${shown.join()})` });
  });
  const label = (x: number, y: number, text: string, anchor = "start") =>
    svg("text", { x, y, "text-anchor": anchor }, text);
  const baseline = HEIGHT + 11;
  // The axis has marks at its beginning, middle and end.
  const ticks = [1, WIDTH / 2, WIDTH - 1].map((x) => `M${x} ${HEIGHT}v4`);
  const drawing = svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT + AXIS_HEIGHT}`,
      role: "img",
      class: "plot",
      "aria-label": `Values along the line, from ${low} to ${high}`,
    },
    ...curves,
    svg("path", { d: `M0 ${HEIGHT}H${WIDTH}${ticks.join("")}`, stroke: "#fff8" }),
    label(4, baseline, "0"),
    label(WIDTH / 2, baseline, words(length / 2, unit, 4), "middle"),
    label(WIDTH - 4, baseline, words(length, unit, 4), "end"),
  );
  if (all.length) {
    drawing.append(label(4, 12, written(high)), label(4, HEIGHT - MARGIN, written(low)));
  }
  return drawing;
}

export class LinePanel extends MeasurePanel {
  /** The line that was measured last. */
  measured: MeasuredLine | null = null;

  constructor(pane: Pane, scene: () => Measured, events: MeasureEvents) {
    super("line", "Line", pane, scene, events);
  }

  protected async resultBetween(from: Triple, to: Triple, signal: AbortSignal): Promise<Node[]> {
    this.measured = null;
    const scene = this.scene();
    const { plane } = this.pane;
    const line = await profile(scene, plane, from, to, signal);
    const says = words(line.length, line.unit, 4);
    this.measured = { plane, from, to, says };
    return [
      h("output", { className: "length" }, `Length ${says}`),
      plot(line, scene.view),
      h(
        "div",
        { className: "field buttons" },
        ...this.csvButtons(csvOf(line, scene.dataset.offset)),
      ),
    ];
  }
}
