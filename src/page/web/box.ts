// The sheet "Voxels": a box of a channel as a NumPy file, as a TIFF for ImageJ, as lines of Python,
// or as an OME-Zarr address.

import { addressOf, type Channel, type Dataset, timeOf, type Triple } from "./data";
import { h, sheet } from "./dom";
import { at, AXIS_NAMES } from "./geometry";
import { MAX_TOGETHER } from "./view";
import { boxAddress } from "./voxels";

/** A box of a channel in voxels of level 0. */
export interface Wanted {
  start: Triple;
  end: Triple;
}

export interface BoxEvents {
  copied(text: string): void;
  /** Lets a rectangle be dragged on the picture, and opens the sheet again. */
  drag(): void;
}

const absolute = (path: string): string => new URL(path, location.href.split("#")[0]).href;

const BYTES: Record<string, number> = {
  bool: 1,
  uint8: 1,
  int8: 1,
  uint16: 2,
  int16: 2,
  float16: 2,
  uint32: 4,
  int32: 4,
  float32: 4,
  uint64: 8,
  int64: 8,
  float64: 8,
};
const TIFF = ["uint8", "int16", "uint16", "float32"];

/**
 * The channels that can be in one TIFF file with a channel, itself first: up to six images, of
 * voxels of one size and direction.
 */
const together = (channels: Channel[], channel: Channel, level: number): Channel[] => {
  const of = ({ kind, dtype, times, space, voxel_size, voxel_unit, levels }: Channel) =>
    JSON.stringify([kind, dtype, times, space, voxel_size, voxel_unit, levels[level]?.factor]);
  const others = channels.filter((other) => other !== channel && of(other) === of(channel));
  return channel.kind === "image" ? [channel, ...others].slice(0, MAX_TOGETHER) : [];
};

/** A box at a level: its first voxel and its size. */
export function atLevel(
  channel: Channel,
  level: number,
  { start, end }: Wanted,
): { start: Triple; size: Triple } {
  const { factor = [1, 1, 1], size = [1, 1, 1] } = channel.levels[level] ?? {};
  const first = start.map((value, axis) =>
    Math.min(Math.floor(value / at(factor, axis)), at(size, axis) - 1),
  ) as Triple;
  const last = end.map((value, axis) =>
    Math.min(Math.ceil(value / at(factor, axis)), at(size, axis)),
  ) as Triple;
  return {
    start: first,
    size: last.map((value, axis) => Math.max(1, value - at(first, axis))) as Triple,
  };
}

/** Lines of Python that read exactly these voxels. */
export function python(
  dataset: Dataset,
  channel: Channel,
  time: number,
  level: number,
  start: Triple,
  size: Triple,
): string {
  const point = timeOf(channel, time);
  const ranges = [2, 1, 0].map((axis) => `${at(start, axis)}:${at(start, axis) + at(size, axis)}`);
  const index = [
    ...(point === null ? [] : [String(point)]),
    ...(channel.kind === "rgb" ? [":"] : []),
    ...ranges,
  ].join(", ");
  const axes = [...(channel.kind === "rgb" ? ["colour"] : []), "z", "y", "x"].join(", ");
  return `import zarr  # pip install zarr fsspec aiohttp

volume = zarr.open_array("${absolute(`zarr/0.5/${addressOf(dataset)}/${channel.name}.ome.zarr/${level}`)}", mode="r")
voxels = volume[${index}]  # ${axes}
`;
}

