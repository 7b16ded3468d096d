// One plane on the screen: an OpenSeadragon viewer that follows the view, and tells where a person pans and zooms.
//
// What is drawn, and how one slice takes the place of another, is stack.ts's. Here a view becomes a viewport and back:
// the library's own terms are parts of the image's width, and its events come a frame after the change they tell of.

import OpenSeadragon from "openseadragon";

import type { PlaneName, Triple } from "./data";
import { h } from "./dom";
import { ExactDrawer } from "./drawer";
import { at, AXES, AXIS_NAMES, Grid, LEAST_RATIO } from "./geometry";
import { layersOf, type Scene } from "./layers";
import { showScale } from "./scale";
import { Stack } from "./stack";
import { fitting, inSight, LEAST_PIXELS, MOST_ZOOM, stepped } from "./view";

/** What a pane tells. */
export interface PaneEvents {
  moved(pane: Pane, at: Triple, zoom: number): void;
  scrolled(pane: Pane, by: number): void;
  pointed(pane: Pane, at: Triple | null): void;
  chosen(pane: Pane, at: Triple): void;
  failed(error: unknown): void;
}

/** The library's declarations leave these out. */
type Limited = OpenSeadragon.Viewport & { minZoomLevel: number; maxZoomLevel: number };

export class Pane {
  readonly element: HTMLElement;
  private readonly viewer: OpenSeadragon.Viewer;
  private readonly scale = h("div", { className: "scale" });
  private readonly box = h("div", { className: "canvas" });
  private grid: Grid | null = null;
  private scene: Scene | null = null;
  private readonly stack: Stack;
  private told = { centre: new OpenSeadragon.Point(), ratio: 0 };
  private gone = false;

  constructor(readonly plane: PlaneName, private readonly events: PaneEvents) {
    const axes = AXES[plane];
    const name = (axis: number) => h("b", { className: `axis-${AXIS_NAMES[axis]}` }, AXIS_NAMES[axis]);
    const legend = h("span", { className: "legend" }, name(axes.column), "→ ", name(axes.row), "↓");
    this.element = h("section", { className: "pane", "aria-label": `${plane} plane` }, this.box, legend,
      h("i", { className: `cross down axis-${AXIS_NAMES[axes.column]}` }),
      h("i", { className: `cross over axis-${AXIS_NAMES[axes.row]}` }),
      this.scale, h("div", { className: "progress" }));
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
    viewer.addHandler("viewport-change", () => this.tell());
    viewer.addHandler("resize", () => this.follow());
    viewer.addHandler("animation-finish", () => {
      this.follow(); // from beyond the volume's edge, back to where the view could go
      this.stack.fetchAhead();
    });
    viewer.addHandler("canvas-key", (event) => (event.preventDefaultAction = true)); // keys.ts has them all
    viewer.addHandler("canvas-scroll", (event) => this.scroll(event));
    viewer.addHandler("canvas-click", (event) => {
      if (event.quick) this.events.chosen(this, this.pointAt(event.position));
    });
    this.box.addEventListener("pointermove", (event) => {
      const { left, top } = this.box.getBoundingClientRect();
      this.events.pointed(this, this.pointAt(new OpenSeadragon.Point(event.clientX - left, event.clientY - top)));
    });
    this.box.addEventListener("pointerleave", () => this.events.pointed(this, null));
  }

  private scroll(event: OpenSeadragon.CanvasScrollEvent): void {
    const wheel = event.originalEvent as WheelEvent;
    // Not with ctrl: that is how browsers tell of two fingers on a touchpad.
    if (!wheel.shiftKey && !wheel.altKey) return;
    event.preventDefaultAction = true;
    event.preventDefault = true;
    const turn = wheel.deltaY || wheel.deltaX; // with shift, some systems turn sideways
    if (turn) this.events.scrolled(this, Math.sign(turn) * (wheel.shiftKey && wheel.altKey ? 10 : 1));
  }

  /** A point of the volume, from CSS pixels within the pane. */
  private pointAt(position: OpenSeadragon.Point): Triple {
    const through = this.scene?.view.at ?? [0, 0, 0];
    if (!this.grid) return through;
    const place = this.viewer.viewport.pointFromPixel(position, true).times(this.grid.width);
    return this.grid.point(place.x, place.y, through);
  }

  get size(): { width: number; height: number } {
    return { width: this.box.clientWidth || 1, height: this.box.clientHeight || 1 };
  }

  /** The zoom at which the whole plane is seen. */
  private fit(): number {
    return this.grid ? fitting(this.grid, this.size.width, this.size.height) : 1;
  }

  /** The zoom at which the whole plane of a scene would be seen. */
  fitOf(scene: Scene): number {
    const channel = inSight(scene.dataset, scene.view)[0];
    return channel ? fitting(new Grid(channel, this.plane), this.size.width, this.size.height) : 1;
  }

