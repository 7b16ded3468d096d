// The layers of a pane, and how they are replaced.
//
// New layers are loaded invisibly and then replace the old ones all at once, so that scrolling does not
// flicker and two slices are never added. Only the latest request counts: while one set loads, later ones
// replace each other. Once a set is complete, tiles of the next slices are prefetched.

import type OpenSeadragon from "openseadragon";

import type { Layer } from "./layers";
import { LayerSource, Prefetcher } from "./tiles";

/** How long the old slice stays before a partly loaded new one is shown, in milliseconds. */
const PATIENCE = 700;
/** How many slices are prefetched, and at most how many tiles. */
const AHEAD = 3;
const MAX_AHEAD = 48;

/** `savedCutOffLevel`, missing from the library's declarations: the coarsest level that it loads. */
type Item = OpenSeadragon.TiledImage & { savedCutOffLevel: number };
/** By layer key. */
type Shown = Map<string, Item>;
/** The layers of the slice `by` steps further. */
type Ahead = (by: number) => Layer[];

const signature = (layers: Layer[]) => layers.map((layer) => `${layer.key} ${layer.opacity} ${layer.adds}`).join();

export class Stack {
  /** The requested layers. */
  layers: Layer[] = [];
  private shown: Shown = new Map();
  private ahead: Ahead = () => [];
  private direction = 0;
  private busy = false;
  private gone = false;
  private readonly prefetcher = new Prefetcher();

  /** Layers of a viewer; the pane is marked while they are incomplete. */
  constructor(
    private readonly viewer: OpenSeadragon.Viewer,
    private readonly pane: HTMLElement,
    private readonly failed: (error: unknown) => void,
  ) {
    viewer.addHandler("fully-loaded-change", () => this.mark());
    viewer.addHandler("zoom", () => {
      for (const item of this.shown.values()) item.savedCutOffLevel = Math.min(item.savedCutOffLevel, this.coarsest(item));
    });
  }

  /** Shows layers; `direction` is the sign of the scroll direction, 0 if the user did not scroll. */
  show(layers: Layer[], direction: number, ahead: Ahead): void {
    this.ahead = ahead;
    if (signature(layers) === signature(this.layers) && (this.busy || this.shown.size === layers.length)) return;
    this.direction = direction;
    this.layers = layers;
    if (!this.busy) void this.load();
  }

  private async load(): Promise<void> {
    this.busy = true;
    this.mark();
    while (!this.gone) {
      const layers = this.layers;
      const next = await this.items(layers);
      const whole = await this.loaded([...next.values()], this.shown.size ? PATIENCE : 0);
      if (this.gone) return;
      if (whole || this.layers === layers) this.reveal(layers, next);
      else this.discard(next, this.shown);
      if (this.layers !== layers) continue;
      if (!whole) await this.loaded([...next.values()], Infinity, () => this.layers !== layers);
      if (this.layers === layers) break;
    }
    this.busy = false;
    this.mark();
    this.fetchAhead();
  }

  /** The items of layers: existing ones, and new ones, which load invisibly. */
  private async items(layers: Layer[]): Promise<Shown> {
    const found = layers.map(async (layer) => [layer.key, this.shown.get(layer.key) ?? (await this.add(layer))] as const);
    return new Map(await Promise.all(found));
  }

  private add(layer: Layer): Promise<Item> {
    return new Promise((resolve, reject) => {
      this.viewer.addTiledImage({
        tileSource: new LayerSource(layer, (error) => this.failed(error)) as never,
        opacity: 0,
        preload: true,
        width: 1,
        success: (event: unknown) => {
          const item = (event as { item: Item }).item;
          item.allowZombieCache(true);
          item.savedCutOffLevel = this.coarsest(item);
          resolve(item);
        },
        error: (event: unknown) => reject(new Error(String((event as { message?: string }).message))),
      } as never);
    });
  }

  /** Waits until all items have all visible tiles; false after `patience` milliseconds or once `givenUp()`. */
  private loaded(items: Item[], patience: number, givenUp: () => boolean = () => false): Promise<boolean> {
    const began = performance.now();
    return new Promise((resolve) => {
      const look = () => {
        if (this.gone || givenUp() || performance.now() - began > patience) return resolve(false);
        if (items.every((item) => item.getFullyLoaded())) return resolve(true);
        requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    });
  }

  /** The level for the current zoom, in the library's numbering: coarser ones are invisible and not loaded. */
  private coarsest(item: Item): number {
    const { grid } = (item.source as unknown as LayerSource).layer;
    const width = this.viewer.viewport.getContainerSize().x;
    const pixels = (this.viewer.viewport.getZoom(false) * width * window.devicePixelRatio) / grid.width;
    return grid.levels.length - 1 - grid.best(pixels);
  }

  private reveal(layers: Layer[], next: Shown): void {
    const { world } = this.viewer;
    layers.forEach((layer, index) => {
      const item = next.get(layer.key);
      if (!item) return;
      world.setItemIndex(item, world.getItemCount() - 1);
      item.setCompositeOperation(index > 0 && layer.adds ? "lighter" : "source-over");
      item.setOpacity(layer.opacity);
    });
    this.discard(this.shown, next);
    this.shown = next;
    this.pane.dataset["shown"] = layers.map((layer) => layer.address(0, 0, 0)).join(" ");
  }

  private discard(items: Shown, kept: Shown): void {
    for (const [key, item] of items) {
      if (kept.get(key) === item) continue;
      (item.source as unknown as LayerSource).cancel();
      this.viewer.world.removeItem(item);
    }
  }

  /** Prefetches tiles of the next slices in the scroll direction. */
  fetchAhead(): void {
    if (this.gone) return;
    const steps = this.direction ? Array.from({ length: AHEAD }, (_, i) => (i + 1) * this.direction) : [1, -1];
    this.prefetcher.fetch(steps.flatMap((by) => this.inSight(this.ahead(by))).slice(0, MAX_AHEAD));
  }

  /** The URLs of other layers' tiles at the positions drawn now. */
  private inSight(layers: Layer[]): string[] {
    return [...this.shown.values()].flatMap((item, index) => {
      const tiles = item.getTilesToDraw() as unknown as { tile: { level: number; x: number; y: number } }[];
      const last = (layers[index]?.grid.levels.length ?? 1) - 1;
      return tiles.map(({ tile }) => layers[index]?.address(last - tile.level, tile.y, tile.x) ?? "");
    });
  }

  /** Marks the pane while some requested tiles are not drawn. */
  private mark(): void {
    const settled = !this.busy && [...this.shown.values()].every((item) => item.getFullyLoaded());
    this.pane.classList.toggle("busy", !settled);
  }

  /** Retries tiles that failed to load. */
  retry(): void {
    this.discard(this.shown, new Map());
    this.shown = new Map();
    if (!this.busy) void this.load();
  }

  close(): void {
    this.gone = true;
    for (const item of this.shown.values()) (item.source as unknown as LayerSource).cancel();
    this.prefetcher.fetch([]);
  }
}
