// One plane on the screen: an OpenSeadragon viewer that follows the view and reports panning and
// zooming.
//
// stack.ts draws and replaces slices. Here views and viewports are converted into each other: the
// library measures in fractions of the image's width, and its events come one frame after the
// change.

import OpenSeadragon from "openseadragon";

import { type Channel, endOf, type PlaneName, type Triple } from "./data";
import { h } from "./dom";
import { ExactDrawer } from "./drawer";
import { at, AXES, AXIS_NAMES, clamp, Grid, LEAST_RATIO, type Rectangle } from "./geometry";
import { hasSlabs, type Layer, layersOf, type Scene } from "./layers";
import { showScale } from "./scale";
import { inWords, type Slab } from "./slab";
import { Stack } from "./stack";
import { drawable, fitting, LEAST_PIXELS, MAX_ZOOM, stepped, type View } from "./view";

/** Events of a pane. */
export interface PaneEvents {
  moved(pane: Pane, at: Triple, zoom: number): void;
  scrolled(pane: Pane, by: number): void;
  /** The cursor has moved in the pane, or out of it. */
  pointed(pane: Pane): void;
  chosen(pane: Pane, at: Triple): void;
  failed(error: unknown): void;
}

/** Limits of the zoom, which are missing from the library's declarations. */
type Limited = OpenSeadragon.Viewport & { minZoomLevel: number; maxZoomLevel: number };

export class Pane {
  readonly element: HTMLElement;
  private readonly viewer: OpenSeadragon.Viewer;
  private readonly scale = h("div", { className: "scale" });
  private readonly box = h("div", { className: "canvas" });
  /** The pattern behind the volume, seen where data is missing. */
  private readonly ground = h("div", { className: "ground", hidden: true });
  /** The mark that says which slab is drawn. */
  private readonly mark = h("span", { className: "slab", hidden: true });
  /** Says that tiles with losses are shown. */
  private readonly lossy = h("span", { className: "preview", role: "status" }, "preview");
  private grid: Grid | null = null;
  private scene: Scene | null = null;
  private readonly stack: Stack;
  /** The centre and the zoom of the last report or the last `follow`, in the library's units. */
  private told = { centre: new OpenSeadragon.Point(), ratio: 0 };
  /** The size of the library's window when `follow` last moved it to the view. */
  private sizeThen = new OpenSeadragon.Point();
  /** The position of the cursor in the pane, in CSS pixels. */
  private cursor: OpenSeadragon.Point | null = null;
  private gone = false;

  constructor(
    readonly plane: PlaneName,
    private readonly events: PaneEvents,
  ) {
    const axes = AXES[plane];
    const name = (axis: number) =>
      h("b", { className: `axis-${AXIS_NAMES[axis]}` }, AXIS_NAMES[axis]);
    const legend = h("span", { className: "legend" }, name(axes.column), "→ ", name(axes.row), "↓");
    this.element = h(
      "section",
      { className: "pane", "aria-label": `${plane} plane` },
      this.ground,
      this.box,
      legend,
      h("i", { className: `cross down axis-${AXIS_NAMES[axes.column]}` }),
      h("i", { className: `cross over axis-${AXIS_NAMES[axes.row]}` }),
      this.scale,
      this.mark,
      this.lossy,
      h("div", { className: "progress" }),
    );
    this.element.dataset["plane"] = plane;
    this.viewer = this.open();
    this.stack = new Stack(this.viewer, this.element, (error) => events.failed(error));
    this.listen();
  }

  private open(): OpenSeadragon.Viewer {
    return OpenSeadragon({
      element: this.box,
      drawer: ExactDrawer as never,
      showNavigationControl: false,
      preserveViewport: true,
      immediateRender: true,
      maxTilesPerFrame: 64,
      maxImageCacheCount: 160,
      minPixelRatio: LEAST_RATIO,
      smoothTileEdgesMinZoom: Infinity,
      blendTime: 0,
      animationTime: 0.25,
      visibilityRatio: 0,
      zoomPerScroll: 1.25,
      timeout: 120_000,
      // The limits are set in `follow`, by pixels on the screen.
      minZoomImageRatio: 0,
      maxZoomPixelRatio: Infinity,
      gestureSettingsMouse: { clickToZoom: false, dblClickToZoom: true },
      gestureSettingsTouch: { pinchRotate: false, dblClickToZoom: true },
    } as never);
  }

