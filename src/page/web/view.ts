// The view as one plain value: its initial state, its changes, and its encoding in the URL after #.
//
//   #TOKEN?plane=all&at=512,300.5,24&zoom=1.5&time=3&slab=max:9&ranges=one&show=em,actin:M:100:2000,segmentation:50
//
// `at` is x, y, z plus the dataset's offset, as in slice numbers. A channel is
// NAME[:COLOUR[:LOW:HIGH[:GAMMA]]], where LOW and HIGH may be empty; labels are
// NAME[:PERCENT[:ID[:alone[:SHUFFLE[:outlines]]]]], where ID is the selected label, and SHUFFLE the
// number of other colours. Missing or invalid parts default to the initial view. A slab is
// MODE:SLICES or MODE:all.

import {
  beginOf,
  type Channel,
  companions,
  type Dataset,
  endOf,
  firstOf,
  type PlaneName,
  type Triple,
} from "./data";
import { at, AXES, Grid, PLANES } from "./geometry";
import { type Colour, colourText, isMap, type Pure, readColour, unused } from "./paint";
import type { LabelLook } from "./labels";
import { readSlab, type Slab, slabText } from "./slab";

export type Arrangement = PlaneName | "all";

export type Held = Pick<Shown, "window" | "gamma">;

export interface Shown extends LabelLook {
  on: boolean;
  colour: Colour;
  /** In the data's own values; null is the server's window. */
  window: [number, number] | null;
  /** The shade is a power of the place between black and white: above 1 brightens. */
  gamma: number;
  /**
   * While a handle moves: what the tiles that are stretched meanwhile were drawn with; null at
   * rest.
   */
  held: Held | null;
  /** Of labels, 0 to 1. */
  opacity: number;
}

export interface View {
  arrangement: Arrangement;
  /** The centre of every pane: where the three planes cross. */
  at: Triple;
  /** CSS pixels per column of level 0; 0 fits the whole plane. */
  zoom: number;
  time: number;
  /** What is shown of images: a slab of slices, or one slice. */
  slab: Slab | null;
  /** Whether all images in sight have one range. */
  oneRange: boolean;
  /** The channels that were shown before one was shown alone. */
  before: string[] | null;
  shown: Record<string, Shown>;
}

export const MAX_ZOOM = 40;
export const LEAST_PIXELS = 32;
export const LEAST_GAMMA = 0.1;
export const MAX_GAMMA = 10;
/** The channels that one tile can show. */
export const MAX_TOGETHER = 6;
/** The tiles of a mosaic that open. */
const MAX_TILES = 100;

export const isOn = (view: View, channel: Channel): boolean =>
  view.shown[channel.name]?.on === true;

export const planesOf = (arrangement: Arrangement): PlaneName[] =>
  arrangement === "all" ? PLANES : [arrangement];

/** The visible channels; those that cannot be shown with the first of them are left out. */
export function inSight(dataset: Dataset, view: View): Channel[] {
  const first = dataset.channels.find((channel) => isOn(view, channel)) ?? dataset.channels[0];
  return first ? companions(dataset, first) : [];
}

/** The nearest of the six colours to the one in the file; none for grey. */
function nearest(colour: string | null): Pure {
  const parts = /^#(..)(..)(..)$/.exec(colour ?? "");
  if (!parts) return "";
  const [r = 0, g = 0, b = 0] = parts.slice(1).map((part) => parseInt(part, 16));
  const high = Math.max(r, g, b) / 2;
  const name = [r > high ? "R" : "", g > high ? "G" : "", b > high ? "B" : ""].join("");
  const names: Record<string, Pure> = { R: "R", G: "G", B: "B", GB: "C", RB: "M", RG: "Y" };
  return names[name] ?? "";
}

const voxels = (channel: Channel): number =>
  (channel.levels[0]?.size ?? []).reduce((all, length) => all * length, channel.times ?? 1);

/** Of complex numbers, only the magnitude opens. */
const PART = /_(phase|real|imaginary)$/;

/**
 * Of channels whose paths differ in several numbers, such as `/position 3/channel 1`, those that
 * differ from the first in the last of these only; all, if that is the first alone.
 */
