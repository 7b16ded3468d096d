// Boxes of voxels (`/voxels/…raw`): their addresses, and their values in the data's own type.

import {
  addressOf,
  fetchWithRetry,
  type Channel,
  type Dataset,
  firstOf,
  timeOf,
  type Triple,
} from "./data";
import { at } from "./geometry";

export type Values = ArrayLike<number | bigint>;

/** A box of voxels that the server can send; `start` and `size` are in voxels of the level. */
export interface LevelBox {
  dataset: Dataset;
  channel: Channel;
  time: number;
  level: number;
  start: Triple;
  size: Triple;
}

/** The address of a box, such as `voxels/actin/c0/0/0-64_0-64_3-4.raw?time=2`. */
export function boxAddress({ dataset, channel, time, level, start, size }: LevelBox): string {
  const ranges = start.map((first, axis) => `${first}-${first + at(size, axis)}`).join("_");
  const point = timeOf(channel, time);
  const query = point === null ? "" : `?time=${point}`;
  return `voxels/${addressOf(dataset)}/${channel.name}/${level}/${ranges}.raw${query}`;
}

/**
 * Half-precision floats, for which not every browser has an array. IEEE 754 binary16: a bit for the
 * sign, 5 for the exponent, 10 for the fraction.
 */
function halves(bytes: ArrayBuffer): number[] {
  return Array.from(new Uint16Array(bytes), (bits) => {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    if (exponent === 0) return sign * fraction * 2 ** -24; // zero and subnormal numbers
    return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  });
}

/** What turns bytes into values, by the name of the voxels' type. */
const READERS: Record<string, (bytes: ArrayBuffer) => Values> = {
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
  /** In the order z, y, x: x changes fastest, or in colour images the component of a voxel. */
  values: Values;
  /**
   * The parts of the box that the file lacks, in voxels of the level; their values mean nothing.
   * Null if the server does not list the parts.
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

/** A channel's voxel of level 0 at a place on the page; null if the channel has none there. */
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
    const end = ranges.map(([, to = 0]) => to) as Triple;
    return { start, end };
  });
}

/** Reads a box. */
export async function readVoxels(address: string, signal: AbortSignal): Promise<VoxelBox> {
  const response = await fetchWithRetry(address, { signal });
  const type = response.headers.get("X-Voltile-Type") ?? "";
  const read = READERS[type];
  if (!read) throw new Error(`The server sent voxels of an unknown type “${type}”`);
  const gaps = partsIn(response.headers.get("X-Voltile-Missing"));
  return { values: read(await response.arrayBuffer()), gaps };
}

/** The values of a box. */
export async function readBox(address: string, signal: AbortSignal): Promise<Values> {
  return (await readVoxels(address, signal)).values;
}
