// The same data in other programs: a Neuroglancer state for the view, and the address of the
// OME-Zarr group.
//
// The state is Neuroglancer's JSON (its `src/viewer.ts` and `src/layer`). Coordinates are voxels of
// the finest level, offset included, which is also how the precomputed volumes count. A series is
// opened as OME-Zarr, which has a time axis; its coordinates are those of the centres of voxels.
// Registered channels are placed in space, whose unit is the nanometre.

import {
  absolute,
  addressOf,
  baseWindow,
  type Channel,
  type Dataset,
  firstOf,
  labelOf,
  type Site,
  timeOf,
  type Triple,
} from "./data";
import { at, AXIS_NAMES } from "./geometry";
import { labelColour } from "./labels";
import { codeOf, type Colour, isMap, paint, type Parts, stops } from "./paint";
import { metres } from "./scale";
import { NANOMETRE, place, sourceTransform } from "./space";
import { coloured, isOn, type Shown, shownOf, type View, visible } from "./view";

const LAYOUT: Record<View["arrangement"], string> = { xy: "xy", xz: "xz", yz: "yz", all: "4panel" };

/** The number of colours of a map in a shader. */
const STOPS = 17;

/**
 * The channels that Neuroglancer can show: the visible ones, and of a registered dataset also the
 * other images, which it can put into the same space.
 */
function offeredChannels(dataset: Dataset, view: View): Channel[] {
  const seen = visible(dataset, view);
  const others = dataset.channels.filter(
    (channel) => channel.transform && channel.kind === "image" && !seen.includes(channel),
  );
  return [...seen, ...others].filter((channel) => channel.left_out?.["neuroglancer"] === undefined);
}

/** A view in which these channels are on, each image in a colour of its own. */
function allOn(dataset: Dataset, view: View, channels: Channel[]): View {
  const shown = { ...view.shown };
  for (const channel of channels) shown[channel.name] = { ...shownOf(view, channel), on: true };
  return coloured(dataset, { ...view, shown });
}

/** Without this, Neuroglancer draws images half transparent. */
const OPAQUE = { opacity: 1 };

const sizeOf = (channel: Channel): Triple => channel.voxel_size ?? [1, 1, 1];

/**
 * Neuroglancer's dimensions: for each axis its length in metres, where `metre` is the length of the
 * unit. Without a known unit, lengths have none, and Neuroglancer's scale bar has none either.
 */
const dimensions = (lengths: Triple, metre: number | null) =>
  Object.fromEntries(
    AXIS_NAMES.map((name, axis) => [
      name,
      metre === null ? [at(lengths, axis), ""] : [at(lengths, axis) * metre, "m"],
    ]),
  );

const vector = (parts: Parts): string => `vec3(${parts.map((part) => part.toFixed(3)).join(", ")})`;

/**
 * The lines of a shader that draw a `shade` from 0 to 1 in a colour. Between `STOPS` colours of a
 * map the shader interpolates.
 */
function shaded(colour: Colour): string {
  if (!isMap(colour))
    return `emitRGB(${vector(paint(colour, 255).map((part) => part / 255) as Parts)} * shade);`;
  const all = stops(colour, STOPS);
  return `vec3 colours[${STOPS}] = vec3[](${all.map(vector).join(", ")});
  float place = shade * ${STOPS - 1}.;
  int below = min(int(place), ${STOPS - 2});
  emitRGB(mix(colours[below], colours[below + 1], place - float(below)));`;
}

function image(channel: Channel, { colour, window, gamma }: Shown): object {
  const range = window ?? baseWindow(channel);
  const shade = gamma === 1 ? "normalized()" : `pow(normalized(), ${(1 / gamma).toFixed(4)})`;
  const shader = `#uicontrol invlerp normalized\nvoid main() {\n  float shade = ${shade};\n  ${shaded(colour)}\n}\n`;
  return { type: "image", ...OPAQUE, shader, shaderControls: { normalized: { range } } };
}

/** The shader of colour images. */
const RGB =
  "void main() { emitRGB(vec3(toNormalized(getDataValue(0)), toNormalized(getDataValue(1)), toNormalized(getDataValue(2)))); }\n";

function labels(shown: Shown, alone: boolean, ids: string[]): object {
  const segments = shown.selected
    ? { segments: [shown.selected.id], notSelectedAlpha: shown.selected.alone ? 0 : 0.15 }
    : {};
  const segmentColors = Object.fromEntries(
    ids.map((id) => [id, codeOf(labelColour(BigInt(id), shown.shuffle))]),
  );
  return {
    type: "segmentation",
    selectedAlpha: alone ? 1 : shown.opacity,
    segmentColors,
    ...segments,
  };
}

/** A view for Neuroglancer, and what its layers have in common. */
interface Scenery {
  dataset: Dataset;
  view: View;
  /**
   * The channels in the order in which they are drawn: images first, as they hide the layers below.
   */
  channels: Channel[];
  time: number;
  /** The scale and unit of the time axis; null if there is none. */
  timeAxis: [number, string] | null;
  /** The labels in sight, by channel. */
  ids: Map<string, string[]>;
}

