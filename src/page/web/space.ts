// Where the voxels of channels lie in space, if a file of the dataset says it (`transform` in the
// server's description).
//
// A matrix takes the index of a voxel of level 0 (x, y, z; 0 is the centre of the first voxel) to
// its place, in the unit of the voxel size: three rows of the factors of x, y and z and a shift.

import type { Channel, Dataset, Matrix, Triple } from "./data";

/** A nanometre in metres. */
export const NANOMETRE = 1e-9;
const ALL = [0, 1, 2] as const;

/** The matrix of a channel at a time point; null if the dataset is not registered. */
function matrixOf({ transform }: Channel, time: number): Matrix | null {
  const before = transform?.by_time?.filter((each) => each.time <= time) ?? [];
  return before.at(-1)?.matrix ?? transform?.matrix ?? null;
}

/** The place to which a matrix takes an index. */
const apply = (matrix: Matrix, index: Triple): Triple =>
  matrix.map(([x, y, z, shift]) => x * index[0] + y * index[1] + z * index[2] + shift) as Triple;

const cross = (a: Triple, b: Triple): Triple => [
  a[1] * b[2] - a[2] * b[1],
  a[2] * b[0] - a[0] * b[2],
  a[0] * b[1] - a[1] * b[0],
];
const minus = (a: Triple, b: Triple): Triple => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
const dot = (a: Triple, b: Triple): number => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

/** The matrix that takes places back to indices. */
function inverse(matrix: Matrix): Matrix {
  const [x, y, z] = ALL.map((column) => matrix.map((row) => row[column])) as [
    Triple,
    Triple,
    Triple,
  ];
  const shift = matrix.map((row) => row[3]) as Triple;
  // The rows of the inverse are cross products of the columns, divided by the determinant.
  const determinant = dot(x, cross(y, z));
  const rows = [cross(y, z), cross(z, x), cross(x, y)].map(
    (row) => row.map((part) => part / determinant) as Triple,
  );
  return rows.map((row) => [...row, -dot(row, shift)]) as Matrix;
}

/**
 * The position of a channel's first voxel in voxels of another channel; null if the channel's
 * voxels are turned or of another size, so that they cannot be drawn over those of the other.
 */
function firstWithin(channel: Channel, other: Channel): Triple | null {
  const own = matrixOf(channel, 0);
  const others = matrixOf(other, 0);
  if (!own || !others) return null;
  const back = inverse(others);
  const unit = (channel.transform?.nanometres ?? 1) / (other.transform?.nanometres ?? 1);
  const size = channel.levels[0]?.size ?? [1, 1, 1];
  // The index of the other channel's voxel at the place of a voxel of this channel.
  const indexIn = (voxel: Triple) =>
    apply(back, apply(own, voxel).map((part) => part * unit) as Triple);
  const first = indexIn([0, 0, 0]);
  const errors: number[] = [];
  for (const axis of ALL) {
    // The last voxel along the axis must lie as far from the first as if all voxels were alike.
    const last: Triple = [0, 0, 0];
    last[axis] = size[axis] - 1;
    const moved = indexIn(last);
    errors.push(...ALL.map((i) => moved[i] - first[i] - last[i]));
  }
  return errors.every((error) => Math.abs(error) < 0.5) ? first : null;
}

/**
 * Sets `space` and `begin` of the channels of a registered dataset: which of them can be drawn over
 * one another, and where: at the nearest voxel, in the smallest box around all channels of a space.
 */
export function arrange(dataset: Dataset): Dataset {
  const spaces: Channel[][] = [];
  for (const channel of dataset.channels.filter(({ transform }) => transform)) {
    const space = spaces.find(([first]) => first && firstWithin(channel, first));
    if (space) space.push(channel);
    else spaces.push([channel]);
  }
  for (const [space, channels] of spaces.entries()) {
    const begins = channels.map((channel) => {
      const first = firstWithin(channel, channels[0] as Channel) ?? [0, 0, 0];
      // Tiles begin before the channel's first voxel, by its offset.
      return first.map(
        (along, axis) => Math.round(along) - (channel.offset?.[axis] ?? 0),
      ) as Triple;
    });
    const corner = ALL.map((axis) => Math.min(...begins.map((begin) => begin[axis]))) as Triple;
    channels.forEach((channel, i) =>
      Object.assign(channel, { space, begin: minus(begins[i] ?? corner, corner) }),
    );
  }
  return dataset;
}

/** The place of an index in nanometres; null if the dataset is not registered. */
export function place(channel: Channel, time: number, index: Triple): Triple | null {
  const matrix = matrixOf(channel, time);
  if (!matrix) return null;
  return apply(matrix, index).map((part) => part * (channel.transform?.nanometres ?? 1)) as Triple;
}

/**
 * Neuroglancer's transform from a source's coordinates to nanometres; null if the dataset is not
 * registered.
 *
 * A source without a time axis is read as precomputed: its coordinates are voxels times their size,
 * and `first` is the voxel index at their origin. A series is read as OME-Zarr, whose coordinates
 * begin where the first voxel lies at the first time point; `timeAxis` has the scale and the unit.
 */
export function sourceTransform(
  channel: Channel,
  time: number,
  first: Triple,
  timeAxis: [number, string] | null,
): object | null {
  const matrix = matrixOf(channel, time);
  const begin = matrixOf(channel, 0);
  if (!matrix || !begin) return null;
  const nanometres = channel.transform?.nanometres ?? 1;
  const voxel = channel.voxel_size ?? [1, 1, 1];
  // The source's coordinates of the voxel with index 0.
  const zero = timeAxis
    ? begin.map((row) => row[3])
    : ALL.map((axis) => -first[axis] * voxel[axis]);
  const rows = matrix.map((row) => {
    const factors = ALL.map((axis) => row[axis] / voxel[axis]) as Triple;
    const shift = (row[3] - dot(factors, zero as Triple)) * nanometres;
    return timeAxis ? [...factors, 0, shift] : [...factors, shift];
  });
  const lengths = ([x, y, z]: Triple) => ({
    x: [x * NANOMETRE, "m"],
    y: [y * NANOMETRE, "m"],
    z: [z * NANOMETRE, "m"],
  });
  const times = timeAxis ? { t: timeAxis } : {};
  return {
    matrix: timeAxis ? [...rows, [0, 0, 0, 1, 0]] : rows,
    inputDimensions: { ...lengths(voxel.map((edge) => edge * nanometres) as Triple), ...times },
    outputDimensions: { ...lengths([1, 1, 1]), ...times },
  };
}
