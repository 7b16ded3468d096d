// Turns a view into layers: the tiles drawn on top of each other in a plane, their URLs, and their pixel
// processing.
//
// Coloured channels with the server's window are composited by the server (mcfc), six per tile. A channel
// with a changed window is a separate grey layer: windowed by the server if a mount is adjustable, otherwise
// here in 8 bits; it is tinted here. Image layers are added, as in mcfc; labels are drawn on top.

import { addressOf, type Channel, type Dataset, end, endOf, type Mount, type PlaneName, timeOf, type Triple } from "./data";
import { type Box, Grid } from "./geometry";
import type { Selection } from "./select";
import { type Colour, inSight, isOn, type Shown, type View } from "./view";
import { boxAddress } from "./voxels";

/** How a tile's pixels are processed before it is drawn. */
export interface Treatment {
  /** A new value for each grey value. */
  table: Uint8Array | null;
  tint: Colour;
  /** Whether black is transparent. */
  clear: boolean;
}

export interface Layer {
  /** Layers with equal keys show the same. */
  key: string;
  grid: Grid;
  address(level: number, row: number, column: number): string;
  treatment: Treatment;
  /** If only one label is to be seen: which, and the voxels of each tile. */
  selection: (Selection & { voxels(level: number, row: number, column: number): { address: string; box: Box } | null }) | null;
  opacity: number;
  adds: boolean;
}

const AS_IT_IS: Treatment = { table: null, tint: "", clear: false };

/** The values that 0 and 255 of a channel's tiles stand for. */
export function baseWindow(channel: Channel): [number, number] {
  return channel.window ?? [0, 255];
}

/** A table that applies a window to tiles drawn with another one. */
export function windowTable(base: [number, number], [low, high]: [number, number]): Uint8Array {
  const span = high - low || 1e-9;
  return Uint8Array.from({ length: 256 }, (_, grey) => {
    const value = base[0] + (grey / 255) * (base[1] - base[0]);
    return Math.min(255, Math.max(0, Math.floor(((value - low) / span) * 255 + 0.5)));
  });
}

/** Everything that determines layers, except the plane. */
export interface Scene {
  dataset: Dataset;
  view: View;
  mounts: Mount[];
}

/** The layers of a plane, bottom first. */
export function layersOf(scene: Scene, plane: PlaneName): Layer[] {
  const { dataset, view } = scene;
  const on = inSight(dataset, view).filter((channel) => isOn(view, channel));
  const shown = (channel: Channel) => view.shown[channel.name] as Shown;
  const images = on.filter((channel) => channel.kind !== "labels");
  const alone = images.filter((channel) => channel.kind === "rgb" || shown(channel).window || !shown(channel).colour);
  const together = images.filter((channel) => !alone.includes(channel));
  const maker = new Maker(scene, plane);
  const layers = [
    ...alone.map((channel) => maker.single(channel, shown(channel))),
    ...bundles(together).map((bundle) => maker.composite(bundle, shown)),
  ];
  layers.forEach((layer, index) => (layer.adds = index > 0));
  const labels = on.filter((channel) => channel.kind === "labels");
  return [...layers, ...labels.map((channel) => maker.labels(channel, shown(channel), images.length > 0))];
}

/** Groups of channels that the server can composite: the same levels and end, all or none with time, at most six. */
function bundles(channels: Channel[]): Channel[][] {
  const alike = new Map<string, Channel[][]>();
  for (const channel of channels) {
    const key = JSON.stringify([channel.times, channel.levels.map((level) => [level.factor, end(channel, level)])]);
    const found = alike.get(key) ?? [[]];
    if (found.at(-1)?.length === 6) found.push([]);
    found.at(-1)?.push(channel);
    alike.set(key, found);
  }
  return [...alike.values()].flat();
}

class Maker {
  private readonly whole: Triple;

  constructor(private readonly scene: Scene, private readonly plane: PlaneName) {
    this.whole = endOf(inSight(scene.dataset, scene.view));
  }

  /** The mount to use; if `adjusted`, one that accepts windows, if there is one. */
  private mount(adjusted: boolean): Mount | undefined {
    const { mounts } = this.scene;
    return adjusted ? mounts.find((mount) => mount.adjustable) : mounts[0];
  }

  private layer(channel: Channel, path: string, treatment: Treatment, query = ""): Layer {
    const { dataset, view } = this.scene;
    const grid = new Grid(channel, this.plane, this.whole);
    const mount = this.mount(query !== "")?.tile_service ?? "ndtilecache";
    const point = timeOf(channel, view.time);
    const time = point === null ? "" : `${point}/`;
    const address = (level: number, row: number, column: number) => {
      const slice = grid.sliceNumber(level, view.at, dataset.offset);
      return `${mount}/tilecache/${path}/${this.plane}/${time}${slice}/${row}_${column}_${level}.png${query}`;
    };
    const key = [address(0, 0, 0), treatment.table?.join() ?? "", treatment.tint, treatment.clear].join("|");
    return { key, grid, address, treatment, selection: null, opacity: 1, adds: false };
  }

  single(channel: Channel, { colour, window }: Shown): Layer {
    const path = `${addressOf(this.scene.dataset)}/${channel.name}`;
    if (!window) return this.layer(channel, path, AS_IT_IS);
    if (this.mount(true)) {
      return this.layer(channel, path, { ...AS_IT_IS, tint: colour }, `?min=${window[0]}&max=${window[1]}`);
    }
    return this.layer(channel, path, { table: windowTable(baseWindow(channel), window), tint: colour, clear: false });
  }

  composite(channels: Channel[], shown: (channel: Channel) => Shown): Layer {
    const names = channels.map((channel) => `${channel.name}:${shown(channel).colour}`).join();
    return this.layer(channels[0] as Channel, `mcfc/${addressOf(this.scene.dataset)}/${names}`, AS_IT_IS);
  }

  labels(channel: Channel, { opacity, selected }: Shown, covers: boolean): Layer {
    const { dataset, view } = this.scene;
    const layer = this.layer(channel, `${addressOf(dataset)}/${channel.name}`, { ...AS_IT_IS, clear: true });
    layer.opacity = covers ? opacity : 1;
    if (!selected) return layer;
    const voxels = (level: number, row: number, column: number) => {
      const box = layer.grid.box(level, column, row, view.at);
      return box && { address: boxAddress(dataset, channel, view.time, level, box.start, box.size), box };
    };
    return { ...layer, key: `${layer.key}|${selected.id}|${selected.alone}`, selection: { ...selected, voxels } };
  }
}
