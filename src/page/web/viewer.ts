// A dataset on the screen: holds the view and updates panes, panel, sliders, status and URL.

import { aboutSheet, slowness } from "./about";
import { bookmarksSheet } from "./bookmarks";
import { atLevel, boxSheet } from "./box";
import { ranged, solo, switched, withOneRange } from "./channels";
import { subjectOf } from "./composition";
import {
  addressOf,
  type Channel,
  type Dataset,
  endOf,
  explain,
  firstOf,
  labelOf,
  loadDataset,
  loadRange,
  type PlaneName,
  type Site,
  sum,
  timeOf,
  type Triple,
  volume,
  voxelCount,
} from "./data";
import { button, h, icon, iconButton, type IconName } from "./dom";
import { Drag } from "./drag";
import { neuroglancer, zarr } from "./elsewhere";
import { pictureSheet } from "./figure";
import { findLabel } from "./find";
import { at, AXES, AXIS_NAMES, clamp } from "./geometry";
import { gotoSheet, parse } from "./goto";
import { helpDialog, copyText, Notices, WorstNotice } from "./help";
import { type Actions, listen } from "./keys";
import { type Scene } from "./layers";
import { LinePanel } from "./line";
import type { MeasurePanel } from "./measure";
import { namesOf } from "./names";
import { Pane } from "./pane";
import { Panel } from "./panel";
import { Pointer } from "./pointed";
import { RegionPanel } from "./region";
import { words } from "./scale";
import type { SeenLabels } from "./sight";
import { Slicers } from "./slicers";
import { Thickness } from "./thickness";
import {
  type Arrangement,
  confined,
  coordinates,
  drawable,
  fromHash,
  isOn,
  newest,
  planesOf,
  type Shown,
  shownOf,
  stepped,
  toHash,
  unknownIn,
  type View,
  type ViewChange,
  visible,
  withLabelToggled,
  withShown,
} from "./view";
import { boxAddress, type Part, readBox } from "./voxels";

const ARRANGEMENTS: [Arrangement, string][] = [
  ["xy", "xy"],
  ["xz", "xz"],
  ["yz", "yz"],
  ["all", "all three"],
];
/** Delay of URL updates after the last change, in milliseconds: browsers refuse one per frame. */
const ADDRESS_DELAY = 200;
/** Delay of the next request for ranges that the server has not measured yet, in milliseconds. */
const MEASURING_DELAY = 1000;
/** The page gives up after this many requests in a row have brought no new range. */
const FRUITLESS = 10;
/** How long a plane may load before the page explains why, in milliseconds. */
const SLOW = 2000;
/** The label in a link is searched for only if the coarsest level has at most this many voxels. */
const MAX_QUICK = 2 ** 22;
/** The most labels in the list of labels in sight. */
const MAX_LISTED = 100;
/** The most labels whose colours are handed to Neuroglancer. */
const MAX_COLOURS = 500;

/** The notice that a label was not found. */
function absent(channel: Channel, id: string): string {
  const place = `the coarsest level of ${labelOf(channel)}`;
  return `There is no label ${id} in ${place}, in which small labels may be missing.`;
}

export class Viewer {
  readonly element: HTMLElement;
  private view: View;
  private panes: Pane[] = [];
  private active: PlaneName = "xy";
  private addressTimer = 0;
  private slowTimer = 0;
  /** The planes whose slowness has been explained. */
  private readonly explained = new Set<PlaneName>();
  /** The panel of the line or the rectangles that are measured. */
  private measuring: MeasurePanel | null = null;
  /** The rectangle that is being dragged for the sheet of voxels. */
  private drag: Drag | null = null;
  /** Whether the view moves to the newest slice or time point of a live dataset as it grows. */
  private following = false;
  /** The number of voxels that the live dataset had when its channels were sampled last. */
  private sampled = 0;
  /** The slice, the time point and the channels that were measured last, as JSON. */
  private measuredIn = "";
  private readonly ending = new AbortController();
  private readonly box = h("div", { className: "panes" });
  private readonly status = h("output", { className: "status", "aria-live": "off" });
  private readonly notices = new Notices(() => this.retry());
  private readonly worstNotice = new WorstNotice(() => this.actions.about());
  private readonly panel: Panel;
  private readonly slicers: Slicers;
  private readonly thickness: Thickness;
  private readonly help = helpDialog();
  private readonly follow = h(
    "button",
    {
      type: "button",
      className: "follow",
      title: "Follow the newest slice or time point (l)",
      onclick: () => this.actions.follow(),
    },
    icon("follow"),
    "Follow newest",
  );
  private readonly pointer = new Pointer(() => this.tell());
  private readonly planes: [Arrangement, HTMLButtonElement][];
  private readonly planeChoice: HTMLElement;
  private readonly actions = this.makeActions();

