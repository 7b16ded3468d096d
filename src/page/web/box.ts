// The sheet "Voxels": a box of a channel as a NumPy file, as a TIFF for ImageJ, as lines of Python,
// or as an OME-Zarr address.

import { bytesText } from "./text";
import {
  absolute,
  addressOf,
  type Channel,
  type Dataset,
  labelOf,
  timeOf,
  type Triple,
  volume,
} from "./data";
import { button, h, sheet } from "./dom";
import { at, AXIS_NAMES, clamp } from "./geometry";
import { MAX_TOGETHER } from "./view";
import { boxAddress, type LevelBox, type Part } from "./voxels";

export interface BoxEvents {
  copied(text: string): void;
  /** Lets a rectangle be dragged on the picture, and opens the sheet again. */
  drag(): void;
}

/** The bytes of each component of a voxel, by its type. */
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
/** The types of voxels that TIFF files can have. */
const TIFF_TYPES = ["uint8", "int16", "uint16", "float32"];

/**
 * The channels that can be in one TIFF file, a given channel first: up to six images of one type,
 * whose voxels have one size and direction.
 */
function joinable(channels: Channel[], channel: Channel, level: number): Channel[] {
  if (channel.kind !== "image") return [];
  const traits = ({ kind, dtype, times, space, voxel_size, voxel_unit, levels }: Channel) =>
    JSON.stringify([kind, dtype, times, space, voxel_size, voxel_unit, levels[level]?.factor]);
  const own = traits(channel);
  const others = channels.filter((other) => other !== channel && traits(other) === own);
  return [channel, ...others].slice(0, MAX_TOGETHER);
}

/**
 * The voxels of a level that a part of level 0 touches: the first and the number along each axis,
 * at least one.
 */
export function atLevel(
  channel: Channel,
  number: number,
  { start, end }: Part,
): Pick<LevelBox, "start" | "size"> {
  const level = channel.levels[number];
  const first: Triple = [0, 0, 0];
  const size: Triple = [1, 1, 1];
  for (const axis of [0, 1, 2] as const) {
    const factor = level?.factor[axis] ?? 1;
    const length = level?.size[axis] ?? 1;
    first[axis] = Math.min(Math.floor(start[axis] / factor), length - 1);
    const levelEnd = Math.min(Math.ceil(end[axis] / factor), length);
    size[axis] = Math.max(1, levelEnd - first[axis]);
  }
  return { start: first, size };
}

/** Lines of Python that read exactly these voxels. */
function python({ dataset, channel, time, level, start, size }: LevelBox): string {
  const point = timeOf(channel, time);
  const ranges = [2, 1, 0].map((axis) => `${at(start, axis)}:${at(start, axis) + at(size, axis)}`);
  const isRgb = channel.kind === "rgb";
  const times = point === null ? [] : [String(point)];
  const index = [...times, ...(isRgb ? [":"] : []), ...ranges];
  const axes = [...(isRgb ? ["colour"] : []), "z", "y", "x"];
  const address = absolute(`zarr/0.5/${addressOf(dataset)}/${channel.name}.ome.zarr/${level}`);
  return `import zarr  # pip install zarr fsspec aiohttp

volume = zarr.open_array("${address}", mode="r")
voxels = volume[${index.join(", ")}]  # ${axes.join(", ")}
`;
}

/** The data that the sheet saves parts of. */
export interface BoxSubject {
  dataset: Dataset;
  /** The channels that can be chosen; the first is chosen at first. */
  channels: Channel[];
  time: number;
  /** The level that is on the screen. */
  level: number;
  /** The part of a channel's level 0 that is shown at first; null for all of the channel. */
  boxOf(channel: Channel): Part | null;
}

const link = (text: string): HTMLAnchorElement => h("a", { className: "button" }, text);

/** The sheet in which a box is chosen and saved. */
class BoxSheet {
  readonly dialog: HTMLDialogElement;
  private channel: Channel;
  private readonly channelField: HTMLSelectElement;
  private readonly levelField = h("select", { id: "box-level", onchange: () => this.show() });
  /** The fields of the first voxel along each axis, and of the voxel behind the last. */
  private readonly starts = AXIS_NAMES.map((name) => this.field(name, "first", "first voxel"));
  private readonly ends = AXIS_NAMES.map((name) =>
    this.field(name, "end", "behind the last voxel"),
  );
  private readonly size = h("output", {});
  private readonly npy = link(".npy");
  private readonly tif = link(".tif");
  private readonly allTif = link("");
  private readonly code = h("pre", { tabIndex: 0 });

