// The list of datasets: found by words, sorted, grouped by folder; a thumbnail and a line of
// description each.
//
// Thousands of datasets are laid out by numbers: only the cards in sight, and a row before and
// after them (which the keyboard reaches), are in the document, and only those in sight request
// their picture.

import { withOneRange } from "./channels";
import {
  type Channel,
  type Dataset,
  isMeasured,
  labelOf,
  loadDataset,
  type Site,
  sum,
  timeCount,
  voxelCount,
} from "./data";
import { h } from "./dom";
import { Grid, type Rectangle, TILE } from "./geometry";
import { countsText } from "./help";
import { type Layer, layersOf } from "./layers";
import { secretForm } from "./secret";
import { wordFilter } from "./text";
import { imagesOn, initialView, isOn, toHash } from "./view";

/** The coarsest level that is offered, which has the fewest tiles. */
function coarsest(grid: Grid): number {
  return Math.max(0, ...grid.levels.filter((level) => level.offered).map((level) => level.level));
}

/** An image that has no address yet, and its address. */
interface Pending {
  image: HTMLImageElement;
  address: string;
}

/** A tile of a card: its image, the part inside the volume, and where that lies in the plane. */
interface CardTile extends Pending {
  inside: Rectangle;
  bounds: Rectangle;
}

/** The tile in the middle of a layer's coarsest level. */
function middleTile({ grid, address }: Layer): CardTile {
  const level = coarsest(grid);
  const { column, row } = grid.tileAt(level, grid.width / 2, grid.height / 2);
  const image = h("img", { alt: "", decoding: "async" });
  image.addEventListener("error", () => {
    if (image.hasAttribute("src")) image.replaceWith(h("span", { className: "lost" }, "no image"));
  });
  return {
    image,
    address: address(level, row, column),
    inside: grid.inside(level, column, row),
    bounds: grid.bounds(level, column, row),
  };
}

/** The picture of a card: the first tile of a view, or the tiles of a mosaic at their places. */
function picture(layers: Layer[]): { frame: HTMLElement; images: Pending[] } | null {
  const [first] = layers;
  if (!first) return null;
  // Of the other layers, only the tiles of a mosaic: other images are added, and labels have clear
  // pixels.
  const shown = layers.filter(
    (layer) => layer === first || (!layer.adds && !layer.treatment.clear),
  );
  const tiles = shown.map(middleTile);
  const only = tiles.length === 1 ? tiles[0] : undefined;
  const { width, height } = only?.bounds ?? first.grid;
  const origin = only?.bounds ?? { x: 0, y: 0 };
  const percent = (part: number, whole: number) => `${(100 * part) / whole}%`;
  // The part of a tile that is outside of the volume is hidden.
  const crops = tiles.map(({ image, inside, bounds }) => {
    const crop = h("span", { className: "crop" }, image);
    crop.style.left = percent(bounds.x - origin.x, width);
    crop.style.top = percent(bounds.y - origin.y, height);
    crop.style.width = percent(bounds.width, width);
    crop.style.height = percent(bounds.height, height);
    image.style.width = percent(TILE, inside.width);
    return crop;
  });
  // Fitted into a square.
  const frame = h("span", { className: "frame" }, ...crops);
  const side = Math.max(width, height);
  frame.style.width = percent(width, side);
  frame.style.height = percent(height, side);
  return { frame, images: tiles };
}

function extent(channel: Channel | undefined): string {
  const size =
    channel?.levels[0]?.size.map((length) => length.toLocaleString("en")).join(" × ") ?? "";
  return channel?.times ? `${size}, ${channel.times} time${channel.times === 1 ? "" : "s"}` : size;
}

/** The bytes of a dataset's files; its voxels if the server does not know the bytes. */
const sizeOf = (dataset: Dataset): number => dataset.bytes ?? sum(dataset.channels.map(voxelCount));

const byName = new Intl.Collator("en", { numeric: true });
const ORDERS: Record<string, { says: string; compare(a: Dataset, b: Dataset): number }> = {
  name: { says: "name", compare: (a, b) => byName.compare(a.token, b.token) },
  date: { says: "newest first", compare: (a, b) => (b.modified ?? 0) - (a.modified ?? 0) },
  size: { says: "largest first", compare: (a, b) => sizeOf(b) - sizeOf(a) },
};

/** How often the first range of a mosaic is requested. */
const MEASURING_TRIES = 5;
/** The time until it is requested again, in milliseconds. */
const MEASURING_DELAY = 1000;

