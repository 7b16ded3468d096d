// Boxes of voxels (`/voxels/…raw`): their addresses, and their values in the data's own type.

import { addressOf, answer, type Channel, type Dataset, sound, timeOf, type Triple } from "./data";
import { at, AXIS_NAMES } from "./geometry";

export type Values = ArrayLike<number | bigint>;

/** The address of a box of a channel: its first voxel and its size, in voxels of a level. */
export function boxAddress(
  dataset: Dataset,
  channel: Channel,
  time: number,
  level: number,
  start: Triple,
  size: Triple,
): string {
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
    const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
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

/**
 * The values of a channel that are declared as missing: as texts for 64-bit integers, and as
 * numbers.
 */
export const missingOf = (channel: Channel): Set<string | number> =>
  new Set((channel.missing ?? []).flatMap((text) => [text, Number(text)]));

/** Whether a value is declared as missing, or is NaN. */
export const isGap = (missing: Set<string | number>, value: number | bigint): boolean =>
  typeof value === "bigint"
    ? missing.has(String(value))
    : Number.isNaN(value) || missing.has(value);

/** Whether a voxel, whose values these are, stands for missing data. */
export async function isMissing(
  dataset: Dataset,
  channel: Channel,
  time: number,
  voxel: Triple,
  values: Values,
  signal: AbortSignal,
): Promise<boolean> {
  if (channel.kind !== "image") return false;
  const [value = 0] = Array.from(values);
  if (isGap(missingOf(channel), value)) return true;
  if (!channel.gaps) return false;
  // Boxes have the fill value where nothing is; ranges leave that out.
  const [x, y, z] = voxel.map((place, axis) => place + (channel.offset?.[axis] ?? 0)) as Triple;
  const point = timeOf(channel, time);
  const query = `plane=xy&level=0&slice=${z + dataset.offset[2]}&box=${[x, y, x + 1, y + 1].join()}${point === null ? "" : `&time=${point}`}`;
  const range = (await (
    await sound(
      await fetch(`view/${addressOf(dataset)}/${channel.name}/range.json?${query}`, { signal }),
    )
  ).json()) as { voxels: number };
  return range.voxels === 0;
}

/** The values of a box: z, y, x, and the components of a voxel; x (or the component) fastest. */
export async function readBox(address: string, signal: AbortSignal): Promise<Values> {
  const response = await answer(address, { signal });
  const type = response.headers.get("X-Voltile-Type") ?? "";
  const read = TYPES[type];
  if (!read) throw new Error(`The server sent voxels of an unknown type “${type}”`);
  return read(await response.arrayBuffer());
}