function ofOnePlace(alike: Channel[], first: Channel): Channel[] {
  const numbers = (channel: Channel) => channel.levels[0]?.path?.match(/\d+/g) ?? [];
  const own = numbers(first);
  const differing = own.flatMap((number, i) =>
    alike.some((channel) => numbers(channel)[i] !== number) ? [i] : [],
  );
  const found = alike.filter((channel) =>
    differing.slice(0, -1).every((i) => numbers(channel)[i] === own[i]),
  );
  return found.length > 1 ? found : alike;
}

/** Whether channels lie beside one another, as the tiles of a stitched file do. */
const isMosaic = (channels: Channel[]): boolean =>
  new Set(channels.map(beginOf).map(String)).size > 1;

/**
 * The channels that open together: the tiles of a mosaic; else the first image (of a configured
 * dataset, whose channels are sorted by name, the largest), and what was recorded with it, whose
 * place in the file differs in numbers only. Nothing else of a file with images of other kinds (a
 * segmentation's probabilities).
 */
function opened(dataset: Dataset): Channel[] {
  const images = dataset.channels.filter(
    (channel) => channel.kind !== "labels" && !PART.test(channel.name),
  );
  const most = Math.max(...images.map(voxels));
  const largest = images.find((channel) => voxels(channel) === most);
  const first = (dataset.layouts?.length ? images[0] : largest) ?? dataset.channels[0];
  if (first?.kind !== "image") return first ? [first] : [];
  const kind = (channel: Channel) =>
    JSON.stringify([
      channel.kind,
      channel.dtype,
      channel.times,
      channel.levels[0]?.path?.replace(/\d+/g, "#"),
    ]);
  const alike = companions(dataset, first).filter(
    (channel) => kind(channel) === kind(first) && images.includes(channel),
  );
  if (isMosaic(alike)) return alike.slice(0, MAX_TILES);
  const together = first.levels[0]?.path ? ofOnePlace(alike, first) : [first];
  // Many directions or moments in one array are not colours.
  const isMany = together.length > MAX_TOGETHER && !together.every((channel) => channel.colour);
  return isMany ? [first] : together.slice(0, MAX_TOGETHER);
}

/** The first plane in which a channel is more than a line. */
function filled(channel: Channel | undefined): PlaneName {
  const size = channel?.levels[0]?.size;
  return (
    PLANES.find(
      (plane) => size && at(size, AXES[plane].column) > 1 && at(size, AXES[plane].row) > 1,
    ) ?? "xy"
  );
}

/**
 * The initial view: the images of the file that belong together, centred, with the whole plane
 * visible.
 */
export function beginning(dataset: Dataset): View {
  const on = opened(dataset);
  const shown: Record<string, Shown> = {};
  for (const channel of dataset.channels) {
    const colour = channel.kind === "image" ? nearest(channel.colour) : "";
    shown[channel.name] = {
      on: on.includes(channel),
      colour,
      window: null,
      gamma: 1,
      held: null,
      opacity: 0.4,
      selected: null,
      shuffle: 0,
      outlines: false,
    };
  }
  const place = isMosaic(on)
    ? (endOf(on).map((length) => Math.floor(length / 2) + 0.5) as Triple)
    : middle(on[0]);
  const view: View = {
    arrangement: filled(on[0]),
    at: place,
    zoom: 0,
    time: firstTime(on[0]),
    slab: null,
    oneRange: isMosaic(on),
    before: null,
    shown,
  };
  return on.length > 1 ? coloured(dataset, view) : view;
}

/** The images that are shown. */
export const imagesOn = (dataset: Dataset, view: View): Channel[] =>
  dataset.channels.filter((channel) => channel.kind === "image" && isOn(view, channel));

/** Several images at a place have different colours. */
export function coloured(dataset: Dataset, view: View): View {
  const images = imagesOn(dataset, view);
  const places = [...new Set(images.map((channel) => String(beginOf(channel))))];
  return places.reduce(
    (now, place) =>
      apart(
        now,
        images.filter((channel) => String(beginOf(channel)) === place),
      ),
    view,
  );
}

/**
 * Gives images different colours: those that are grey, have a map, or repeat a colour get the
 * server's.
 */
