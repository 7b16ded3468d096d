// The server's JSON: its types, and requests with helpful error messages.

import { arrange } from "./space";

export type Triple = [number, number, number];
/** Takes a voxel's index to its place, by a row each for x, y and z. */
export type Matrix = [Row, Row, Row];
/** The factors of x, y and z, and a shift. */
type Row = [number, number, number, number];
export type PlaneName = "xy" | "xz" | "yz";

export interface Level {
  level: number;
  /** The number of voxels along x, y and z. */
  size: Triple;
  /** How many voxels of level 0 a voxel spans along x, y and z. */
  factor: Triple;
  /** The planes in which the server has tiles of the level. */
  planes: PlaneName[];
  /** The path of the level's dataset in the file; null if the level is computed. */
  path?: string | null;
  storage?: { layout: string; chunk?: number[] | null; filters: string[] } | null;
  /** How many stored voxels a tile reads, in the planes xy, xz and yz. */
  voxels_read?: Triple;
  /**
   * The most slices of the level that a slab in xy, xz and yz may have; absent if the server has
   * neither slabs nor previews (`.jpg`) of the channel.
   */
  slab?: Triple;
}

/** How often values occur among the sampled voxels. */
export interface Histogram {
  /** The least and the greatest value. */
  lo: number;
  hi: number;
  /** The counts of equally wide ranges of values from `lo` to `hi`. */
  counts: number[];
}

export interface Channel {
  name: string;
  label: string | null;
  colour: string | null;
  /** The letter of the colour that the channel gets when it is shown with other images. */
  composite_colour?: "C" | "M" | "Y" | "R" | "G" | "B" | null;
  kind: "image" | "labels" | "rgb";
  /** Why the channel is taken for labels. */
  labels_because?: string | null;
  dtype: string;
  window: [number, number] | null;
  histogram?: Histogram | null;
  /** The histogram without the lowest and highest 0.01 %; absent if that makes no difference. */
  central_histogram?: Histogram | null;
  /** Null until the channel has been sampled. */
  percentiles?: unknown;
  /** The number of time points; null if the channel is no series. */
  times: number | null;
  /**
   * When time points were recorded: `step` seconds apart, the first at the date `began`. If they
   * are uneven, `uneven` has the time of each in seconds since the first.
   */
  timing?: { step: number; began: string | null; uneven?: number[] } | null;
  /** Why the channel could not be sampled. */
  problem?: string | null;
  voxel_size: Triple | null;
  voxel_unit: string | null;
  voxel_size_from?: string | null;
  /** Where the channel's voxels lie in space, if a file says it. */
  transform?: {
    matrix: Matrix;
    /** The matrix in words. */
    in_words: string | null;
    /** The length of the matrix's unit in nanometres. */
    nanometres: number;
    /** The matrices that replace `matrix`, each from its time point on. */
    by_time?: { time: number; matrix: Matrix }[];
  } | null;
  orthogonal?: "isotropic" | "stored";
  /** The formats that cannot hold the channel, and why. */
  left_out?: Record<string, string>;
  /** Whether its labels have names. */
  names?: boolean;
  /** The values that stand for missing data. */
  missing?: string[];
  /** Whether parts of the channel have no data. */
  gaps?: boolean;
  /** The time points and the slice to show first, if some are missing. */
  existing?: { first_time: number; middle_time: number; middle_slice: number } | null;
  /**
   * The position of its first voxel in the tiles of the dataset, in voxels of level 0; null if it
   * is not known.
   */
  offset?: Triple | null;
  levels: Level[];
  /**
   * For registered datasets, computed by the page: channels with the same number can be drawn over
   * one another.
   */
  space?: number;
  /** Where the channel's tiles begin in that space, in voxels of level 0; computed by the page. */
  begin?: Triple;
}

/** Something that people must be told about the data. */
export interface Notice {
  severity: "error" | "warning" | "info";
  about: string;
  text: string;
}

