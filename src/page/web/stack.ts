// The layers of a pane, and how they are replaced.
//
// New layers are loaded invisibly and then replace the old ones all at once, so that scrolling does
// not flicker and two slices are never added. Only the latest request counts: while one set loads,
// later ones replace each other. The first picture, and on a slow line every picture, begins with a
// coarse level, for which finer tiles wait. On a slow line, previews are shown while something
// moves and replaced by exact tiles at rest. Once a set is complete, tiles of the next slices are
// prefetched.

import { sum } from "./data";
import type OpenSeadragon from "openseadragon";

import type { Layer } from "./layers";
import { isSlow } from "./speed";
import { isPreview, LayerSource, Prefetcher } from "./tiles";

/** How long the old slice stays before a partly loaded new one is shown, in milliseconds. */
const PATIENCE = 700;
/** The same on a slow line, where coarse levels come first. */
const QUICK = 100;
/** How long nothing moves before exact tiles replace previews, in milliseconds. */
const REST = 400;
/** How many slices are prefetched. */
const AHEAD = 3;
/** The most tiles of these slices that are prefetched. */
const MAX_AHEAD = 48;

/** A layer in the library, with parts that are missing from its declarations. */
type Item = OpenSeadragon.TiledImage & {
  /** The coarsest level that is drawn. */
  savedCutOffLevel: number;
  /** The tiles in sight, by level, column and row. */
  coverage: Record<number, Record<number, Record<number, boolean>>>;
  /** Finds the tiles in sight, draws the loaded ones, and loads the others in the area `loads`. */
  _updateLevel(
    level: number,
    opacity: number,
    visibility: number,
    draws: unknown,
    loads: unknown,
    ...more: unknown[]
  ): { tilesToDraw: unknown[] };
};
/** The source of an item. */
const sourceOf = (item: Item) => item.source as unknown as LayerSource;
/** Items by the keys of their layers. */
type Shown = Map<string, Item>;
/** Gives the layers of the slice or time point that is `by` steps further. */
type Ahead = (by: number) => Layer[];

const signature = (layers: Layer[]) =>
  layers.map((layer) => `${layer.key} ${layer.opacity} ${layer.adds}`).join();

export class Stack {
  /** The requested layers. */
  layers: Layer[] = [];
  private shown: Shown = new Map();
  private ahead: Ahead = () => [];
  /** The sign of the direction in which the user scrolls; 0 if unknown. */
  private direction = 0;
  /** Whether layers are being loaded. */
  private busy = false;
  /** Whether the pane is closed. */
  private gone = false;
  /** The timer that ends when nothing has moved for a while. */
  private rest = 0;
  /** The exact items that are to replace previews. */
  private refined: Shown = new Map();
  private readonly prefetcher = new Prefetcher();

  /** Shows layers in a viewer; its pane has the class `busy` while they are incomplete. */
  constructor(
    private readonly viewer: OpenSeadragon.Viewer,
    private readonly pane: HTMLElement,
    private readonly failed: (error: unknown) => void,
  ) {
    viewer.addHandler("fully-loaded-change", () => this.mark());
    viewer.addHandler("update-viewport", () => this.markPreviews());
    viewer.addHandler("zoom", () => {
      for (const item of this.shown.values())
        item.savedCutOffLevel = Math.min(item.savedCutOffLevel, this.coarse(item));
    });
  }

  /**
   * Shows layers. `direction` is the sign of the direction in which the user has scrolled, 0 if the
   * user has not scrolled.
   */
  show(layers: Layer[], direction: number, ahead: Ahead): void {
    this.ahead = ahead;
    this.mayRefine();
    const isSame = signature(layers) === signature(this.layers);
    if (isSame && (this.busy || this.shown.size === layers.length)) return;
    this.direction = direction;
    this.layers = layers;
    if (!this.busy) void this.load();
  }

  /** Loads and shows the requested layers, until no others have been requested meanwhile. */
  private async load(): Promise<void> {
    this.busy = true;
    this.forgetRefined();
    this.mark();
    while (!this.gone) {
      const layers = this.layers;
      this.prefetcher.keep(this.inSight(layers));
      const next = await this.items(layers);
      const items = [...next.values()];
      let patience = isSlow() ? QUICK : PATIENCE;
      if (this.shown.size === 0) patience = 0;
      const isReady = (await this.loaded(items, patience)) || (await this.covered(layers, items));
      if (this.gone) return;
      // If other layers are requested by now, these are shown only without gaps.
      if (isReady || this.layers === layers) this.reveal(layers, next);
      else this.discard(next, this.shown);
      if (this.layers !== layers) continue;
      await this.loaded(items, Infinity, () => this.layers !== layers);
      if (this.layers === layers) break;
    }
    this.busy = false;
    this.mark();
    this.fetchAhead();
    this.mayRefine();
  }

