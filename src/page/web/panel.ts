// The side panel: every channel, on or off, with its colour, window or opacity.
//
// Its list is rebuilt only when the choice of channels changes, so that dragging a slider is not
// interrupted.

import { beside, ranged, solo, switched } from "./channels";
import { baseWindow, type Channel, type Dataset, isMeasured, labelOf } from "./data";
import { button, h, iconButton } from "./dom";
import { type Colour, DIVERGING, gradient, isCode, MAPS, nameOfColour, PURE } from "./paint";
import { SightList, type SeenLabels } from "./sight";
import { breakable, wordFilter } from "./text";
import {
  drawable,
  heldOf,
  imagesOn,
  isLabel,
  type Shown,
  shownOf,
  type View,
  type ViewChange,
  withLabelToggled,
  withShown,
} from "./view";
import { onlyValue, WindowControl } from "./window";

/** Requests of the panel. */
export interface PanelEvents {
  change: ViewChange;
  /** The range of what is visible of a channel. */
  auto(channel: Channel): void;
  /** All channels of a registered dataset are to be shown in Neuroglancer. */
  elsewhere(): void;
  /** A typed label is to be looked for. */
  find(channel: Channel, id: string): void;
  /** The labels of a channel in sight. */
  seen(channel: Channel, signal: AbortSignal): Promise<SeenLabels>;
}

/** Panels with at least this many channels have a field that finds channels by words. */
const MANY = 8;
/** The colour with which the field for any colour begins. */
const ORANGE = "#ff8800";

/** A range with zero in its middle, if the range that is shown has values on both sides of zero. */
function symmetric(channel: Channel, { window }: Shown): Partial<Shown> {
  const [low, high] = window ?? baseWindow(channel);
  const most = Math.max(Math.abs(low), Math.abs(high));
  return low < 0 && high > 0 ? { window: [-most, most] } : {};
}

export class Panel {
  private readonly words = h("input", {
    type: "search",
    id: "channels-words",
    placeholder: "Search",
    "aria-label": "Search channels",
    oninput: () => this.rebuild(),
  });
  private readonly beside = h(
    "span",
    { className: "beside" },
    iconButton("previous", "The previous channel alone (J)", () => this.next(-1)),
    iconButton("next", "The next channel alone (j)", () => this.next(1)),
  );
  private readonly oneRange = h("input", {
    type: "checkbox",
    id: "one-range",
    onchange: () => this.tieRanges(),
  });
  private readonly ties = h("label", { className: "field" }, this.oneRange, "One range for all");
  private readonly list = h("div", {});
  readonly element = h(
    "aside",
    { className: "panel", "aria-label": "Channels" },
    h("div", { className: "head" }, h("h2", {}, "Channels"), this.words, this.beside),
    this.ties,
    this.list,
  );
  /** The state that the list was built for, as JSON. */
  private built = "";
  private now: { dataset: Dataset; view: View } | null = null;
  private windows = new Map<string, WindowControl>();
  /** The lists of labels in sight, by channel. */
  private readonly sights = new Map<string, SightList>();
  /** The channels whose sliders span all values. */
  private readonly spanned = new Set<string>();

  /**
   * `adjust`: whether the server draws other ranges and colours than its own; `hasNeuroglancer`:
   * whether the page can open it.
   */
  constructor(
    private readonly adjust: boolean,
    private readonly hasNeuroglancer: boolean,
    private readonly events: PanelEvents,
  ) {}

  show(dataset: Dataset, view: View): void {
    this.now = { dataset, view };
    this.words.hidden = dataset.channels.length < MANY;
    this.beside.hidden = dataset.channels.length < 2;
    this.oneRange.checked = view.oneRange;
    this.ties.hidden = !this.adjust || imagesOn(dataset, view).length < 2;
    const rows = dataset.channels.map((channel) => {
      const { on, colour, selected, shuffle, outlines } = shownOf(view, channel);
      return [channel.window, channel.histogram?.hi, on, colour, selected, shuffle, outlines];
    });
    const state = JSON.stringify(rows);
    if (state !== this.built) {
      this.built = state;
      this.windows = new Map();
      this.build(dataset, view);
    }
    for (const [name, control] of this.windows) control.show(view.shown[name] as Shown);
    for (const [name, list] of this.sights) if (view.shown[name]?.on) list.moved(view.shown[name]);
  }

  private rebuild(): void {
    this.built = "";
    if (this.now) this.show(this.now.dataset, this.now.view);
  }

  /** The channels in which the words occur. */
  private matches(dataset: Dataset): Channel[] {
    const hasWords = wordFilter(this.words.value);
    return dataset.channels.filter(({ name, label }) => hasWords(`${name} ${label ?? ""}`));
  }

  /** Shows the next of the channels with these words alone, or with -1 the previous one. */
  next(by: 1 | -1): void {
    const { dataset } = this.now ?? {};
    if (dataset) this.events.change((view) => beside(dataset, view, by, this.matches(dataset)));
  }

