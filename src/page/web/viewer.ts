// A dataset on the screen: holds the view and updates panes, panel, sliders, status and URL.

import { addressOf, type Channel, type Dataset, explain, loadDataset, loadRange, type PlaneName, type Site, timeOf, type Triple } from "./data";
import { h, icon, iconButton } from "./dom";
import { neuroglancer, zarr } from "./elsewhere";
import { findLabel } from "./find";
import { at, AXIS_NAMES } from "./geometry";
import { helpDialog, copyText, Notices } from "./help";
import { type Actions, listen } from "./keys";
import type { Scene } from "./layers";
import { Pane } from "./pane";
import { Panel, switched } from "./panel";
import { Pointer } from "./pointed";
import { Slicers } from "./slicers";
import { type Arrangement, confined, fromHash, planesOf, type Shown, stepped, toHash, type View } from "./view";

const ARRANGEMENTS: [Arrangement, string][] = [
  ["xy", "xy"], ["xz", "xz"], ["yz", "yz"], ["all", "all three"],
];
/** Delay of URL updates after the last change, in milliseconds: browsers refuse one per frame. */
const ADDRESS_DELAY = 200;

export class Viewer {
  readonly element: HTMLElement;
  private view: View;
  private panes: Pane[] = [];
  private active: PlaneName = "xy";
  private addressTimer = 0;
  private readonly ending = new AbortController();
  private readonly box = h("div", { className: "panes" });
  private readonly status = h("output", { className: "status", "aria-live": "off" });
  private readonly notices = new Notices(() => this.retry());
  private readonly panel: Panel;
  private readonly slicers: Slicers;
  private readonly help = helpDialog();
  private readonly pointer = new Pointer(() => this.tell());
  private readonly planes: [Arrangement, HTMLButtonElement][];
  private readonly actions = this.makeActions();

  constructor(private readonly site: Site, private dataset: Dataset, hash: string) {
    this.view = fromHash(dataset, hash);
    const change = (to: (view: View) => View) => this.change(to(this.view));
    this.panel = new Panel(site.adjust === true, {
      change,
      auto: (channel) => void this.auto(channel),
      find: (channel, id) => void this.find(channel, id),
    });
    this.slicers = new Slicers(change);
    this.planes = ARRANGEMENTS.map(([name, text]) => [name, h("button", { type: "button", onclick: () => this.actions.arrange(name) }, text)]);
    this.element = h("main", { className: "viewer" }, this.bar(),
      h("div", { className: "stage" }, this.box, this.panel.element, this.notices.element),
      h("footer", {}, this.slicers.element, this.status), this.help);
    if (window.matchMedia("(max-width: 44rem)").matches) this.element.classList.add("no-panel");
  }

  private bar(): HTMLElement {
    const { actions } = this;
    return h("header", { className: "bar" },
      h("a", { className: "icon", href: "#", title: "All datasets", "aria-label": "All datasets" }, icon("back")),
      h("h1", {}, this.dataset.token),
      h("div", { className: "planes", role: "group", "aria-label": "Plane" }, ...this.planes.map(([, button]) => button)),
      h("div", { className: "tools" },
        iconButton("fit", "Fit the whole plane (0)", actions.whole),
        iconButton("copy", "Copy the URL of the centre tile (c)", actions.copy),
        this.site.neuroglancer && iconButton("neuroglancer", "Open in Neuroglancer (n)", actions.neuroglancer),
        iconButton("zarr", "Copy the OME-Zarr address (u)", actions.zarr),
        iconButton("screen", "Full screen (f)", actions.screen),
        iconButton("layers", "Channels (p)", actions.panel),
        iconButton("help", "Keys (?)", actions.help)));
  }

  /** Must be called after the element is in the page, because panes measure themselves. */
  open(): void {
    listen(this.actions, this.ending.signal);
    this.arrange();
    this.show();
    loadDataset(this.dataset.token).then((measured) => this.measured(measured), () => undefined);
  }

  /** Applies what the server has measured since. */
  private measured(dataset: Dataset): void {
    if (this.ending.signal.aborted) return;
    this.dataset = dataset;
    this.show();
  }

  private arrange(): void {
    this.panes.forEach((pane) => pane.close());
    this.panes = planesOf(this.view.arrangement).map((plane) => new Pane(plane, this.paneEvents()));
    this.box.dataset["arrangement"] = this.view.arrangement;
    this.box.replaceChildren(...this.panes.map((pane) => pane.element));
    this.active = this.panes[0]?.plane ?? "xy";
  }