/** `view` gives the box to begin with; `level` is the one on the screen. */
export function boxSheet(
  dataset: Dataset,
  channels: Channel[],
  time: number,
  level: number,
  view: (channel: Channel) => Wanted | null,
  events: BoxEvents,
): HTMLDialogElement {
  let channel = channels[0] as Channel;
  const chosen = h(
    "select",
    {
      id: "box-channel",
      onchange: () => {
        channel = channels.find(({ name }) => name === chosen.value) ?? channel;
        begin();
      },
    },
    ...channels.map(({ name, label }) => h("option", { value: name }, label ?? name)),
  );
  const levels = h("select", { id: "box-level", onchange: () => show() });
  const ends = AXIS_NAMES.map((name) =>
    ["first", "end"].map((end) =>
      h("input", {
        type: "text",
        inputMode: "numeric",
        className: "number",
        id: `box-${name}-${end}`,
        "aria-label": `${name}, ${end === "first" ? "first voxel" : "behind the last voxel"}`,
        oninput: () => show(),
      }),
    ),
  );
  const size = h("output", {});
  const link = (text: string) => h("a", { className: "button" }, text);
  const [npy, tif, all] = [link(".npy"), link(".tif"), link("")];
  const code = h("pre", { tabIndex: 0 });

  const begin = () => {
    levels.replaceChildren(
      ...channel.levels.map(({ level: number, factor }) =>
        h(
          "option",
          {
            value: String(number),
            selected: number === Math.min(level, channel.levels.length - 1),
          },
          number ? `${number}: every ${factor.join(" × ")}` : "0: all voxels",
        ),
      ),
    );
    const box = view(channel) ?? { start: [0, 0, 0], end: channel.levels[0]?.size ?? [1, 1, 1] };
    ends.forEach((pair, axis) =>
      pair.forEach((field, i) => (field.value = String(at(i ? box.end : box.start, axis)))),
    );
    show();
  };
  const show = () => {
    const whole = channel.levels[0]?.size ?? [1, 1, 1];
    const number = (axis: number, i: number) => Math.floor(Number(ends[axis]?.[i]?.value));
    const start = [0, 1, 2].map((axis) =>
      Math.min(Math.max(number(axis, 0) || 0, 0), at(whole, axis) - 1),
    ) as Triple;
    const end = [0, 1, 2].map((axis) =>
      Math.min(Math.max(number(axis, 1) || 0, at(start, axis) + 1), at(whole, axis)),
    ) as Triple;
    const box = atLevel(channel, Number(levels.value), { start, end });
    const address = boxAddress(dataset, channel, time, Number(levels.value), box.start, box.size);
    npy.href = address.replace(".raw", ".npy");
    tif.href = address.replace(".raw", ".tif");
    const name = `${dataset.token}-${channel.name}-${box.start.join("_")}`;
    [npy.download, tif.download] = [`${name}.npy`, `${name}.tif`];
    const joined = together(channels, channel, Number(levels.value));
    all.href = address
      .replace(".raw", ".tif")
      .replace(`/${channel.name}/`, `/${joined.map((one) => one.name).join()}/`);
    all.download = `${dataset.token}-${box.start.join("_")}.tif`;
    all.textContent = `.tif, ${joined.length} channels`;
    all.hidden = joined.length < 2 || !TIFF.includes(channel.dtype);
    tif.hidden =
      !TIFF.includes(channel.dtype) || (channel.kind === "rgb" && channel.dtype !== "uint8");
    const voxels = box.size.reduce((all, length) => all * length, channel.kind === "rgb" ? 3 : 1);
    const bytes = voxels * (BYTES[channel.dtype] ?? 8);
    size.textContent = `${box.size.join(" × ")} voxels, ${(bytes / 2 ** 20).toFixed(bytes < 2 ** 24 ? 2 : 0)} MiB`;
    code.textContent = python(dataset, channel, time, Number(levels.value), box.start, box.size);
  };
  const button = (text: string, onclick: () => void) =>
    h("button", { type: "button", onclick }, text);
  const dialog = sheet(
    "Voxels",
    h("label", { className: "field" }, "Channel", chosen),
    h("label", { className: "field" }, "Level", levels),
    ...AXIS_NAMES.map((name, axis) =>
      h("div", { className: "field" }, h("b", {}, name), ends[axis]?.[0], "to", ends[axis]?.[1]),
    ),
    h("div", { className: "field" }, size),
    h(
      "div",
      { className: "field buttons" },
      npy,
      tif,
      all,
      button("Drag a rectangle", () => {
        dialog.close();
        events.drag();
      }),
      button("Copy OME-Zarr address", () =>
        events.copied(absolute(`zarr/0.4/${addressOf(dataset)}/${channel.name}.ome.zarr`)),
      ),
    ),
    h("h3", {}, "Python"),
    code,
    button("Copy as Python", () => events.copied(code.textContent ?? "")),
  );
  begin();
  return dialog;
}