  /** Whether previews of an item are drawn. */
  private hasPreviews(item: Item): boolean {
    return (item.getTilesToDraw() as unknown as { tile: { getUrl(): string } }[]).some(({ tile }) =>
      isPreview(tile.getUrl()),
    );
  }

  /** Marks the pane while previews are drawn. This is known only after a frame has been drawn. */
  private markPreviews(): void {
    const wasLossy = this.pane.classList.contains("lossy");
    const isLossy = [...this.shown.values()].some((item) => this.hasPreviews(item));
    this.pane.classList.toggle("lossy", isLossy);
    if (isLossy && !wasLossy) this.mayRefine();
  }

  /** Replaces previews by exact tiles if nothing moves for a while from now. */
  mayRefine(): void {
    window.clearTimeout(this.rest);
    this.rest = window.setTimeout(() => void this.refine(), REST);
  }

  private async refine(): Promise<void> {
    // Exact tiles that are being loaded already (`refined`) follow the viewport by themselves.
    if (this.gone || this.busy || this.refined.size || !this.pane.classList.contains("lossy"))
      return;
    if (![...this.shown.values()].every((item) => item.getFullyLoaded())) return this.mayRefine();
    const { layers } = this;
    this.prefetcher.fetch([]);
    const loading = layers.map(async (layer) => {
      const old = this.shown.get(layer.key);
      return [
        layer.key,
        old && !this.hasPreviews(old) ? old : await this.add(layer, true),
      ] as const;
    });
    const next: Shown = new Map(await Promise.all(loading));
    if (this.gone || this.busy || this.refined.size || this.layers !== layers)
      return this.discard(next, this.shown);
    this.refined = next;
    const isLoaded = await this.loaded([...next.values()], Infinity, () => this.refined !== next);
    if (!isLoaded) return;
    this.refined = new Map();
    this.reveal(layers, next);
    for (const item of next.values()) {
      sourceOf(item).exact = false;
      this.beginCoarse(item); // for tiles that come into sight later
    }
    this.pane.classList.remove("lossy");
    this.fetchAhead();
  }

  /** Drops the exact tiles that are being loaded, as other layers are shown. */
  private forgetRefined(): void {
    const items = this.refined;
    this.refined = new Map();
    this.discard(items, this.shown);
  }

  /**
   * Waits until tiles of some level cover the picture, so that the new layers can replace the old
   * ones. True once they do, or at once if no coarser level would arrive sooner; false if other
   * layers are requested meanwhile.
   */
  private async covered(layers: Layer[], items: Item[]): Promise<boolean> {
    const hasCoarse = (item: Item) => sourceOf(item).finestCoarse !== Infinity;
    for (const item of items) if (!hasCoarse(item)) this.beginCoarse(item);
    if (!items.every(hasCoarse)) return this.layers === layers;
    const isCovered = () => items.every((item) => this.isCovered(item));
    await this.loaded(items, Infinity, () => this.layers !== layers || isCovered());
    return isCovered();
  }

  /** The items of layers: those that are shown already, and new ones, which load invisibly. */
  private async items(layers: Layer[]): Promise<Shown> {
    const entries = layers.map(
      async (layer) => [layer.key, this.shown.get(layer.key) ?? (await this.add(layer))] as const,
    );
    return new Map(await Promise.all(entries));
  }

  private add(layer: Layer, exact = false): Promise<Item> {
    const source = new LayerSource(layer, (error) => this.failed(error));
    source.exact = exact;
    return new Promise((resolve, reject) => {
      this.viewer.addTiledImage({
        tileSource: source as never,
        opacity: 0,
        preload: true,
        width: 1,
        success: (event: unknown) => {
          const item = (event as { item: Item }).item;
          item.allowZombieCache(true);
          item.savedCutOffLevel = this.coarse(item);
          this.loadFew(item, !exact && (this.shown.size === 0 || isSlow()));
          resolve(item);
        },
        error: (event: unknown) =>
          reject(new Error(String((event as { message?: string }).message))),
      } as never);
    });
  }

