// Boxes of voxels (`/voxels/…raw`): their addresses, and their values in the data's own type.

import {
  addressOf,
  answer,
  type Channel,
  type Dataset,
  firstOf,
  timeOf,
  type Triple,
} from "./data";
import { at, AXIS_NAMES } from "./geometry";

export type Values = ArrayLike<number | bigint>;

/** A box of a channel at a time point: its first voxel and its size, in voxels of a level. */
export interface LevelBox {
  dataset: Dataset;
  channel: Channel;
  time: number;
  level: number;
  start: Triple;
  size: Triple;
}

/** The address of a box. */
export function boxAddress({ dataset, channel, time, level, start, size }: LevelBox): string {
  const ranges = AXIS_NAMES.map(
    (_, axis) => `${at(start, axis)}-${at(start, axis) + at(size, axis)}`,
  ).join("_");
  const point = timeOf(channel, time);
  const query = point === null ? "" : `?time=${point}`;
  return `voxels/${addressOf(dataset)}/${channel.name}/${level}/${ranges}.raw${query}`;
}

/** Half-precision floats (IEEE 754 binary16), for which not every browser has an array. */
function halves(bytes: ArrayBuffer): number[] {
  return Array.from(new Uint16Array(bytes), (bits) => {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24);
  });
}

const TYPES: Record<string, (bytes: ArrayBuffer) => Values> = {
  bool: (bytes) => new Uint8Array(bytes),
  uint8: (bytes) => new Uint8Array(bytes),
  int8: (bytes) => new Int8Array(bytes),
  uint16: (bytes) => new Uint16Array(bytes),
  int16: (bytes) => new Int16Array(bytes),
  uint32: (bytes) => new Uint32Array(bytes),
  int32: (bytes) => new Int32Array(bytes),
  uint64: (bytes) => new BigUint64Array(bytes),
  int64: (bytes) => new BigInt64Array(bytes),
  float16: halves,
  float32: (bytes) => new Float32Array(bytes),
  float64: (bytes) => new Float64Array(bytes),
};

/** A box of voxels as it was read. */
export interface VoxelBox {
  /** z, y, x, and the components of a voxel; x (or the component) fastest. */
  values: Values;
  /**
   * The parts of the box that the file lacks, in voxels of the level, whose values stand for
   * nothing; null if the server does not list them.
   */
  gaps: Part[] | null;
}

/** A part of a level: its first voxel, and the voxel after its last. */
export interface Part {
  start: Triple;
  end: Triple;
}

/** Whether a voxel lies in one of these parts. */
export const isWithin = (parts: Part[], voxel: Triple): boolean =>
  parts.some(({ start, end }) =>
    voxel.every((value, axis) => value >= at(start, axis) && value < at(end, axis)),
  );

/** The voxel of a channel at level 0 at a place of the dataset; null if it has none there. */
export function voxelAt(channel: Channel, place: Triple): Triple | null {
  const finest = channel.levels[0];
  if (!finest) return null;
  const first = firstOf(channel);
  const voxel = place.map((value, axis) => value - at(first, axis)) as Triple;
  return isWithin([{ start: [0, 0, 0], end: finest.size }], voxel) ? voxel : null;
}

/** The parts in a header such as `0-64_0-64_3-4,0-64_0-64_8-9`; null if there is no header. */
function partsIn(header: string | null): Part[] | null {
  if (header === null) return null;
  const texts = header.split(",").filter((text) => text !== "");
  return texts.map((text) => {
    const ranges = text.split("_").map((range) => range.split("-").map(Number));
    const start = ranges.map(([from = 0]) => from) as Triple;
    return { start, end: ranges.map(([, to = 0]) => to) as Triple };
  });
}

/** Reads a box. */
export async function readVoxels(address: string, signal: AbortSignal): Promise<VoxelBox> {
  const response = await answer(address, { signal });
  const type = response.headers.get("X-Voltile-Type") ?? "";
  const read = TYPES[type];
  if (!read) throw new Error(`The server sent voxels of an unknown type “${type}”`);
  const gaps = partsIn(response.headers.get("X-Voltile-Missing"));
  return { values: read(await response.arrayBuffer()), gaps };
}

/** The values of a box. */
export async function readBox(address: string, signal: AbortSignal): Promise<Values> {
  return (await readVoxels(address, signal)).values;
}
