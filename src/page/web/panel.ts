// The side panel: every channel, on or off, with its colour, window or opacity.
//
// Rebuilt only when the choice of channels changes, so that dragging a slider is not interrupted.

import { type Channel, companions, type Dataset } from "./data";
import { h } from "./dom";
import { baseWindow, isMeasured } from "./layers";
import { type Colour, gradient, MAPS, NAMES, PURE } from "./paint";
import { coloured, firstTime, inSight, isLabel, isOn, middle, type Shown, type View } from "./view";
import { onlyValue, WindowControl } from "./window";

/** What the panel asks for. */
export interface PanelEvents {
  change(to: (view: View) => View): void;
  /** The range of what is visible of a channel. */
  auto(channel: Channel): void;
  /** All channels of a registered dataset are to be shown in Neuroglancer. */
  elsewhere(): void;
  /** A label was typed that is to be looked for. */
  find(channel: Channel, id: string): void;
}

/** A view with a channel toggled; if it cannot be shown with the others, it replaces them. */
export function switched(dataset: Dataset, view: View, channel: Channel): View {
  const shown = structuredClone(view.shown);
  const one = shown[channel.name] as Shown;
  one.on = !one.on;
  if (!one.on) return { ...view, shown };
  if (inSight(dataset, view).includes(channel)) return coloured(dataset, { ...view, shown });
  for (const other of dataset.channels) if (other !== channel) (shown[other.name] as Shown).on = false;
  return { ...view, shown, at: middle(channel), zoom: 0, time: firstTime(channel) };
}

export class Panel {
  readonly element = h("aside", { className: "panel", "aria-label": "Channels" });
  private built = "";
  private windows = new Map<string, WindowControl>();

  /** `adjust`: whether the server draws other ranges and colours than its own; `inSpace`: whether there is a Neuroglancer. */
  constructor(private readonly adjust: boolean, private readonly inSpace: boolean, private readonly events: PanelEvents) {}

  show(dataset: Dataset, view: View): void {
    const on = dataset.channels.map((channel) => [isOn(view, channel), view.shown[channel.name]?.colour, view.shown[channel.name]?.selected]);
    const state = JSON.stringify([dataset.channels.map((channel) => [channel.window, channel.histogram?.hi]), on]);
    if (state !== this.built) {
      this.built = state;
      this.windows = new Map();
      this.build(dataset, view);
    }
    for (const [name, control] of this.windows) control.show(view.shown[name] as Shown);
  }

  private build(dataset: Dataset, view: View): void {
    const focused = document.activeElement?.id;
    const together = inSight(dataset, view);
    const [first] = together;
    const others = dataset.channels.filter((channel) => !together.includes(channel));
    const elsewhere = others.filter((channel) => first?.space !== channel.space);
    const apart = others.filter((channel) => !elsewhere.includes(channel));
    this.element.replaceChildren(
      h("h2", {}, "Channels"),
      ...together.map((channel) => this.row(dataset, view, channel)),
      ...(apart.length ? [h("h2", {}, "Different size"), h("p", {}, "Shown on their own.")] : []),
      ...apart.map((channel) => this.row(dataset, view, channel)),
      ...(first && elsewhere.length ? this.elsewhere(first) : []),
      ...(this.inSpace && first?.transform && dataset.channels.length > 1
        ? [h("button", { type: "button", onclick: () => this.events.elsewhere() }, "All in Neuroglancer")] : []),
      ...elsewhere.map((channel) => this.row(dataset, view, channel)),
    );
    if (focused) document.getElementById(focused)?.focus();
  }

  private set(channel: Channel, part: Partial<Shown>): void {
    this.events.change((view) => {
      const before = view.shown[channel.name] as Shown;
      return { ...view, shown: { ...view.shown, [channel.name]: { ...before, ...part } } };
    });
  }

  /** Sets a range or an exponent; while a handle moves, the tiles stay those of before. */
  private stretch(channel: Channel, part: Partial<Shown>, moves: boolean): void {
    this.events.change((view) => {
      const before = view.shown[channel.name] as Shown;
      const held = moves ? (before.held ?? { window: before.window, gamma: before.gamma }) : null;
      return { ...view, shown: { ...view.shown, [channel.name]: { ...before, ...part, held } } };
    });
  }

  /** Why channels are not laid over the first, and what shows them together. */
  private elsewhere(first: Channel): HTMLElement[] {
    const all = this.inSpace ? " Neuroglancer shows all in one space." : "";
    return [
      h("h2", {}, "Turned or of another size"),
      h("p", {}, `Slices are those of stored voxels, which lie askew to those of ${first.label ?? first.name}.${all}`),
    ];
  }

