// The same data in other programs: a Neuroglancer state for the view, and the address of the
// OME-Zarr group.
//
// The state is Neuroglancer's JSON (its `src/viewer.ts` and `src/layer`). Coordinates are voxels of
// the finest level, offset included, which is also how the precomputed volumes count. A series is
// opened as OME-Zarr, which has a time axis; its coordinates are those of the centres of voxels.
// Registered channels are placed in space, whose unit is the nanometre.

import {
  addressOf,
  baseWindow,
  type Channel,
  type Dataset,
  firstOf,
  type Site,
  timeOf,
  type Triple,
} from "./data";
import { at, AXIS_NAMES } from "./geometry";
import { labelColour } from "./labels";
import { metres } from "./scale";
import { codeOf, type Colour, isMap, paint, type Parts, stops } from "./paint";
import { place, sourceTransform } from "./space";
import { coloured, inSight, isOn, type Shown, type View } from "./view";

const LAYOUT: Record<View["arrangement"], string> = { xy: "xy", xz: "xz", yz: "yz", all: "4panel" };

const NANOMETRE = 1e-9;

/** The colours of a map that a shader has. */
const STOPS = 17;

const absolute = (path: string): string => new URL(path, location.href.split("#")[0]).href;

/**
 * The channels that Neuroglancer can show of a view: the visible ones, and the other images that
 * lie in the same space.
 */
function offered(dataset: Dataset, view: View): Channel[] {
  const seen = inSight(dataset, view).filter((channel) => isOn(view, channel));
  const others = dataset.channels.filter(
    (channel) => channel.transform && channel.kind === "image" && !seen.includes(channel),
  );
  return [...seen, ...others].filter((channel) => channel.left_out?.["neuroglancer"] === undefined);
}

/** A view in which these channels are on, each image in a colour of its own. */
function allOn(dataset: Dataset, view: View, channels: Channel[]): View {
  const on = channels.map((channel) => [
    channel.name,
    { ...(view.shown[channel.name] as Shown), on: true },
  ]);
  return coloured(dataset, { ...view, shown: { ...view.shown, ...Object.fromEntries(on) } });
}

/** Neuroglancer draws images at a half otherwise. */
const OPAQUE = { opacity: 1 };

const sizeOf = (channel: Channel): Triple => channel.voxel_size ?? [1, 1, 1];

/**
 * Neuroglancer's dimensions of these lengths in a unit. Without a unit, its scale bar has none
 * either.
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
 * The colour in a shader of a `shade` from 0 to 1: a map is straight lines between some of its
 * colours.
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

/**
 * A Neuroglancer address that shows the view, or `all` images of a registered dataset; `ids` are
 * labels in sight, by channel. Null if there is no Neuroglancer or nothing that it can show.
 */
export function neuroglancer(
  site: Site,
  dataset: Dataset,
  seen: View,
  zoom: number,
  ids: Map<string, string[]>,
  all = false,
): string | null {
  const channels = offered(dataset, seen);
  const view = all ? allOn(dataset, seen, channels) : seen;
  const first = channels[0];
  if (!site.neuroglancer || !first) return null;
  const series = channels.some((channel) => channel.times !== null);
  const time = Math.max(...channels.map((channel) => timeOf(channel, view.time) ?? 0));
  // As OME-Zarr says: only even steps.
  const timing = channels.find((channel) => channel.times !== null)?.timing;
  const step = timing && !timing.uneven?.length ? timing.step : null;
  const t: [number, string] | null = series ? (step ? [step, "s"] : [1, ""]) : null;
  const metre = metres(first.voxel_unit);
  // Neuroglancer draws its layers in their order, and an image hides what is below it.
  const images = channels.filter((channel) => channel.kind !== "labels");
  const layers = [...images, ...channels.filter((channel) => channel.kind === "labels")].map(
    (channel) => {
      const shown = view.shown[channel.name] as Shown;
      const url = series
        ? `zarr3://${absolute(`zarr/0.5/${addressOf(dataset)}/${channel.name}.ome.zarr`)}`
        : `precomputed://${absolute(`neuroglancer/${addressOf(dataset)}/${channel.name}`)}`;
      const begin = dataset.offset.map(
        (offset, axis) => -0.5 - offset - at(channel.offset ?? [0, 0, 0], axis),
      ) as Triple;
      // The precomputed format has nanometres always; OME-Zarr may have no unit.
      const own = dimensions(sizeOf(channel), null);
      const bare =
        metre === null && !series ? { inputDimensions: own, outputDimensions: own } : null;
      const transform = sourceTransform(channel, time, begin, t) ?? bare;
      const source = transform ? { url, transform } : url;
      const drawn =
        channel.kind === "labels"
          ? labels(shown, !images.length, ids.get(channel.name) ?? [])
          : channel.kind === "rgb"
            ? { type: "image", ...OPAQUE, shader: RGB }
            : image(channel, shown);
      // Images are added, as on this page.
      const blend = channel.kind !== "labels" && channel !== images[0] ? { blend: "additive" } : {};
      return {
        name: channel.label ?? channel.name,
        source,
        ...drawn,
        ...blend,
        ...(isOn(view, channel) ? {} : { visible: false }),
      };
    },
  );
  const size = sizeOf(first);
  const here = view.at.map((value, axis) => Math.floor(value) - at(firstOf(first), axis)) as Triple;
  const inSpace = place(first, time, here);
  const smallest = inSpace ? NANOMETRE / (metre ?? NANOMETRE) : Math.min(...size);
  const state = {
    // Without them, Neuroglancer takes the scale for metres.
    dimensions: {
      ...(inSpace ? dimensions([1, 1, 1], NANOMETRE) : dimensions(size, metre)),
      ...(t ? { t } : {}),
    },
    displayDimensions: AXIS_NAMES,
    layers,
    position: [
      ...(inSpace ??
        view.at.map(
          (value, axis) => Math.floor(value) + (series ? 0 : 0.5) + at(dataset.offset, axis),
        )),
      ...(series ? [time] : []),
    ],
    // Voxels per pixel; Neuroglancer counts in the smallest unit.
    crossSectionScale: size[0] / smallest / zoom,
    layout: LAYOUT[view.arrangement],
  };
  return `${new URL(site.neuroglancer, location.href.split("#")[0]).href}#!${encodeURIComponent(JSON.stringify(state))}`;
}

/** The address of the dataset as OME-Zarr 0.4, which every reader understands. */
export const zarr = (dataset: Dataset): string =>
  absolute(`zarr/0.4/${addressOf(dataset)}.ome.zarr`);
