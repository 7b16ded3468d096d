// The same data in other programs: a Neuroglancer state for the view, and the address of the OME-Zarr group.
//
// The state is Neuroglancer's JSON (its `src/viewer.ts` and `src/layer`). Coordinates are voxels of the finest level,
// offset included, which is also how the precomputed volumes count. A series is opened as OME-Zarr, which has a time axis; its
// coordinates are those of the centres of voxels.

import { addressOf, type Channel, type Dataset, type Site, timeOf } from "./data";
import { at, AXIS_NAMES } from "./geometry";
import { baseWindow } from "./layers";
import { metres } from "./scale";
import { type Colour, isMap, paint, type Parts, stops } from "./paint";
import { inSight, isOn, type Shown, type View } from "./view";

const LAYOUT: Record<View["arrangement"], string> = { xy: "xy", xz: "xz", yz: "yz", all: "4panel" };

/** The colours of a map that a shader has. */
const STOPS = 17;

const absolute = (path: string): string => new URL(path, location.href.split("#")[0]).href;

/** The visible channels that Neuroglancer can show. */
function offered(dataset: Dataset, view: View): Channel[] {
  return inSight(dataset, view).filter((channel) => isOn(view, channel) && channel.left_out?.["neuroglancer"] === undefined);
}

const vector = (parts: Parts): string => `vec3(${parts.map((part) => part.toFixed(3)).join(", ")})`;

/** The colour in a shader of a `shade` from 0 to 1: a map is straight lines between some of its colours. */
function shaded(colour: Colour): string {
  if (!isMap(colour)) return `emitRGB(${vector(paint(colour, 255).map((part) => part / 255) as Parts)} * shade);`;
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
  return { type: "image", shader, shaderControls: { normalized: { range } } };
}

const RGB = "void main() { emitRGB(vec3(toNormalized(getDataValue(0)), toNormalized(getDataValue(1)), toNormalized(getDataValue(2)))); }\n";

function labels(shown: Shown, alone: boolean, ids: string[]): object {
  const segments = shown.selected ? { segments: [shown.selected.id], notSelectedAlpha: shown.selected.alone ? 0 : 0.15 } : {};
  const segmentColors = Object.fromEntries(ids.map((id) => [id, labelColour(id)]));
  return { type: "segmentation", selectedAlpha: alone ? 1 : shown.opacity, segmentColors, ...segments };
}

/** The server's colour of a label: the same rule as `base::color`. */
export function labelColour(id: string): string {
  const hash = (BigInt.asUintN(64, BigInt(id) * 0x9e3779b97f4a7c15n) >> 32n) * 6n;
  const rise = (157n * ((hash >> 24n) & 255n)) / 255n;
  const [high, low, up, down] = [242, 85, 85 + Number(rise), 242 - Number(rise)];
  const wheel = [[high, up, low], [down, high, low], [low, high, up], [low, down, high], [up, low, high], [high, low, down]];
  return `#${(wheel[Number(hash >> 32n)] ?? []).map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

/** A Neuroglancer address that shows the view; `ids` are labels in sight, by channel. Null if there is no Neuroglancer or nothing
 *  that it can show. */
export function neuroglancer(site: Site, dataset: Dataset, view: View, zoom: number, ids: Map<string, string[]>): string | null {
  const channels = offered(dataset, view);
  const first = channels[0];
  if (!site.neuroglancer || !first) return null;
  const series = channels.some((channel) => channel.times !== null);
  // Neuroglancer draws its layers in their order, and an image hides what is below it.
  const images = channels.filter((channel) => channel.kind !== "labels");
  const layers = [...images, ...channels.filter((channel) => channel.kind === "labels")].map((channel) => {
    const shown = view.shown[channel.name] as Shown;
    const source = series
      ? `zarr3://${absolute(`zarr/0.5/${addressOf(dataset)}/${channel.name}.ome.zarr`)}`
      : `precomputed://${absolute(`neuroglancer/${addressOf(dataset)}/${channel.name}`)}`;
    const drawn = channel.kind === "labels" ? labels(shown, !images.length, ids.get(channel.name) ?? []) : channel.kind === "rgb" ? { type: "image", shader: RGB } : image(channel, shown);
    // Images are added, as on this page.
    const blend = channel.kind !== "labels" && channel !== images[0] ? { blend: "additive" } : {};
    return { name: channel.label ?? channel.name, source, ...drawn, ...blend };
  });
  // As the server has it: nanometres where the unit is unknown, and 1 where the size is.
  const metre = metres(first.voxel_unit);
  const bare = series && metre === null; // OME-Zarr without a unit has none in Neuroglancer either
  const voxel = (first.voxel_size ?? [1, 1, 1]).map((size) => size * (bare ? 1 : (metre ?? 1e-9)));
  const time = Math.max(...channels.map((channel) => timeOf(channel, view.time) ?? 0));
  // As OME-Zarr says: only even steps.
  const timing = channels.find((channel) => channel.times !== null)?.timing;
  const step = timing && !timing.uneven?.length ? timing.step : null;
  const state = {
    // Without them, Neuroglancer takes the scale for metres.
    dimensions: { ...Object.fromEntries(AXIS_NAMES.map((name, axis) => [name, [voxel[axis], bare ? "" : "m"]])), ...(series ? { t: step ? [step, "s"] : [1, ""] } : {}) },
    displayDimensions: AXIS_NAMES,
    layers,
    position: [...view.at.map((value, axis) => Math.floor(value) + (series ? 0 : 0.5) + at(dataset.offset, axis)), ...(series ? [time] : [])],
    // Voxels per pixel; Neuroglancer counts in the smallest edge of a voxel.
    crossSectionScale: (voxel[0] ?? 1) / Math.min(...voxel) / zoom,
    layout: LAYOUT[view.arrangement],
  };
  return `${new URL(site.neuroglancer, location.href.split("#")[0]).href}#!${encodeURIComponent(JSON.stringify(state))}`;
}

/** The address of the dataset as OME-Zarr 0.4, which every reader understands. */
export const zarr = (dataset: Dataset): string => absolute(`zarr/0.4/${addressOf(dataset)}.ome.zarr`);