  private paneEvents() {
    return {
      moved: (pane: Pane, point: Triple, zoom: number) => this.change({ ...this.view, at: point, zoom }, pane),
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
    if (arranged) this.arrange();
    this.show(leads);
  }

  private show(leads?: Pane): void {
    const { dataset, view } = this;
    const scene = { dataset, view, mounts: this.site.mounts, adjust: this.site.adjust === true };
    this.panes.forEach((pane) => pane.show(this.fitted(scene), pane === leads));
    this.panel.show(dataset, view);
    this.slicers.show(dataset, view);
    this.planes.forEach(([name, button]) => button.setAttribute("aria-pressed", String(name === view.arrangement)));
    this.tell();
    window.clearTimeout(this.addressTimer);
    this.addressTimer = window.setTimeout(() => history.replaceState(null, "", toHash(dataset, view)), ADDRESS_DELAY);
  }

  /** Linked panes have the same zoom, even when it fits the whole plane. */
  private fitted(scene: Scene): Scene {
    if (scene.view.zoom || this.panes.length < 2) return scene;
    const zoom = Math.min(...this.panes.map((pane) => pane.fitOf(scene)));
    return { ...scene, view: { ...scene.view, zoom } };
  }

  /** Shows the position of the cursor and the values there, or else the position of the centre. */
  private tell(): void {
    const point = this.panes.map((pane) => pane.pointed()).find((each) => each !== null) ?? null;
    const place = point ?? this.view.at;
    this.pointer.at(this.dataset, this.view, point);
    const values = this.pointer.values.map(({ channel, text }) => ` · ${channel.label ?? channel.name} ${text}`).join("");
    const size = this.dataset.channels[0]?.levels[0]?.size;
    const parts = AXIS_NAMES.map((name, axis) => `${name} ${Math.floor(at(place, axis)) + at(this.dataset.offset, axis)}`);
    const zoom = this.panes[0]?.zoom() ?? 1;
    this.status.textContent = size ? `${parts.join("  ")} · ${Number((zoom * 100).toPrecision(3))} %${values}` : "";
  }

  /** Sets the range of a channel to that of what is visible. */
  private async auto(channel: Channel): Promise<void> {
    const pane = this.pane();
    const part = pane?.visible(channel);
    if (!pane || !part) return this.notices.say("Nothing of the channel is visible.");
    const point = timeOf(channel, this.view.time);
    const query = new URLSearchParams({ plane: pane.plane, slice: String(part.slice), level: String(part.level), box: part.box.join() });
    if (point !== null) query.set("time", String(point));
    try {
      const found = await loadRange(`view/${addressOf(this.dataset)}/${channel.name}/range.json?${query}`);
      const window: [number, number] | null = found.low === null || found.high === null ? null : [found.low, found.high];
      if (!window) return this.notices.say("Nothing of the channel is visible.");
      this.set(channel, { window });
    } catch (error) {
      this.notices.say(explain(error));
    }
  }

  private set(channel: Channel, part: Partial<Shown>): void {
    const shown = this.view.shown[channel.name] as Shown;
    this.change({ ...this.view, shown: { ...this.view.shown, [channel.name]: { ...shown, ...part } } });
  }

  /** Goes to a label, if there is a voxel of it that is easily found. */
  private async find(channel: Channel, id: string): Promise<void> {
    const work = this.notices.work(`Looking for label ${id} …`);
    try {
      const found = await findLabel(this.dataset, channel, this.view.time, id, work.signal, (part) => work.say(`Looking for label ${id} … ${Math.round(part * 100)} %`));
      if (work.signal.aborted) return;
      if (found) this.change({ ...this.view, at: found });
      else this.notices.say(`There is no label ${id} in the coarsest level of ${channel.label ?? channel.name}, in which small labels may be missing.`);
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
      time: (by) => this.change({ ...this.view, time: this.view.time + by }),
      zoom: (factor) => this.pane()?.zoomBy(factor),
      pan: (x, y) => this.pane()?.panBy(x, y),
      arrange: (to) => this.change({ ...this.view, arrangement: to }),
      channel: (index) => {
        const channel = this.dataset.channels[index];
        if (channel) this.change(switched(this.dataset, this.view, channel));
      },
      whole: () => this.change({ ...this.view, at: this.pane()?.middle(this.view.at) ?? this.view.at, zoom: 0 }),
      actual: () => this.change({ ...this.view, zoom: 1 }),
      screen: () => void (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen()).catch(() => undefined),
      copy: () => void this.copy(),
      value: () => void this.copyValue(),
      select: () => this.select(),
      neuroglancer: () => this.openNeuroglancer(),
      zarr: () => void this.copyText(zarr(this.dataset)),
      panel: () => this.element.classList.toggle("no-panel"),
      help: () => this.help.showModal(),
      leave: () => (location.hash = ""),
    };
  }

  private async copy(): Promise<void> {
    const address = this.pane()?.address();
    if (!address) return this.notices.say("No channel is shown, so there is no tile.");
    await this.copyText(new URL(address, location.href).href);
  }

  private async copyText(text: string): Promise<void> {
    this.notices.say((await copyText(text)) ? `Copied ${text}` : text);
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
    this.set(value.channel, { selected: selected?.id === value.text ? null : { id: value.text, alone: selected?.alone ?? false } });
  }

  private openNeuroglancer(): void {
    const address = neuroglancer(this.site, this.dataset, this.view, this.panes[0]?.zoom() ?? 1);
    if (!address) return this.notices.say("Neuroglancer cannot show any of these channels.");
    window.open(address, "_blank", "noopener");
  }

  close(): void {
    this.ending.abort();
    this.pointer.forget();
    window.clearTimeout(this.addressTimer);
    this.panes.forEach((pane) => pane.close());
  }
}
