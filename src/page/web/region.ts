// A rectangle of a slice: its area, and the mean, deviation, least and greatest value of every
// visible channel, of exact voxels.

import { type Channel, type Dataset, firstOf, timeOf, type Triple } from "./data";
import { h } from "./dom";
import { at, AXES, AXIS_NAMES } from "./geometry";
import { csvLine, MeasurePanel, type MeasureEvents } from "./line";
import type { Pane } from "./pane";
import { written } from "./text";
import { inSight, isOn, type View } from "./view";
import { boxAddress, isGap, missingOf, readBox } from "./voxels";

/** The voxels of one request, and of a whole rectangle. */
const STRIP = 2 ** 21;
const MAX_VOXELS = 2 ** 26;

/** What a rectangle has of a channel; null where there is no value. */
interface Statistics {
  channel: Channel;
  /** Without those that stand for missing data. */
  voxels: number;
  mean: number | null;
  /** Of a sample: the squares are divided by one less than the number of voxels. */
  deviation: number | null;
  least: number | null;
  greatest: number | null;
  /** Of labels, how many there are. */
  labels: number | null;
}

/**
 * Reads a rectangle of a channel strip by strip. `start` and `end` are voxels of the dataset, one
 * slice thick.
 */
async function statistics(
  dataset: Dataset,
  channel: Channel,
  time: number,
  start: Triple,
  end: Triple,
  row: number,
  signal: AbortSignal,
): Promise<Statistics> {
  const first = firstOf(channel);
  const size = channel.levels[0]?.size ?? [0, 0, 0];
  const from = start.map((value, axis) => Math.max(0, value - at(first, axis))) as Triple;
  const to = end.map((value, axis) => Math.min(at(size, axis), value - at(first, axis))) as Triple;
  const found: Statistics = {
    channel,
    voxels: 0,
    mean: null,
    deviation: null,
    least: null,
    greatest: null,
    labels: null,
  };
  const lengths = from.map((value, axis) => at(to, axis) - value) as Triple;
  if (lengths.some((length) => length <= 0)) return found;
  const missing = missingOf(channel);
  const ids = new Set<number | bigint>();
  // Sums of what differs from the first value, which are exact enough for values far from zero.
  let [origin, sum, squares, least, greatest]: [number | null, number, number, number, number] = [
    null,
    0,
    0,
    Infinity,
    -Infinity,
  ];
  const rows = Math.max(
    1,
    Math.floor((STRIP * at(lengths, row)) / lengths.reduce((all, length) => all * length, 1)),
  );
  for (let begin = at(from, row); begin < at(to, row); begin += rows) {
    const [corner, extent]: [Triple, Triple] = [[...from], [...lengths]];
    [corner[row], extent[row]] = [begin, Math.min(rows, at(to, row) - begin)];
    const values = await readBox(boxAddress(dataset, channel, time, 0, corner, extent), signal);
    for (let i = 0; i < values.length; i += 1) {
      const exact = values[i] ?? 0;
      if (channel.kind === "labels") {
        if (Number(exact) !== 0) ids.add(exact);
        continue;
      }
      if (isGap(missing, exact)) continue;
      const value = Number(exact);
      origin ??= value;
      found.voxels += 1;
      sum += value - origin;
      squares += (value - origin) ** 2;
      least = Math.min(least, value);
      greatest = Math.max(greatest, value);
    }
  }
  if (channel.kind === "labels")
    return { ...found, labels: ids.size, voxels: lengths.reduce((all, length) => all * length, 1) };
  if (origin === null) return found;
  const { voxels } = found;
  const deviation =
    voxels > 1 ? Math.sqrt(Math.max(0, (squares - (sum * sum) / voxels) / (voxels - 1))) : null;
  return { ...found, mean: origin + sum / voxels, deviation, least, greatest };
}

export class RegionPanel extends MeasurePanel {
  constructor(pane: Pane, scene: () => { dataset: Dataset; view: View }, events: MeasureEvents) {
    super("rectangle", "Region", pane, scene, events);
  }

  protected async found(from: Triple, to: Triple, signal: AbortSignal): Promise<Node[]> {
    const { dataset, view } = this.scene();
    const { column, row, slice } = AXES[this.pane.plane];
    // To the nearest edges of voxels.
    const start = from.map((value, axis) =>
      axis === slice ? Math.floor(value) : Math.round(Math.min(value, at(to, axis))),
    ) as Triple;
    const end = from.map((value, axis) =>
      axis === slice
        ? Math.floor(value) + 1
        : Math.max(at(start, axis) + 1, Math.round(Math.max(value, at(to, axis)))),
    ) as Triple;
    const [wide, high] = [at(end, column) - at(start, column), at(end, row) - at(start, row)];
    if (wide * high > MAX_VOXELS)
      throw new Error(
        `The rectangle has ${written(wide * high)} voxels; at most ${written(MAX_VOXELS)} are read. Choose a smaller one.`,
      );
    const channels = inSight(dataset, view).filter(
      (channel) => isOn(view, channel) && channel.kind !== "rgb",
    );
    const found = await Promise.all(
      channels.map((channel) => statistics(dataset, channel, view.time, start, end, row, signal)),
    );
    const { voxel_size: voxel = null, voxel_unit: unit = null } = inSight(dataset, view)[0] ?? {};
    const area = voxel
      ? `${written(wide * at(voxel, column) * high * at(voxel, row))} ${unit ?? "units"}²`
      : "";
    const numbers = (one: Statistics) => [one.mean, one.deviation, one.least, one.greatest];
    const head = ["Channel", "Mean", "Std. dev.", "Min", "Max", "Voxels"];
    const nameOf = ({ label, name }: Channel) => label ?? name;
    const cells = (one: Statistics) =>
      one.labels === null
        ? numbers(one).map((value) => (value === null ? "" : written(value)))
        : [`${one.labels} label${one.labels === 1 ? "" : "s"}`, "", "", ""];
    const table = h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ...head.map((text) => h("th", { scope: "col" } as never, text)))),
      h(
        "tbody",
        {},
        ...found.map((one) =>
          h(
            "tr",
            {},
            ...[nameOf(one.channel), ...cells(one), one.voxels.toLocaleString("en")].map((cell) =>
              h("td", {}, cell),
            ),
          ),
        ),
      ),
    );
    const ends = [0, 1, 2].flatMap((axis) => [
      at(start, axis) + at(dataset.offset, axis),
      at(end, axis) + at(dataset.offset, axis),
    ]);
    const bounds = AXIS_NAMES.flatMap((name) => [`${name} first`, `${name} end`]);
    const lines = found.map((one) =>
      csvLine([
        nameOf(one.channel),
        ...numbers(one).map((value) => value ?? ""),
        one.labels ?? "",
        one.voxels,
        ...ends,
        timeOf(one.channel, view.time) ?? "",
      ]),
    );
    const text = [
      csvLine([
        "channel",
        "mean",
        "deviation",
        "least",
        "greatest",
        "labels",
        "voxels",
        ...bounds,
        "time",
      ]),
      ...lines,
      "",
    ].join("\n");
    const gaps = found.some(({ channel }) => channel.gaps)
      ? h("p", { className: "reason" }, "Where a source is missing, its fill value counts.")
      : null;
    return [
      h(
        "output",
        { className: "length" },
        [`${wide} × ${high} voxels`, area].filter(Boolean).join(", "),
      ),
      h("div", { className: "about" }, table),
      ...(gaps ? [gaps] : []),
      this.table(text, "region"),
    ];
  }
}
