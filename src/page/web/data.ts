// The server's JSON: its types, and requests with helpful error messages.

export type Triple = [number, number, number];
export type PlaneName = "xy" | "xz" | "yz";

export interface Level {
  level: number;
  size: Triple;
  factor: Triple;
  planes: PlaneName[];
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
  kind: "image" | "labels" | "rgb";
  dtype: string;
  window: [number, number] | null;
  histogram?: Histogram | null;
  times: number | null;
  voxel_size: Triple | null;
  voxel_unit: string | null;
  orthogonal?: "isotropic" | "stored";
  /** The formats that cannot hold the channel, and why. */
  left_out?: Record<string, string>;
  levels: Level[];
}

export interface Dataset {
  token: string;
  offset: Triple;
  channels: Channel[];
}

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
  datasets: Dataset[];
}

const AWAY = "The server does not answer. Is voltile still running?";

/** An error message for users. */
export function explain(error: unknown): string {
  if (error instanceof TypeError) return AWAY; // what fetch throws if there is no connection
  return error instanceof Error ? error.message : String(error);
}

/** A successful response; others become an Error with the server's own reason. */
export async function sound(response: Response): Promise<Response> {
  if (response.ok) return response;
  const problem: unknown = await response.json().catch(() => null);
  const detail = (problem as { detail?: string } | null)?.detail;
  throw new Error(detail ?? `The server answered ${response.status} ${response.statusText}`);
}

/** All datasets and mounts. */
export async function loadSite(): Promise<Site> {
  return (await (await sound(await fetch("datasets.json"))).json()) as Site;
}

/** One dataset with measured windows and histograms, which may take the server a moment. */
export async function loadDataset(token: string): Promise<Dataset> {
  return (await (await sound(await fetch(`datasets/${token}.json`))).json()) as Dataset;
}

/** The time point of a channel that a time shows, which is its last one after its end; null if it has none. */
export const timeOf = (channel: Channel, time: number): number | null => (channel.times === null ? null : Math.min(time, channel.times - 1));

/** The channels that can be shown together: those whose volumes have the same extent. */
export function companions(dataset: Dataset, channel: Channel): Channel[] {
  const extent = (one: Channel) => one.levels[0]?.size.join();
  return dataset.channels.filter((other) => extent(other) === extent(channel));
}
