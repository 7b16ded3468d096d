// Planes, levels and tiles: a channel's pixels in a plane, and their numbers in URLs.
//
// A point is x, y, z in voxels of level 0, relative to the first voxel of the dataset's first
// channel; voxel i extends from i to i + 1. A grid's unit is a column of level 0; rows have the
// same height if the server draws square pixels. All channels of a dataset share its tiles, in
// which a channel may begin later (its offset); registered channels have tiles of their own, which
// begin where space.ts puts them. The dataset's own offset only changes the numbers shown to users
// and in URLs.

import {
  beginOf,
  type Channel,
  end,
  endOf,
  type Level,
  type PlaneName,
  shift,
  type Triple,
} from "./data";
import { around, type Slab, touched } from "./slab";

export const TILE = 512;
/** Minimum size of a tile pixel in screen pixels: at one half, the coarser level is exact. */
export const LEAST_RATIO = 0.51;
/** A level that is drawn before the best one is at most this many levels coarser. */
const COARSER = 3;
/** Rounding errors of numbers of pixels stay below this. */
const TINY = 1e-9;
export const PLANES: PlaneName[] = ["xy", "xz", "yz"];
export const AXIS_NAMES = ["x", "y", "z"] as const;

/** The axes (0 x, 1 y, 2 z) of a plane's columns, rows and slices. */
export const AXES: Record<PlaneName, { column: number; row: number; slice: number }> = {
  xy: { column: 0, row: 1, slice: 2 },
  xz: { column: 0, row: 2, slice: 1 },
  yz: { column: 1, row: 2, slice: 0 },
};

/** The number nearest to a value that lies between two limits. */
export const clamp = (value: number, least: number, most: number): number =>
  Math.min(Math.max(value, least), most);

export const at = (triple: Triple, axis: number): number => triple[axis] ?? 0;

/** The height of a voxel in columns of level 0, which makes pixels of xz and yz square. */
export function rowHeight(channel: Channel, plane: PlaneName): number {
  const { voxel_size: voxel, orthogonal } = channel;
  if (plane === "xy" || !voxel || orthogonal === "stored") return 1;
  const height = at(voxel, 2) / at(voxel, AXES[plane].column);
  return Number.isFinite(height) && height > 0 ? height : 1;
}

/** The most slices of a level that a slab may have. */
const limit = (level: Level, plane: PlaneName): number =>
  at(level.slab ?? [0, 0, 0], PLANES.indexOf(plane));

/** Whether the server projects a slab at a level. */
function hasSlab(channel: Channel, level: Level, plane: PlaneName, slab: Slab): boolean {
  const axis = AXES[plane].slice;
  const slices = touched(slab, at(level.factor, axis), at(end(channel, level), axis));
  return slices <= limit(level, plane);
}

/**
 * A slab, made thinner if the server does not project it at any level; null if it projects none.
 */
function limited(slab: Slab, channel: Channel, plane: PlaneName): Slab | null {
  const axis = AXES[plane].slice;
  const offered = channel.levels.filter(({ planes }) => planes.includes(plane));
  if (offered.some((level) => hasSlab(channel, level, plane, slab))) return slab;
  // A slab of this many slices touches at most one more slice of the level than it fills.
  const thickest = offered.map((level) => (limit(level, plane) - 1) * at(level.factor, axis));
  const most = Math.max(0, ...thickest);
  const count = at(end(channel, channel.levels[0]), axis);
  return most > 0 ? { ...slab, slices: Math.min(slab.slices, most, count) } : null;
}

/** One level of a channel in one plane. */
interface GridLevel {
  level: number;
  /** The number of pixels in a row and in a column. */
  columns: number;
  rows: number;
  /** The width and height of a pixel, in units. */
  width: number;
  height: number;
  /** Whether the server draws the plane, and the slab that is shown, at this level. */
  offered: boolean;
  /** The stored voxels that a tile reads. */
  reads: number;
  /** The thickness of a slice in voxels of level 0. */
  thickness: number;
  /** The number of slices; infinite if other channels have more. */
  slices: number;
  /** The heights of a pixel and of a voxel, in the same unit; equal unless pixels are square. */
  steps: [number, number];
  /** The position of the channel's first voxel, and its size, in voxels of the level. */
  first: Triple;
  size: Triple;
}

export interface Rectangle {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A box of voxels that is drawn on a tile. */
export interface Box {
  /** Its first voxel and its size. */
  start: Triple;
  size: Triple;
  /** Its columns. */
  width: number;
  /** Its row of voxels under each row of pixels. */
  rows: number[];
  /** Where it begins on the tile, in pixels; negative if it begins before the tile. */
  top: number;
  left: number;
}

/** The tiles of a channel in a plane. */
export class Grid {
  readonly width: number;
  readonly height: number;
  readonly rowHeight: number;
  readonly levels: GridLevel[];
  /** Where its tiles begin: the point, and its position in units. */
  private readonly begin: Triple;
  readonly left: number;
  readonly top: number;
  /** The slab that is shown, as thick as the server allows it at some level; null for one slice. */
  readonly slab: Slab | null;