/** The time axis as in OME-Zarr, which has only even steps; null if no channel is a series. */
function timeAxisOf(channels: Channel[]): [number, string] | null {
  const series = channels.find((channel) => channel.times !== null);
  if (!series) return null;
  const { timing } = series;
  return timing && !timing.uneven?.length ? [timing.step, "s"] : [1, ""];
}

/** Where Neuroglancer reads a channel, and where its voxels lie. */
function sourceOf({ dataset, time, timeAxis }: Scenery, channel: Channel): object | string {
  const address = addressOf(dataset);
  const url = timeAxis
    ? `zarr3://${absolute(`zarr/0.5/${address}/${channel.name}.ome.zarr`)}`
    : `precomputed://${absolute(`neuroglancer/${address}/${channel.name}`)}`;
  // The voxel index at the origin of the coordinates: they begin at the edge of a voxel, half a
  // voxel before its centre, and count the offsets.
  const begin = dataset.offset.map(
    (offset, axis) => -0.5 - offset - at(channel.offset ?? [0, 0, 0], axis),
  ) as Triple;
  const transform = sourceTransform(channel, time, begin, timeAxis);
  if (transform) return { url, transform };
  if (timeAxis || metres(channel.voxel_unit) !== null) return url;
  // The precomputed format always has nanometres, which a length without a unit must not become.
  const bare = dimensions(sizeOf(channel), null);
  return { url, transform: { inputDimensions: bare, outputDimensions: bare } };
}

/** How Neuroglancer draws a channel. */
function lookOf({ view, channels, ids }: Scenery, channel: Channel): object {
  const shown = shownOf(view, channel);
  const images = channels.filter(({ kind }) => kind !== "labels");
  if (channel.kind === "labels") {
    return labels(shown, images.length === 0, ids.get(channel.name) ?? []);
  }
  const look =
    channel.kind === "rgb" ? { type: "image", ...OPAQUE, shader: RGB } : image(channel, shown);
  // Images are added, as on this page.
  return channel === images[0] ? look : { ...look, blend: "additive" };
}

function layerOf(scenery: Scenery, channel: Channel): object {
  return {
    name: labelOf(channel),
    source: sourceOf(scenery, channel),
    ...lookOf(scenery, channel),
    ...(isOn(scenery.view, channel) ? {} : { visible: false }),
  };
}

/** Neuroglancer's state for a view; coordinates are voxels of `first`, unless it lies in space. */
function stateOf(scenery: Scenery, first: Channel, zoom: number): object {
  const { dataset, view, time, timeAxis } = scenery;
  const size = sizeOf(first);
  const metre = metres(first.voxel_unit);
  const voxel = view.at.map(Math.floor);
  const index = voxel.map((value, axis) => value - at(firstOf(first), axis)) as Triple;
  const inSpace = place(first, time, index);
  // The precomputed format counts from the edges of voxels, OME-Zarr from their centres.
  const half = timeAxis ? 0 : 0.5;
  const inVoxels = voxel.map((value, axis) => value + half + at(dataset.offset, axis));
  const axes = inSpace ? dimensions([1, 1, 1], NANOMETRE) : dimensions(size, metre);
  // Neuroglancer's scale is in units of the smallest dimension for each pixel.
  const smallest = inSpace ? NANOMETRE / (metre ?? NANOMETRE) : Math.min(...size);
  return {
    // Without dimensions, Neuroglancer takes the scale for metres.
    dimensions: { ...axes, ...(timeAxis ? { t: timeAxis } : {}) },
    displayDimensions: AXIS_NAMES,
    layers: scenery.channels.map((channel) => layerOf(scenery, channel)),
    position: [...(inSpace ?? inVoxels), ...(timeAxis ? [time] : [])],
    crossSectionScale: size[0] / smallest / zoom,
    layout: LAYOUT[view.arrangement],
  };
}

/**
 * A Neuroglancer address that shows the view `current`; with `all`, also the hidden images of a
 * registered dataset. `ids` are the labels in sight, by channel. Null if there is no Neuroglancer
 * or if it can show none of the channels.
 */
export function neuroglancer(
  site: Site,
  dataset: Dataset,
  current: View,
  zoom: number,
  ids: Map<string, string[]>,
  all = false,
): string | null {
  const offers = offeredChannels(dataset, current);
  const [first] = offers;
  if (!site.neuroglancer || !first) return null;
  const images = offers.filter((channel) => channel.kind !== "labels");
  const view = all ? allOn(dataset, current, offers) : current;
  const scenery: Scenery = {
    dataset,
    view,
    channels: [...images, ...offers.filter((channel) => channel.kind === "labels")],
    time: Math.max(...offers.map((channel) => timeOf(channel, view.time) ?? 0)),
    timeAxis: timeAxisOf(offers),
    ids,
  };
  const state = JSON.stringify(stateOf(scenery, first, zoom));
  return `${absolute(site.neuroglancer)}#!${encodeURIComponent(state)}`;
}

/** The address of the dataset as OME-Zarr 0.4, which every reader understands. */
export const zarr = (dataset: Dataset): string =>
  absolute(`zarr/0.4/${addressOf(dataset)}.ome.zarr`);
