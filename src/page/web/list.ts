// The list of datasets: a thumbnail and one line of description each.

import type { Channel, Dataset, Mount, Site } from "./data";
import { h } from "./dom";
import { Grid, TILE } from "./geometry";
import { type Layer, layersOf } from "./layers";
import { secretForm } from "./secret";
import { beginning, toHash } from "./view";

/** The coarsest offered level: one tile, or as few as possible. */
function coarsest(grid: Grid): number {
  return Math.max(0, ...grid.levels.filter((level) => level.offered).map((level) => level.level));
}

/** An image of a tile, cropped to the part inside the volume. */
function picture(layer: Layer): HTMLElement {
  const { grid } = layer;
  const level = coarsest(grid);
  const { column, row } = grid.tileAt(level, grid.width / 2, grid.height / 2);
  const inside = grid.inside(level, column, row);
  const image = h("img", { src: layer.address(level, row, column), alt: "", loading: "lazy", decoding: "async" });
  image.addEventListener("error", () => image.replaceWith(h("span", { className: "lost" }, "no image")));
  // Fitted and centred in a square; the rest of the tile is outside the frame.
  const side = Math.max(inside.width, inside.height);
  const frame = h("span", { className: "frame" }, image);
  frame.style.width = `${(100 * inside.width) / side}%`;
  frame.style.height = `${(100 * inside.height) / side}%`;
  image.style.width = `${(100 * TILE) / inside.width}%`;
  return frame;
}

function extent(channel: Channel | undefined): string {
  const size = channel?.levels[0]?.size.map((length) => length.toLocaleString("en")).join(" × ") ?? "";
  return channel?.times ? `${size}, ${channel.times} times` : size;
}

function card(dataset: Dataset, mounts: Mount[]): HTMLElement {
  const view = beginning(dataset);
  // The middle of a series, as the first time point may be blank.
  const time = Math.floor(Math.max(0, ...dataset.channels.map((channel) => (channel.times ?? 1) - 1)) / 2);
  const layer = layersOf({ dataset, view: { ...view, time }, mounts }, "xy")[0];
  const names = dataset.channels.map((channel) => channel.label ?? channel.name).join(", ");
  return h("li", {}, h("a", { href: toHash(dataset, view), className: "card" },
    h("span", { className: "thumbnail" }, layer && picture(layer)),
    h("strong", {}, dataset.token),
    h("span", {}, extent(dataset.channels.find((channel) => view.shown[channel.name]?.on))),
    h("small", {}, names)));
}

/** The page of all datasets. */
export function list(site: Site): HTMLElement {
  const cards = site.datasets.map((dataset) => card(dataset, site.mounts));
  const count = cards.length === 1 ? "one dataset" : `${cards.length} datasets`;
  return h("main", { className: "list" },
    h("header", {}, h("h1", {}, "voltile"), h("span", {}, count)),
    cards.length ? h("ul", {}, ...cards) : h("p", { className: "notice" }, site.protected ? "No datasets are shown without a secret." : "No datasets are served."),
    site.protected && secretForm(),
    h("footer", {}, `voltile ${site.version ?? ""} · `, h("a", { href: "simple" }, "without scripts"), " · ",
      h("a", { href: "datasets.json" }, "datasets.json"), " · ", h("a", { href: "metrics" }, "metrics")));
}