/** A card in the document. */
class Card {
  readonly element: HTMLElement;
  private readonly thumbnail: HTMLElement;
  private images: Pending[] = [];
  /** Whether the picture of a mosaic still waits for the range that its tiles have in common. */
  private waits: boolean;

  constructor(
    readonly dataset: Dataset,
    private readonly site: Site,
  ) {
    const view = initialView(dataset);
    const first = dataset.channels.find((channel) => isOn(view, channel));
    const lead = imagesOn(dataset, view)[0];
    this.waits = site.adjust === true && view.oneRange && !!lead && !isMeasured(lead);
    this.thumbnail = h("span", { className: "thumbnail" }, mark(dataset));
    if (!this.waits) this.show(dataset);
    const names = dataset.channels.map(labelOf).join(", ");
    const date = dataset.modified
      ? new Date(dataset.modified).toLocaleDateString("en", { dateStyle: "medium" })
      : "";
    this.element = h(
      "li",
      {},
      h(
        "a",
        { href: toHash(dataset, view), className: "card", title: dataset.token },
        this.thumbnail,
        h("strong", {}, dataset.token),
        h("span", {}, extent(first)),
        date && h("span", {}, date),
        h("small", { title: names }, names),
      ),
    );
  }

  /** Puts the picture into the card without requesting it; `dataset` may have ranges by now. */
  private show(dataset: Dataset): void {
    const { mounts } = this.site;
    const adjust = this.site.adjust === true;
    const initial = initialView(dataset);
    const view = adjust ? withOneRange(dataset, initial) : initial;
    // The middle of a series, as the first time point may be blank.
    const shown = dataset.channels.find((channel) => isOn(view, channel));
    const halfway = Math.floor((timeCount(dataset.channels) - 1) / 2);
    const time = shown?.existing?.middle_time ?? halfway;
    const layers = layersOf({ dataset, view: { ...view, time }, mounts, adjust }, "xy");
    const made = picture(layers);
    this.images = made?.images ?? [];
    this.thumbnail.classList.toggle("misses", layers[0]?.mayMiss === true);
    if (made) this.thumbnail.prepend(made.frame);
  }

  /** Requests the picture, or gives up the request. */
  see(visible: boolean): void {
    if (visible && this.waits) return void this.measure();
    for (const { image, address } of this.images) {
      if (visible && !image.hasAttribute("src")) image.src = address;
      if (!visible && !image.complete) image.removeAttribute("src");
    }
  }

  /**
   * Requests the ranges of a mosaic, then its picture. If the server leaves the first range for
   * later, asks again; if it cannot tell the range, the picture has the server's ranges.
   */
  private async measure(tries = MEASURING_TRIES): Promise<void> {
    this.waits = false;
    const dataset = await loadDataset(this.dataset.token).catch(() => null);
    const [lead] = dataset ? imagesOn(dataset, initialView(dataset)) : [];
    if (!this.element.isConnected) {
      this.waits = true;
    } else if (lead && !isMeasured(lead) && !lead.problem && tries > 1) {
      window.setTimeout(() => void this.measure(tries - 1), MEASURING_DELAY);
    } else {
      this.show(dataset ?? this.dataset);
      this.see(true);
    }
  }
}

/** The mark of a card whose dataset has errors or warnings; false for other datasets. */
function mark({ noticed }: Dataset): HTMLElement | false {
  const { errors = 0, warnings = 0 } = noticed ?? {};
  const says = countsText(errors, warnings);
  return (
    says !== "" &&
    h(
      "span",
      { className: errors ? "mark error" : "mark", title: says, role: "img", "aria-label": says },
      "!",
    )
  );
}

/** A folder's heading or a dataset's card, with its place in the list in CSS pixels. */
type Item = { top: number; height: number } & (
  { folder: string; count: number } | { dataset: Dataset; left: number; index: number }
);

/** A person's choices, which stay when the list is left and opened again. */
interface Choice {
  words: string;
  order: string;
  closed: Set<string>;
  scroll: number;
}

// Lengths in CSS pixels.
/** The distance between cards. */
const GAP = 16;
/** The least width of a card. */
const LEAST_WIDTH = 190;
/** The height of a folder's heading. */
const HEADING = 44;
/** The height of a card's text, as in the style sheet. */
const TEXT = 122;
/** Pictures are requested once the list has not been scrolled for this time, in milliseconds. */
const CALM = 80;

