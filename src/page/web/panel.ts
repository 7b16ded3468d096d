// The side panel: every channel, on or off, with its colour, window or opacity.
//
// Rebuilt only when the choice of channels changes, so that dragging a slider is not interrupted.

import { type Channel, companions, type Dataset, type Mount } from "./data";
import { h } from "./dom";
import { baseWindow } from "./layers";
import { type Colour, COLOURS, inSight, isLabel, isOn, middle, type Shown, type View } from "./view";
import { windowSlider } from "./window";

const NAMES: Record<Colour, string> = {
  "": "grey", C: "cyan", M: "magenta", Y: "yellow", R: "red", G: "green", B: "blue",
};

/** A view with a channel toggled; if it cannot be shown with the others, it replaces them. */
export function switched(dataset: Dataset, view: View, channel: Channel): View {
  const shown = structuredClone(view.shown);
  const one = shown[channel.name] as Shown;
  one.on = !one.on;
  if (!one.on || inSight(dataset, view).includes(channel)) return { ...view, shown: coloured(dataset, shown, channel) };
  for (const other of dataset.channels) if (other !== channel) (shown[other.name] as Shown).on = false;
  return { ...view, shown, at: middle(channel), zoom: 0, time: 0 };
}

/** Of several images, one may stay grey: a second gets the first unused colour. */
function coloured(dataset: Dataset, shown: Record<string, Shown>, channel: Channel): Record<string, Shown> {
  const one = shown[channel.name] as Shown;
  const others = dataset.channels.filter((other) => other !== channel && other.kind === "image" && shown[other.name]?.on);
  if (!one.on || channel.kind !== "image" || one.colour) return shown;
  if (!others.some((other) => shown[other.name]?.colour === "")) return shown;
  const taken = others.map((other) => shown[other.name]?.colour);
  one.colour = COLOURS.find((colour) => colour && !taken.includes(colour)) ?? "C";
  return shown;
}

export class Panel {
  readonly element = h("aside", { className: "panel", "aria-label": "Channels" });
  private built = "";

  constructor(private readonly mounts: Mount[], private readonly change: (to: (view: View) => View) => void) {}

  show(dataset: Dataset, view: View): void {
    const on = dataset.channels.map((channel) => [isOn(view, channel), view.shown[channel.name]?.colour, view.shown[channel.name]?.selected]);
    const state = JSON.stringify([dataset.channels.map((channel) => [channel.window, channel.histogram?.hi]), on]);
    if (state === this.built) return;
    this.built = state;
    const focused = document.activeElement?.id;
    const together = inSight(dataset, view);
    const apart = dataset.channels.filter((channel) => !together.includes(channel));
    this.element.replaceChildren(
      h("h2", {}, "Channels"),
      ...together.map((channel) => this.row(dataset, view, channel)),
      ...(apart.length ? [h("h2", {}, "Different size"), h("p", {}, "Shown on their own.")] : []),
      ...apart.map((channel) => this.row(dataset, view, channel)),
    );
    if (focused) document.getElementById(focused)?.focus();
  }

  private set(channel: Channel, part: Partial<Shown>): void {
    this.change((view) => {
      const before = view.shown[channel.name] as Shown;
      return { ...view, shown: { ...view.shown, [channel.name]: { ...before, ...part } } };
    });
  }

  private row(dataset: Dataset, view: View, channel: Channel): HTMLElement {
    const shown = view.shown[channel.name] as Shown;
    const onchange = () => this.change((now) => switched(dataset, now, channel));
    const single = shown.on && companions(dataset, channel).length === 1 && dataset.channels.length === 1;
    const name = h("label", { className: "switch" },
      h("input", { type: "checkbox", id: `on-${channel.name}`, checked: shown.on, disabled: single, onchange }),
      h("span", {}, channel.label ?? channel.name),
      h("small", {}, channel.label && channel.label !== channel.name ? `${channel.name} · ${channel.dtype}` : channel.dtype));
    const more = shown.on ? this.controls(channel, shown) : [];
    return h("fieldset", { className: "channel", "data-channel": channel.name } as never, name, ...more);
  }

  private controls(channel: Channel, shown: Shown): HTMLElement[] {
    if (channel.kind === "labels") {
      const because = channel.labels_because ? [h("p", { className: "reason" }, `labels, because ${channel.labels_because}`)] : [];
      return [...because, this.opacity(channel, shown), ...this.selection(channel, shown)];
    }
    if (channel.kind === "rgb") return [];
    // The values at a window's ends are not known before the server has measured it.
    const known = channel.window !== null || channel.dtype === "uint8";
    return known ? [this.colours(channel, shown), this.window(channel, shown)] : [this.colours(channel, shown)];
  }

  private colours(channel: Channel, shown: Shown): HTMLElement {
    const swatch = (colour: Colour) =>
      h("label", { className: `swatch colour-${colour || "grey"}`, title: NAMES[colour] },
        h("input", {
          type: "radio", name: `colour-${channel.name}`, id: `colour-${channel.name}-${colour}`,
          checked: shown.colour === colour, "aria-label": NAMES[colour],
          onchange: () => this.set(channel, { colour }),
        }));
    return h("div", { className: "swatches", role: "radiogroup", "aria-label": "Colour" }, ...COLOURS.map(swatch));
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
      onchange: (event: Event) => select((event.target as HTMLInputElement).value.trim(), selected?.alone ?? false),
    });
    const label = h("label", { className: "field" }, "Label", field);
    if (!selected) return [label];
    const alone = h("input", {
      type: "checkbox", id: `alone-${channel.name}`, checked: selected.alone,
      onchange: (event: Event) => select(selected.id, (event.target as HTMLInputElement).checked),
    });
    return [label, h("label", { className: "field" }, alone, "Hide the others")];
  }

  private window(channel: Channel, shown: Shown): HTMLElement {
    const adjustable = this.mounts.some((mount) => mount.adjustable);
    const base = baseWindow(channel);
    const histogram = channel.histogram ?? null;
    const range = adjustable && histogram ? ([histogram.lo, histogram.hi] as [number, number]) : base;
    const whole = /int/.test(channel.dtype) && Math.abs(range[1] - range[0]) >= 100;
    return windowSlider({ range, base, chosen: shown.window, histogram, whole },
      (window) => this.set(channel, { window }));
  }
}