  constructor(
    private readonly subject: BoxSubject,
    private readonly events: BoxEvents,
  ) {
    const { channels } = subject;
    this.channel = channels[0] as Channel;
    this.channelField = h(
      "select",
      { id: "box-channel", onchange: () => this.choose() },
      ...channels.map((each) => h("option", { value: each.name }, labelOf(each))),
    );
    this.dialog = sheet(
      "Voxels",
      h("label", { className: "field" }, "Channel", this.channelField),
      h("label", { className: "field" }, "Level", this.levelField),
      ...AXIS_NAMES.map((name, axis) =>
        h(
          "div",
          { className: "field" },
          h("b", {}, name),
          this.starts[axis],
          "to",
          this.ends[axis],
        ),
      ),
      h("div", { className: "field" }, this.size),
      h(
        "div",
        { className: "field buttons" },
        this.npy,
        this.tif,
        this.allTif,
        button("Drag a rectangle", () => this.drag()),
        button("Copy OME-Zarr address", () => events.copied(this.zarrAddress())),
      ),
      h("h3", {}, "Python"),
      this.code,
      button("Copy as Python", () => events.copied(this.code.textContent ?? "")),
    );
    this.begin();
  }

  private field(axis: string, end: "first" | "end", says: string): HTMLInputElement {
    return h("input", {
      type: "text",
      inputMode: "numeric",
      className: "number",
      id: `box-${axis}-${end}`,
      "aria-label": `${axis}, ${says}`,
      oninput: () => this.show(),
    });
  }

  private drag(): void {
    this.dialog.close();
    this.events.drag();
  }

  private zarrAddress(): string {
    const { dataset } = this.subject;
    return absolute(`zarr/0.4/${addressOf(dataset)}/${this.channel.name}.ome.zarr`);
  }

  private choose(): void {
    const { channels } = this.subject;
    this.channel = channels.find(({ name }) => name === this.channelField.value) ?? this.channel;
    this.begin();
  }

  /** Offers the levels of the channel, and shows its first box. */
  private begin(): void {
    const { levels } = this.channel;
    const shown = Math.min(this.subject.level, levels.length - 1);
    const options = levels.map(({ level, factor }) => {
      const text = level ? `${level}: every ${factor.join(" × ")}` : "0: all voxels";
      return h("option", { value: String(level), selected: level === shown }, text);
    });
    this.levelField.replaceChildren(...options);
    const whole = { start: [0, 0, 0] as Triple, end: levels[0]?.size ?? [1, 1, 1] };
    const { start, end } = this.subject.boxOf(this.channel) ?? whole;
    for (const axis of [0, 1, 2] as const) {
      (this.starts[axis] as HTMLInputElement).value = String(start[axis]);
      (this.ends[axis] as HTMLInputElement).value = String(end[axis]);
    }
    this.show();
  }

  /** The part of level 0 that is written in the fields, within the channel. */
  private written(): Part {
    const whole = this.channel.levels[0]?.size ?? [1, 1, 1];
    const number = (field: HTMLInputElement | undefined) => Math.floor(Number(field?.value)) || 0;
    const start: Triple = [0, 0, 0];
    const end: Triple = [0, 0, 0];
    for (const axis of [0, 1, 2] as const) {
      start[axis] = clamp(number(this.starts[axis]), 0, whole[axis] - 1);
      end[axis] = clamp(number(this.ends[axis]), start[axis] + 1, whole[axis]);
    }
    return { start, end };
  }

  /** Shows the size of the box, the files that can be saved of it, and the lines of Python. */
  private show(): void {
    const { channel } = this;
    const { dataset, time } = this.subject;
    const level = Number(this.levelField.value);
    const { start, size } = atLevel(channel, level, this.written());
    const box: LevelBox = { dataset, channel, time, level, start, size };
    const isRgb = channel.kind === "rgb";
    const bytes = volume(size) * (isRgb ? 3 : 1) * (BYTES[channel.dtype] ?? 8);
    this.size.textContent = `${size.join(" × ")} voxels, ${bytesText(bytes)}`;
    this.showFiles(box);
    this.code.textContent = python(box);
  }

  /** Shows the files that can be saved of a box. */
  private showFiles(box: LevelBox): void {
    const { dataset, channel, level } = box;
    const { channels } = this.subject;
    const raw = boxAddress(box);
    const corner = box.start.join("_");
    const tif = raw.replace(".raw", ".tif");
    this.npy.href = raw.replace(".raw", ".npy");
    this.npy.download = `${dataset.token}-${channel.name}-${corner}.npy`;
    this.tif.href = tif;
    this.tif.download = `${dataset.token}-${channel.name}-${corner}.tif`;
    const joined = joinable(channels, channel, level);
    const names = joined.map(({ name }) => name).join();
    this.allTif.href = tif.replace(`/${channel.name}/`, `/${names}/`);
    this.allTif.download = `${dataset.token}-${corner}.tif`;
    this.allTif.textContent = `.tif, ${joined.length} channels`;
    const isTiff = TIFF_TYPES.includes(channel.dtype);
    this.allTif.hidden = !isTiff || joined.length < 2;
    this.tif.hidden = !isTiff || (channel.kind === "rgb" && channel.dtype !== "uint8");
  }
}

export const boxSheet = (subject: BoxSubject, events: BoxEvents): HTMLDialogElement =>
  new BoxSheet(subject, events).dialog;