export class List {
  readonly element: HTMLElement;
  private readonly shelf = h("ul", { className: "shelf" });
  private readonly count = h("span", { role: "status" });
  private readonly nothing = h("p", { className: "notice" });
  private readonly cards = new Map<string, Card>();
  private readonly headings = new Map<string, HTMLElement>();
  private readonly ending = new AbortController();
  private items: Item[] = [];
  /** The number of cards in the items. */
  private cardCount = 0;
  private width = 0;
  private calm = 0;

  constructor(
    private site: Site,
    private readonly choice: Choice,
  ) {
    const search = h("input", {
      type: "search",
      id: "search",
      placeholder: "Search",
      "aria-label": "Search datasets",
      value: choice.words,
      oninput: () => {
        choice.words = search.value;
        this.lay();
      },
    });
    const known = Object.entries(ORDERS).filter(
      ([name]) => name !== "date" || site.datasets.some((dataset) => dataset.modified),
    );
    const order = h(
      "select",
      {
        id: "order",
        onchange: () => {
          choice.order = order.value;
          this.lay();
        },
      },
      ...known.map(([value, { says }]) =>
        h("option", { value, selected: value === choice.order }, says),
      ),
    );
    const tools = h("div", { className: "finding" }, search, h("label", {}, "Sort by ", order));
    this.element = h(
      "main",
      { className: "list" },
      h("header", {}, h("h1", {}, "voltile"), this.count, tools),
      this.shelf,
      this.nothing,
      site.protected && secretForm(),
      h(
        "footer",
        {},
        `voltile ${site.version ?? ""} · `,
        h("a", { href: "simple" }, "without scripts"),
        " · ",
        h("a", { href: "datasets.json" }, "datasets.json"),
        " · ",
        h("a", { href: "metrics" }, "metrics"),
      ),
    );
  }

  /** Must be called after the element is in the page. */
  open(): void {
    const { signal } = this.ending;
    const resized = new ResizeObserver(() => this.shelf.clientWidth !== this.width && this.lay());
    resized.observe(this.shelf);
    signal.addEventListener("abort", () => resized.disconnect());
    window.addEventListener("scroll", () => this.draw(true), { signal, passive: true });
    window.addEventListener("resize", () => this.draw(false), { signal });
    this.lay();
    window.scrollTo(0, this.choice.scroll);
    this.draw(false);
  }

  /** Shows what is served now. */
  update(site: Site): void {
    this.site = site;
    this.lay();
  }

  /** The datasets in which all words occur, in order. */
  private matches(): Dataset[] {
    const { words } = this.choice;
    const text = ({ token, folder, channels }: Dataset) =>
      [token, folder, ...channels.flatMap(({ name, label }) => [name, label])].join(" ");
    const hasWords = wordFilter(words);
    const matches = this.site.datasets.filter((dataset) => !words || hasWords(text(dataset)));
    return matches.sort(ORDERS[this.choice.order]?.compare);
  }

  /** Says how many datasets there are, and how many of them have the words (`matching`). */
  private tellCount(matching: number): void {
    const all = this.site.datasets.length;
    const counted = all === 1 ? "one dataset" : `${all.toLocaleString("en")} datasets`;
    const isAll = matching === all;
    this.count.textContent = isAll ? counted : `${matching.toLocaleString("en")} of ${counted}`;
    this.nothing.hidden = matching > 0;
    if (all) this.nothing.textContent = "No dataset has these words.";
    else if (this.site.protected)
      this.nothing.textContent = "No datasets are shown without a secret.";
    else this.nothing.textContent = "No datasets are served.";
  }

  /** Datasets by their folders, which are sorted. */
  private static byFolder(datasets: Dataset[]): [string, Dataset[]][] {
    const groups = new Map<string, Dataset[]>();
    for (const dataset of datasets) {
      const folder = dataset.folder ?? "";
      const group = groups.get(folder);
      if (group) group.push(dataset);
      else groups.set(folder, [dataset]);
    }
    return [...groups].sort(([a], [b]) => byName.compare(a, b));
  }

