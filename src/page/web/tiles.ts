// Tiles: they are fetched, processed and handed to OpenSeadragon, and those of the next slices are
// prefetched.

import OpenSeadragon from "openseadragon";

import { fetchWithRetry } from "./data";
import { h } from "./dom";
import { TILE } from "./geometry";
import { drawLabels } from "./labels";
import type { Layer, Treatment } from "./layers";
import { isSlow } from "./speed";
import { readBox } from "./voxels";

/** Tiles that are prefetched at once. */
const AT_ONCE = 4;

/** Whether an address is that of a preview: a tile that is compressed with losses. */
export const isPreview = (url: string): boolean => url.endsWith(".jpg");

/** Fetches and processes a tile. */
export async function draw(
  url: string,
  layer: Layer,
  tile: Position,
  signal: AbortSignal,
): Promise<CanvasRenderingContext2D> {
  const { treatment, labels } = layer;
  if (labels) return drawIds(labels, tile, signal);
  const bytes = await (await fetchWithRetry(url, { signal })).arrayBuffer();
  // The mount may state another content type, but the bytes are a PNG or a preview.
  const bitmap = await createImageBitmap(
    new Blob([bytes], { type: isPreview(url) ? "image/jpeg" : "image/png" }),
    { colorSpaceConversion: "none" },
  );
  const canvas = document.createElement("canvas");
  canvas.width = bitmap.width;
  canvas.height = bitmap.height;
  const isTreated = treatment.table !== null || treatment.clear;
  const context = canvas.getContext("2d", {
    willReadFrequently: isTreated,
  }) as CanvasRenderingContext2D;
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  if (isTreated) {
    const image = context.getImageData(0, 0, canvas.width, canvas.height);
    treat(image.data, treatment);
    context.putImageData(image, 0, 0);
  }
  return context;
}

/** Draws a tile of labels from the ids of its voxels. */
async function drawIds(
  { look, voxels }: NonNullable<Layer["labels"]>,
  tile: Position,
  signal: AbortSignal,
): Promise<CanvasRenderingContext2D> {
  const shown = voxels(tile.level, tile.row, tile.column);
  const canvas = h("canvas", { width: TILE, height: TILE });
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  if (!shown) return context;
  const image = context.createImageData(TILE, TILE);
  drawLabels(image.data, TILE, await readBox(shown.address, signal), shown.box, look);
  context.putImageData(image, 0, 0);
  return context;
}

/** Treats pixels, each of which is red, green, blue and opacity. */
export function treat(pixels: Uint8ClampedArray, { table, clear }: Treatment): void {
  for (let i = 0; i < pixels.length; i += 4) {
    if (table) {
      const entry = 3 * (pixels[i] ?? 0); // that of the grey value
      for (let c = 0; c < 3; c += 1) pixels[i + c] = table[entry + c] ?? 0;
    }
    if (clear && !pixels[i] && !pixels[i + 1] && !pixels[i + 2]) pixels[i + 3] = 0;
  }
}

// The library logs every failed tile. We show failures ourselves, and most of them are aborted
// requests.
const quiet = () => undefined;
Object.assign(OpenSeadragon, { console: { ...console, warn: quiet, error: quiet } });

/** A tile of a layer, in the server's numbering. */
export interface Position {
  level: number;
  row: number;
  column: number;
}

interface Job {
  src: string;
  tile: { level: number; x: number; y: number };
  userData: { abort?: AbortController };
  finish(data: unknown, request: null, type: string): void;
  fail(message: string, request: null): void;
}

/**
 * A layer as a tile source of OpenSeadragon. The library numbers levels from the coarsest, and its
 * lengths are fractions of the image's width.
 */
export class LayerSource extends OpenSeadragon.TileSource {
  private readonly last: number;
  private readonly ending = new AbortController();
  /** The tiles of coarse levels that are being fetched; tiles of finer levels wait for them. */
  private readonly coarse = new Set<Promise<unknown>>();
  /**
   * The finest of the coarse levels, for which tiles of finer levels wait, in the library's
   * numbering; infinite if no tile waits.
   */
  finestCoarse = Infinity;
  /** Whether only exact tiles are requested, even on a slow line. */
  exact = false;
  /** The levels, in the library's numbering, whose tiles in sight have all been loaded. */
  readonly complete = new Set<number>();

  constructor(
    readonly layer: Layer,
    private readonly failed: (error: unknown) => void,
  ) {
    const { grid } = layer;
    const last = grid.levels.length - 1;
    super({
      width: grid.width,
      height: grid.height,
      tileSize: TILE,
      minLevel: 0,
      maxLevel: last,
    } as never);
    this.last = last;
  }

  /** The server's number of a level, from the library's number. */
  private serverLevel(level: number): number {
    return this.last - level;
  }