  private tieRanges(): void {
    const { dataset } = this.now ?? {};
    const oneRange = this.oneRange.checked;
    if (!dataset) return;
    this.events.change((view) => {
      const lead = imagesOn(dataset, view)[0] ?? null;
      return ranged(dataset, { ...view, oneRange }, lead, {});
    });
  }

  private build(dataset: Dataset, view: View): void {
    const focused = document.activeElement?.id;
    const matches = this.matches(dataset);
    const rows = (channels: Channel[]) => {
      const shown = channels.filter((channel) => matches.includes(channel));
      return shown.map((channel) => this.row(dataset, view, channel));
    };
    const together = drawable(dataset, view);
    const [first] = together;
    const others = dataset.channels.filter((channel) => !together.includes(channel));
    const elsewhere = others.filter((channel) => first?.space !== channel.space);
    const apart = others.filter((channel) => !elsewhere.includes(channel));
    const parts: (Node | string)[] = rows(together);
    if (apart.length) parts.push(h("h2", {}, "Different size"), h("p", {}, "Shown on their own."));
    parts.push(...rows(apart));
    if (first && elsewhere.length) parts.push(...this.elsewhere(first));
    if (this.hasNeuroglancer && first?.transform && dataset.channels.length > 1) {
      parts.push(button("All in Neuroglancer", () => this.events.elsewhere()));
    }
    parts.push(...rows(elsewhere));
    if (!matches.length) parts.push(h("p", { className: "reason" }, "No channel has these words."));
    this.list.replaceChildren(...parts);
    if (focused) document.getElementById(focused)?.focus();
  }

  private set(channel: Channel, part: Partial<Shown>): void {
    this.events.change((view) => withShown(view, channel, part));
  }

  /** Sets a range or an exponent; while a handle moves, the tiles that are there are stretched. */
  private stretch(dataset: Dataset, channel: Channel, part: Partial<Shown>, moves: boolean): void {
    this.events.change((view) => {
      const held = moves ? heldOf(shownOf(view, channel)) : null;
      return ranged(dataset, view, channel, { ...part, held });
    });
  }

  /** Says why channels are not drawn over the first, and what shows them together. */
  private elsewhere(first: Channel): HTMLElement[] {
    const all = this.hasNeuroglancer ? " Neuroglancer shows all in one space." : "";
    return [
      h("h2", {}, "Turned or of another size"),
      h(
        "p",
        {},
        `Slices are those of stored voxels, which lie askew to those of ${labelOf(first)}.${all}`,
      ),
    ];
  }

  private row(dataset: Dataset, view: View, channel: Channel): HTMLElement {
    const shown = shownOf(view, channel);
    const label = labelOf(channel);
    const placement = channel.transform?.in_words;
    return h(
      "fieldset",
      { className: "channel", "data-channel": channel.name, "aria-label": label },
      this.switch(dataset, channel, shown),
      placement && h("p", { className: "reason" }, placement),
      ...(shown.on
        ? this.controls(dataset, channel, shown, imagesOn(dataset, view).length < 2)
        : []),
    );
  }

  /** The name of a channel with a box that shows and hides it. */
  private switch(dataset: Dataset, channel: Channel, shown: Shown): HTMLElement {
    const { name, dtype } = channel;
    const label = labelOf(channel);
    const isSingle = dataset.channels.length === 1;
    // With alt, a click shows the channel alone.
    const onclick = (event: MouseEvent) => {
      if (!event.altKey) return;
      event.preventDefault();
      this.events.change((now) => solo(dataset, now, channel));
    };
    const box = h("input", {
      type: "checkbox",
      id: `on-${name}`,
      checked: shown.on,
      disabled: isSingle && shown.on,
      onchange: () => this.events.change((now) => switched(dataset, now, channel)),
    });
    const title = isSingle ? "" : `${label}: alt-click shows it alone, or brings the others back`;
    return h(
      "label",
      { className: "switch", title, onclick },
      box,
      h("span", {}, ...breakable(label)),
      h("small", {}, label === name ? dtype : `${name} · ${dtype}`),
    );
  }

  /** The controls of a channel that is shown; `alone` says whether it is the only image. */
  private controls(
    dataset: Dataset,
    channel: Channel,
    shown: Shown,
    alone: boolean,
  ): HTMLElement[] {
    if (channel.kind === "labels") {
      const because = channel.labels_because;
      return [
        ...(because ? [h("p", { className: "reason" }, `labels, because ${because}`)] : []),
        this.opacity(channel, shown),
        this.look(channel, shown),
        ...this.selection(channel, shown),
        this.sight(channel),
      ];
    }
    if (channel.kind === "rgb") return [];
    const colours = this.colours(channel, shown, alone && this.adjust);
    return isMeasured(channel) ? [colours, this.window(dataset, channel)] : [colours];
  }