  constructor(
    private readonly site: Site,
    private dataset: Dataset,
    private readonly hash: string,
  ) {
    this.view = fromHash(dataset, hash);
    const change: ViewChange = (to) => this.change(to(this.view));
    this.panel = new Panel(site.adjust === true, typeof site.neuroglancer === "string", {
      change,
      elsewhere: () => void this.openNeuroglancer(true),
      auto: (channel) => void this.auto(channel),
      find: (channel, id) => void this.find(channel, id),
      seen: (channel, signal) => this.seen(channel, signal),
    });
    this.slicers = new Slicers(
      change,
      () => this.panes.every((pane) => pane.whole),
      () => this.active,
    );
    this.thickness = new Thickness(change, () => this.active);
    this.planes = ARRANGEMENTS.map(([name, text]) => [
      name,
      button(text, () => this.actions.arrange(name)),
    ]);
    this.planeChoice = h(
      "div",
      { className: "planes", role: "group", "aria-label": "Plane" },
      ...this.planes.map(([, button]) => button),
    );
    this.element = h(
      "main",
      { className: "viewer" },
      h("div", {}, this.bar(), this.worstNotice.element),
      h("div", { className: "stage" }, this.box, this.panel.element, this.notices.element),
      h(
        "footer",
        {},
        this.slicers.element,
        this.slicers.player,
        this.thickness.element,
        this.follow,
        this.status,
      ),
      this.help,
    );
    if (window.matchMedia("(max-width: 44rem)").matches) this.element.classList.add("no-panel");
  }

  private bar(): HTMLElement {
    const { actions } = this;
    return h(
      "header",
      { className: "bar" },
      h(
        "a",
        { className: "icon", href: "#", title: "All datasets", "aria-label": "All datasets" },
        icon("back"),
      ),
      h("h1", { title: this.dataset.token }, this.dataset.token),
      this.planeChoice,
      h(
        "div",
        { className: "tools" },
        iconButton("fit", "Fit the whole plane (0)", actions.whole),
        ...this.often().map(([name, text, act]) => iconButton(name, text, act)),
        this.more(),
        iconButton("screen", "Full screen (f)", actions.screen),
        iconButton("layers", "Channels (p)", actions.panel),
        iconButton("help", "Keys (?)", actions.help),
      ),
    );
  }

  /** The most used actions: buttons in the bar, or on a narrow page in the menu. */
  private often(): [IconName, string, () => void][] {
    const { actions } = this;
    return [
      ["goto", "Go to (g)", actions.goto],
      ["ruler", "Measure along a line (m)", actions.line],
      ["link", "Copy the link to this view (c)", actions.link],
    ];
  }