function apart(view: View, images: Channel[]): View {
  if (images.length < 2) return view;
  const shown = { ...view.shown };
  const own = images.map((channel) => (shown[channel.name] as Shown).colour);
  const keeps = (colour: Colour, i: number) =>
    colour !== "" && !isMap(colour) && own.indexOf(colour) === i;
  const taken = own.filter(keeps);
  images.forEach((channel, i) => {
    if (keeps(own[i] as Colour, i)) return;
    const colour = unused(taken, channel.composite_colour ?? "");
    taken.push(colour);
    shown[channel.name] = { ...(shown[channel.name] as Shown), colour };
  });
  return { ...view, shown };
}

/** The centre of a channel, in the nearest slice that exists. */
export function middle(channel: Channel | undefined): Triple {
  const finest = channel?.levels[0];
  if (!channel || !finest) return [0.5, 0.5, 0.5];
  const first = firstOf(channel);
  const centre = finest.size.map(
    (length, axis) => at(first, axis) + Math.floor(length / 2) + (length % 2 ? 0.5 : 0),
  ) as Triple;
  const { existing } = channel;
  return existing ? [centre[0], centre[1], first[2] + existing.middle_slice + 0.5] : centre;
}

/** The first time point at which a channel exists. */
export const firstTime = (channel: Channel | undefined): number =>
  channel?.existing?.first_time ?? 0;

/** A view with its point and time clamped to the volume. */
export function confined(view: View, dataset: Dataset): View {
  const channels = inSight(dataset, view);
  const size = endOf(channels);
  const point = view.at.map((value, axis) =>
    Math.min(Math.max(value, 0), at(size, axis) - 0.001),
  ) as Triple;
  const times = Math.max(1, ...channels.filter((c) => isOn(view, c)).map((c) => c.times ?? 1));
  return { ...view, at: point, time: Math.min(Math.max(view.time, 0), times - 1) };
}

/** The view at the last time point of a series, else at the last slice along z. */
export function newest(view: View, dataset: Dataset): View {
  const channels = inSight(dataset, view);
  const times = channels
    .filter((channel) => isOn(view, channel))
    .map((channel) => channel.times ?? 0);
  if (times.some((count) => count > 0)) return { ...view, time: Math.max(...times) - 1 };
  return { ...view, at: [view.at[0], view.at[1], at(endOf(channels), 2) - 0.5] };
}

/** The zoom that fits a whole plane into a box. */
export function fitting(grid: Grid, width: number, height: number): number {
  return Math.min(Math.min(width / grid.width, height / grid.height) * 0.96, MAX_ZOOM) || 1;
}

/** A view moved by a number of slices. */
export function stepped(view: View, plane: PlaneName, by: number): View {
  const point: Triple = [...view.at];
  const axis = AXES[plane].slice;
  point[axis] = Math.floor(at(view.at, axis)) + by + 0.5;
  return { ...view, at: point };
}

const tidy = (value: number): string => String(Number(value.toPrecision(7)));

function channelText(channel: Channel, shown: Shown): string {
  if (channel.kind === "labels") {
    const { selected, shuffle, outlines } = shown;
    const parts = [
      Math.round(shown.opacity * 100),
      selected?.id ?? "",
      selected?.alone ? "alone" : "",
      shuffle || "",
      outlines ? "outlines" : "",
    ];
    return `${channel.name}:${parts.join(":").replace(/:+$/, "")}`;
  }
  const gamma = shown.gamma === 1 ? "" : `:${shown.gamma}`;
  // Exact: a window of 32-bit numbers has more digits than `tidy` keeps.
  const window = shown.window || gamma ? `:${(shown.window ?? ["", ""]).join(":")}${gamma}` : "";
  return `${channel.name}${shown.colour || window ? `:${colourText(shown.colour)}` : ""}${window}`;
}

/** The URL fragment of a view. */
export function toHash(dataset: Dataset, view: View): string {
  const point = view.at.map((value, axis) =>
    tidy(Number((value + at(dataset.offset, axis)).toFixed(2))),
  );
  const on = dataset.channels.filter((channel) => isOn(view, channel));
  const show = on.map((channel) => channelText(channel, view.shown[channel.name] as Shown));
  const time = view.time || firstTime(inSight(dataset, view)[0]) ? `&time=${view.time}` : "";
  const zoom = view.zoom ? `&zoom=${tidy(Number(view.zoom.toPrecision(4)))}` : "";
  const slab = view.slab ? `&slab=${slabText(view.slab)}` : "";
  const ranges = view.oneRange ? "&ranges=one" : "";
  return `#${dataset.token}?plane=${view.arrangement}&at=${point.join()}${zoom}${time}${slab}${ranges}&show=${show.join()}`;
}

