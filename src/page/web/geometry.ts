// Planes, levels and tiles: a channel's pixels in a plane, and their numbers in URLs.
//
// A point is x, y, z in voxels of level 0, relative to the volume's first voxel; voxel i extends from i to
// i + 1. A grid's unit is a column of level 0; rows have the same height if the server draws square pixels.
// Offsets only change the numbers shown to users and in URLs.

import type { Channel, Level, PlaneName, Triple } from "./data";

export const TILE = 512;
/** Minimum size of a tile pixel in screen pixels: at one half, the coarser level is exact. */
export const LEAST_RATIO = 0.51;
export const PLANES: PlaneName[] = ["xy", "xz", "yz"];
export const AXIS_NAMES = ["x", "y", "z"] as const;

/** The axes (0 x, 1 y, 2 z) of a plane's columns, rows and slices. */
export const AXES: Record<PlaneName, { column: number; row: number; slice: number }> = {
  xy: { column: 0, row: 1, slice: 2 },
  xz: { column: 0, row: 2, slice: 1 },
  yz: { column: 1, row: 2, slice: 0 },
};

export const at = (triple: Triple, axis: number): number => triple[axis] ?? 0;

/** The height of a voxel in columns of level 0, which makes pixels of xz and yz square. */
export function rowHeight(channel: Channel, plane: PlaneName): number {
  const { voxel_size: voxel, orthogonal } = channel;
  if (plane === "xy" || !voxel || orthogonal === "stored") return 1;
  const height = at(voxel, 2) / at(voxel, AXES[plane].column);
  return Number.isFinite(height) && height > 0 ? height : 1;
}

/** One level of a channel in one plane, in tile pixels. */
interface GridLevel {
  level: number;
  columns: number;
  rows: number;
  /** The width and height of a pixel, in units. */
  width: number;
  height: number;
  offered: boolean;
  /** The thickness of a slice in voxels of level 0, and the number of slices. */
  thickness: number;
  slices: number;
  /** The extent of a pixel and of a voxel along the rows' axis, in the same unit: a row of voxels may be many of pixels. */
  steps: [number, number];
  /** The number of rows of voxels. */
  voxelRows: number;
}

export interface Rectangle {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A box of voxels: its first voxel, its size, its columns, and its row under each row of a tile's pixels. */
export interface Box {
  start: Triple;
  size: Triple;
  width: number;
  rows: number[];
}

/** The tiles of a channel in a plane. */
export class Grid {
  readonly width: number;
  readonly height: number;
  readonly rowHeight: number;
  readonly levels: GridLevel[];

  constructor(channel: Channel, readonly plane: PlaneName) {
    this.rowHeight = rowHeight(channel, plane);
    const square = plane !== "xy" && channel.voxel_size !== null && channel.orthogonal !== "stored";
    this.levels = channel.levels.map((level) => this.level(level, square, channel.voxel_size));
    const finest = this.levels[0];
    this.width = finest?.columns ?? 1;
    this.height = finest?.rows ?? 1;
  }

  private level({ level, size, factor, planes }: Level, square: boolean, voxel: Triple | null): GridLevel {
    const { column, row, slice } = AXES[this.plane];
    const width = at(factor, column);
    // Square pixels follow the columns' factor; stored rows have the factor of their own axis.
    const height = square || this.plane === "xy" ? width : at(factor, row);
    const rows = square ? (at(size, row) * this.rowHeight * at(factor, row)) / width : at(size, row);
    return {
      level,
      columns: at(size, column),
      rows: Math.max(1, Math.ceil(rows - 1e-9)),
      width,
      height,
      offered: planes.includes(this.plane),
      thickness: at(factor, slice),
      slices: at(size, slice),
      steps: square ? [at(voxel ?? [1, 1, 1], column) * width, at(voxel ?? [1, 1, 1], row) * at(factor, row)] : [1, 1],
      voxelRows: at(size, row),
    };
  }

  /** The level to draw at this many screen pixels per unit; a finer one if that is not offered. */
  best(pixels: number): number {
    const wanted = Math.max(0, Math.ceil(Math.log2(LEAST_RATIO / pixels)));
    let level = Math.min(wanted, this.levels.length - 1);
    while (level > 0 && !this.levels[level]?.offered) level -= 1;
    return level;
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
    const width = Math.min(grid.columns, this.width / grid.width) - column * TILE;
    const height = Math.min(grid.rows, this.height / grid.height) - row * TILE;
    return { x: 0, y: 0, width: Math.min(TILE, width), height: Math.min(TILE, height) };
  }

  /** The position of that part, in units. */
  bounds(level: number, column: number, row: number): Rectangle {
    const grid = this.levels[level];
    const [width, height] = [grid?.width ?? 1, grid?.height ?? 1];
    const inside = this.inside(level, column, row);
    return {
      x: column * TILE * width,
      y: row * TILE * height,
      width: inside.width * width,
      height: inside.height * height,
    };
  }

  /** The tile at a position in units. */
  tileAt(level: number, x: number, y: number): { column: number; row: number } {
    const { width = 1, height = 1 } = this.levels[level] ?? {};
    const { columns, rows } = this.tiles(level);
    const within = (value: number, count: number) => Math.min(Math.max(Math.floor(value), 0), count - 1);
    return { column: within(x / width / TILE, columns), row: within(y / height / TILE, rows) };
  }

  /** The slice of a level through a point. */
  private slice(level: number, point: Triple): number {
    const { thickness = 1, slices = 1 } = this.levels[level] ?? {};
    return Math.min(Math.floor(Math.floor(at(point, AXES[this.plane].slice)) / thickness), slices - 1);
  }

  /** The number in URLs of the slice through a point. */
  sliceNumber(level: number, point: Triple, offset: Triple): number {
    const thickness = this.levels[level]?.thickness ?? 1;
    return this.slice(level, point) + Math.floor(at(offset, AXES[this.plane].slice) / thickness);
  }

  /** The voxels that a tile shows, in voxels of its level, and which of their rows each row of pixels shows. */
  box(level: number, column: number, row: number, point: Triple): Box {
    const grid = this.levels[level];
    const { column: across, row: down, slice } = AXES[this.plane];
    const [pixel, voxel] = grid?.steps ?? [1, 1];
    // In the order of the server's formula, so that both round alike.
    const shown = Array.from({ length: TILE }, (_, i) => Math.floor(((TILE * row + i) * pixel) / voxel));
    const rows = shown.filter((each) => each < (grid?.voxelRows ?? 1));
    const [first, last] = [rows[0] ?? 0, rows.at(-1) ?? 0];
    const [start, size]: [Triple, Triple] = [[0, 0, 0], [1, 1, 1]];
    [start[across], size[across]] = [column * TILE, Math.min(TILE, (grid?.columns ?? 1) - column * TILE)];
    [start[down], size[down]] = [first, last - first + 1];
    start[slice] = this.slice(level, point);
    return { start, size, width: at(size, across), rows: rows.map((each) => each - first) };
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