  /** `whole` is the end of all channels that are shown together. */
  constructor(
    channel: Channel,
    readonly plane: PlaneName,
    private readonly whole: Triple = endOf([channel]),
    slab: Slab | null = null,
  ) {
    this.slab = slab && limited(slab, channel, plane);
    this.rowHeight = rowHeight(channel, plane);
    this.begin = beginOf(channel);
    ({ x: this.left, y: this.top } = this.place(this.begin));
    const square = plane !== "xy" && channel.voxel_size !== null && channel.orthogonal !== "stored";
    this.levels = channel.levels.map((level) => this.level(channel, level, square, whole));
    const { column, row } = AXES[plane];
    this.width = at(whole, column);
    this.height = Math.max(1, Math.ceil(at(whole, row) * this.rowHeight - TINY));
  }

  private level(channel: Channel, each: Level, square: boolean, whole: Triple): GridLevel {
    const { level, factor, planes } = each;
    const voxel = channel.voxel_size;
    const { column, row, slice } = AXES[this.plane];
    const size = end(channel, each);
    const isShorter = at(endOf([channel]), slice) < at(whole, slice);
    const width = at(factor, column);
    // Square pixels follow the columns' factor; stored rows have the factor of their own axis.
    const height = square || this.plane === "xy" ? width : at(factor, row);
    const rows = square
      ? (at(size, row) * this.rowHeight * at(factor, row)) / width
      : at(size, row);
    return {
      level,
      columns: at(size, column),
      rows: Math.max(1, Math.ceil(rows - TINY)),
      width,
      height,
      offered:
        planes.includes(this.plane) &&
        (!this.slab || hasSlab(channel, each, this.plane, this.slab)),
      reads: at(each.voxels_read ?? [0, 0, 0], PLANES.indexOf(this.plane)),
      thickness: at(factor, slice),
      slices: isShorter ? Infinity : at(size, slice),
      steps: square
        ? [at(voxel ?? [1, 1, 1], column) * width, at(voxel ?? [1, 1, 1], row) * at(factor, row)]
        : [1, 1],
      first: shift(channel, each),
      size: each.size,
    };
  }

  /** The finest level whose pixels are not too small, at a number of screen pixels per unit. */
  wanted(pixels: number): number {
    return Math.min(
      Math.max(0, Math.ceil(Math.log2(LEAST_RATIO / pixels))),
      this.levels.length - 1,
    );
  }

  /**
   * The level to draw at a number of screen pixels per unit: the wanted level, or the next finer
   * one that is offered, or else the next coarser one.
   */
  best(pixels: number): number {
    let level = this.wanted(pixels);
    while (level > 0 && !this.levels[level]?.offered) level -= 1;
    return this.levels[level]?.offered
      ? level
      : (this.levels.find(({ offered }) => offered)?.level ?? level);
  }

  /**
   * A coarser level whose tiles arrive sooner than those of the level `best`: a tile of it reads no
   * more voxels than the `tiles` of `best` that are in sight. `best` itself if there is none.
   */
  coarser(best: number, tiles: number): number {
    // If a slab is shown, a level that is not stored is computed slice by slice, which takes longer
    // than all the tiles.
    const most = (this.levels[best]?.reads ?? 0) * (this.slab ? 1 : tiles);
    const found = this.levels
      .slice(best + 1, best + 1 + COARSER)
      .filter(({ offered, reads }) => offered && reads <= most);
    return found.at(-1)?.level ?? best;
  }

  /** The number of tiles of a level. */
  tiles(level: number): { columns: number; rows: number } {
    const grid = this.levels[level];
    if (!grid) return { columns: 0, rows: 0 };
    return { columns: Math.ceil(grid.columns / TILE), rows: Math.ceil(grid.rows / TILE) };
  }

  /** The part of a tile inside the volume, in tile pixels; clipped to the finest level. */
  inside(level: number, column: number, row: number): Rectangle {
    const grid = this.levels[level];
    if (!grid) return { x: 0, y: 0, width: TILE, height: TILE };
    const width = Math.min(grid.columns, (this.width - this.left) / grid.width) - column * TILE;
    const height = Math.min(grid.rows, (this.height - this.top) / grid.height) - row * TILE;
    return { x: 0, y: 0, width: Math.min(TILE, width), height: Math.min(TILE, height) };
  }

