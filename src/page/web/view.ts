// The view as one plain value: its initial state, its changes, and its encoding in the URL after #.
//
//   #TOKEN?plane=all&at=512,300.5,24&zoom=1.5&time=3&slab=max:9&ranges=one&show=em,actin:M:100:2000,segmentation:50
//
// `at` is x, y, z plus the dataset's offset, like slice numbers; a slab is MODE:SLICES or MODE:all.
// A channel is NAME[:COLOUR[:LOW:HIGH[:GAMMA]]], where LOW and HIGH may be empty; labels are
// NAME[:PERCENT[:ID[:alone[:SHUFFLE[:outlines]]]]], where ID is the selected label, and SHUFFLE a
// number that gives labels other colours. Missing or invalid parts default to the initial view.

import {
  beginOf,
  type Channel,
  companions,
  type Dataset,
  endOf,
  firstOf,
  type PlaneName,
  timeCount,
  type Triple,
  voxelCount,
} from "./data";
import { at, AXES, clamp, Grid, PLANES } from "./geometry";
import type { LabelLook } from "./labels";
import { type Colour, colourText, freeColour, isMap, nearestPure, readColour } from "./paint";
import { readSlab, type Slab, slabText } from "./slab";

export type Arrangement = PlaneName | "all";

/** Changes the view that is shown: `to` gets it and returns the view to show. */
export type ViewChange = (to: (view: View) => View) => void;

/** The range and the exponent that tiles were drawn with. */
export type Held = Pick<Shown, "window" | "gamma">;

export interface Shown extends LabelLook {
  on: boolean;
  colour: Colour;
  /** Black and white in the data's own values; null for the server's range. */
  window: [number, number] | null;
  /** The exponent: the shade is the place between black and white to the power 1 / gamma. */
  gamma: number;
  /** While a handle moves, the range of the tiles that are stretched; null at rest. */
  held: Held | null;
  /** The opacity of labels, 0 to 1. */
  opacity: number;
}

export interface View {
  arrangement: Arrangement;
  /** The centre of every pane: where the three planes cross. */
  at: Triple;
  /** CSS pixels per column of level 0; 0 fits the whole plane. */
  zoom: number;
  time: number;
  /** The slab of slices that is shown of images; null for one slice. */
  slab: Slab | null;
  /** Whether all visible images have the same range. */
  oneRange: boolean;
  /** The channels that were shown before one was shown alone. */
  before: string[] | null;
  shown: Record<string, Shown>;
}

/** The voxel at a point, as it is numbered on the page. */
export const coordinates = (dataset: Dataset, point: Triple): number[] =>
  point.map((value, axis) => Math.floor(value) + at(dataset.offset, axis));

/** The range and the exponent with which the tiles on the screen were drawn. */
export const heldOf = ({ held, window, gamma }: Shown): Held => held ?? { window, gamma };

/** Limit of the zoom in CSS pixels per voxel. */
export const MAX_ZOOM = 40;
/** Zoomed out, the longer side of a plane has at least this many CSS pixels. */
export const LEAST_PIXELS = 32;
export const LEAST_GAMMA = 0.1;
export const MAX_GAMMA = 10;
/** The most channels that one tile can show. */
export const MAX_TOGETHER = 6;
/** The most tiles of a mosaic that open. */
const MAX_TILES = 100;

/** Whether a channel is visible. */
export const isOn = (view: View, channel: Channel): boolean =>
  view.shown[channel.name]?.on === true;

/** The planes of an arrangement, in the order of the panes. */
export const planesOf = (arrangement: Arrangement): PlaneName[] =>
  arrangement === "all" ? PLANES : [arrangement];

/** How a channel is shown. Every channel of a dataset has an entry in its views. */
export const shownOf = (view: View, channel: Channel): Shown => view.shown[channel.name] as Shown;

/** A view in which a channel is shown in another way. */
export function withShown(view: View, channel: Channel, part: Partial<Shown>): View {
  const changed = { ...shownOf(view, channel), ...part };
  return { ...view, shown: { ...view.shown, [channel.name]: changed } };
}

/** A view in which a label is selected, or no label if it was. */
export function withLabelToggled(view: View, channel: Channel, id: string): View {
  const { selected } = shownOf(view, channel);
  const isSelected = selected?.id === id;
  const alone = selected?.alone ?? false;
  return withShown(view, channel, { selected: isSelected ? null : { id, alone } });
}

/**
 * All channels, visible or not, that can be drawn over the first visible one, and that one itself.
 */
