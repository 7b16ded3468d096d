// The pictures that can be made of the panes: as on the screen or at full resolution, with their
// captions and file names, and the axes (slices, time) along which a sequence of pictures can run.

import { solo } from "./channels";
import {
  baseWindow,
  type Channel,
  type Dataset,
  endOf,
  labelOf,
  timeCount,
  type Triple,
} from "./data";
import type { Moment, PictureOf, Subject } from "./figure";
import { at, AXES, AXIS_NAMES, clamp } from "./geometry";
import { layersOf, type Scene } from "./layers";
import type { MeasuredLine } from "./line";
import { nameOfColour } from "./paint";
import type { Pane } from "./pane";
import type { Choice, DrawnLine, Plane } from "./picture";
import { inWords, type Slab } from "./slab";
import { written } from "./text";
import { coordinates, drawable, planesOf, type Shown, shownOf, type View, visible } from "./view";
import { when } from "./when";

/** The panes on the screen while pictures are made of them. */
export interface Screen {
  scene: Scene;
  /** The element with all panes. */
  box: HTMLElement;
  panes: Pane[];
  /** The pane that a picture at full resolution shows, and along whose slices a sequence runs. */
  active: Pane;
  line: MeasuredLine | null;
}

/** Where a picture or a pane lies, in device pixels. */
type Place = Pick<Plane, "left" | "top" | "width" | "height">;

/** What the sheet "Picture" can make pictures of. */
export function subjectOf(screen: Screen): Subject {
  const { dataset, view } = screen.scene;
  const axis = AXES[screen.active.plane].slice;
  const offset = at(dataset.offset, axis);
  const channels = visible(dataset, view);
  const name = AXIS_NAMES[axis] ?? "";
  const slices = at(endOf(drawable(dataset, view)), axis);
  const along: Subject["along"] = [
    {
      says: `slices along ${name}`,
      key: "slice",
      letter: name,
      first: offset,
      last: offset + slices - 1,
    },
    { says: "time points", key: "time", letter: "t", first: 0, last: timeCount(channels) - 1 },
  ];
  const viewAt = ({ slice, time = view.time }: Moment): View => {
    const point: Triple = [...view.at];
    if (slice !== undefined) point[axis] = slice - offset + 0.5;
    return { ...view, time, at: point };
  };
  return {
    picturesAt: (moment, only) => {
      const moved = viewAt(moment);
      return pictureOf(screen, only ? solo(dataset, moved, only) : moved);
    },
    images: channels.filter(({ kind }) => kind === "image"),
    along: along.filter(({ first, last }) => first < last),
    hasLine: screen.line !== null,
  };
}

/** The pictures that can be made of a view, at the place and zoom of the panes. */
function pictureOf(screen: Screen, view: View): PictureOf {
  const { dataset } = screen.scene;
  const box = screen.box.getBoundingClientRect();
  const ratio = window.devicePixelRatio;
  const onScreen: Choice = {
    says: "As on the screen",
    width: Math.round(box.width * ratio),
    height: Math.round(box.height * ratio),
    planes: screen.panes.flatMap((pane) => screenPlane(screen, pane, view) ?? []),
    titles: [],
  };
  const full = fullPlane(screen, view);
  const choices = [onScreen];
  if (full) {
    const { width, height } = full;
    choices.push({ says: "Full resolution", width, height, planes: [full], titles: [] });
  }
  const slab = screen.panes.map((pane) => pane.slab).find((each) => each !== null) ?? null;
  return {
    choices,
    caption: captionOf(dataset, view, slab),
    name: fileNameOf(dataset, view),
  };
}