  /** The menu of less used actions. */
  private more(): HTMLElement {
    const { actions } = this;
    const menu: HTMLDetailsElement = h("details", { className: "more" });
    const item = (name: IconName, text: string, act: () => void, className = "") =>
      h(
        "button",
        {
          type: "button",
          className,
          onclick: () => {
            menu.open = false;
            act();
          },
        },
        icon(name),
        text,
      );
    menu.append(
      h(
        "summary",
        { className: "icon", title: "More", "aria-label": "More" } as never,
        icon("more"),
      ),
      h(
        "div",
        { className: "menu" },
        ...this.often().map(([name, text, act]) => item(name, text, act, "narrow")),
        item("region", "Measure a rectangle (r)", actions.region),
        item("bookmark", "Bookmarks (h)", actions.bookmarks),
        item("picture", "Save a picture (e)", actions.picture),
        item("voxels", "Voxels, Python (d)", actions.voxels),
        item("about", "About this file (i)", actions.about),
        ...(this.site.neuroglancer
          ? [item("neuroglancer", "Open in Neuroglancer (n)", actions.neuroglancer)]
          : []),
        item("zarr", "Copy the OME-Zarr address (u)", actions.zarr),
        item("link", "Copy the address of the centre tile (w)", actions.address),
      ),
    );
    const closeOutside = (event: Event) => {
      if (!menu.contains(event.target as Node)) menu.open = false;
    };
    document.addEventListener("pointerdown", closeOutside, { signal: this.ending.signal });
    return menu;
  }

  /** Must be called after the element is in the page, because panes measure themselves. */
  open(): void {
    listen(this.actions, this.ending.signal);
    this.arrange();
    this.show();
    const unknown = unknownIn(this.dataset, this.hash);
    if (unknown.length) {
      const names = unknown.map((name) => `“${name}”`).join(", ");
      const { token } = this.dataset;
      this.notices.say(
        `There is no channel ${names} in ${token}. The panel lists the available channels.`,
      );
    }
    void this.tellAbsent();
    this.measure();
  }

  /**
   * Requests the ranges that the server measures. If the server leaves some channels for later,
   * asks again, until the number of these channels has not decreased for `tries` requests; `before`
   * was their number after the last request.
   */
  private measure(before = Infinity, tries = FRUITLESS): void {
    loadDataset(this.dataset.token).then(
      (dataset) => {
        this.measured(dataset);
        const left = dataset.channels.filter(
          ({ kind, percentiles, problem }) => kind !== "labels" && !percentiles && !problem,
        ).length;
        const triesLeft = left < before ? FRUITLESS : tries - 1;
        if (left > 0 && triesLeft > 0 && !this.ending.signal.aborted)
          window.setTimeout(() => this.measure(left, triesLeft), MEASURING_DELAY);
      },
      () => undefined,
    );
  }

  /** Shows the ranges that the server has measured. */
  private measured(dataset: Dataset): void {
    if (this.ending.signal.aborted) return;
    const measured = new Map(dataset.channels.map((channel) => [channel.name, channel]));
    // A live dataset may have grown since the ranges were requested.
    const channels = this.dataset.channels.map((channel) => ({
      ...channel,
      ...measured.get(channel.name),
      levels: channel.levels,
      times: channel.times,
    }));
    this.dataset = {
      ...this.dataset,
      channels,
      noticed: dataset.noticed,
      notices: dataset.notices,
    };
    // Images with one range take it over now that it is known.
    this.view = withOneRange(this.dataset, this.view);
    this.show();
  }

  /** Whether the viewer can go on with a new version of its dataset. */
  canTake(dataset: Dataset): boolean {
    const kinds = ({ channels }: Dataset) =>
      JSON.stringify(channels.map(({ name, kind, times }) => [name, kind, times === null]));
    return this.dataset.live === true && kinds(dataset) === kinds(this.dataset);
  }

  /** Shows a new version of a live dataset. */
  take(dataset: Dataset): void {
    const known = new Map(this.dataset.channels.map((channel) => [channel.name, channel]));
    const channels = dataset.channels.map((channel) => {
      const {
        window = null,
        histogram = null,
        central_histogram: central = null,
      } = known.get(channel.name) ?? {};
      return {
        ...channel,
        window: channel.window ?? window,
        ...(channel.histogram ? {} : { histogram, central_histogram: central }),
      };
    });
    const voxels = sum(dataset.channels.map(voxelCount));
    const isUnmeasured = dataset.channels.some(
      (channel) => channel.window === null && channel.kind === "image",
    );
    this.dataset = { ...dataset, channels, notices: this.dataset.notices };
    this.change(this.following ? newest(this.view, this.dataset) : this.view);
    // Of a live dataset whose ranges are known, they are requested again only once it has doubled.
    if (!isUnmeasured && dataset.live && voxels < 2 * this.sampled) return;
    this.sampled = voxels;
    this.measure();
  }