  override getNumTiles(level: number): OpenSeadragon.Point {
    const { columns, rows } = this.layer.grid.tiles(this.serverLevel(level));
    return new OpenSeadragon.Point(columns, rows);
  }

  // (Declared to return a Tile, but actually its column and row are used.)
  override getTileAtPoint(level: number, point: OpenSeadragon.Point): OpenSeadragon.Tile {
    const { grid } = this.layer;
    const { column, row } = grid.tileAt(
      this.serverLevel(level),
      point.x * grid.width,
      point.y * grid.width,
    );
    return new OpenSeadragon.Point(column, row) as unknown as OpenSeadragon.Tile;
  }

  override getTileBounds(
    level: number,
    column: number,
    row: number,
    isSource?: boolean,
  ): OpenSeadragon.Rect {
    const { grid } = this.layer;
    const part = isSource
      ? grid.inside(this.serverLevel(level), column, row)
      : grid.bounds(this.serverLevel(level), column, row);
    const unit = isSource ? 1 : grid.width;
    return new OpenSeadragon.Rect(
      part.x / unit,
      part.y / unit,
      part.width / unit,
      part.height / unit,
    );
  }

  override tileExists(level: number, column: number, row: number): boolean {
    const { columns, rows } = this.layer.grid.tiles(this.serverLevel(level));
    const offered = this.layer.grid.levels[this.serverLevel(level)]?.offered === true;
    return offered && column >= 0 && row >= 0 && column < columns && row < rows;
  }

  override getTileUrl(level: number, column: number, row: number): string {
    const { preview, address } = this.layer;
    const addressOf = (!this.exact && isSlow() && preview) || address;
    return addressOf(this.serverLevel(level), row, column);
  }

  override getTileHashKey(_level: number, _column: number, _row: number, url: string): string {
    const {
      treatment: { name, clear },
      revision,
      labels,
    } = this.layer;
    return [url, revision, name, clear, JSON.stringify(labels?.look)].join("|");
  }

  override hasTransparency(): boolean {
    return this.layer.treatment.clear || this.layer.mayMiss;
  }

  override downloadTileStart(context: never): void {
    const job = context as Job;
    const abort = new AbortController();
    job.userData.abort = abort;
    const signal = AbortSignal.any([abort.signal, this.ending.signal]);
    const { level, x, y } = job.tile;
    const position = { level: this.serverLevel(level), row: y, column: x };
    const isCoarse = level <= this.finestCoarse;
    const task = () => draw(job.src, this.layer, position, signal);
    const drawn = isCoarse ? task() : this.afterCoarse(task);
    if (isCoarse) {
      this.coarse.add(drawn);
      void drawn.catch(() => undefined).finally(() => this.coarse.delete(drawn));
    }
    drawn.then(
      (tile) => job.finish(tile, null, "context2d"),
      (error: unknown) => {
        if (abort.signal.aborted) return; // by the library, which needs no report
        if (!signal.aborted) this.failed(error);
        job.fail(String(error), null);
      },
    );
  }

  /** Does something once the coarse tiles of the same frame have been fetched. */
  private async afterCoarse<T>(task: () => Promise<T>): Promise<T> {
    // The library requests all tiles of a frame one after the other; the coarse ones may come
    // later.
    await Promise.resolve();
    await Promise.allSettled([...this.coarse]);
    return task();
  }

  override downloadTileAbort(context: never): void {
    (context as Job).userData.abort?.abort();
  }

  /** Aborts all requests in flight. */
  cancel(): void {
    this.ending.abort();
  }
}

/**
 * Fetches URLs into the browser's cache: a few at once, or one by one on a slow line. Each call
 * aborts the requests of earlier calls for other URLs.
 */
export class Prefetcher {
  private readonly inFlight = new Map<string, AbortController>();
  private queue: string[] = [];

  fetch(addresses: string[]): void {
    for (const [address, abort] of this.inFlight) if (!addresses.includes(address)) abort.abort();
    this.queue = addresses.filter((address) => !this.inFlight.has(address));
    this.next();
  }

  /** Aborts all requests except those for some addresses, and begins no new ones. */
  keep(addresses: string[]): void {
    this.fetch(addresses.filter((address) => this.inFlight.has(address)));
  }

  private next(): void {
    while (this.queue.length && this.inFlight.size < (isSlow() ? 1 : AT_ONCE))
      void this.fetchOne(this.queue.shift() ?? "");
  }

  private async fetchOne(address: string): Promise<void> {
    const abort = new AbortController();
    this.inFlight.set(address, abort);
    try {
      const response = await fetch(address, {
        signal: abort.signal,
        priority: "low",
      } as RequestInit);
      await response.arrayBuffer(); // otherwise nothing is cached
    } catch {
      // If the tile is drawn, its request fails again and is reported.
    } finally {
      this.inFlight.delete(address);
      this.next();
    }
  }
}