export function drawable(dataset: Dataset, view: View): Channel[] {
  const first = dataset.channels.find((channel) => isOn(view, channel)) ?? dataset.channels[0];
  return first ? companions(dataset, first) : [];
}

/** The visible channels that can be drawn over the first of them. */
export const visible = (dataset: Dataset, view: View): Channel[] =>
  drawable(dataset, view).filter((channel) => isOn(view, channel));

/** The names of channels that stay off at first: the parts of complex numbers, except for the magnitude. */
const COMPLEX_PART = /_(phase|real|imaginary)$/;

/** The numbers in the path of a channel's dataset. */
const pathNumbers = (channel: Channel): string[] => channel.levels[0]?.path?.match(/\d+/g) ?? [];

/**
 * The channels at the same position of the stage as the first. If paths such as
 * `/position 3/channel 1` differ in several numbers, the last of these numbers counts channels and
 * the others count positions. All channels if no other one is there.
 */
function atSamePosition(alike: Channel[], first: Channel): Channel[] {
  const own = pathNumbers(first);
  const isSame = (channel: Channel, i: number) => pathNumbers(channel)[i] === own[i];
  // The indices of the numbers that differ; the last of them counts channels.
  const differing = [...own.keys()].filter((i) => !alike.every((channel) => isSame(channel, i)));
  const positions = differing.slice(0, -1);
  const together = alike.filter((channel) => positions.every((i) => isSame(channel, i)));
  return together.length > 1 ? together : alike;
}

/** Whether channels lie beside one another, as the tiles of a stitched file do. */
const isMosaic = (channels: Channel[]): boolean =>
  new Set(channels.map(beginOf).map(String)).size > 1;

/** A text that is equal for channels that were recorded together: paths differ only in numbers. */
function recordingOf({ kind, dtype, times, levels }: Channel): string {
  const path = levels[0]?.path?.replace(/\d+/g, "#");
  return JSON.stringify([kind, dtype, times, path]);
}

/**
 * The channels that open together: the first image and what was recorded with it, which may be all
 * tiles of a mosaic. The channels of a configured dataset are sorted by name, so its largest image
 * counts as the first. Images of another kind, such as probabilities of a segmentation, stay off.
 */
function initialChannels(dataset: Dataset): Channel[] {
  const images = dataset.channels.filter(
    (channel) => channel.kind !== "labels" && !COMPLEX_PART.test(channel.name),
  );
  const most = Math.max(...images.map(voxelCount));
  const largest = images.find((channel) => voxelCount(channel) === most);
  const first = (dataset.layouts?.length ? images[0] : largest) ?? dataset.channels[0];
  if (!first) return [];
  if (first.kind !== "image") return [first];
  const recording = recordingOf(first);
  const alike = companions(dataset, first).filter(
    (channel) => images.includes(channel) && recordingOf(channel) === recording,
  );
  if (isMosaic(alike)) return alike.slice(0, MAX_TILES);
  const together = first.levels[0]?.path ? atSamePosition(alike, first) : [first];
  // Many channels without colours in one array are directions or moments.
  const isMany = together.length > MAX_TOGETHER && !together.every((channel) => channel.colour);
  return isMany ? [first] : together.slice(0, MAX_TOGETHER);
}

/** The first plane in which a channel is more than a line. */
function firstFilledPlane(channel: Channel | undefined): PlaneName {
  const size = channel?.levels[0]?.size ?? [1, 1, 1];
  const isFilled = (plane: PlaneName) =>
    at(size, AXES[plane].column) > 1 && at(size, AXES[plane].row) > 1;
  return PLANES.find(isFilled) ?? "xy";
}

/**
 * The initial view: the images of the file that belong together, centred, with the whole plane
 * visible.
 */