  /** A point moved to the middle of this plane. */
  middle(point: Triple): Triple {
    return this.grid ? this.grid.point(this.grid.width / 2, this.grid.height / 2, point) : point;
  }

  /** Shows a scene; a pane that leads, because a person moves in it, has moved already. */
  show(scene: Scene, leads: boolean): void {
    const slice = (one: Scene) => Math.floor(at(one.view.at, AXES[this.plane].slice));
    const direction = this.scene ? Math.sign(slice(scene) - slice(this.scene)) : 0;
    this.scene = scene;
    const layers = layersOf(scene, this.plane);
    const first = inSight(scene.dataset, scene.view)[0];
    this.grid = layers[0]?.grid ?? (first ? new Grid(first, this.plane) : null);
    if (!leads) this.follow();
    showScale(this.scale, first, this.plane, this.zoom());
    this.stack.show(layers, direction, (by) => layersOf({ ...scene, view: stepped(scene.view, this.plane, by) }, this.plane));
  }

  /** Takes the viewport where the view says. */
  private follow(): void {
    const { grid, scene } = this;
    if (!grid || !scene || this.gone) return;
    const viewport = this.viewer.viewport as Limited;
    const place = grid.place(scene.view.at);
    const width = this.size.width;
    const zoom = scene.view.zoom || this.fit();
    viewport.minZoomLevel = (this.least() * grid.width) / width;
    viewport.maxZoomLevel = (MOST_ZOOM * grid.width) / width;
    const ratio = (zoom * grid.width) / width;
    const centre = new OpenSeadragon.Point(place.x / grid.width, place.y / grid.width);
    this.smooth();
    if (this.isAt(centre, ratio, false)) return;
    viewport.zoomTo(ratio, undefined, true);
    viewport.panTo(centre, true);
    this.told = { centre, ratio };
    this.smooth();
  }

  /** Whether the viewport is (or, not `now`, is on its way) at a centre and a zoom, in its own terms. */
  private isAt(centre: OpenSeadragon.Point, ratio: number, now: boolean): boolean {
    const { viewport } = this.viewer;
    const there = viewport.getCenter(now);
    const pixels = Math.hypot(centre.x - there.x, centre.y - there.y) * ratio * this.size.width;
    return pixels < 0.01 && Math.abs(viewport.getZoom(now) / ratio - 1) < 1e-4;
  }

  /** The zoom at which the volume is a speck, but still seen. */
  private least(): number {
    return this.grid ? LEAST_PIXELS / Math.max(this.grid.width, this.grid.height) : 0.001;
  }

  /** Tells where a person has moved. */
  private tell(): void {
    const { grid, scene } = this;
    this.smooth();
    // The library tells of every change a frame later, also of those that `follow` made.
    if (!grid || !scene || this.isAt(this.told.centre, this.told.ratio, true)) return;
    const { viewport } = this.viewer;
    const centre = viewport.getCenter(true);
    this.told = { centre, ratio: viewport.getZoom(true) };
    this.events.moved(this, grid.point(centre.x * grid.width, centre.y * grid.width, scene.view.at), this.zoom());
  }

  /** CSS pixels per column of level 0, now. */
  zoom(): number {
    return this.grid ? (this.viewer.viewport.getZoom(true) * this.size.width) / this.grid.width : 1;
  }

  /** Voxels that are large on the screen have edges; small ones are smoothed. */
  private smooth(): void {
    const drawer = this.viewer.drawer as unknown as { _imageSmoothingEnabled: boolean; setImageSmoothingEnabled(on: boolean): void };
    const smooth = this.zoom() * window.devicePixelRatio < 0.99;
    if (drawer._imageSmoothingEnabled !== smooth) drawer.setImageSmoothingEnabled(smooth);
  }

  /** The address of the tile in the middle of the pane, of the lowest layer. */
  address(): string | null {
    const { grid, scene } = this;
    const layer = this.stack.layers[0];
    if (!grid || !scene || !layer) return null;
    const level = grid.best(this.zoom() * window.devicePixelRatio);
    const place = grid.place(scene.view.at);
    const { column, row } = grid.tileAt(level, place.x, place.y);
    return layer.address(level, row, column);
  }

  zoomBy(factor: number): void {
    this.viewer.viewport.zoomBy(factor);
    this.viewer.viewport.applyConstraints();
  }

  panBy(x: number, y: number): void {
    const { viewport } = this.viewer;
    viewport.panBy(viewport.deltaPointsFromPixels(new OpenSeadragon.Point(x, y)));
  }

  /** Asks again for what could not be loaded. */
  retry(): void {
    this.stack.retry();
  }

  close(): void {
    this.gone = true;
    this.stack.close();
    this.viewer.destroy();
  }
}