/** The plane of a pane as it is on the screen; null if nothing is drawn there. */
function screenPlane(screen: Screen, pane: Pane, view: View): Plane | null {
  const drawn = pane.drawn();
  if (!drawn) return null;
  const ratio = window.devicePixelRatio;
  const box = screen.box.getBoundingClientRect();
  const paneBox = pane.element.getBoundingClientRect();
  const place: Place = {
    left: Math.round((paneBox.left - box.left) * ratio),
    top: Math.round((paneBox.top - box.top) * ratio),
    width: Math.round(paneBox.width * ratio),
    height: Math.round(paneBox.height * ratio),
  };
  return { ...drawn, ...place, ...contentOf(screen, pane, view), scale: pane.zoom() * ratio };
}

/** The visible part of the active pane's plane, with one pixel for each column of level 0. */
function fullPlane(screen: Screen, view: View): Plane | null {
  const drawn = screen.active.drawn();
  if (!drawn) return null;
  const { grid, part } = drawn;
  const x = Math.floor(clamp(part.x, 0, grid.width));
  const y = Math.floor(clamp(part.y, 0, grid.height));
  const right = Math.ceil(clamp(part.x + part.width, 0, grid.width));
  const bottom = Math.ceil(clamp(part.y + part.height, 0, grid.height));
  const width = Math.max(1, right - x);
  const height = Math.max(1, bottom - y);
  return {
    ...contentOf(screen, screen.active, view),
    grid,
    part: { x, y, width, height },
    left: 0,
    top: 0,
    width,
    height,
    scale: 1,
  };
}

/** The layers, the channel of the scale bar and the measured line of a pane. */
function contentOf(
  { scene, line }: Screen,
  pane: Pane,
  view: View,
): Pick<Plane, "layers" | "channel" | "line"> {
  const grid = pane.drawn()?.grid;
  let drawnLine: DrawnLine | null = null;
  if (line && grid && line.plane === pane.plane) {
    drawnLine = { from: grid.place(line.from), to: grid.place(line.to), says: line.says };
  }
  return {
    layers: layersOf({ ...scene, view }, pane.plane),
    channel: drawable(scene.dataset, view)[0],
    line: drawnLine,
  };
}

const hasTime = (dataset: Dataset, view: View): boolean =>
  view.time > 0 || drawable(dataset, view).some(({ times }) => times);

/** The dataset, plane, place, time and channels of a view in words. */
function captionOf(dataset: Dataset, view: View, slab: Slab | null): string {
  const channels = drawable(dataset, view);
  const place = coordinates(dataset, view.at).map(
    (value, axis) => `${AXIS_NAMES[axis]} ${value.toLocaleString("en")}`,
  );
  const parts = [dataset.token, `plane ${planesOf(view.arrangement).join(", ")}`, place.join(", ")];
  if (slab) parts.push(inWords(slab));
  if (hasTime(dataset, view)) {
    const recorded = when(channels, view.time);
    parts.push(`time ${view.time}${recorded && `, ${recorded}`}`);
  }
  const looks = visible(dataset, view).map((channel) => lookOf(channel, shownOf(view, channel)));
  return [...parts, ...looks].join(" · ");
}

/** The name of a channel; for images also the colour, the range and the exponent. */
function lookOf(channel: Channel, { colour, window, gamma }: Shown): string {
  const name = labelOf(channel);
  if (channel.kind !== "image") return name;
  const [low, high] = window ?? baseWindow(channel);
  const range = `${written(low)} to ${written(high)}`;
  const exponent = gamma === 1 ? "" : `, gamma ${gamma}`;
  return `${name} (${nameOfColour(colour)}) ${range}${exponent}`;
}

/** The name of a picture's file: `actin_xy_z40_t3`; with all planes, `actin_xyz_x9_y8_z40`. */
function fileNameOf(dataset: Dataset, view: View): string {
  const { arrangement } = view;
  const numbers = coordinates(dataset, view.at).map((value, axis) => `${AXIS_NAMES[axis]}${value}`);
  const parts = [dataset.token];
  if (arrangement === "all") parts.push("xyz", ...numbers);
  else parts.push(arrangement, numbers[AXES[arrangement].slice] ?? "");
  if (hasTime(dataset, view)) parts.push(`t${view.time}`);
  return parts.join("_");
}
