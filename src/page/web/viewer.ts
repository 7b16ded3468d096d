// A dataset on the screen: holds the view and updates panes, panel, sliders, status and URL.

import { aboutSheet, slowness } from "./about";
import { bookmarksSheet } from "./bookmarks";
import { atLevel, boxSheet, type Wanted } from "./box";
import { ranged, solo, switched } from "./channels";
import {
  addressOf,
  baseWindow,
  type Channel,
  type Dataset,
  endOf,
  explain,
  firstOf,
  isMeasured,
  loadDataset,
  loadRange,
  type PlaneName,
  type Site,
  timeOf,
  type Triple,
} from "./data";
import { h, icon, iconButton, type IconName } from "./dom";
import { neuroglancer, zarr } from "./elsewhere";
import { findLabel } from "./find";
import { at, AXES, AXIS_NAMES } from "./geometry";
import { gotoSheet, parse } from "./goto";
import { helpDialog, copyText, Notices, Told } from "./help";
import { type Actions, listen } from "./keys";
import { layersOf, type Scene } from "./layers";
import { Drag, LinePanel, type MeasurePanel } from "./line";
import { namesOf } from "./names";
import { nameOfColour } from "./paint";
import { Pane } from "./pane";
import { Panel } from "./panel";
import { type Moment, type PictureOf, pictureSheet, type Subject } from "./figure";
import type { Choice, Plane } from "./picture";
import { Pointer } from "./pointed";
import { RegionPanel } from "./region";
import { words } from "./scale";
import type { Seen } from "./sight";
import { Slicers } from "./slicers";
import { inWords } from "./slab";
import { written } from "./text";
import { Thickness } from "./thickness";
import {
  type Arrangement,
  confined,
  fromHash,
  imagesOn,
  inSight,
  isOn,
  newest,
  planesOf,
  type Shown,
  stepped,
  toHash,
  unknownIn,
  type View,
} from "./view";
import { boxAddress, readBox } from "./voxels";
import { when } from "./when";

const ARRANGEMENTS: [Arrangement, string][] = [
  ["xy", "xy"],
  ["xz", "xz"],
  ["yz", "yz"],
  ["all", "all three"],
];
/** Delay of URL updates after the last change, in milliseconds: browsers refuse one per frame. */
const ADDRESS_DELAY = 200;
/**
 * Delay of the next request for what the server has not measured yet, in milliseconds; and how many
 * may bring nothing.
 */
const MEASURING_DELAY = 1000;
const FRUITLESS = 10;
/** How long a plane may load before the page explains why, in milliseconds. */
const SLOW = 2000;
/** The voxels that are read without being asked to find a label. */
const MAX_QUICK = 2 ** 22;
const absent = (channel: Channel, id: string): string =>
  `There is no label ${id} in the coarsest level of ${channel.label ?? channel.name}, in which small labels may be missing.`;
/** The labels that a list of those in sight has. */
const MAX_LISTED = 100;
/** The labels whose colours Neuroglancer is told. */
const MAX_COLOURS = 500;