  private arrange(): void {
    this.endDrag();
    this.panes.forEach((pane) => pane.close());
    this.panes = planesOf(this.view.arrangement).map((plane) => new Pane(plane, this.paneEvents()));
    this.box.dataset["arrangement"] = this.view.arrangement;
    this.box.replaceChildren(...this.panes.map((pane) => pane.element));
    this.active = this.panes[0]?.plane ?? "xy";
  }

  private paneEvents() {
    return {
      moved: (pane: Pane, point: Triple, zoom: number) => {
        // A plane that was only moved stays fitted.
        const isFitted = this.view.zoom === 0 && Math.abs(zoom / pane.viewZoom() - 1) < 1e-3;
        this.change({ ...this.view, at: point, zoom: isFitted ? 0 : zoom }, pane);
      },
      scrolled: (pane: Pane, by: number) => this.change(stepped(this.view, pane.plane, by)),
      chosen: (pane: Pane, point: Triple) => {
        this.active = pane.plane;
        if (this.view.arrangement === "all") this.change({ ...this.view, at: point });
      },
      pointed: (pane: Pane) => {
        if (pane.pointed()) this.active = pane.plane;
        this.tell();
      },
      failed: (error: unknown) => this.notices.problem(explain(error)),
    };
  }

  /** All changes of the view go through here; `leads` is the pane in which the user moves. */
  private change(view: View, leads?: Pane): void {
    const arranged = view.arrangement !== this.view.arrangement;
    this.view = confined(view, this.dataset);
    // Whoever leaves the newest slice or time point no longer follows.
    const last = newest(this.view, this.dataset);
    this.following &&=
      this.dataset.live === true &&
      last.time === this.view.time &&
      Math.floor(last.at[2]) === Math.floor(this.view.at[2]);
    if (arranged) this.arrange();
    this.show(leads);
  }

  private show(leads?: Pane): void {
    const { dataset, view } = this;
    const scene = this.scene(view);
    this.panes.forEach((pane) => pane.show(this.fitted(scene), pane === leads));
    this.panel.show(dataset, view);
    this.worstNotice.show(dataset);
    this.slicers.show(dataset, view);
    this.thickness.show(this.dataset, this.view, this.site.adjust === true);
    this.follow.hidden = !dataset.live;
    this.follow.setAttribute("aria-pressed", String(this.following));
    const size = endOf(drawable(dataset, view));
    for (const [name, button] of this.planes) {
      button.setAttribute("aria-pressed", String(name === view.arrangement));
      // A picture without depth has one plane.
      button.hidden =
        name !== view.arrangement &&
        planesOf(name).some(
          (plane) => at(size, AXES[plane].column) === 1 || at(size, AXES[plane].row) === 1,
        );
    }
    this.planeChoice.hidden = this.planes.every(
      ([name, button]) => button.hidden || name === view.arrangement,
    );
    this.tell();
    this.measureAgain();
    this.explainSlowness();
    window.clearTimeout(this.addressTimer);
    this.addressTimer = window.setTimeout(
      () => history.replaceState(null, "", toHash(dataset, view)),
      ADDRESS_DELAY,
    );
  }

  private scene(view: View): Scene {
    return {
      dataset: this.dataset,
      view,
      mounts: this.site.mounts,
      adjust: this.site.adjust === true,
    };
  }

  /** The scene with one zoom for all panes, even if whole planes are to be shown. */
  private fitted(scene: Scene): Scene {
    if (scene.view.zoom || this.panes.length < 2) return scene;
    const zoom = Math.min(...this.panes.map((pane) => pane.fitOf(scene)));
    return { ...scene, view: { ...scene.view, zoom } };
  }