export function tokenOf(hash: string): string {
  const name = /^#([^?]*)/.exec(hash)?.[1] ?? "";
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // no token has such a name, which the page says
  }
}

function numbers(text: string | undefined, count: number): number[] | null {
  const values = (text ?? "").split(/[,:]/).map((part) => (part.trim() ? Number(part) : NaN));
  return values.length === count && values.every(Number.isFinite) ? values : null;
}

/** Whether an exponent can be shown. */
export const isGamma = (gamma: number): boolean => gamma >= LEAST_GAMMA && gamma <= MAX_GAMMA;

/** Whether the text is a whole number of at most 64 bits. */
export const isLabel = (text: string): boolean => /^-?\d{1,20}$/.test(text);

function readShown(view: View, channel: Channel, [colour = "", ...window]: string[]): Shown {
  const before = view.shown[channel.name] as Shown;
  if (channel.kind === "labels") {
    const percent = numbers(colour, 1)?.[0];
    const opacity =
      percent === undefined ? before.opacity : Math.min(Math.max(percent / 100, 0), 1);
    const [id = "", alone, shuffle = "", outlines] = window;
    const look = {
      selected: isLabel(id) ? { id, alone: alone === "alone" } : null,
      shuffle: /^\d{1,9}$/.test(shuffle) ? Number(shuffle) : 0,
      outlines: outlines === "outlines",
    };
    return { ...before, on: true, opacity, ...look };
  }
  const gamma = numbers(window[2], 1)?.[0] ?? 1;
  const limits = numbers(window.slice(0, 2).join(":"), 2) as [number, number] | null;
  return {
    ...before,
    on: true,
    colour: readColour(colour) ?? before.colour,
    window: limits,
    gamma: isGamma(gamma) ? gamma : 1,
  };
}

/**
 * What a URL fragment says of channels: the name of each, and how it is shown; null if it says
 * nothing of them.
 */
function showIn(hash: string): string[][] | null {
  const show = new URLSearchParams(hash.split("?")[1] ?? "").get("show");
  return show === null
    ? null
    : show
        .split(",")
        .filter(Boolean)
        .map((part) => part.split(":"));
}

/** The names in a URL fragment of channels that do not exist. */
export const unknownIn = (dataset: Dataset, hash: string): string[] =>
  (showIn(hash) ?? []).flatMap(([name = ""]) =>
    dataset.channels.some((channel) => channel.name === name) ? [] : [name],
  );

/**
 * Parses a URL fragment into a view. If it names channels and none of them exists, the view has the
 * initial ones.
 */
export function fromHash(dataset: Dataset, hash: string): View {
  const view = beginning(dataset);
  const query = new URLSearchParams(hash.split("?")[1] ?? "");
  const plane = query.get("plane") as Arrangement;
  if (plane === "all" || PLANES.includes(plane)) view.arrangement = plane;
  const show = showIn(hash);
  const unknown = unknownIn(dataset, hash);
  if (show && (!show.length || unknown.length < show.length)) {
    for (const one of Object.values(view.shown)) one.on = false;
    for (const [name = "", ...rest] of show) {
      const channel = dataset.channels.find((each) => each.name === name);
      if (channel) view.shown[name] = readShown(view, channel, rest);
    }
    const [first] = inSight(dataset, view);
    view.at = middle(first);
    view.time = firstTime(first);
  }
  const point = numbers(query.get("at") ?? undefined, 3);
  if (point) view.at = point.map((value, axis) => value - at(dataset.offset, axis)) as Triple;
  view.zoom = Math.min(Math.max(numbers(query.get("zoom") ?? undefined, 1)?.[0] ?? 0, 0), MAX_ZOOM);
  view.slab = readSlab(query.get("slab"));
  if (show) view.oneRange = query.get("ranges") === "one";
  view.time = Math.max(0, Math.floor(numbers(query.get("time") ?? undefined, 1)?.[0] ?? view.time));
  return confined(view, dataset);
}