export function initialView(dataset: Dataset): View {
  const on = initialChannels(dataset);
  const shown: Record<string, Shown> = {};
  for (const channel of dataset.channels) {
    const colour = channel.kind === "image" ? nearestPure(channel.colour) : "";
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
    arrangement: firstFilledPlane(on[0]),
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

/** All visible images, whether or not they can be drawn over the first visible channel. */
export const imagesOn = (dataset: Dataset, view: View): Channel[] =>
  dataset.channels.filter((channel) => channel.kind === "image" && isOn(view, channel));

/** A view in which visible images at the same place have different colours. */
export function coloured(dataset: Dataset, view: View): View {
  const byPlace = new Map<string, Channel[]>();
  for (const channel of imagesOn(dataset, view)) {
    const place = String(beginOf(channel));
    byPlace.set(place, [...(byPlace.get(place) ?? []), channel]);
  }
  let changed = view;
  for (const images of byPlace.values()) changed = withDistinctColours(changed, images);
  return changed;
}

/**
 * A view in which these images have different colours. An image that is grey, has a map or repeats
 * an earlier colour gets the colour that the server has for it, or a free one.
 */
function withDistinctColours(view: View, images: Channel[]): View {
  if (images.length < 2) return view;
  const colours = images.map((channel) => shownOf(view, channel).colour);
  const keeps = (colour: Colour, i: number) =>
    colour !== "" && !isMap(colour) && colours.indexOf(colour) === i;
  const taken = colours.filter(keeps);
  let changed = view;
  for (const [i, channel] of images.entries()) {
    if (keeps(colours[i] ?? "", i)) continue;
    const colour = freeColour(taken, channel.composite_colour ?? "");
    taken.push(colour);
    changed = withShown(changed, channel, { colour });
  }
  return changed;
}

/** The centre of a channel, in the nearest slice that exists. */
export function middle(channel: Channel | undefined): Triple {
  const finest = channel?.levels[0];
  if (!channel || !finest) return [0.5, 0.5, 0.5];
  const first = firstOf(channel);
  const centre = finest.size.map((length, axis) => at(first, axis) + length / 2) as Triple;
  const { existing } = channel;
  return existing ? [centre[0], centre[1], first[2] + existing.middle_slice + 0.5] : centre;
}

/** The first time point at which a channel exists. */
export const firstTime = (channel: Channel | undefined): number =>
  channel?.existing?.first_time ?? 0;

/** A view with its point and time clamped to the volume. */
export function confined(view: View, dataset: Dataset): View {
  const size = endOf(drawable(dataset, view));
  // A point at the end itself would lie beyond the last voxel.
  const point = view.at.map((value, axis) => clamp(value, 0, at(size, axis) - 0.001)) as Triple;
  const times = timeCount(visible(dataset, view));
  return { ...view, at: point, time: clamp(view.time, 0, times - 1) };
}

/** The view at the last time point of a series, else at the last slice along z. */
export function newest(view: View, dataset: Dataset): View {
  const series = visible(dataset, view).filter((channel) => channel.times);
  if (series.length) return { ...view, time: timeCount(series) - 1 };
  const [x, y] = view.at;
  const slices = endOf(drawable(dataset, view))[2];
  return { ...view, at: [x, y, slices - 0.5] };
}

/** The zoom that fits a whole plane into a box, with a margin. */
export function fitting(grid: Grid, width: number, height: number): number {
  const whole = Math.min(width / grid.width, height / grid.height);
  return Math.min(0.96 * whole, MAX_ZOOM) || 1;
}

/** A view moved by a number of slices. */
export function stepped(view: View, plane: PlaneName, by: number): View {
  const point: Triple = [...view.at];
  const axis = AXES[plane].slice;
  point[axis] = Math.floor(at(view.at, axis)) + by + 0.5;
  return { ...view, at: point };
}

/** A number with at most seven digits. */
const sevenDigits = (value: number): string => String(Number(value.toPrecision(7)));

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
    // Empty parts at the end are left out, with their colons.
    return `${channel.name}:${parts.join(":").replace(/:+$/, "")}`;
  }
  // Limits are written exactly: 32-bit numbers have more digits than `sevenDigits` keeps.
  const [low, high] = shown.window ?? ["", ""];
  const gamma = shown.gamma === 1 ? "" : shown.gamma;
  const parts = [channel.name, colourText(shown.colour), low, high, gamma];
  return parts.join(":").replace(/:+$/, "");
}

/** The URL fragment of a view. */
export function toHash(dataset: Dataset, view: View): string {
  const point = view.at.map((value, axis) =>
    sevenDigits(Number((value + at(dataset.offset, axis)).toFixed(2))),
  );
  const on = dataset.channels.filter((channel) => isOn(view, channel));
  const show = on.map((channel) => channelText(channel, shownOf(view, channel)));
  const parts = [`plane=${view.arrangement}`, `at=${point.join()}`];
  if (view.zoom) parts.push(`zoom=${sevenDigits(Number(view.zoom.toPrecision(4)))}`);
  // A dataset may open at a time other than 0.
  if (view.time || firstTime(drawable(dataset, view)[0])) parts.push(`time=${view.time}`);
  if (view.slab) parts.push(`slab=${slabText(view.slab)}`);
  if (view.oneRange) parts.push("ranges=one");
  parts.push(`show=${show.join()}`);
  return `#${dataset.token}?${parts.join("&")}`;
}