  /** Shows the position of the cursor and the values there, or else the position of the centre. */
  private tell(): void {
    const pointed = this.panes.find((pane) => pane.pointed());
    const point = pointed?.pointed() ?? null;
    const place = point ?? this.view.at;
    const slab = pointed?.slab;
    this.pointer.at(
      this.dataset,
      this.view,
      point,
      slab && pointed ? { axis: AXES[pointed.plane].slice, slab } : null,
    );
    const values = this.pointer.values
      .map(({ channel, text, name }) => ` · ${labelOf(channel)} ${text}${name && ` ${name}`}`)
      .join("");
    const size = this.dataset.channels[0]?.levels[0]?.size;
    const parts = coordinates(this.dataset, place).map(
      (value, axis) => `${AXIS_NAMES[axis]} ${value}`,
    );
    const zoom = this.panes[0]?.zoom() ?? 1;
    this.status.textContent = size
      ? `${parts.join("  ")} · ${Number((zoom * 100).toPrecision(3))} %${values}`
      : "";
    this.status.title = this.status.textContent;
  }

  /** Sets the range of a channel to that of what is visible. */
  private async auto(channel: Channel): Promise<void> {
    const pane = this.pane();
    const part = pane?.visible(channel);
    if (!pane || !part) return this.notices.say("Nothing of the channel is visible.");
    const point = timeOf(channel, this.view.time);
    const query = new URLSearchParams({
      plane: pane.plane,
      slice: part.slice,
      level: String(part.level),
      box: part.box.join(),
    });
    if (point !== null) query.set("time", String(point));
    try {
      const range = await loadRange(
        `view/${addressOf(this.dataset)}/${channel.name}/range.json?${query}`,
      );
      const window: [number, number] | null =
        range.low === null || range.high === null ? null : [range.low, range.high];
      if (!window) return this.notices.say("Nothing of the channel is visible.");
      this.change(ranged(this.dataset, this.view, channel, { window }));
    } catch (error) {
      this.notices.say(explain(error));
    }
  }

  /** Says which labels of the link do not exist, if the search is quick. */
  private async tellAbsent(): Promise<void> {
    for (const channel of this.dataset.channels) {
      const { selected, on } = shownOf(this.view, channel);
      const voxels = volume(channel.levels.at(-1)?.size ?? [0]);
      if (!selected || !on || voxels > MAX_QUICK) continue;
      const found = await findLabel(
        this.dataset,
        channel,
        this.view.time,
        selected.id,
        this.ending.signal,
        () => undefined,
      ).catch(() => undefined);
      if (found === null) this.notices.say(absent(channel, selected.id));
    }
  }

  private set(channel: Channel, part: Partial<Shown>): void {
    this.change(withShown(this.view, channel, part));
  }

  /** Goes to a label if one of its voxels is found in the coarsest level. */
  private async find(channel: Channel, id: string): Promise<void> {
    const work = this.notices.work(`Looking for label ${id} …`);
    try {
      const found = await findLabel(
        this.dataset,
        channel,
        this.view.time,
        id,
        work.signal,
        (part) => work.say(`Looking for label ${id} … ${Math.round(part * 100)} %`),
      );
      if (work.signal.aborted) return;
      if (found) this.change({ ...this.view, at: found });
      else this.notices.say(absent(channel, id));
    } catch (error) {
      if (!work.signal.aborted) this.notices.say(explain(error));
    } finally {
      work.end();
    }
  }

  /** Requests tiles again that could not be loaded. */
  retry(): void {
    this.notices.clear();
    this.panes.forEach((pane) => pane.retry());
  }

  private pane(): Pane | undefined {
    return this.panes.find((pane) => pane.plane === this.active) ?? this.panes[0];
  }

