// Turns a view into layers: the tiles drawn on top of each other in a plane, their URLs, and their
// pixel processing.
//
// Channels in the server's ranges are ordinary tiles: one channel in grey, or up to six
// composited in colours (mcfc). Any other range, gamma or colour map is drawn by the server from
// the data (`/view/`), up to six channels in a tile. While a handle moves, its channel is a grey
// layer of its own, whose 8 bits are stretched here. Image layers are added, as in mcfc; labels are
// drawn on top.

import {
  addressOf,
  baseWindow,
  beginOf,
  type Channel,
  type Dataset,
  endInTiles,
  endOf,
  isMeasured,
  mayMiss,
  type Mount,
  type PlaneName,
  timeOf,
  type Triple,
} from "./data";
import { at, type Box, Grid } from "./geometry";
import { isServed, type LabelLook } from "./labels";
import { isPure, paintName, table } from "./paint";
import type { Slab } from "./slab";
import { drawable, type Held, MAX_TOGETHER, type Shown, shownOf, type View, visible } from "./view";
import { boxAddress } from "./voxels";

/** How a tile's pixels are processed before it is drawn. */
export interface Treatment {
  /** Tables with equal names are equal. */
  name: string;
  /** Red, green and blue for each grey value. */
  table: Uint8Array | null;
  /** Whether black is transparent. */
  clear: boolean;
}

export interface Layer {
  /** Layers with equal keys show the same. */
  key: string;
  /** Tells tiles from earlier tiles at the same address, which a live dataset may have. */
  revision: string;
  grid: Grid;
  address(level: number, row: number, column: number): string;
  /** The address of the same tile with losses, which is shorter; null if there is none. */
  preview: ((level: number, row: number, column: number) => string) | null;
  treatment: Treatment;
  /**
   * How labels are drawn from voxels, and the voxels of each tile; null if the server's tiles are
   * used.
   */
  labels: {
    look: LabelLook;
    voxels(level: number, row: number, column: number): { address: string; box: Box } | null;
  } | null;
  opacity: number;
  /** Whether it is added to the layers below instead of covering them. */
  adds: boolean;
  /** Whether its tiles may have transparent pixels, where data is missing. */
  mayMiss: boolean;
}

const AS_IT_IS: Treatment = { name: "", table: null, clear: false };
const AS_SERVED: Held = { window: null, gamma: 1 };

/**
 * For each grey value of a tile that was drawn with the range and exponent of `from`, the grey
 * value that those of `to` give.
 */
export function stretchTable(channel: Channel, from: Held, to: Held): Uint8Array {
  const [first, last] = from.window ?? baseWindow(channel);
  const [low, high] = to.window ?? baseWindow(channel);
  const span = high - low || 1e-9;
  return Uint8Array.from({ length: 256 }, (_, grey) => {
    const value = first + (grey / 255) ** from.gamma * (last - first);
    const share = Math.min(1, Math.max(0, (value - low) / span));
    return Math.floor(share ** (1 / to.gamma) * 255 + 0.5);
  });
}

/**
 * Whether the server's ordinary tiles show a channel as wanted. Where data is missing, they are
 * black instead of transparent.
 */
function isPlain(scene: Scene, channel: Channel, shown: Shown): boolean {
  const needsClear = scene.adjust && mayMiss(channel) && isMeasured(channel);
  return (
    !slabOf(scene, channel, shown) &&
    shown.window === null &&
    shown.gamma === 1 &&
    isPure(shown.colour) &&
    !needsClear
  );
}

/** Whether it is known which values are black and white. */
const isRangeKnown = (channel: Channel, { window }: Shown): boolean =>
  window !== null || isMeasured(channel);

/** The slab that is drawn of a channel; null for one slice, or while its range is unknown. */
function slabOf(scene: Scene, channel: Channel, shown: Shown): Slab | null {
  return scene.adjust && hasSlabs(channel) && isRangeKnown(channel, shown) ? scene.view.slab : null;
}

/** Whether the server projects slabs of a channel; it then also has previews of its tiles. */
export const hasSlabs = (channel: Channel): boolean =>
  channel.kind === "image" && channel.levels.some(({ slab }) => slab);

/**
 * The path, up to the plane, of tiles with the view's ranges, exponents and colours, such as
 * `view/actin/c0:0:255:1:ff00ff,c1:90:4000:0.5:00ff00`.
 */
function viewPath(
  dataset: Dataset,
  channels: Channel[],
  shown: (channel: Channel) => Shown,
): string {
  const layers = channels.map((channel) => {
    const { window, gamma, colour } = shown(channel);
    return [
      channel.name,
      ...(window ?? baseWindow(channel)),
      gamma,
      paintName(colour, channels.length === 1),
    ].join(":");
  });
  return `view/${addressOf(dataset)}/${layers.join()}`;
}