  private listen(): void {
    const { viewer } = this;
    viewer.addHandler("viewport-change", () => {
      this.stack.mayRefine();
      this.tellMove();
    });
    viewer.addHandler("update-viewport", () => {
      this.layGround();
      this.tellSlab();
    });
    viewer.addHandler("animation-finish", () => {
      this.stack.mayRefine();
      this.follow(); // back to the limits of the view, if it is past the volume's edge
      this.stack.fetchAhead();
    });
    // keys.ts handles keys.
    viewer.addHandler("canvas-key", (event) => (event.preventDefaultAction = true));
    viewer.addHandler("canvas-scroll", (event) => this.scroll(event));
    viewer.addHandler("canvas-click", (event) => {
      if (!event.quick) return;
      // A finger points where it taps.
      this.cursor = event.position;
      this.events.pointed(this);
      this.events.chosen(this, this.pointAt(event.position));
    });
    this.box.addEventListener("pointermove", (event) => {
      const { left, top } = this.box.getBoundingClientRect();
      this.cursor = new OpenSeadragon.Point(event.clientX - left, event.clientY - top);
      this.events.pointed(this);
    });
    this.box.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "touch") return;
      this.cursor = null;
      this.events.pointed(this);
    });
  }

  private scroll(event: OpenSeadragon.CanvasScrollEvent): void {
    const wheel = event.originalEvent as WheelEvent;
    // The library zooms without these keys, also with ctrl, by which browsers report a pinch.
    if (!wheel.shiftKey && !wheel.altKey) return;
    event.preventDefaultAction = true;
    event.preventDefault = true;
    const turn = wheel.deltaY || wheel.deltaX; // with shift, some systems scroll horizontally
    if (turn)
      this.events.scrolled(this, Math.sign(turn) * (wheel.shiftKey && wheel.altKey ? 10 : 1));
  }

  /** The point of the volume under the cursor; null if the cursor is not in this pane. */
  pointed(): Triple | null {
    return this.cursor && this.pointAt(this.cursor);
  }

  /** The point of the volume at a position in the pane, in CSS pixels. */
  private pointAt(position: OpenSeadragon.Point): Triple {
    const through = this.scene?.view.at ?? [0, 0, 0];
    if (!this.grid) return through;
    const place = this.viewer.viewport.pointFromPixel(position, true).times(this.grid.width);
    return this.grid.point(place.x, place.y, through);
  }

  get size(): { width: number; height: number } {
    return { width: this.box.clientWidth || 1, height: this.box.clientHeight || 1 };
  }

  /** The zoom that shows the whole plane. */
  private fit(): number {
    return this.grid ? fitting(this.grid, this.size.width, this.size.height) : 1;
  }

  /** The zoom at which the plane is shown: the view's, or the one that shows the whole plane. */
  viewZoom(): number {
    return this.scene?.view.zoom || this.fit();
  }

  /** The zoom that shows the whole plane of a scene. */
  fitOf(scene: Scene): number {
    const channels = drawable(scene.dataset, scene.view);
    const [channel] = channels;
    return channel
      ? fitting(new Grid(channel, this.plane, endOf(channels)), this.size.width, this.size.height)
      : 1;
  }

  /** A point moved to the centre of this plane. */
  middle(point: Triple): Triple {
    return this.grid ? this.grid.point(this.grid.width / 2, this.grid.height / 2, point) : point;
  }

  /** Shows a scene; a pane that `leads`, because the user moves in it, is already at its place. */
  show(scene: Scene, leads: boolean): void {
    const before = this.scene?.view;
    const { view } = scene;
    const steps = before ? this.sliceOf(view) - this.sliceOf(before) : 0;
    const moments = before ? view.time - before.time : 0;
    // After the last time point comes the first.
    const isWrapped = moments < 0 && view.time === 0;
    const direction = isWrapped ? 1 : Math.sign(moments || steps);
    this.scene = scene;
    const layers = layersOf(scene, this.plane);
    const channels = drawable(scene.dataset, view);
    const [first] = channels;
    const grid = first && new Grid(first, this.plane, endOf(channels));
    this.grid = layers[0]?.grid ?? grid ?? null;
    if (!leads) this.follow();
    showScale(this.scale, first, this.plane, this.zoom());
    this.stack.show(layers, direction, (by) => this.layersAhead(scene, by, moments !== 0));
  }

  private sliceOf(view: View): number {
    return Math.floor(at(view.at, AXES[this.plane].slice));
  }

  /** The layers of another slice or time point of a scene; none before the first. */
  private layersAhead(scene: Scene, by: number, inTime: boolean): Layer[] {
    const { view } = scene;
    const here = inTime ? view.time : this.sliceOf(view);
    if (here + by < 0) return [];
    const moved = inTime ? { ...view, time: view.time + by } : stepped(view, this.plane, by);
    return layersOf({ ...scene, view: moved }, this.plane);
  }

  /** Puts the pattern of missing data behind the volume. */
  private layGround(): void {
    const { grid, ground } = this;
    ground.hidden = !grid || !this.stack.layers.some((layer) => layer.mayMiss);
    if (!grid || ground.hidden) return;
    const { viewport } = this.viewer;
    const first = viewport.pixelFromPoint(new OpenSeadragon.Point(0, 0), true);
    const last = viewport.pixelFromPoint(
      new OpenSeadragon.Point(1, grid.height / grid.width),
      true,
    );
    const left = Math.round(first.x);
    const top = Math.round(first.y);
    ground.style.left = `${left}px`;
    ground.style.top = `${top}px`;
    ground.style.width = `${Math.round(last.x) - left}px`;
    ground.style.height = `${Math.round(last.y) - top}px`;
  }

  /** Moves the viewport to the view. */
  private follow(): void {
    const { grid, scene } = this;
    if (!grid || !scene || this.gone) return;
    const viewport = this.viewer.viewport as Limited;
    const place = grid.place(scene.view.at);
    const width = this.size.width;
    const zoom = this.viewZoom();
    viewport.minZoomLevel = (this.leastZoom() * grid.width) / width;
    viewport.maxZoomLevel = (MAX_ZOOM * grid.width) / width;
    const ratio = (zoom * grid.width) / width;
    const centre = new OpenSeadragon.Point(place.x / grid.width, place.y / grid.width);
    this.smooth();
    this.sizeThen = viewport.getContainerSize();
    if (this.isAt(centre, ratio, false)) return;
    viewport.zoomTo(ratio, undefined, true);
    viewport.panTo(centre, true);
    this.told = { centre, ratio };
    this.smooth();
  }

  /**
   * Whether the viewport is (or, unless `now`, is moving to be) at a centre and a zoom, in the
   * library's units.
   */
  private isAt(centre: OpenSeadragon.Point, ratio: number, now: boolean): boolean {
    const { viewport } = this.viewer;
    const there = viewport.getCenter(now);
    const pixels = Math.hypot(centre.x - there.x, centre.y - there.y) * ratio * this.size.width;
    return pixels < 0.01 && Math.abs(viewport.getZoom(now) / ratio - 1) < 1e-4;
  }

  /** The zoom at which the volume is just visible. */
  private leastZoom(): number {
    return this.grid ? LEAST_PIXELS / Math.max(this.grid.width, this.grid.height) : 0.001;
  }

  /** Reports a movement by the user. */
  private tellMove(): void {
    const { grid, scene } = this;
    this.smooth();
    if (!grid || !scene) return;
    const { viewport } = this.viewer;
    // A movement that the library makes because its window got another size does not count.
    if (!this.sizeThen.equals(viewport.getContainerSize())) return this.follow();
    // The library reports every change one frame later, including those made by `follow`.
    if (this.isAt(this.told.centre, this.told.ratio, true)) return;
    const centre = viewport.getCenter(true);
    this.told = { centre, ratio: viewport.getZoom(true) };
    this.events.moved(
      this,
      grid.point(centre.x * grid.width, centre.y * grid.width, scene.view.at),
      this.zoom(),
    );
  }

  /** The current CSS pixels per column of level 0. */
  zoom(): number {
    return this.grid ? (this.viewer.viewport.getZoom(true) * this.size.width) / this.grid.width : 1;
  }

  /** Large voxels have sharp edges; small ones are smoothed. */
  private smooth(): void {
    const drawer = this.viewer.drawer as unknown as {
      _imageSmoothingEnabled: boolean;
      setImageSmoothingEnabled(on: boolean): void;
    };
    const smooth = this.zoom() * window.devicePixelRatio < 0.99;
    if (drawer._imageSmoothingEnabled !== smooth) drawer.setImageSmoothingEnabled(smooth);
  }

  /** The URL of the lowest layer's tile at the centre of the pane. */
  address(): string | null {
    const { grid, scene } = this;
    const layer = this.stack.layers[0];
    if (!grid || !scene || !layer) return null;
    const level = grid.best(this.zoom() * window.devicePixelRatio);
    const place = grid.place(scene.view.at);
    const { column, row } = grid.tileAt(level, place.x, place.y);
    return layer.address(level, row, column);
  }

  /**
   * The pixels of a channel that are in the pane: their level, the slice or slab as in URLs, and
   * the left, top, right and bottom edge; null if none are.
   */
  visible(
    channel: Channel,
  ): { level: number; slice: string; box: [number, number, number, number] } | null {
    const { grid, scene } = this;
    if (!grid || !scene) return null;
    const slab = hasSlabs(channel) && scene.adjust ? scene.view.slab : null;
    const own = new Grid(channel, this.plane, endOf(drawable(scene.dataset, scene.view)), slab);
    const level = own.best(this.zoom() * window.devicePixelRatio);
    const { width = 1, height = 1, columns = 1, rows = 1 } = own.levels[level] ?? {};
    const shown = this.viewer.viewport.getBounds(true);
    const pixel = (units: number, begin: number, size: number, most: number) =>
      clamp(Math.round((units * grid.width - begin) / size), 0, most);
    const box: [number, number, number, number] = [
      pixel(shown.x, own.left, width, columns),
      pixel(shown.y, own.top, height, rows),
      pixel(shown.x + shown.width, own.left, width, columns),
      pixel(shown.y + shown.height, own.top, height, rows),
    ];
    if (box[0] >= box[2] || box[1] >= box[3]) return null;
    return { level, slice: own.slices(level, scene.view.at, scene.dataset.offset), box };
  }

  /** The points at two opposite corners of the pane, in the slice that is shown. */
  corners(): [Triple, Triple] | null {
    const drawn = this.drawn();
    if (!drawn || !this.scene) return null;
    const { at: point } = this.scene.view;
    const { x, y, width, height } = drawn.part;
    return [drawn.grid.point(x, y, point), drawn.grid.point(x + width, y + height, point)];
  }

  /** The grid that is drawn, and the part of it in sight, in units. */
  drawn(): { grid: Grid; part: Rectangle } | null {
    const { grid } = this;
    if (!grid) return null;
    const { x, y, width, height } = this.viewer.viewport.getBounds(true);
    const units = (length: number) => length * grid.width;
    return { grid, part: { x: units(x), y: units(y), width: units(width), height: units(height) } };
  }

  /** The slab that is drawn, if one is; it may be thinner than what was asked for. */
  get slab(): Slab | null {
    return this.stack.layers.find((layer) => layer.grid.slab)?.grid.slab ?? null;
  }

  /** Says how many slices of a slab are drawn, and whether from a coarser level than usual. */
  private tellSlab(): void {
    const { slab } = this;
    this.mark.hidden = !slab;
    if (!slab || !this.scene?.view.slab) return;
    const grid = this.stack.layers.find((layer) => layer.grid.slab)?.grid;
    const pixels = this.zoom() * window.devicePixelRatio;
    const isCoarser = grid && grid.best(pixels) > grid.wanted(pixels);
    const wanted = this.scene.view.slab.slices;
    const fewer =
      slab.slices !== wanted ? ` (${Number.isFinite(wanted) ? wanted : "all"} read too much)` : "";
    this.mark.textContent = `${inWords(slab)}${fewer}${isCoarser ? ", coarser level" : ""}`;
  }

  /** The canvas with the picture. */
  get canvas(): HTMLCanvasElement | null {
    return this.box.querySelector("canvas");
  }

  /** The point of the volume at a position in the pane, in CSS pixels. */
  pointAtPixel(x: number, y: number): Triple {
    return this.pointAt(new OpenSeadragon.Point(x, y));
  }

  pixelOf(point: Triple): { x: number; y: number } {
    if (!this.grid) return { x: 0, y: 0 };
    const { x, y } = this.grid.place(point);
    return this.viewer.viewport.pixelFromPoint(
      new OpenSeadragon.Point(x / this.grid.width, y / this.grid.width),
      true,
    );
  }

  /** Calls back whenever the picture moves, until the signal aborts or the pane is closed. */
  onMove(moved: () => void, signal: AbortSignal): void {
    this.viewer.addHandler("update-viewport", moved);
    signal.addEventListener("abort", () => this.viewer.removeHandler("update-viewport", moved));
  }

  /** Whether the picture is complete. */
  get whole(): boolean {
    return this.element.dataset["shown"] !== undefined && !this.element.classList.contains("busy");
  }

  zoomBy(factor: number): void {
    this.viewer.viewport.zoomBy(factor);
    this.viewer.viewport.applyConstraints();
  }

  panBy(x: number, y: number): void {
    const { viewport } = this.viewer;
    viewport.panBy(viewport.deltaPointsFromPixels(new OpenSeadragon.Point(x, y)));
  }

  /** Retries tiles that failed to load. */
  retry(): void {
    this.stack.retry();
  }

  close(): void {
    this.gone = true;
    this.stack.close();
    this.viewer.destroy();
  }
}