  /**
   * Waits until all items have all visible tiles; false after `patience` milliseconds or once
   * `givenUp` says so.
   */
  private loaded(
    items: Item[],
    patience: number,
    givenUp: () => boolean = () => false,
  ): Promise<boolean> {
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

  /** The level for the current zoom, in the library's numbering. */
  private best(item: Item): number {
    const { grid } = sourceOf(item).layer;
    const width = this.viewer.viewport.getContainerSize().x;
    const pixels =
      (this.viewer.viewport.getZoom(false) * width * window.devicePixelRatio) / grid.width;
    return grid.levels.length - 1 - grid.best(pixels);
  }

  /** The coarsest level that is loaded: the coarse level that comes first, or else the best. */
  private coarse(item: Item): number {
    return Math.min(sourceOf(item).finestCoarse, this.best(item));
  }

  /** Chooses a coarse level of an item, for which finer tiles wait, if one would arrive sooner. */
  private beginCoarse(item: Item): void {
    const source = sourceOf(item);
    const { grid } = source.layer;
    const last = grid.levels.length - 1;
    const best = last - this.best(item);
    const { x, y, width, height } = this.viewer.viewport.getBounds(false);
    const from = grid.tileAt(best, x * grid.width, y * grid.width);
    const to = grid.tileAt(best, (x + width) * grid.width, (y + height) * grid.width);
    const tiles = (to.column - from.column + 1) * (to.row - from.row + 1);
    const level = grid.coarser(best, tiles);
    if (level !== best) source.finestCoarse = last - level;
    item.savedCutOffLevel = Math.min(item.savedCutOffLevel, this.coarse(item));
  }

  /**
   * Lets the library load only the coarse and the best level of an item, and notes which levels are
   * complete. Levels between these two are drawn if they were loaded earlier.
   */
  private loadFew(item: Item, coarseFirst: boolean): void {
    const update = item._updateLevel.bind(item);
    let chooses = coarseFirst;
    item._updateLevel = (level, opacity, visibility, draws, loads, ...more) => {
      if (chooses) this.beginCoarse(item);
      chooses = false;
      const isWanted = level <= this.coarse(item) || level >= this.best(item);
      const updated = update(level, opacity, visibility, draws, isWanted ? loads : null, ...more);
      const columns = Object.values(item.coverage[level] ?? {});
      const inSight = sum(columns.map((column) => Object.keys(column).length));
      const { complete } = sourceOf(item);
      if (updated.tilesToDraw.length === inSight) complete.add(level);
      else complete.delete(level);
      return updated;
    };
  }

  /** Whether all tiles in sight of an item have been loaded at some level. */
  private isCovered(item: Item): boolean {
    const coarse = this.coarse(item);
    const best = this.best(item);
    return [...sourceOf(item).complete].some((level) => level >= coarse && level <= best);
  }

  /** Shows the items of layers in place of those that are shown. */
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
    this.pane.classList.toggle(
      "lossy",
      [...next.values()].some((item) => this.hasPreviews(item)),
    );
    this.pane.dataset["shown"] = layers.map((layer) => layer.address(0, 0, 0)).join(" ");
  }

  /** Removes items from the viewer, except those that are also in `kept`. */
  private discard(items: Shown, kept: Shown): void {
    for (const [key, item] of items) {
      if (kept.get(key) === item) continue;
      sourceOf(item).cancel();
      this.viewer.world.removeItem(item);
    }
  }

  /** Prefetches tiles of the next slices in the scroll direction. */
  fetchAhead(): void {
    if (this.gone || this.busy) return;
    const steps = this.direction
      ? Array.from({ length: AHEAD }, (_, i) => (i + 1) * this.direction)
      : [1, -1];
    this.prefetcher.fetch(steps.flatMap((by) => this.inSight(this.ahead(by))).slice(0, MAX_AHEAD));
  }

  /** The URLs of the tiles of layers at the positions of the tiles that are drawn now. */
  private inSight(layers: Layer[]): string[] {
    return [...this.shown.values()].flatMap((item, index) => {
      const layer = layers[index];
      if (!layer) return [];
      const last = layer.grid.levels.length - 1;
      const address = (isSlow() && layer.preview) || layer.address;
      const tiles = item.getTilesToDraw() as unknown as {
        tile: { level: number; x: number; y: number };
      }[];
      return tiles.map(({ tile }) => address(last - tile.level, tile.y, tile.x));
    });
  }

  /** Marks the pane while some requested tiles are not drawn. */
  private mark(): void {
    const isSettled = !this.busy && [...this.shown.values()].every((item) => item.getFullyLoaded());
    this.pane.classList.toggle("busy", !isSettled);
  }

  /** Retries tiles that failed to load. */
  retry(): void {
    this.discard(this.shown, new Map());
    this.shown = new Map();
    if (!this.busy) void this.load();
  }

  close(): void {
    this.gone = true;
    window.clearTimeout(this.rest);
    for (const item of this.shown.values()) sourceOf(item).cancel();
    this.prefetcher.fetch([]);
  }
}