  /** The colours of a channel, also with maps. */
  private colours(channel: Channel, shown: Shown, maps: boolean): HTMLElement {
    const swatch = (colour: Colour) => {
      const label = h(
        "label",
        { className: "swatch", title: nameOfColour(colour) },
        h("input", {
          type: "radio",
          name: `colour-${channel.name}`,
          id: `colour-${channel.name}-${colour}`,
          checked: shown.colour === colour,
          "aria-label": nameOfColour(colour),
          onchange: () =>
            this.set(channel, { colour, ...(colour === DIVERGING && symmetric(channel, shown)) }),
        }),
      );
      label.style.background = gradient(colour);
      return label;
    };
    const all: Colour[] = maps ? [...PURE, ...MAPS] : PURE;
    const swatches = h(
      "div",
      {
        className: "swatches",
        role: "radiogroup",
        "aria-label": `Colour of ${labelOf(channel)}`,
      },
      ...all.map(swatch),
    );
    if (this.adjust) swatches.append(this.anyColour(channel, shown));
    return swatches;
  }

  private anyColour(channel: Channel, { colour }: Shown): HTMLElement {
    const says = `Any colour of ${labelOf(channel)}`;
    const field = h("input", {
      type: "color",
      id: `colour-${channel.name}-any`,
      value: isCode(colour) ? colour : ORANGE,
      "aria-label": says,
      onchange: () => this.set(channel, { colour: field.value as Colour }),
    });
    return h(
      "label",
      { className: isCode(colour) ? "swatch any chosen" : "swatch any", title: "any colour" },
      field,
    );
  }

  private opacity(channel: Channel, shown: Shown): HTMLElement {
    const oninput = (event: Event) =>
      this.set(channel, { opacity: Number((event.target as HTMLInputElement).value) / 100 });
    return h(
      "label",
      { className: "field" },
      "Opacity",
      h("input", {
        type: "range",
        min: "0",
        max: "100",
        value: String(Math.round(shown.opacity * 100)),
        oninput,
      }),
    );
  }

  /** Other colours, and outlines. */
  private look(channel: Channel, { shuffle, outlines }: Shown): HTMLElement {
    const choice = (
      text: string,
      title: string,
      id: string,
      part: Partial<Shown>,
      more: object = {},
    ) =>
      h(
        "button",
        {
          type: "button",
          title,
          id: `${id}-${channel.name}`,
          onclick: () => this.set(channel, part),
          ...more,
        },
        text,
      );
    return h(
      "div",
      { className: "field buttons" },
      choice(
        "Outlines",
        "Draws the outlines of labels only",
        "outlines",
        { outlines: !outlines },
        { "aria-pressed": outlines },
      ),
      choice(
        "Other colours",
        "Gives every label another colour, where two that touch look alike",
        "shuffle",
        { shuffle: shuffle + 1 },
      ),
      shuffle
        ? choice(
            "Reset",
            "Back to the server's colours",
            "unshuffle",
            { shuffle: 0 },
            { className: "plain" },
          )
        : null,
    );
  }

  private sight(channel: Channel): HTMLElement {
    let list = this.sights.get(channel.name);
    if (!list) {
      const choose = (id: string) =>
        this.events.change((view) => withLabelToggled(view, channel, id));
      list = new SightList((signal) => this.events.seen(channel, signal), choose);
      this.sights.set(channel.name, list);
    }
    return list.element;
  }

  private selection(channel: Channel, { selected }: Shown): HTMLElement[] {
    const select = (id: string, alone: boolean) =>
      this.set(channel, { selected: isLabel(id) ? { id, alone } : null });
    const field = h("input", {
      type: "text",
      inputMode: "numeric",
      value: selected?.id ?? "",
      placeholder: "all",
      id: `label-${channel.name}`,
      onchange: (event: Event) => {
        const id = (event.target as HTMLInputElement).value.trim();
        select(id, selected?.alone ?? false);
        if (isLabel(id)) this.events.find(channel, id);
      },
    });
    const label = h("label", { className: "field" }, "Label", field);
    if (!selected) return [label];
    const alone = h("input", {
      type: "checkbox",
      id: `alone-${channel.name}`,
      checked: selected.alone,
      onchange: (event: Event) => select(selected.id, (event.target as HTMLInputElement).checked),
    });
    return [label, h("label", { className: "field" }, alone, "Hide the others")];
  }

  private window(dataset: Dataset, channel: Channel): HTMLElement {
    const only = channel.histogram ? onlyValue(channel.histogram) : null;
    if (only !== null && !dataset.live)
      return h("p", { className: "reason" }, `all voxels are ${only}`);
    if (!this.adjust) return h("p", { className: "reason" }, `${baseWindow(channel).join(" to ")}`);
    // In a live dataset, voxels with other values may follow: the slider spans the type's range.
    const control = new WindowControl(
      only === null ? channel : { ...channel, histogram: null, central_histogram: null },
      this.spanned.has(channel.name),
      {
        chosen: (part, moves) => this.stretch(dataset, channel, part, moves),
        auto: () => this.events.auto(channel),
        spanned: (all) => {
          if (all) this.spanned.add(channel.name);
          else this.spanned.delete(channel.name);
          this.rebuild();
        },
      },
    );
    this.windows.set(channel.name, control);
    return control.element;
  }
}
