// The values under the cursor: of every visible channel, at one voxel of the finest level.

import { tidy } from "./text";
import {
  type Channel,
  companions,
  type Dataset,
  endOf,
  firstOf,
  isGap,
  missingOf,
  type Triple,
} from "./data";
import { at, clamp } from "./geometry";
import { namesOf } from "./names";
import { around, projected, type Slab } from "./slab";
import { type View, visible } from "./view";
import { boxAddress, isWithin, readVoxels, voxelAt } from "./voxels";

/** How long the cursor rests before values are requested, in milliseconds. */
const REST = 60;

/** The text in place of a value where data is missing. */
const MISSING = "missing";

/** The value of a channel under the cursor. */
export interface Pointed {
  channel: Channel;
  /** The value as text; components are separated by commas. */
  text: string;
  /** The name of a label; empty if it has none. */
  name: string;
}

/** A shown slab: the value of each pixel comes from a column of voxels. */
export interface Column {
  /** The axis of the column: the plane's normal. */
  axis: number;
  slab: Slab;
}

/** A channel, and its voxel under the cursor. */
interface ChannelVoxel {
  channel: Channel;
  voxel: Triple;
}

export class Pointer {
  /** The values that were shown last. */
  values: Pointed[] = [];
  /** The place and channels of the values, as JSON; empty if there are none. */
  private shown = "";
  private timer = 0;
  private ending = new AbortController();

  constructor(private readonly changed: () => void) {}

  /**
   * Requests the values at a point, unless they are known; none if the cursor is not on the volume.
   */
  at(dataset: Dataset, view: View, point: Triple | null, column: Column | null): void {
    const channels = point ? visible(dataset, view) : [];
    const place = (point ?? [0, 0, 0]).map(Math.floor) as Triple;
    const voxels = channels.flatMap((channel) => {
      const voxel = voxelAt(channel, place);
      return voxel ? [{ channel, voxel }] : [];
    });
    const key = voxels.length
      ? JSON.stringify([place, view.time, column, voxels.map(({ channel }) => channel.name)])
      : "";
    if (key === this.shown) return;
    this.forget();
    this.shown = key;
    if (!key) return;
    this.timer = window.setTimeout(() => void this.read(dataset, voxels, view.time, column), REST);
  }

  private async read(
    dataset: Dataset,
    voxels: ChannelVoxel[],
    time: number,
    column: Column | null,
  ): Promise<void> {
    const { signal } = this.ending;
    const readValue = async ({ channel, voxel }: ChannelVoxel): Promise<Pointed> => {
      if (column && channel.kind === "image") {
        const value = await this.projection(dataset, { channel, voxel }, time, column, signal);
        return { channel, text: value === null ? MISSING : String(tidy(value)), name: "" };
      }
      const size: Triple = [1, 1, 1];
      const address = boxAddress({ dataset, channel, time, level: 0, start: voxel, size });
      const { values, gaps } = await readVoxels(address, signal);
      const isAbsent = gaps?.length || isGap(missingOf(channel), values[0] ?? 0);
      if (channel.kind === "image" && isAbsent) return { channel, text: MISSING, name: "" };
      const text = Array.from(values, (value) =>
        String(typeof value === "number" ? tidy(value) : value),
      ).join();
      // A table of names that is wrong must not hide the value; "About this file" says what is
      // wrong.
      const names = await namesOf(dataset, channel, [text], signal).catch(() => null);
      return { channel, text, name: names?.get(text) ?? "" };
    };
    // A value that cannot be read is left out: the picture reports what is wrong with the data.
    const reads = await Promise.allSettled(voxels.map(readValue));
    if (signal.aborted) return;
    this.values = reads.flatMap((read) => (read.status === "fulfilled" ? [read.value] : []));
    this.changed();
  }

  /** The value that a slab shows of a voxel's column; null if all of it is missing. */
  private async projection(
    dataset: Dataset,
    { channel, voxel }: ChannelVoxel,
    time: number,
    { axis, slab }: Column,
    signal: AbortSignal,
  ): Promise<number | null> {
    const first = at(firstOf(channel), axis);
    const count = at(channel.levels[0]?.size ?? [1, 1, 1], axis);
    // A slab may cover all channels that are shown together, such as the tiles of a mosaic.
    const end = at(endOf(companions(dataset, channel)), axis);
    const [from, to] = around(slab, at(voxel, axis) + first, end);
    const start: Triple = [...voxel];
    const size: Triple = [1, 1, 1];
    start[axis] = clamp(from - first, 0, count);
    size[axis] = clamp(to - first, 0, count) - start[axis];
    const address = boxAddress({ dataset, channel, time, level: 0, start, size });
    const { values, gaps } = await readVoxels(address, signal);
    const voxelOf = (slice: number): Triple => {
      const place: Triple = [...voxel];
      place[axis] = slice;
      return place;
    };
    const present = Array.from(values).filter(
      (_, i) => !isWithin(gaps ?? [], voxelOf(at(start, axis) + i)),
    );
    return projected(slab, present, missingOf(channel));
  }

  /** Drops the values, and gives up the requests for new ones. */
  forget(): void {
    window.clearTimeout(this.timer);
    this.ending.abort();
    this.ending = new AbortController();
    this.values = [];
    this.shown = "";
  }
}