/** The token that a URL fragment names; empty for the list of datasets. */
export function tokenOf(hash: string): string {
  const name = /^#([^?]*)/.exec(hash)?.[1] ?? "";
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // no token has such a name, which the page says
  }
}

/** The `count` numbers of a text, separated by commas or colons; null if it is anything else. */
function numbersIn(text: string | null | undefined, count: number): number[] | null {
  const values = (text ?? "").split(/[,:]/).map((part) => (part.trim() ? Number(part) : NaN));
  return values.length === count && values.every(Number.isFinite) ? values : null;
}

/** The number that a text is; null if it is none. */
const numberIn = (text: string | null | undefined): number | null =>
  numbersIn(text, 1)?.[0] ?? null;

/** Whether an exponent can be shown. */
export const isGamma = (gamma: number): boolean => gamma >= LEAST_GAMMA && gamma <= MAX_GAMMA;

/** Whether the text is a whole number of at most 64 bits. */
export const isLabel = (text: string): boolean => /^-?\d{1,20}$/.test(text);

/** How labels are shown, by the parts after their name in a URL, such as `40`, `17` and `alone`. */
function readLabels(before: Shown, parts: string[]): Shown {
  const [percent, id = "", alone, shuffle = "", outlines] = parts;
  return {
    ...before,
    on: true,
    opacity: clamp((numberIn(percent) ?? before.opacity * 100) / 100, 0, 1),
    selected: isLabel(id) ? { id, alone: alone === "alone" } : null,
    shuffle: /^\d{1,9}$/.test(shuffle) ? Number(shuffle) : 0,
    outlines: outlines === "outlines",
  };
}

/** How an image is shown, by the parts after its name in a URL, such as `M`, `100` and `2000`. */
function readImage(before: Shown, parts: string[]): Shown {
  const [colour = ""] = parts;
  const gamma = numberIn(parts[3]) ?? 1;
  return {
    ...before,
    on: true,
    colour: readColour(colour) ?? before.colour,
    window: numbersIn(parts.slice(1, 3).join(":"), 2) as [number, number] | null,
    gamma: isGamma(gamma) ? gamma : 1,
  };
}

/** The query of a URL fragment, which says how its dataset is shown. */
const queryOf = (hash: string): URLSearchParams => new URLSearchParams(hash.split("?")[1] ?? "");

/**
 * The channels in a URL fragment: the name of each, then the parts of how it is shown. Null if the
 * fragment does not list channels.
 */
function showIn(hash: string): string[][] | null {
  const show = queryOf(hash).get("show");
  if (show === null) return null;
  const channels = show.split(",").filter((text) => text !== "");
  return channels.map((text) => text.split(":"));
}

/** The names of channels in a URL fragment that do not exist. */
export function unknownIn(dataset: Dataset, hash: string): string[] {
  const names = (showIn(hash) ?? []).map(([name = ""]) => name);
  return names.filter((name) => !dataset.channels.some((channel) => channel.name === name));
}

/**
 * Parses a URL fragment into a view. If it names only channels that do not exist, the channels of
 * the initial view are shown.
 */
export function fromHash(dataset: Dataset, hash: string): View {
  const view = initialView(dataset);
  const query = queryOf(hash);
  const plane = query.get("plane") as Arrangement;
  if (plane === "all" || PLANES.includes(plane)) view.arrangement = plane;
  const show = showIn(hash);
  const unknown = unknownIn(dataset, hash);
  if (show && (!show.length || unknown.length < show.length)) {
    for (const look of Object.values(view.shown)) look.on = false;
    for (const [name = "", ...parts] of show) {
      const channel = dataset.channels.find((each) => each.name === name);
      if (!channel) continue;
      const read = channel.kind === "labels" ? readLabels : readImage;
      view.shown[name] = read(shownOf(view, channel), parts);
    }
    const [first] = drawable(dataset, view);
    view.at = middle(first);
    view.time = firstTime(first);
  }
  const point = numbersIn(query.get("at"), 3);
  if (point) view.at = point.map((value, axis) => value - at(dataset.offset, axis)) as Triple;
  view.zoom = clamp(numberIn(query.get("zoom")) ?? 0, 0, MAX_ZOOM);
  view.slab = readSlab(query.get("slab"));
  if (show) view.oneRange = query.get("ranges") === "one";
  view.time = Math.max(0, Math.floor(numberIn(query.get("time")) ?? view.time));
  return confined(view, dataset);
}