/** Everything that determines layers, except the plane. */
export interface Scene {
  dataset: Dataset;
  view: View;
  mounts: Mount[];
  /** Whether the server draws other ranges and colours than its own. */
  adjust: boolean;
}

/** How a channel is drawn now: in the server's range until another range can be drawn. */
function drawnAs({ adjust, view }: Scene, channel: Channel): Shown {
  const shown = shownOf(view, channel);
  if (adjust && isRangeKnown(channel, shown)) return shown;
  const colour = isPure(shown.colour) ? shown.colour : "";
  return { ...shown, ...AS_SERVED, held: null, colour };
}

/** A layer of images, and its channels. */
interface ImageLayer {
  channels: Channel[];
  layer: Layer;
}

/** The layers of a plane, bottom first. */
export function layersOf(scene: Scene, plane: PlaneName): Layer[] {
  const on = visible(scene.dataset, scene.view);
  const labels = on.filter((channel) => channel.kind === "labels");
  const images = on.filter((channel) => channel.kind !== "labels");
  const shown = (channel: Channel) => drawnAs(scene, channel);
  const maker = new LayerMaker(scene, plane);
  const drawn: ImageLayer[] = [];
  const atRest: Channel[] = [];
  for (const channel of images) {
    if (channel.kind === "rgb") drawn.push({ channels: [channel], layer: maker.single(channel) });
    else if (!shown(channel).held) atRest.push(channel);
  }
  for (const channel of images.filter((each) => shown(each).held)) {
    drawn.push({ channels: [channel], layer: maker.moving(channel, shown(channel)) });
  }
  for (const bundle of bundles(atRest)) {
    const arePlain = bundle.every((channel) => isPlain(scene, channel, shown(channel)));
    // A grey channel alone has the address that other viewers ask for, too.
    for (const channels of arePlain ? byColour(bundle, shown) : [bundle]) {
      drawn.push({ channels, layer: maker.group(channels, shown) });
    }
  }
  chooseAdded(drawn, shown);
  return [
    ...drawn.map(({ layer }) => layer),
    ...labels.map((channel) => maker.labels(channel, shown(channel), images.length > 0)),
  ];
}

/**
 * Decides which layers are added to the layers below. Of channels in the same colours at different
 * places, which are the tiles of a mosaic, the later lies on top; all other layers are added.
 */
function chooseAdded(drawn: ImageLayer[], shown: (channel: Channel) => Shown): void {
  const firstPlaces = new Map<string, string>();
  for (const [index, { channels, layer }] of drawn.entries()) {
    const look = JSON.stringify(channels.map((channel) => [channel.kind, shown(channel).colour]));
    const place = String(beginOf(channels[0] as Channel));
    const firstPlace = firstPlaces.get(look) ?? place;
    firstPlaces.set(look, firstPlace);
    layer.adds = index > 0 && firstPlace === place;
  }
}

/** Groups of channels: each grey channel alone, and all channels in colours together. */
function byColour(channels: Channel[], shown: (channel: Channel) => Shown): Channel[][] {
  const grey = channels.filter((channel) => !shown(channel).colour);
  const coloured = channels.filter((channel) => shown(channel).colour);
  return [...grey.map((channel) => [channel]), ...(coloured.length ? [coloured] : [])];
}

/**
 * Groups of channels that the server can composite in one tile: at most six, with the same levels,
 * the same begin and end, and the same number of time points.
 */
function bundles(channels: Channel[]): Channel[][] {
  const alike = new Map<string, Channel[][]>();
  for (const channel of channels) {
    const key = JSON.stringify([
      channel.times,
      beginOf(channel),
      channel.levels.map((level) => [level.factor, endInTiles(channel, level)]),
    ]);
    const groups = alike.get(key) ?? [[]];
    if (groups.at(-1)?.length === MAX_TOGETHER) groups.push([]);
    groups.at(-1)?.push(channel);
    alike.set(key, groups);
  }
  return [...alike.values()].flat();
}

class LayerMaker {
  private readonly whole: Triple;

  constructor(
    private readonly scene: Scene,
    private readonly plane: PlaneName,
  ) {
    this.whole = endOf(drawable(scene.dataset, scene.view));
  }