  private makeActions(): Actions {
    return {
      step: (by) => this.change(stepped(this.view, this.active, by)),
      slab: (thicker) => (thicker ? this.thickness.thicker() : this.thickness.next()),
      time: (by) => this.change({ ...this.view, time: this.view.time + by }),
      zoom: (factor) => this.pane()?.zoomBy(factor),
      pan: (x, y) => this.pane()?.panBy(x, y),
      arrange: (to) => this.change({ ...this.view, arrangement: to }),
      channel: (index, alone) => {
        const channel = this.dataset.channels[index];
        if (channel) this.change((alone ? solo : switched)(this.dataset, this.view, channel));
      },
      beside: (by) => this.panel.next(by),
      whole: () =>
        this.change({
          ...this.view,
          at: this.pane()?.middle(this.view.at) ?? this.view.at,
          zoom: 0,
        }),
      actual: () => this.change({ ...this.view, zoom: 1 }),
      screen: () =>
        void (
          document.fullscreenElement
            ? document.exitFullscreen()
            : document.documentElement.requestFullscreen()
        ).catch(() => undefined),
      link: () => void this.copyLink(),
      address: () => void this.copyAddress(),
      picture: () => this.openPicture(),
      voxels: () => this.openVoxels(null),
      line: () => this.startMeasure(LinePanel),
      region: () => this.startMeasure(RegionPanel),
      bookmarks: () => this.openSheet(bookmarksSheet(toHash(this.dataset, this.view))),
      goto: () =>
        this.openSheet(
          gotoSheet(
            (text) => this.goTo(text),
            this.dataset,
            ({ channel, id }) => this.goToLabel(channel, id),
          ),
        ),
      about: () => this.openSheet(aboutSheet(this.dataset)),
      play: (direction) => this.slicers.toggle(direction),
      follow: () => {
        if (!this.dataset.live)
          return this.notices.say("The file is not being written: it has no newer slices.");
        this.slicers.stop();
        this.following = !this.following;
        this.change(this.following ? newest(this.view, this.dataset) : this.view);
      },
      escape: () => {
        this.element.querySelectorAll("details").forEach((menu) => (menu.open = false));
        this.endDrag();
        this.slicers.stop();
      },
      place: () => void this.copyPlace(),
      value: () => void this.copyValue(),
      select: () => this.select(),
      neuroglancer: () => void this.openNeuroglancer(),
      zarr: () => void this.copyText(zarr(this.dataset)),
      panel: () => this.element.classList.toggle("no-panel"),
      help: () => this.help.showModal(),
      leave: () => (location.hash = ""),
    };
  }

  /** Shows a sheet until it is closed. */
  private openSheet(dialog: HTMLDialogElement): void {
    this.element.append(dialog);
    dialog.addEventListener("close", () => dialog.remove());
    dialog.showModal();
  }

  private async copyLink(): Promise<void> {
    await this.copyText(new URL(toHash(this.dataset, this.view), location.href).href);
  }

  private async copyAddress(): Promise<void> {
    const address = this.pane()?.address();
    if (!address) return this.notices.say("No channel is shown, so there is no tile.");
    await this.copyText(new URL(address, location.href).href);
  }

  private goTo(text: string): void {
    const { dataset, view } = this;
    const [channel] = drawable(dataset, view);
    const target = parse(text, { dataset, channel, plane: this.active, here: view.at });
    if (target.kind === "point") this.change({ ...view, at: target.at });
    if (target.kind === "time") this.change({ ...view, time: target.time });
    if (target.kind === "hash") location.hash = target.hash;
    if (target.kind !== "label") return;
    const labels = dataset.channels.filter((each) => each.kind === "labels");
    const labelled = labels.find((each) => isOn(view, each)) ?? labels[0];
    if (!labelled) throw new Error("No channel of this dataset has labels.");
    this.goToLabel(labelled, target.id);
  }

  private goToLabel(channel: Channel, id: string): void {
    const { selected } = shownOf(this.view, channel);
    this.set(channel, { on: true, selected: { id, alone: selected?.alone ?? false } });
    void this.find(channel, id);
  }

  /** Asks which picture of the panes is to be saved. */
  private openPicture(): void {
    const active = this.pane();
    if (!active) return;
    const { panes, box } = this;
    const line = this.measuring instanceof LinePanel ? this.measuring.measured : null;
    const subject = subjectOf({ scene: this.scene(this.view), box, panes, active, line });
    this.openSheet(pictureSheet(subject, (error) => this.notices.say(explain(error))));
  }