export interface Dataset {
  token: string;
  /** The beginning of its addresses: the token, perhaps with a version. */
  address?: string;
  /** A text that changes whenever answers about the dataset change. */
  version?: string | null;
  /** Whether the dataset's file is being written, so that it grows. */
  live?: boolean;
  offset: Triple;
  /** The folder of the dataset's files. */
  folder?: string | null;
  /** The size of the files. */
  bytes?: number | null;
  /** When the files were last changed, in milliseconds since 1970. */
  modified?: number | null;
  /** The layouts recognised in its files; empty if all channels are configured. */
  layouts?: { layout: string; because: string }[];
  channels: Channel[];
  /** The numbers of notices; absent from older servers. */
  noticed?: { errors: number; warnings: number };
  /** The notices themselves, which `loadDataset` brings. */
  notices?: Notice[] | null;
}

/** The name of a channel for people: what its file calls it, else its name in addresses. */
export const labelOf = (channel: Channel): string => channel.label ?? channel.name;

/** The product of lengths: the voxels of a box. */
export const volume = (lengths: number[]): number =>
  lengths.reduce((product, length) => product * length, 1);

export const sum = (numbers: number[]): number => numbers.reduce((total, each) => total + each, 0);

/** The voxels of a channel at level 0, of all its time points. */
export const voxelCount = (channel: Channel): number =>
  volume(channel.levels[0]?.size ?? [0]) * (channel.times ?? 1);

/** The time points of the longest series among channels; 1 if none of them is a series. */
export const timeCount = (channels: Channel[]): number =>
  Math.max(1, ...channels.map(({ times }) => times ?? 1));

/** Values that are declared as missing, each as a text (exact for 64 bits) and as a number. */
export type Missing = Set<string | number>;

/** The values of an image that are declared as missing; other channels have none. */
export function missingOf({ kind, missing }: Channel): Missing {
  const texts = kind === "image" ? (missing ?? []) : [];
  return new Set(texts.flatMap((text) => [text, Number(text)]));
}

/** Whether a value is declared as missing, or is NaN. */
export const isGap = (missing: Missing, value: number | bigint): boolean =>
  typeof value === "bigint"
    ? missing.has(String(value))
    : Number.isNaN(value) || missing.has(value);

/** Whether a pixel of a channel may stand for missing data, as NaN does. */
export const mayMiss = (channel: Channel): boolean =>
  channel.kind === "image" &&
  (channel.gaps === true ||
    (channel.missing ?? []).length > 0 ||
    channel.dtype.startsWith("float"));

/** The values that a channel's tiles show as black (0) and white (255). */
export function baseWindow(channel: Channel): [number, number] {
  return channel.window ?? [0, 255];
}

/**
 * Whether it is known which values are black and white: once the server has a window, and for
 * `uint8` at once, which is shown as stored until then.
 */
export const isMeasured = (channel: Channel): boolean =>
  channel.window !== null || channel.dtype === "uint8";

/** The whole URL of an address of the server. */
export const absolute = (path: string): string => new URL(path, location.href.split("#")[0]).href;

/** The beginning of a dataset's addresses. */
export const addressOf = (dataset: Dataset): string => dataset.address ?? dataset.token;

export interface Mount {
  tile_service: string;
  content_type: string;
  adjustable: boolean;
}

export interface Site {
  version: string;
  mounts: Mount[];
  /** The address of Neuroglancer; null if there is none. */
  neuroglancer?: string | null;
  /** Whether there may be datasets that a secret would show. */
  protected?: boolean;
  /** Whether tiles with other ranges and colours are served; absent before the server could. */
  adjust?: boolean;
  datasets: Dataset[];
}

const AWAY = "The server does not answer. Is voltile still running?";

/** An error message for users. */
export function explain(error: unknown): string {
  if (error instanceof TypeError) return AWAY; // what fetch throws if there is no connection
  return error instanceof Error ? error.message : String(error);
}

/** Returns a successful response, and throws the server's own reason for any other one. */
export async function requireOk(response: Response): Promise<Response> {
  if (response.ok) return response;
  const problem: unknown = await response.json().catch(() => null);
  const detail = (problem as { detail?: string } | null)?.detail;
  throw new Error(detail ?? `The server answered ${response.status} ${response.statusText}`);
}

