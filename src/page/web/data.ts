// The server's JSON: its types, and requests with helpful error messages.

import { arrange } from "./space";

export type Triple = [number, number, number];
/** The rows of x, y and z: the factors of x, y and z and a shift. */
export type Matrix = [Row, Row, Row];
type Row = [number, number, number, number];
export type PlaneName = "xy" | "xz" | "yz";

export interface Level {
  level: number;
  size: Triple;
  factor: Triple;
  planes: PlaneName[];
  /** The path of its dataset in the file; null if it is computed. */
  path?: string | null;
  storage?: { layout: string; chunk?: number[] | null; filters: string[] } | null;
  /** The stored voxels that a tile reads in the planes xy, xz and yz. */
  voxels_read?: Triple;
  /**
   * The most slices of the level that a slab in xy, xz and yz may have; absent if the server has
   * neither slabs nor `.jpg`.
   */
  slab?: Triple;
}

export interface Histogram {
  lo: number;
  hi: number;
  counts: number[];
}

export interface Channel {
  name: string;
  label: string | null;
  colour: string | null;
  /** The letter of its colour beside other images. */
  composite_colour?: "C" | "M" | "Y" | "R" | "G" | "B" | null;
  kind: "image" | "labels" | "rgb";
  /** Why it holds labels. */
  labels_because?: string | null;
  dtype: string;
  window: [number, number] | null;
  histogram?: Histogram | null;
  /** The histogram without the 0.01 % least and greatest values; absent if it is the same. */
  central_histogram?: Histogram | null;
  /** Null until it has been sampled. */
  percentiles?: unknown;
  times: number | null;
  /**
   * The seconds between time points, the date of the first, and the seconds of each after the first
   * if they are uneven.
   */
  timing?: { step: number; began: string | null; uneven?: number[] } | null;
  /** Why it could not be sampled. */
  problem?: string | null;
  voxel_size: Triple | null;
  voxel_unit: string | null;
  voxel_size_from?: string | null;
  /**
   * Where its voxels lie in space, the same in words, and other matrices from later time points on.
   */
  transform?: {
    matrix: Matrix;
    in_words: string | null;
    nanometres: number;
    by_time?: { time: number; matrix: Matrix }[];
  } | null;
  orthogonal?: "isotropic" | "stored";
  /** The formats that cannot hold the channel, and why. */
  left_out?: Record<string, string>;
  /** Whether its labels have names. */
  names?: boolean;
  /** The values that stand for missing data, and whether there are parts without data. */
  missing?: string[];
  gaps?: boolean;
  /** The pictures to show first, if time points or slices are missing. */
  existing?: { first_time: number; middle_time: number; middle_slice: number } | null;
  /**
   * The position of its first voxel in the tiles of the dataset, in voxels of level 0; null if it
   * is not known.
   */
  offset?: Triple | null;
  levels: Level[];
  /**
   * Channels with the same number can be drawn over one another. The page computes it for
   * registered datasets.
   */
  space?: number;
  /** The position of its tiles in the space, in voxels of level 0; computed by the page. */
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
  /** Whether its file is being written: it grows. */
  live?: boolean;
  offset: Triple;
  /**
   * The name of the folder of its files, their size, and when they changed (milliseconds since
   * 1970).
   */
  folder?: string | null;
  bytes?: number | null;
  modified?: number | null;
  /** The layouts recognised in its files; empty if all channels are configured. */
  layouts?: { layout: string; because: string }[];
  channels: Channel[];
  /** How many notices there are; absent from older servers. The list comes with the windows. */
  noticed?: { errors: number; warnings: number };
  notices?: Notice[] | null;
}

/** The name of a channel for people: what its file calls it, else its name in addresses. */
export const labelOf = (channel: Channel): string => channel.label ?? channel.name;

/** The product of lengths: the voxels of a box. */
export const volume = (lengths: number[]): number =>
  lengths.reduce((product, length) => product * length, 1);

export const sum = (numbers: number[]): number => numbers.reduce((all, each) => all + each, 0);

/** The voxels of a channel at level 0, of all its time points. */
export const voxelCount = (channel: Channel): number =>
  volume(channel.levels[0]?.size ?? [0]) * (channel.times ?? 1);

/** The time points of the longest series among channels; 1 if none of them is a series. */
export const timeCount = (channels: Channel[]): number =>
  Math.max(1, ...channels.map(({ times }) => times ?? 1));

/** Values that are declared as missing: as texts for 64-bit integers, and as numbers. */
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

/** Whether a pixel of a channel may stand for missing data. */
export const mayMiss = (channel: Channel): boolean =>
  channel.kind === "image" &&
  (channel.gaps === true ||
    (channel.missing ?? []).length > 0 ||
    channel.dtype.startsWith("float"));

/** The values that 0 and 255 of a channel's tiles stand for. */
export function baseWindow(channel: Channel): [number, number] {
  return channel.window ?? [0, 255];
}

/** Whether the values that are black and white are known: the server measures them. */
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

/** A successful response; an unsuccessful one becomes an Error with the server's own reason. */
export async function sound(response: Response): Promise<Response> {
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
export async function answer(url: string, init: RequestInit): Promise<Response> {
  for (let attempt = 1; ; attempt += 1) {
    const response = await fetch(url, init);
    if (response.status !== 503 || attempt === MAX_TRIES) return sound(response);
    await new Promise((resolve) =>
      setTimeout(resolve, 1000 * (Number(response.headers.get("Retry-After")) || 1)),
    );
  }
}

/** The JSON of a successful response. */
export async function loadJson<T>(address: string, init?: RequestInit): Promise<T> {
  const response = await sound(await fetch(address, init));
  return (await response.json()) as T;
}

/** The site with all datasets, or only with the datasets of some tokens. */
export async function loadSite(only?: string[]): Promise<Site> {
  const query = only ? `?${new URLSearchParams({ tokens: only.join() })}` : "";
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
 * The time point of a channel that is shown at a time: after its end, its last one. Null if the
 * channel has no time points.
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

/** A channel's position in its tiles, in voxels of a level. */
export function shift(channel: Channel, level: Level): Triple {
  const along = (axis: 0 | 1 | 2) => Math.floor((channel.offset?.[axis] ?? 0) / level.factor[axis]);
  return [along(0), along(1), along(2)];
}

/**
 * The end of a level in the channel's tiles, in voxels of the level: its size if it has no offset.
 */
export function end(channel: Channel, level: Level | undefined): Triple {
  if (!level) return [1, 1, 1];
  const [x, y, z] = shift(channel, level);
  return [level.size[0] + x, level.size[1] + y, level.size[2] + z];
}

/**
 * The channels that can be shown together with a channel: all of the same extent, and if its
 * position is known, all whose position is known.
 */
export function companions(dataset: Dataset, channel: Channel): Channel[] {
  const extent = (one: Channel) => end(one, one.levels[0]).join();
  if (channel.space !== undefined)
    return dataset.channels.filter((other) => other.space === channel.space);
  return dataset.channels.filter(
    (other) => extent(other) === extent(channel) || (other.offset && channel.offset),
  );
}

/** The end of all these channels, in voxels of level 0. */
export function endOf(channels: Channel[]): Triple {
  const longest = (axis: 0 | 1 | 2) =>
    Math.max(
      1,
      ...channels.map((channel) => beginOf(channel)[axis] + end(channel, channel.levels[0])[axis]),
    );
  return [longest(0), longest(1), longest(2)];
}