  /**
   * The part of a channel's level 0 that is in a pane, or between two points that were dragged
   * there.
   */
  private boxOf(pane: Pane, channel: Channel, dragged: [Triple, Triple] | null): Part | null {
    const finest = channel.levels[0];
    const ends = dragged ?? pane.corners();
    if (!ends || !finest) return null;
    const [from, to] = ends;
    const first = firstOf(channel);
    const start: Triple = [0, 0, 0];
    const end: Triple = [0, 0, 0];
    for (const axis of [0, 1, 2] as const) {
      const isSlice = axis === AXES[pane.plane].slice;
      const low = Math.floor(Math.min(from[axis], to[axis]));
      const high = isSlice ? Math.floor(from[axis]) + 1 : Math.ceil(Math.max(from[axis], to[axis]));
      start[axis] = clamp(low - first[axis], 0, finest.size[axis]);
      end[axis] = clamp(high - first[axis], 0, finest.size[axis]);
    }
    return { start, end };
  }

  /**
   * The labels of a channel that are in sight and how many visible voxels each has, counted in one
   * slice of the level that is on the screen.
   */
  private async labelCounts(channel: Channel, signal: AbortSignal): Promise<Map<string, number>> {
    const pane = this.pane();
    const level = pane?.visible(channel)?.level;
    const wanted = pane && this.boxOf(pane, channel, null);
    if (!wanted || level === undefined) return new Map();
    const { start, size } = atLevel(channel, level, wanted);
    const { dataset } = this;
    const { time } = this.view;
    const address = boxAddress({ dataset, channel, time, level, start, size });
    const ids = await readBox(address, signal);
    const counts = new Map<number | bigint, number>();
    for (let i = 0; i < ids.length; i += 1) {
      const id = ids[i] ?? 0;
      counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    counts.delete(0);
    counts.delete(0n);
    return new Map([...counts].map(([id, count]) => [String(id), count]));
  }

  /** The labels of a channel in sight with their names, with most voxels first. */
  private async seen(channel: Channel, signal: AbortSignal): Promise<SeenLabels> {
    const counts = await this.labelCounts(channel, signal);
    const most = [...counts].sort(([, a], [, b]) => b - a).slice(0, MAX_LISTED);
    const ids = most.map(([id]) => id);
    // A table of names that is wrong must not hide the ids.
    const names = await namesOf(this.dataset, channel, ids, signal).catch(() => null);
    const seen = most.map(([id, voxels]) => ({ id, voxels, name: names?.get(id) ?? "" }));
    return { seen, count: counts.size };
  }

  /** The labels in sight by channel, without channels that have very many of them. */
  private async labelsInSight(): Promise<Map<string, string[]>> {
    const found = new Map<string, string[]>();
    for (const channel of visible(this.dataset, this.view)) {
      if (channel.kind !== "labels") continue;
      const counts = await this.labelCounts(channel, this.ending.signal).catch(() => null);
      if (counts && counts.size <= MAX_COLOURS) found.set(channel.name, [...counts.keys()]);
    }
    return found;
  }

  /** Opens the sheet of voxels, for the picture or between two points that were `dragged`. */
  private openVoxels(dragged: [Triple, Triple] | null): void {
    const { dataset, view } = this;
    const channels = visible(dataset, view);
    const pane = this.pane();
    if (!pane || !channels.length) return this.notices.say("No channel is shown.");
    const level = dragged ? 0 : (pane.visible(channels[0] as Channel)?.level ?? 0);
    const boxOf = (channel: Channel) => this.boxOf(pane, channel, dragged);
    const subject = { dataset, channels, time: view.time, level, boxOf };
    this.openSheet(
      boxSheet(subject, {
        copied: (text) => void this.copyText(text),
        drag: () => {
          this.endDrag();
          this.notices.say("Drag a rectangle on the picture; Escape gives up.");
          this.drag = new Drag(pane, "rectangle", (from, to) => {
            this.endDrag();
            this.openVoxels([from, to]);
          });
        },
      }),
    );
  }

  /** Begins to measure a line or a rectangle; ends it if that is being measured already. */
  private startMeasure(PanelClass: typeof LinePanel | typeof RegionPanel): void {
    const pane = this.pane();
    const isOver = this.measuring instanceof PanelClass;
    this.endDrag();
    if (!pane || isOver) return;
    this.measuring = new PanelClass(pane, () => ({ dataset: this.dataset, view: this.view }), {
      copied: (text) => void this.copyText(text),
      failed: (error) => this.notices.say(explain(error)),
      closed: () => this.endDrag(),
    });
    pane.element.append(this.measuring.element);
  }

  /** Ends dragging and measuring. */
  private endDrag(): void {
    this.drag?.close();
    this.measuring?.close();
    this.drag = this.measuring = null;
  }

  /** Measures again if another slice, another time point or other channels are shown. */
  private measureAgain(): void {
    const axis = AXES[this.active].slice;
    const shown = JSON.stringify([
      Math.floor(at(this.view.at, axis)),
      this.view.time,
      this.dataset.channels.map((channel) => isOn(this.view, channel)),
    ]);
    if (shown !== this.measuredIn && this.measuring) this.measuring.again();
    this.measuredIn = shown;
  }

  /**
   * If a plane is still loading after a while and the way in which the file is stored explains it,
   * says so.
   */
  private explainSlowness(): void {
    window.clearTimeout(this.slowTimer);
    this.slowTimer = window.setTimeout(() => {
      const slow = this.panes.find((pane) => !pane.whole);
      if (!slow || this.explained.has(slow.plane)) return;
      this.explained.add(slow.plane);
      const why = slowness(visible(this.dataset, this.view), slow.plane);
      if (why) this.notices.stay(why);
    }, SLOW);
  }

  private async copyText(text: string): Promise<void> {
    const lines = text.trimEnd().split("\n");
    const copied = lines.length > 1 ? `${lines.length} lines` : text;
    this.notices.say((await copyText(text)) ? `Copied ${copied}` : text);
  }

  /**
   * The place under the cursor, or else of the centre: in voxels, and in units if the size of a
   * voxel is known.
   */
  private async copyPlace(): Promise<void> {
    const pointed = this.panes.map((pane) => pane.pointed()).find((point) => point !== null);
    const point = pointed ?? this.view.at;
    const voxels = coordinates(this.dataset, point);
    const lines = [voxels.join(", ")];
    const [channel] = drawable(this.dataset, this.view);
    const size = channel?.voxel_size;
    const unit = channel?.voxel_unit;
    if (size && unit) {
      const lengths = voxels.map((value, axis) => words((value + 0.5) * at(size, axis), unit, 6));
      lines.push(lengths.join(", "));
    }
    await this.copyText(lines.join("\n"));
  }

  /** Copies the value under the cursor; a label before values of images, as it lies on top. */
  private async copyValue(): Promise<void> {
    const { values } = this.pointer;
    const value = values.find(({ channel }) => channel.kind === "labels") ?? values[0];
    if (!value) return this.notices.say("There is no value under the cursor.");
    await this.copyText(value.text);
  }

  /** Selects the label under the cursor; if it is selected, no label. */
  private select(): void {
    const value = this.pointer.values.find(({ channel }) => channel.kind === "labels");
    if (!value) return this.notices.say("There is no label under the cursor.");
    this.change(withLabelToggled(this.view, value.channel, value.text));
  }

  /** Opens the view in a new tab; with `all`, also the hidden images of a registered dataset. */
  private async openNeuroglancer(all = false): Promise<void> {
    const zoom = this.panes[0]?.zoom() ?? 1;
    if (!neuroglancer(this.site, this.dataset, this.view, zoom, new Map()))
      return this.notices.say("Neuroglancer cannot show any of these channels.");
    // Browsers allow a new tab only at once; its address follows when the labels in sight are
    // known.
    const tab = window.open("about:blank", "_blank");
    if (!tab) return this.notices.say("The browser does not let this page open Neuroglancer.");
    tab.opener = null;
    const address = neuroglancer(
      this.site,
      this.dataset,
      this.view,
      zoom,
      await this.labelsInSight(),
      all,
    );
    if (address) tab.location.replace(address);
  }

  close(): void {
    this.ending.abort();
    this.pointer.forget();
    window.clearTimeout(this.addressTimer);
    window.clearTimeout(this.slowTimer);
    this.slicers.stop();
    this.endDrag();
    this.panes.forEach((pane) => pane.close());
  }
}