const MAX_TRIES = 5;

/**
 * A successful response for a tile or voxels; if the server is overloaded, it is asked again after
 * the time that it states.
 */
export async function fetchWithRetry(url: string, init: RequestInit): Promise<Response> {
  for (let attempt = 1; ; attempt += 1) {
    const response = await fetch(url, init);
    if (response.status !== 503 || attempt === MAX_TRIES) return requireOk(response);
    await new Promise((resolve) =>
      setTimeout(resolve, 1000 * (Number(response.headers.get("Retry-After")) || 1)),
    );
  }
}

/** The JSON of a successful response. */
export async function loadJson<T>(address: string, init?: RequestInit): Promise<T> {
  const response = await requireOk(await fetch(address, init));
  return (await response.json()) as T;
}

/** The site with all datasets, or only with the datasets of some tokens. */
export async function loadSite(tokens?: string[]): Promise<Site> {
  const query = tokens ? `?${new URLSearchParams({ tokens: tokens.join() })}` : "";
  const site = await loadJson<Site>(`datasets.json${query}`, { cache: "no-cache" });
  site.datasets.forEach(arrange);
  return site;
}

/** One dataset with measured windows and histograms, which may take the server a moment. */
export async function loadDataset(token: string): Promise<Dataset> {
  return arrange(await loadJson<Dataset>(`datasets/${token}.json`));
}

/** The percentiles of visible voxels; null if there are none. */
export const loadRange = (address: string): Promise<{ low: number | null; high: number | null }> =>
  loadJson(address);

/**
 * The time point of a channel that is shown at a time: the channel's last time point if the time is
 * later. Null if the channel is no series.
 */
export const timeOf = (channel: Channel, time: number): number | null =>
  channel.times === null ? null : Math.min(time, channel.times - 1);

/** Where a channel's tiles begin on the page, in voxels of level 0. */
export const beginOf = (channel: Channel): Triple => channel.begin ?? [0, 0, 0];

/** The position of a channel's first voxel on the page, in voxels of level 0. */
export function firstOf(channel: Channel): Triple {
  const along = (axis: 0 | 1 | 2) => (channel.offset?.[axis] ?? 0) + beginOf(channel)[axis];
  return [along(0), along(1), along(2)];
}

/** Where a channel's voxels begin in its tiles, in voxels of a level. */
export function firstInTiles(channel: Channel, level: Level): Triple {
  const along = (axis: 0 | 1 | 2) => Math.floor((channel.offset?.[axis] ?? 0) / level.factor[axis]);
  return [along(0), along(1), along(2)];
}

/**
 * Where a channel's voxels end in its tiles, in voxels of a level: the level's size if the channel
 * has no offset.
 */
export function endInTiles(channel: Channel, level: Level | undefined): Triple {
  if (!level) return [1, 1, 1];
  const [x, y, z] = firstInTiles(channel, level);
  return [level.size[0] + x, level.size[1] + y, level.size[2] + z];
}

/**
 * The channels that can be drawn over a channel, and the channel itself. In a registered dataset
 * these are the channels of the same space; elsewhere the channels of the same extent and, if the
 * channel's position is known, the other channels whose position is known.
 */
export function companions(dataset: Dataset, channel: Channel): Channel[] {
  if (channel.space !== undefined)
    return dataset.channels.filter((other) => other.space === channel.space);
  const extent = (each: Channel) => endInTiles(each, each.levels[0]).join();
  return dataset.channels.filter(
    (other) => extent(other) === extent(channel) || (other.offset && channel.offset),
  );
}

/** Where the last of several channels ends on the page along each axis, in voxels of level 0. */
export function endOf(channels: Channel[]): Triple {
  const furthest = (axis: 0 | 1 | 2) =>
    Math.max(
      1,
      ...channels.map(
        (channel) => beginOf(channel)[axis] + endInTiles(channel, channel.levels[0])[axis],
      ),
    );
  return [furthest(0), furthest(1), furthest(2)];
}