  /** A layer; `path` is the path of its tiles up to the plane, and `lossy` that of its previews. */
  private layer(
    channel: Channel,
    path: string,
    treatment: Treatment = AS_IT_IS,
    lossy: string | null = null,
  ): Layer {
    const { plane, whole } = this;
    const { dataset, view } = this.scene;
    const grid = new Grid(channel, plane, whole, path.startsWith("view/") ? view.slab : null);
    const point = timeOf(channel, view.time);
    const time = point === null ? "" : `${point}/`;
    const place = (level: number, row: number, column: number) =>
      `${plane}/${time}${grid.slices(level, view.at, dataset.offset)}/${row}_${column}_${level}`;
    const address = (level: number, row: number, column: number) =>
      `${path}/${place(level, row, column)}.png`;
    const preview =
      lossy === null
        ? null
        : (level: number, row: number, column: number) =>
            `${lossy}/${place(level, row, column)}.jpg`;
    const revision = dataset.live ? this.revision(channel, grid, point) : "";
    const key = [
      address(0, 0, 0),
      treatment.name,
      treatment.clear,
      beginOf(channel),
      revision,
    ].join("|");
    return {
      key,
      revision,
      grid,
      address,
      preview,
      treatment,
      labels: null,
      opacity: 1,
      adds: false,
      mayMiss: false,
    };
  }

  /**
   * A text that changes when tiles of a live dataset do: with the ranges, and for the newest slice
   * or time point, which may be incomplete, with the state of the file.
   */
  private revision(channel: Channel, grid: Grid, point: number | null): string {
    const { dataset, view } = this.scene;
    const thickness = grid.levels.at(-1)?.thickness ?? 1;
    const slice = (z: number) => Math.floor(z / thickness);
    const isLast = this.plane !== "xy" || slice(at(view.at, 2)) >= slice(at(this.whole, 2) - 1);
    const isNewest = view.slab || point === null ? isLast : point + 1 === channel.times;
    return JSON.stringify([
      dataset.channels.map((each) => each.window),
      ...(isNewest ? [dataset.modified, dataset.bytes] : []),
    ]);
  }

  /** The path of the server's ordinary tiles. */
  private ordinary(rest: string): string {
    return `${this.scene.mounts[0]?.tile_service ?? "ndtilecache"}/tilecache/${rest}`;
  }

  private pathOf(channel: Channel): string {
    return this.ordinary(`${addressOf(this.scene.dataset)}/${channel.name}`);
  }

  /** A channel as the server draws it. */
  single(channel: Channel): Layer {
    return this.layer(channel, this.pathOf(channel));
  }

  /** One or more channels in one tile, in their colours. */
  group(channels: Channel[], shown: (channel: Channel) => Shown): Layer {
    const { dataset } = this.scene;
    const [first] = channels as [Channel];
    const path = viewPath(dataset, channels, shown);
    const hasPreviews =
      this.scene.adjust &&
      channels.every((channel) => hasSlabs(channel) && isRangeKnown(channel, shown(channel)));
    const lossy = hasPreviews ? path : null;
    if (!channels.every((channel) => isPlain(this.scene, channel, shown(channel)))) {
      return { ...this.layer(first, path, AS_IT_IS, lossy), mayMiss: channels.some(mayMiss) };
    }
    if (channels.length === 1 && !shown(first).colour)
      return this.layer(first, this.pathOf(first), AS_IT_IS, lossy);
    const names = channels.map((channel) => `${channel.name}:${shown(channel).colour}`).join();
    return this.layer(first, this.ordinary(`mcfc/${addressOf(dataset)}/${names}`), AS_IT_IS, lossy);
  }

  /**
   * A channel whose range changes while a handle moves: the tiles that are there already,
   * stretched.
   */
  moving(channel: Channel, shown: Shown): Layer {
    const held = shown.held ?? AS_SERVED;
    const grey: Shown = { ...shown, ...held, colour: "" };
    const path = isPlain(this.scene, channel, grey)
      ? this.pathOf(channel)
      : viewPath(this.scene.dataset, [channel], () => grey);
    const name = JSON.stringify([shown.colour, shown.window, shown.gamma, held, channel.window]);
    const layer = this.layer(channel, path, {
      name,
      table: table(shown.colour, stretchTable(channel, held, shown)),
      clear: false,
    });
    return { ...layer, mayMiss: mayMiss(channel) };
  }

  /** A channel of labels; `covers` says whether images lie below it. */
  labels(
    channel: Channel,
    { opacity, selected, shuffle, outlines }: Shown,
    covers: boolean,
  ): Layer {
    const { dataset, view } = this.scene;
    const layer = this.layer(channel, this.pathOf(channel), { ...AS_IT_IS, clear: true });
    layer.opacity = covers ? opacity : 1;
    const look: LabelLook = { selected, shuffle, outlines };
    if (isServed(look)) return layer;
    const voxels = (level: number, row: number, column: number) => {
      // An outline is where the next pixel differs, also beyond the tile.
      const box = layer.grid.box(level, column, row, view.at, outlines ? 1 : 0);
      if (!box) return null;
      const { start, size } = box;
      const { time } = view;
      return { address: boxAddress({ dataset, channel, time, level, start, size }), box };
    };
    return { ...layer, key: `${layer.key}|${JSON.stringify(look)}`, labels: { look, voxels } };
  }
}