  private row(dataset: Dataset, view: View, channel: Channel): HTMLElement {
    const shown = view.shown[channel.name] as Shown;
    const onchange = () => this.events.change((now) => switched(dataset, now, channel));
    const single = shown.on && companions(dataset, channel).length === 1 && dataset.channels.length === 1;
    const name = h("label", { className: "switch" },
      h("input", { type: "checkbox", id: `on-${channel.name}`, checked: shown.on, disabled: single, onchange }),
      h("span", {}, channel.label ?? channel.name),
      h("small", {}, channel.label && channel.label !== channel.name ? `${channel.name} · ${channel.dtype}` : channel.dtype));
    const alone = dataset.channels.filter((other) => other.kind === "image" && isOn(view, other)).length < 2;
    const said = channel.transform?.in_words;
    const more = [...(said ? [h("p", { className: "reason" }, said)] : []), ...(shown.on ? this.controls(channel, shown, alone, dataset.live === true) : [])];
    return h("fieldset", { className: "channel", "data-channel": channel.name } as never, name, ...more);
  }

  private controls(channel: Channel, shown: Shown, alone: boolean, live: boolean): HTMLElement[] {
    if (channel.kind === "labels") {
      const because = channel.labels_because ? [h("p", { className: "reason" }, `labels, because ${channel.labels_because}`)] : [];
      return [...because, this.opacity(channel, shown), ...this.selection(channel, shown)];
    }
    if (channel.kind === "rgb") return [];
    const colours = this.colours(channel, shown, alone && this.adjust);
    return isMeasured(channel) ? [colours, this.window(channel, live)] : [colours];
  }

  /** The colours of a channel, with maps if it is alone. */
  private colours(channel: Channel, shown: Shown, maps: boolean): HTMLElement {
    const swatch = (colour: Colour) => {
      const label = h("label", { className: "swatch", title: NAMES[colour] },
        h("input", {
          type: "radio", name: `colour-${channel.name}`, id: `colour-${channel.name}-${colour}`,
          checked: shown.colour === colour, "aria-label": NAMES[colour],
          onchange: () => this.set(channel, { colour }),
        }));
      label.style.background = gradient(colour);
      return label;
    };
    const all: Colour[] = maps ? [...PURE, ...MAPS] : PURE;
    return h("div", { className: "swatches", role: "radiogroup", "aria-label": "Colour" }, ...all.map(swatch));
  }

  private opacity(channel: Channel, shown: Shown): HTMLElement {
    const oninput = (event: Event) =>
      this.set(channel, { opacity: Number((event.target as HTMLInputElement).value) / 100 });
    return h("label", { className: "field" }, "Opacity",
      h("input", { type: "range", min: "0", max: "100", value: String(Math.round(shown.opacity * 100)), oninput }));
  }

  private selection(channel: Channel, { selected }: Shown): HTMLElement[] {
    const select = (id: string, alone: boolean) => this.set(channel, { selected: isLabel(id) ? { id, alone } : null });
    const field = h("input", {
      type: "text", inputMode: "numeric", value: selected?.id ?? "", placeholder: "all", id: `label-${channel.name}`,
      onchange: (event: Event) => {
        const id = (event.target as HTMLInputElement).value.trim();
        select(id, selected?.alone ?? false);
        if (isLabel(id)) this.events.find(channel, id);
      },
    });
    const label = h("label", { className: "field" }, "Label", field);
    if (!selected) return [label];
    const alone = h("input", {
      type: "checkbox", id: `alone-${channel.name}`, checked: selected.alone,
      onchange: (event: Event) => select(selected.id, (event.target as HTMLInputElement).checked),
    });
    return [label, h("label", { className: "field" }, alone, "Hide the others")];
  }

  private window(channel: Channel, live: boolean): HTMLElement {
    const only = channel.histogram ? onlyValue(channel.histogram) : null;
    if (only !== null && !live) return h("p", { className: "reason" }, `all voxels are ${only}`);
    if (!this.adjust) return h("p", { className: "reason" }, `${baseWindow(channel).join(" to ")}`);
    // What is written next may have other values.
    const control = new WindowControl(only === null ? channel : { ...channel, histogram: null }, {
      chosen: (part, moves) => this.stretch(channel, part, moves),
      auto: () => this.events.auto(channel),
    });
    this.windows.set(channel.name, control);
    return control.element;
  }
}