export class Viewer {
  readonly element: HTMLElement;
  private view: View;
  private panes: Pane[] = [];
  private active: PlaneName = "xy";
  private addressTimer = 0;
  private slowTimer = 0;
  /** The planes whose slowness has been explained. */
  private readonly explained = new Set<PlaneName>();
  /** What is measured. */
  private measuring: MeasurePanel | null = null;
  private drag: Drag | null = null;
  /** Whether the newest slice or time point of a live dataset is shown as it comes. */
  private following = false;
  /** How many voxels the live dataset had when its channels were sampled last. */
  private sampled = 0;
  /** What it was measured in. */
  private measuredIn = "";
  private readonly ending = new AbortController();
  private readonly box = h("div", { className: "panes" });
  private readonly status = h("output", { className: "status", "aria-live": "off" });
  private readonly notices = new Notices(() => this.retry());
  private readonly told = new Told(() => this.actions.about());
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
    const change = (to: (view: View) => View) => this.change(to(this.view));
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
      h("button", { type: "button", onclick: () => this.actions.arrange(name) }, text),
    ]);
    this.planeChoice = h(
      "div",
      { className: "planes", role: "group", "aria-label": "Plane" },
      ...this.planes.map(([, button]) => button),
    );
    this.element = h(
      "main",
      { className: "viewer" },
      h("div", {}, this.bar(), this.told.element),
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

  /** Buttons that a narrow page has in its menu. */
  private often(): [IconName, string, () => void][] {
    const { actions } = this;
    return [
      ["goto", "Go to (g)", actions.goto],
      ["ruler", "Measure along a line (m)", actions.line],
      ["link", "Copy the link to this view (c)", actions.link],
    ];
  }

  /** What leads out of the page, by its name. */
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
    document.addEventListener(
      "pointerdown",
      (event) => menu.contains(event.target as Node) || (menu.open = false),
      { signal: this.ending.signal },
    );
    return menu;
  }

  /** Must be called after the element is in the page, because panes measure themselves. */
  open(): void {
    listen(this.actions, this.ending.signal);
    this.arrange();
    this.show();
    const unknown = unknownIn(this.dataset, this.hash);
    if (unknown.length)
      this.notices.say(
        `There is no channel ${unknown.map((name) => `“${name}”`).join(", ")} in ${this.dataset.token}. The panel lists the available channels.`,
      );
    void this.missing();
    this.measure();
  }

  /**
   * Asks for what the server measures: again if it has left channels for later, unless they do not
   * become fewer.
   */
  private measure(before = Infinity, tries = FRUITLESS): void {
    loadDataset(this.dataset.token).then(
      (dataset) => {
        this.measured(dataset);
        const left = dataset.channels.filter(
          ({ kind, percentiles, problem }) => kind !== "labels" && !percentiles && !problem,
        ).length;
        const again = left < before ? FRUITLESS : tries - 1;
        if (left > 0 && again > 0 && !this.ending.signal.aborted)
          window.setTimeout(() => this.measure(left, again), MEASURING_DELAY);
      },
      () => undefined,
    );
  }

  /** Applies what the server has measured since. */
  private measured(dataset: Dataset): void {
    if (this.ending.signal.aborted) return;
    const found = new Map(dataset.channels.map((channel) => [channel.name, channel]));
    // A live dataset may have grown since.
    const channels = this.dataset.channels.map((channel) => ({
      ...channel,
      ...found.get(channel.name),
      levels: channel.levels,
      times: channel.times,
    }));
    this.dataset = {
      ...this.dataset,
      channels,
      noticed: dataset.noticed,
      notices: dataset.notices,
    };
    // The first range is known only now.
    const lead = imagesOn(this.dataset, this.view).find(isMeasured);
    if (this.view.oneRange && lead) this.view = ranged(this.dataset, this.view, lead, {});
    this.show();
  }

  /** Whether it can go on with what has become of its dataset. */
  canTake(dataset: Dataset): boolean {
    const names = (one: Dataset) =>
      JSON.stringify(
        one.channels.map((channel) => [channel.name, channel.kind, channel.times === null]),
      );
    return this.dataset.live === true && names(dataset) === names(this.dataset);
  }

  /** Shows what has become of a live dataset. */
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
    const voxels = dataset.channels.reduce(
      (all, { levels, times }) =>
        all + (levels[0]?.size ?? []).reduce((one, length) => one * length, times ?? 1),
      0,
    );
    const unmeasured = dataset.channels.some(
      (channel) => channel.window === null && channel.kind === "image",
    );
    this.dataset = { ...dataset, channels, notices: this.dataset.notices };
    this.change(this.following ? newest(this.view, this.dataset) : this.view);
    if (!unmeasured && dataset.live && voxels < 2 * this.sampled) return;
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
        const isFitted = this.view.zoom === 0 && Math.abs(zoom / pane.fitted() - 1) < 1e-3;
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
    const {
      time,
      at: [, , z],
    } = newest(this.view, this.dataset);
    this.following &&=
      this.dataset.live === true &&
      time === this.view.time &&
      Math.floor(z) === Math.floor(this.view.at[2]);
    if (arranged) this.arrange();
    this.show(leads);
  }

  private show(leads?: Pane): void {
    const { dataset, view } = this;
    const scene = this.scene(view);
    this.panes.forEach((pane) => pane.show(this.fitted(scene), pane === leads));
    this.panel.show(dataset, view);
    this.told.show(dataset);
    this.slicers.show(dataset, view);
    this.thickness.show(this.dataset, this.view, this.site.adjust === true);
    this.follow.hidden = !dataset.live;
    this.follow.setAttribute("aria-pressed", String(this.following));
    const size = endOf(inSight(dataset, view));
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

  /** Linked panes have the same zoom, even when it fits the whole plane. */
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
      .map(
        ({ channel, text, name }) =>
          ` · ${channel.label ?? channel.name} ${text}${name && ` ${name}`}`,
      )
      .join("");
    const size = this.dataset.channels[0]?.levels[0]?.size;
    const parts = AXIS_NAMES.map(
      (name, axis) => `${name} ${Math.floor(at(place, axis)) + at(this.dataset.offset, axis)}`,
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
      const found = await loadRange(
        `view/${addressOf(this.dataset)}/${channel.name}/range.json?${query}`,
      );
      const window: [number, number] | null =
        found.low === null || found.high === null ? null : [found.low, found.high];
      if (!window) return this.notices.say("Nothing of the channel is visible.");
      this.change(ranged(this.dataset, this.view, channel, { window }));
    } catch (error) {
      this.notices.say(explain(error));
    }
  }

  /** Says of labels that a link selects if there are none, where that is quickly found out. */
  private async missing(): Promise<void> {
    for (const channel of this.dataset.channels) {
      const { selected, on } = this.view.shown[channel.name] as Shown;
      const voxels = channel.levels.at(-1)?.size.reduce((all, length) => all * length, 1) ?? 0;
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
    const shown = this.view.shown[channel.name] as Shown;
    this.change({
      ...this.view,
      shown: { ...this.view.shown, [channel.name]: { ...shown, ...part } },
    });
  }

  /** Goes to a label, if there is a voxel of it that is easily found. */
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

  /** Requests again what could not be loaded. */
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
      picture: () =>
        this.openSheet(pictureSheet(this.subject(), (error) => this.notices.say(explain(error)))),
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
    const target = parse(text, dataset, inSight(dataset, view)[0], this.active, view.at);
    if (target.kind === "point") this.change({ ...view, at: target.at });
    if (target.kind === "time") this.change({ ...view, time: target.time });
    if (target.kind === "hash") location.hash = target.hash;
    if (target.kind !== "label") return;
    const channel =
      dataset.channels.find((each) => each.kind === "labels" && isOn(view, each)) ??
      dataset.channels.find((each) => each.kind === "labels");
    if (!channel) throw new Error("No channel of this dataset has labels.");
    this.goToLabel(channel, target.id);
  }

  private goToLabel(channel: Channel, id: string): void {
    const shown = this.view.shown[channel.name] as Shown;
    this.set(channel, { on: true, selected: { id, alone: shown.selected?.alone ?? false } });
    void this.find(channel, id);
  }

  /** What pictures can be made of. */
  private subject(): Subject {
    const { dataset, view } = this;
    const channels = inSight(dataset, view).filter((channel) => isOn(view, channel));
    const { slice: axis } = AXES[this.active];
    const offset = at(dataset.offset, axis);
    const moved = ({ slice, time }: Moment): View => ({
      ...view,
      time: time ?? view.time,
      at: view.at.map((value, i) =>
        i === axis && slice !== undefined ? slice - offset + 0.5 : value,
      ) as Triple,
    });
    const along: Subject["along"] = [
      {
        says: `slices along ${AXIS_NAMES[axis]}`,
        key: "slice",
        letter: AXIS_NAMES[axis] ?? "",
        first: offset,
        last: offset + at(endOf(inSight(dataset, view)), axis) - 1,
      },
      {
        says: "time points",
        key: "time",
        letter: "t",
        first: 0,
        last: Math.max(1, ...channels.map(({ times }) => times ?? 1)) - 1,
      },
    ];
    return {
      of: (moment, only) =>
        this.pictureOf(only ? solo(dataset, moved(moment), only) : moved(moment)),
      images: channels.filter(({ kind }) => kind === "image"),
      along: along.filter(({ first, last }) => first < last),
      hasLine: this.measuredLine() !== null,
    };
  }

  private measuredLine(): LinePanel["measured"] {
    return this.measuring instanceof LinePanel ? this.measuring.measured : null;
  }

  /** The pictures that can be made of a view, at the place and zoom of the panes. */
  private pictureOf(view: View): PictureOf {
    const { dataset } = this;
    const channels = inSight(dataset, view);
    const box = this.box.getBoundingClientRect();
    const ratio = window.devicePixelRatio;
    const measured = this.measuredLine();
    const drawnOf = (pane: Pane) => {
      const drawn = pane.drawn();
      const line =
        measured?.plane === pane.plane && drawn
          ? {
              from: drawn.grid.place(measured.from),
              to: drawn.grid.place(measured.to),
              says: measured.says,
            }
          : null;
      return (
        drawn && {
          ...drawn,
          layers: layersOf(this.scene(view), pane.plane),
          channel: channels[0],
          line,
        }
      );
    };
    const onScreen = this.panes.flatMap((pane): Plane[] => {
      const drawn = drawnOf(pane);
      const place = pane.element.getBoundingClientRect();
      const [left, top, width, height] = [
        place.left - box.left,
        place.top - box.top,
        place.width,
        place.height,
      ].map((length) => Math.round(length * ratio)) as [number, number, number, number];
      return drawn ? [{ ...drawn, left, top, width, height, scale: pane.zoom() * ratio }] : [];
    });
    const choices: Choice[] = [
      {
        says: "As on the screen",
        width: Math.round(box.width * ratio),
        height: Math.round(box.height * ratio),
        planes: onScreen,
        titles: [],
      },
    ];
    const pane = this.pane();
    const active = pane && drawnOf(pane);
    if (active) {
      const { grid, part } = active;
      const within = (value: number, most: number) => Math.min(Math.max(value, 0), most);
      const [x, y] = [
        Math.floor(within(part.x, grid.width)),
        Math.floor(within(part.y, grid.height)),
      ];
      const width = Math.max(1, Math.ceil(within(part.x + part.width, grid.width)) - x);
      const height = Math.max(1, Math.ceil(within(part.y + part.height, grid.height)) - y);
      choices.push({
        says: "Full resolution",
        width,
        height,
        titles: [],
        planes: [
          { ...active, part: { x, y, width, height }, left: 0, top: 0, width, height, scale: 1 },
        ],
      });
    }
    const place = AXIS_NAMES.map(
      (name, axis) => [name, Math.floor(at(view.at, axis)) + at(dataset.offset, axis)] as const,
    );
    const said = channels
      .filter((each) => isOn(view, each))
      .map((each) => {
        const { window, gamma, colour } = view.shown[each.name] as Shown;
        const name = each.label ?? each.name;
        if (each.kind !== "image") return name;
        return `${name} (${nameOfColour(colour)}) ${(window ?? baseWindow(each)).map((value) => written(value)).join(" to ")}${gamma === 1 ? "" : `, gamma ${gamma}`}`;
      });
    const hasTime = view.time > 0 || channels.some((each) => each.times);
    const time = hasTime
      ? [`time ${[view.time, when(channels, view.time)].filter((part) => part !== "").join(", ")}`]
      : [];
    const slab = this.panes.flatMap((each) => each.slab ?? [])[0];
    const isAll = view.arrangement === "all";
    const where = place.map(([name, value]) => `${name} ${value.toLocaleString("en")}`).join(", ");
    const caption = [
      dataset.token,
      `plane ${isAll ? "xy, xz, yz" : view.arrangement}`,
      where,
      ...(slab ? [inWords(slab)] : []),
      ...time,
      ...said,
    ].join(" · ");
    const slices = place
      .filter((_, axis) => isAll || axis === AXES[view.arrangement as PlaneName].slice)
      .map(([name, value]) => `${name}${value}`);
    const name = [
      dataset.token,
      isAll ? "xyz" : view.arrangement,
      ...slices,
      ...(hasTime ? [`t${view.time}`] : []),
    ].join("_");
    return { choices, caption, name };
  }

  /** The voxels of a channel in a pane, or between two points. */
  private boxOf(pane: Pane, channel: Channel, wanted: [Triple, Triple] | null): Wanted | null {
    const drawn = pane.drawn();
    const corner = (far: 0 | 1) =>
      drawn?.grid.point(
        drawn.part.x + far * drawn.part.width,
        drawn.part.y + far * drawn.part.height,
        this.view.at,
      );
    const [from, to] = wanted ?? [corner(0), corner(1)];
    const finest = channel.levels[0];
    if (!from || !to || !finest) return null;
    const first = firstOf(channel);
    const axis = AXES[pane.plane].slice;
    const clip = (value: number, i: number) =>
      Math.min(Math.max(value - at(first, i), 0), at(finest.size, i));
    const start = from.map((value, i) => clip(Math.floor(Math.min(value, at(to, i))), i)) as Triple;
    const end = from.map((value, i) =>
      clip(i === axis ? Math.floor(value) + 1 : Math.ceil(Math.max(value, at(to, i))), i),
    ) as Triple;
    return { start, end };
  }

  /** How many voxels each label has of those in sight: of one slice, at the level on the screen. */
  private async counted(channel: Channel, signal: AbortSignal): Promise<Map<string, number>> {
    const pane = this.pane();
    const [wanted, level] = [
      pane && this.boxOf(pane, channel, null),
      pane?.visible(channel)?.level,
    ];
    if (!wanted || level === undefined) return new Map();
    const { start, size } = atLevel(channel, level, wanted);
    const ids = await readBox(
      boxAddress(this.dataset, channel, this.view.time, level, start, size),
      signal,
    );
    const counts = new Map<number | bigint, number>();
    for (let i = 0; i < ids.length; i += 1)
      counts.set(ids[i] ?? 0, (counts.get(ids[i] ?? 0) ?? 0) + 1);
    return new Map(
      [...counts].filter(([id]) => Number(id) !== 0).map(([id, count]) => [String(id), count]),
    );
  }

  /** The labels in sight with their names, those with most voxels first. */
  private async seen(
    channel: Channel,
    signal: AbortSignal,
  ): Promise<{ seen: Seen[]; count: number }> {
    const counts = await this.counted(channel, signal);
    const most = [...counts].sort(([, a], [, b]) => b - a).slice(0, MAX_LISTED);
    // A table of names that is wrong must not hide the ids.
    const names = await namesOf(
      this.dataset,
      channel,
      most.map(([id]) => id),
      signal,
    ).catch(() => null);
    return {
      seen: most.map(([id, voxels]) => ({ id, voxels, name: names?.get(id) ?? "" })),
      count: counts.size,
    };
  }

  /** The labels in sight, by channel, unless there are very many. */
  private async labelsInSight(): Promise<Map<string, string[]>> {
    const found = new Map<string, string[]>();
    for (const channel of inSight(this.dataset, this.view).filter(
      (each) => each.kind === "labels" && isOn(this.view, each),
    )) {
      const ids = [
        ...(
          await this.counted(channel, this.ending.signal).catch(() => new Map<string, number>())
        ).keys(),
      ];
      if (ids.length <= MAX_COLOURS) found.set(channel.name, ids);
    }
    return found;
  }

  /** The sheet of voxels; `wanted` is what was dragged, in points of the volume. */
  private openVoxels(wanted: [Triple, Triple] | null): void {
    const { dataset, view } = this;
    const channels = inSight(dataset, view).filter((channel) => isOn(view, channel));
    const pane = this.pane();
    if (!pane || !channels.length) return this.notices.say("No channel is shown.");
    const box = (channel: Channel) => this.boxOf(pane, channel, wanted);
    const level = wanted ? 0 : (pane.visible(channels[0] as Channel)?.level ?? 0);
    this.openSheet(
      boxSheet(dataset, channels, view.time, level, box, {
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

  /** Begins to measure; ends it if it is what is measured. */
  private startMeasure(Kind: typeof LinePanel | typeof RegionPanel): void {
    const pane = this.pane();
    const isOver = this.measuring instanceof Kind;
    this.endDrag();
    if (!pane || isOver) return;
    this.measuring = new Kind(pane, () => ({ dataset: this.dataset, view: this.view }), {
      copied: (text) => void this.copyText(text),
      failed: (error) => this.notices.say(explain(error)),
      closed: () => this.endDrag(),
    });
    pane.element.append(this.measuring.element);
  }

  /** Ends what is dragged or measured. */
  private endDrag(): void {
    this.drag?.close();
    this.measuring?.close();
    this.drag = this.measuring = null;
  }

  /** Measures again if other voxels are shown. */
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
   * Says why a plane that has been loading for a while is slow, if it is the way in which the file
   * is stored.
   */
  private explainSlowness(): void {
    window.clearTimeout(this.slowTimer);
    this.slowTimer = window.setTimeout(() => {
      const slow = this.panes.find((pane) => !pane.whole);
      if (!slow || this.explained.has(slow.plane)) return;
      this.explained.add(slow.plane);
      const why = slowness(
        inSight(this.dataset, this.view).filter((channel) => isOn(this.view, channel)),
        slow.plane,
      );
      if (why) this.notices.stay(why);
    }, SLOW);
  }

  private async copyText(text: string): Promise<void> {
    const lines = text.trimEnd().split("\n");
    const what = lines.length > 1 ? `${lines.length} lines` : text;
    this.notices.say((await copyText(text)) ? `Copied ${what}` : text);
  }

  /**
   * The place under the cursor, or else of the centre: in voxels, and in units if the size of a
   * voxel is known.
   */
  private async copyPlace(): Promise<void> {
    const place =
      this.panes.map((pane) => pane.pointed()).find((each) => each !== null) ?? this.view.at;
    const voxels = place.map(
      (value, axis) => Math.floor(value) + at(this.dataset.offset, axis),
    ) as Triple;
    const { voxel_size: size = null, voxel_unit: unit = null } =
      inSight(this.dataset, this.view)[0] ?? {};
    const lengths = size
      ? voxels.map((value, axis) => words((value + 0.5) * at(size, axis), unit, 6))
      : [];
    await this.copyText(
      [voxels.join(", "), ...(size && unit ? [lengths.join(", ")] : [])].join("\n"),
    );
  }

  /** Of labels if they are shown, as they are on top. */
  private async copyValue(): Promise<void> {
    const { values } = this.pointer;
    const value = values.find(({ channel }) => channel.kind === "labels") ?? values[0];
    if (!value) return this.notices.say("There is no value under the cursor.");
    await this.copyText(value.text);
  }

  /** Selects the label under the cursor; again, all of them. */
  private select(): void {
    const value = this.pointer.values.find(({ channel }) => channel.kind === "labels");
    if (!value) return this.notices.say("There is no label under the cursor.");
    const { selected } = this.view.shown[value.channel.name] as Shown;
    this.set(value.channel, {
      selected:
        selected?.id === value.text ? null : { id: value.text, alone: selected?.alone ?? false },
    });
  }

  private async openNeuroglancer(all = false): Promise<void> {
    const zoom = this.panes[0]?.zoom() ?? 1;
    if (!neuroglancer(this.site, this.dataset, this.view, zoom, new Map()))
      return this.notices.say("Neuroglancer cannot show any of these channels.");
    // At once, as a browser asks for it; the address follows when the labels in sight are known.
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
