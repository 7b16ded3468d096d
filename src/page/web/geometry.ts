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
  endInTiles,
  endOf,
  firstInTiles,
  type Level,
  type PlaneName,
  type Triple,
} from "./data";
import { around, mostTouched, type Slab } from "./slab";

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
const mostSlices = (level: Level, plane: PlaneName): number =>
  at(level.slab ?? [0, 0, 0], PLANES.indexOf(plane));

/** Whether the server projects a slab at a level. */
function hasSlab(channel: Channel, level: Level, plane: PlaneName, slab: Slab): boolean {
  const axis = AXES[plane].slice;
  const slices = mostTouched(slab, at(level.factor, axis), at(endInTiles(channel, level), axis));
  return slices <= mostSlices(level, plane);
}

/**
 * The slab, made thinner if the server does not project it at any level; null if the server
 * projects no slabs of the channel.
 */
function limitedSlab(slab: Slab, channel: Channel, plane: PlaneName): Slab | null {
  const axis = AXES[plane].slice;
  const offered = channel.levels.filter(({ planes }) => planes.includes(plane));
  if (offered.some((level) => hasSlab(channel, level, plane, slab))) return slab;
  // A slab of this many slices touches at most one more slice of the level than it fills.
  const thickest = offered.map((level) => (mostSlices(level, plane) - 1) * at(level.factor, axis));
  const most = Math.max(0, ...thickest);
  const count = at(endInTiles(channel, channel.levels[0]), axis);
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
  /** How many stored voxels a tile reads. */
  reads: number;
  /** The thickness of a slice in voxels of level 0. */
  thickness: number;
  /** The number of slices; infinite if other channels have more, beyond which nothing is shown. */
  slices: number;
  /** The heights of a pixel and of a voxel, in the same unit; equal unless pixels are square. */
  heights: [number, number];
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
  /** The number of its columns. */
  width: number;
  /** For each row of pixels that it covers, the row of the box that is drawn there. */
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
  /** The point at which the tiles begin. */
  private readonly begin: Triple;
  /** Its position in the plane, in units. */
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
    this.slab = slab && limitedSlab(slab, channel, plane);
    this.rowHeight = rowHeight(channel, plane);
    this.begin = beginOf(channel);
    const corner = this.place(this.begin);
    this.left = corner.x;
    this.top = corner.y;
    const isSquare =
      plane !== "xy" && channel.voxel_size !== null && channel.orthogonal !== "stored";
    this.levels = channel.levels.map((level) => this.level(channel, level, isSquare, whole));
    const { column, row } = AXES[plane];
    this.width = at(whole, column);
    this.height = Math.max(1, Math.ceil(at(whole, row) * this.rowHeight - TINY));
  }

  private level(channel: Channel, source: Level, isSquare: boolean, whole: Triple): GridLevel {
    const { level, factor, planes } = source;
    const voxel = channel.voxel_size;
    const { column, row, slice } = AXES[this.plane];
    const size = endInTiles(channel, source);
    const isShorter = at(endOf([channel]), slice) < at(whole, slice);
    const width = at(factor, column);
    // Square pixels follow the columns' factor; stored rows have the factor of their own axis.
    const height = isSquare || this.plane === "xy" ? width : at(factor, row);
    const rows = isSquare
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
        (!this.slab || hasSlab(channel, source, this.plane, this.slab)),
      reads: at(source.voxels_read ?? [0, 0, 0], PLANES.indexOf(this.plane)),
      thickness: at(factor, slice),
      slices: isShorter ? Infinity : at(size, slice),
      heights: isSquare
        ? [at(voxel ?? [1, 1, 1], column) * width, at(voxel ?? [1, 1, 1], row) * at(factor, row)]
        : [1, 1],
      first: firstInTiles(channel, source),
      size: source.size,
    };
  }

  /**
   * The finest level whose pixels are not too small, at a number of screen pixels per unit. Each
   * level doubles the size of pixels.
   */
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
    if (this.levels[level]?.offered) return level;
    // No finer level is offered, so the first one that is offered is coarser.
    return this.levels.find(({ offered }) => offered)?.level ?? level;
  }

  /**
   * A coarser level whose tiles arrive sooner than those of the level `best`: a tile of it reads no
   * more voxels than the `tiles` of `best` that are in sight. `best` itself if there is none.
   */
  coarser(best: number, tiles: number): number {
    // Coarser levels that are not stored read more voxels for a tile. They are computed slice by
    // slice, which for a slab takes longer than all the tiles.
    const most = (this.levels[best]?.reads ?? 0) * (this.slab ? 1 : tiles);
    const candidates = this.levels
      .slice(best + 1, best + 1 + COARSER)
      .filter(({ offered, reads }) => offered && reads <= most);
    return candidates.at(-1)?.level ?? best;
  }

  /** The number of tiles of a level. */
  tiles(level: number): { columns: number; rows: number } {
    const gridLevel = this.levels[level];
    if (!gridLevel) return { columns: 0, rows: 0 };
    return { columns: Math.ceil(gridLevel.columns / TILE), rows: Math.ceil(gridLevel.rows / TILE) };
  }

  /** The part of a tile inside the volume, in tile pixels; clipped to the finest level. */
  inside(level: number, column: number, row: number): Rectangle {
    const gridLevel = this.levels[level];
    if (!gridLevel) return { x: 0, y: 0, width: TILE, height: TILE };
    const width =
      Math.min(gridLevel.columns, (this.width - this.left) / gridLevel.width) - column * TILE;
    const height =
      Math.min(gridLevel.rows, (this.height - this.top) / gridLevel.height) - row * TILE;
    return { x: 0, y: 0, width: Math.min(TILE, width), height: Math.min(TILE, height) };
  }

  /** The part of a tile inside the volume, in units of the plane. */
  bounds(level: number, column: number, row: number): Rectangle {
    const gridLevel = this.levels[level];
    const width = gridLevel?.width ?? 1;
    const height = gridLevel?.height ?? 1;
    const inside = this.inside(level, column, row);
    return {
      x: this.left + column * TILE * width,
      y: this.top + row * TILE * height,
      width: inside.width * width,
      height: inside.height * height,
    };
  }

  /** The tile at a position in units, or the nearest one. */
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
    const finestNumber = Math.floor(at(point, slice) - at(this.begin, slice));
    const number = Math.floor(finestNumber / thickness);
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
   * The slices that a tile shows, as in URLs: the slice through a point (`7`), or the slab around
   * it (`3-12.max`).
   */
  slices(level: number, point: Triple, offset: Triple): string {
    const { thickness = 1, first = [0, 0, 0], size = [1, 1, 1] } = this.levels[level] ?? {};
    if (!this.slab) return String(this.sliceNumber(level, point, offset));
    const { slice: axis } = AXES[this.plane];
    const here = Math.floor(at(point, axis));
    const [finestFrom, finestTo] = around(this.slab, here, at(this.whole, axis));
    const from = (finestFrom - at(this.begin, axis)) / thickness;
    const to = (finestTo - at(this.begin, axis)) / thickness;
    const levelEnd = at(first, axis) + at(size, axis);
    // A slab before the first slice begins at the end, where nothing is shown.
    const begin = to > 0 ? clamp(Math.floor(from), 0, levelEnd) : levelEnd;
    const end = Math.max(begin + 1, Math.min(Math.ceil(to), levelEnd));
    const added = Math.floor(at(offset, axis) / thickness);
    return `${begin + added}-${end + added}.${this.slab.mode}`;
  }

  /**
   * The voxels of the channel that a tile shows, with a margin of pixels around it, in voxels of
   * its level; null if there are none.
   */
  box(level: number, column: number, row: number, point: Triple, margin = 0): Box | null {
    const gridLevel = this.levels[level];
    if (!gridLevel) return null;
    const { column: across, row: down, slice } = AXES[this.plane];
    const { first, size: extent } = gridLevel;
    const [pixelHeight, voxelHeight] = gridLevel.heights;
    // The row of voxels under each row of pixels, in the order of the server's formula, so that
    // both round alike.
    const voxelRows = Array.from({ length: TILE + 2 * margin }, (_, i) => {
      const pixelRow = TILE * row + i - margin;
      return Math.floor((pixelRow * pixelHeight) / voxelHeight) - at(first, down);
    });
    const above = voxelRows.filter((each) => each < 0).length;
    const rows = voxelRows.slice(above).filter((each) => each < at(extent, down));
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