  /** The part of a tile inside the volume, in units of the plane. */
  bounds(level: number, column: number, row: number): Rectangle {
    const grid = this.levels[level];
    const width = grid?.width ?? 1;
    const height = grid?.height ?? 1;
    const inside = this.inside(level, column, row);
    return {
      x: this.left + column * TILE * width,
      y: this.top + row * TILE * height,
      width: inside.width * width,
      height: inside.height * height,
    };
  }

  /** The tile at a position in units. */
  tileAt(level: number, x: number, y: number): { column: number; row: number } {
    const { width = 1, height = 1 } = this.levels[level] ?? {};
    const { columns, rows } = this.tiles(level);
    const within = (value: number, count: number) => clamp(Math.floor(value), 0, count - 1);
    return {
      column: within((x - this.left) / width / TILE, columns),
      row: within((y - this.top) / height / TILE, rows),
    };
  }

  /**
   * The slice of a level through a point. A point before the first slice gets the number after the
   * last, of which there is no tile either.
   */
  private slice(level: number, point: Triple): number {
    const { thickness = 1, slices = 1, first, size } = this.levels[level] ?? {};
    const { slice } = AXES[this.plane];
    const number = Math.floor(Math.floor(at(point, slice) - at(this.begin, slice)) / thickness);
    return number < 0 && first && size
      ? at(first, slice) + at(size, slice)
      : Math.min(number, slices - 1);
  }

  /** The number in URLs of the slice through a point. */
  sliceNumber(level: number, point: Triple, offset: Triple): number {
    const thickness = this.levels[level]?.thickness ?? 1;
    return this.slice(level, point) + Math.floor(at(offset, AXES[this.plane].slice) / thickness);
  }

  /**
   * The slices that a tile shows, as in URLs: the number of the slice through a point, or the slab
   * around it.
   */
  slices(level: number, point: Triple, offset: Triple): string {
    const { thickness = 1, first = [0, 0, 0], size = [1, 1, 1] } = this.levels[level] ?? {};
    if (!this.slab) return String(this.sliceNumber(level, point, offset));
    const { slice: axis } = AXES[this.plane];
    const [from, to] = around(this.slab, Math.floor(at(point, axis)), at(this.whole, axis)).map(
      (each) => (each - at(this.begin, axis)) / thickness,
    ) as [number, number];
    const end = at(first, axis) + at(size, axis);
    // Beyond the end, nothing is shown.
    const begin = to > 0 ? clamp(Math.floor(from), 0, end) : end;
    const last = Math.max(begin + 1, Math.min(Math.ceil(to), end));
    const shift = Math.floor(at(offset, axis) / thickness);
    return `${begin + shift}-${last + shift}.${this.slab.mode}`;
  }

  /**
   * The voxels of the channel that a tile shows, with a margin of pixels around it, in voxels of
   * its level; null if there are none.
   */
  box(level: number, column: number, row: number, point: Triple, margin = 0): Box | null {
    const grid = this.levels[level];
    if (!grid) return null;
    const { column: across, row: down, slice } = AXES[this.plane];
    const { first, size: extent } = grid;
    const [pixel, voxel] = grid.steps;
    // The row of voxels under each row of pixels, in the order of the server's formula, so that
    // both round alike.
    const shown = Array.from({ length: TILE + 2 * margin }, (_, i) => {
      const pixels = TILE * row + i - margin;
      return Math.floor((pixels * pixel) / voxel) - at(first, down);
    });
    const above = shown.filter((each) => each < 0).length;
    const rows = shown.slice(above).filter((each) => each < at(extent, down));
    const top = rows[0] ?? 0;
    const bottom = rows.at(-1) ?? 0;
    const tileLeft = column * TILE - at(first, across);
    const begin = Math.max(0, tileLeft - margin);
    const width = Math.min(tileLeft + TILE + margin, at(extent, across)) - begin;
    const start: Triple = [0, 0, 0];
    const size: Triple = [1, 1, 1];
    start[across] = begin;
    size[across] = width;
    start[down] = top;
    size[down] = bottom - top + 1;
    start[slice] = this.slice(level, point) - at(first, slice);
    const isInside = start[slice] >= 0 && start[slice] < at(extent, slice);
    if (!isInside || width <= 0 || !rows.length) return null;
    return {
      start,
      size,
      width,
      rows: rows.map((each) => each - top),
      top: above - margin,
      left: begin - tileLeft,
    };
  }

  /** A point's position in the plane, in units. */
  place(point: Triple): { x: number; y: number } {
    const { column, row } = AXES[this.plane];
    return { x: at(point, column), y: at(point, row) * this.rowHeight };
  }

  /** The point at a position, in the same slice as another point. */
  point(x: number, y: number, through: Triple): Triple {
    const { column, row } = AXES[this.plane];
    const point: Triple = [...through];
    point[column] = x;
    point[row] = y / this.rowHeight;
    return point;
  }
}