  /** Computes the place of every heading and card, and draws those in sight. */
  private lay(): void {
    const datasets = this.matches();
    this.tellCount(datasets.length);
    this.width = this.shelf.clientWidth;
    // On a phone, cards are narrower, so that there are two in a row.
    const leastColumns = this.width < 420 ? 2 : 1;
    const columns = Math.max(leastColumns, Math.floor((this.width + GAP) / (LEAST_WIDTH + GAP)));
    const side = Math.floor((this.width - GAP * (columns - 1)) / columns);
    const height = side + TEXT;
    const hasFolders = new Set(this.site.datasets.map((dataset) => dataset.folder ?? "")).size > 1;
    this.items = [];
    let top = 0;
    let index = 0;
    for (const [folder, group] of List.byFolder(datasets)) {
      if (hasFolders) {
        this.items.push({ top, height: HEADING, folder, count: group.length });
        top += HEADING;
      }
      if (this.choice.closed.has(folder)) continue;
      for (const [i, dataset] of group.entries()) {
        index += 1;
        const left = (i % columns) * (side + GAP);
        const row = Math.floor(i / columns);
        this.items.push({ top: top + row * (height + GAP), height, dataset, left, index });
      }
      top += Math.ceil(group.length / columns) * (height + GAP);
    }
    this.cardCount = index;
    this.shelf.style.height = `${top}px`;
    this.shelf.style.setProperty("--side", `${side}px`);
    this.draw(false);
  }

  /** Puts what is in sight into the document; `scrolls` says whether because of scrolling. */
  private draw(scrolls: boolean): void {
    if (this.ending.signal.aborted) return;
    if (scrolls) this.choice.scroll = window.scrollY;
    const begin = -this.shelf.getBoundingClientRect().top;
    const end = begin + window.innerHeight;
    const rowHeight = (this.items.find((item) => "dataset" in item)?.height ?? 0) + GAP;
    const near = this.items.filter(
      ({ top, height }) => top + height > begin - rowHeight && top < end + rowHeight,
    );
    const kept = new Set<Node>();
    let before: Element | null = null;
    for (const item of near) {
      const element = "dataset" in item ? this.card(item) : this.heading(item);
      element.style.transform = `translate(${"left" in item ? item.left : 0}px, ${item.top}px)`;
      kept.add(element);
      // Elements that are at their place already are not moved, which would lose the focus.
      const after: ChildNode | null = before ? before.nextSibling : this.shelf.firstChild;
      if (after !== element) this.shelf.insertBefore(element, after);
      before = element;
    }
    for (const element of [...this.shelf.children]) if (!kept.has(element)) element.remove();
    for (const [token, card] of this.cards) {
      if (kept.has(card.element)) continue;
      card.see(false);
      this.cards.delete(token);
    }
    window.clearTimeout(this.calm);
    const see = () =>
      near.forEach((item) => {
        if ("dataset" in item)
          this.cards.get(item.dataset.token)?.see(item.top + item.height > begin && item.top < end);
      });
    if (scrolls) this.calm = window.setTimeout(see, CALM);
    else see();
  }

  /** The card of a dataset: the one that is there, or a new one if the dataset has changed. */
  private card({ dataset, index }: Extract<Item, { dataset: Dataset }>): HTMLElement {
    let card = this.cards.get(dataset.token);
    const isSame =
      card?.dataset === dataset || (dataset.version && card?.dataset.version === dataset.version);
    if (!card || !isSame) {
      card?.element.remove();
      card = new Card(dataset, this.site);
      this.cards.set(dataset.token, card);
    }
    card.element.setAttribute("aria-posinset", String(index));
    card.element.setAttribute("aria-setsize", String(this.cardCount));
    return card.element;
  }

  /** A folder, which can be closed. */
  private heading({ folder, count }: Extract<Item, { folder: string }>): HTMLElement {
    const { closed } = this.choice;
    let heading = this.headings.get(folder);
    if (!heading) {
      const onclick = () => {
        if (closed.has(folder)) closed.delete(folder);
        else closed.add(folder);
        this.lay();
      };
      heading = h(
        "li",
        { className: "folder" },
        h("h2", {}, h("button", { type: "button", onclick })),
      );
      this.headings.set(folder, heading);
    }
    const button = heading.querySelector("button") as HTMLButtonElement;
    button.setAttribute("aria-expanded", String(!closed.has(folder)));
    button.textContent = `${folder || "not in a subfolder"} (${count})`;
    return heading;
  }

  close(): void {
    this.ending.abort();
    window.clearTimeout(this.calm);
    this.cards.forEach((card) => card.see(false));
  }
}

/** The choices with which the list opens first. */
export const firstChoice = (): Choice => ({
  words: "",
  order: "name",
  closed: new Set(),
  scroll: 0,
});
