// "Go to": one field for a position, a slice, a label, or a link of this page or of Neuroglancer.

import {
  type Channel,
  companions,
  type Dataset,
  endOf,
  explain,
  type PlaneName,
  timeCount,
  type Triple,
} from "./data";
import { button, h, sheet } from "./dom";
import { at, AXES, AXIS_NAMES } from "./geometry";
import { type Named, searchNames } from "./names";
import { metres } from "./scale";
import { NANOMETRE } from "./space";
import { isLabel } from "./view";

export type Target =
  | { kind: "point"; at: Triple }
  | { kind: "time"; time: number }
  | { kind: "label"; id: string }
  | { kind: "hash"; hash: string };

const EXAMPLES =
  "For example: 120, 45, 7 · 120, 45 · 12 µm, 4.5 µm, 0.7 µm · slice 40 · time 3 · label 1234 · " +
  "a link of this page or of Neuroglancer";

/**
 * The position in the state of a Neuroglancer link, in voxels with the dataset's offset; null if
 * the text is no such state.
 */
function neuroglancerPosition(text: string, channel: Channel | undefined): Triple | null {
  let state: { position?: number[]; dimensions?: Record<string, [number, string]> };
  try {
    state = JSON.parse(decodeURIComponent(text));
  } catch {
    return null;
  }
  const { position, dimensions } = state;
  if (!position || !dimensions) return null;
  const names = Object.keys(dimensions);
  const voxel = channel?.voxel_size ?? [1, 1, 1];
  const metre = metres(channel?.voxel_unit ?? null) ?? NANOMETRE;
  const voxels = AXIS_NAMES.map((name, axis) => {
    const value = position[names.indexOf(name)] ?? NaN;
    const scale = dimensions[name]?.[0] ?? NaN;
    return (value * scale) / (at(voxel, axis) * metre);
  });
  return voxels.every(Number.isFinite) ? (voxels as Triple) : null;
}

/** Says which slices or times there are. */
const available = (count: number, first: number, what: string): string =>
  count === 1
    ? `there is only ${what} ${first}`
    : `there are ${what}s ${first} to ${first + count - 1}`;

/** The data and the place that a typed text refers to. */
export interface Surroundings {
  dataset: Dataset;
  /** The channel whose voxel size lengths are compared with. */
  channel: Channel | undefined;
  plane: PlaneName;
  /** The point that is shown. */
  here: Triple;
}

/** The target that a text names; an error says what is expected. */
export function parse(text: string, around: Surroundings): Target {
  const { dataset, channel } = around;
  const trimmed = text.trim();
  const wrong = new Error(`“${trimmed.slice(0, 60)}” is no place. ${EXAMPLES}`);
  const state = /#!(.+)$/.exec(trimmed)?.[1];
  if (state !== undefined) {
    const numbers = neuroglancerPosition(state, channel);
    if (!numbers) throw wrong;
    return pointTarget(numbers, around);
  }
  const hash = /#[^?#]+\?.*$/.exec(trimmed)?.[0];
  if (hash) return { kind: "hash", hash };
  const label = /^label\s+(\S+)$/i.exec(trimmed)?.[1];
  if (label && isLabel(label)) return { kind: "label", id: label };
  const time = /^time\s+(\d+)$/i.exec(trimmed)?.[1];
  if (time) return timeTarget(Number(time), dataset);
  const slice = /^(?:slice\s+)?(-?\d+)$/i.exec(trimmed)?.[1];
  if (slice) return sliceTarget(slice, trimmed === slice, around);
  const numbers = position(trimmed, channel);
  if (!numbers) throw wrong;
  // Two numbers are x and y of the same slice.
  const [x, y, z = around.here[2] + at(dataset.offset, 2)] = numbers;
  return pointTarget([x, y, z], around);
}

/** The size of the dataset along each axis; null if no channel is shown. */
const sizeOf = ({ dataset, channel }: Surroundings): Triple | null =>
  channel ? endOf(companions(dataset, channel)) : null;

/** A point, given in voxels with the dataset's offset, if it exists. */
function pointTarget(numbers: Triple, around: Surroundings): Target {
  const { offset } = around.dataset;
  const size = sizeOf(around);
  const point = numbers.map((value, axis) => value - at(offset, axis)) as Triple;
  for (const [axis, name] of AXIS_NAMES.entries()) {
    if (!size || (at(point, axis) >= 0 && at(point, axis) < at(size, axis))) continue;
    const first = at(offset, axis);
    const last = first + at(size, axis) - 1;
    const range = first === last ? String(first) : `${first} to ${last}`;
    throw new Error(`There is no ${name} ${Math.floor(at(numbers, axis))}: ${name} is ${range}.`);
  }
  return { kind: "point", at: point };
}

function timeTarget(time: number, dataset: Dataset): Target {
  const times = timeCount(dataset.channels);
  if (time >= times) throw new Error(`There is no time ${time}: ${available(times, 0, "time")}.`);
  return { kind: "time", time };
}

/** A slice of the plane. If there is no such slice, a number alone may be a label. */
function sliceTarget(text: string, isAlone: boolean, around: Surroundings): Target {
  const { dataset, plane, here } = around;
  const axis = AXES[plane].slice;
  const first = at(dataset.offset, axis);
  const size = sizeOf(around);
  const count = size ? at(size, axis) : Infinity;
  const slice = Number(text) - first;
  if (!size || (slice >= 0 && slice < count)) {
    const point: Triple = [...here];
    point[axis] = slice + 0.5;
    return { kind: "point", at: point };
  }
  const hasLabels = dataset.channels.some(({ kind }) => kind === "labels");
  if (isAlone && hasLabels && isLabel(text)) return { kind: "label", id: text };
  throw new Error(`There is no slice ${text}: ${available(count, first, "slice")}.`);
}

/** Two or three numbers of voxels, or lengths, as voxels; null if the text is something else. */
function position(text: string, channel: Channel | undefined): [number, number, number?] | null {
  const parts = /[,;]/.test(text) ? text.split(/[,;]/) : text.split(/\s+(?=-?[\d.])/);
  // A number with an axis before it and a unit after it, if any: `120`, `x = 120`, `4.5 µm`.
  const read = parts.map((part) =>
    /^\s*(?:[xyz]\s*=?\s*)?(-?[\d.]+(?:e-?\d+)?)\s*([^\d\s.,]*)\s*$/i.exec(part),
  );
  if (read.length < 2 || read.length > 3 || read.some((part) => !part)) return null;
  // A unit after the last number counts for all of them.
  const lastUnit = read.at(-1)?.[2] ?? "";
  const numbers = read.map((part, axis) => {
    const unit = part?.[2] || lastUnit;
    return inVoxels(Number(part?.[1]), unit, axis, channel);
  });
  return numbers as [number, number, number?];
}

/** A number with a unit along an axis, in voxels; a whole number of voxels is a voxel's centre. */
function inVoxels(value: number, unit: string, axis: number, channel: Channel | undefined): number {
  if (!unit || /^(vx|px|voxels?)$/.test(unit)) return Number.isInteger(value) ? value + 0.5 : value;
  const metre = metres(unit);
  if (metre === null) {
    throw new Error(`“${unit}” is no unit of length. Use nm, µm, mm or m, or no unit for voxels.`);
  }
  const voxel = channel?.voxel_size;
  const ownMetre = metres(channel?.voxel_unit ?? null);
  if (!voxel || ownMetre === null) {
    throw new Error("The size of a voxel is not known, so give the position in voxels.");
  }
  // Lengths count from the dataset's first voxel with its offset, as voxels do.
  return (value * metre) / (at(voxel, axis) * ownMetre);
}

/** How long typing pauses before names are searched, in milliseconds. */
const PAUSE = 200;

/**
 * The sheet "Go to". `go` gets the text in its field; if it throws an error, the message is shown.
 * While a name is typed, labels are searched by it, and `choose` gets the one that is chosen.
 */
export function gotoSheet(
  go: (text: string) => void,
  dataset: Dataset,
  choose: (label: Named) => void,
): HTMLDialogElement {
  const hasNames = dataset.channels.some((channel) => channel.names);
  const examples = hasNames ? `${EXAMPLES} · the name of a label` : EXAMPLES;
  const field = h("input", {
    type: "text",
    id: "goto",
    autofocus: true,
    autocomplete: "off",
    "aria-describedby": "goto-says",
    "aria-label": "Go to",
  });
  const says = h("p", { id: "goto-says", className: "reason", role: "status" }, examples);
  const list = h("ul", {
    className: "found",
    "aria-label": "Labels with this text in their names",
  });
  let matches: Named[] = [];
  let ending = new AbortController();
  let timer = 0;
  const take = (label: Named) => {
    choose(label);
    dialog.close();
  };
  const search = async () => {
    const { signal } = ending;
    try {
      matches = await searchNames(dataset, field.value.trim(), signal);
    } catch (error) {
      if (!signal.aborted) says.textContent = explain(error);
      return;
    }
    const line = (label: Named) =>
      h(
        "li",
        {},
        button(`${label.name} · ${label.id}`, () => take(label)),
      );
    list.replaceChildren(...matches.map(line));
  };
  const oninput = () => {
    window.clearTimeout(timer);
    ending.abort();
    ending = new AbortController();
    matches = [];
    list.replaceChildren();
    // Numbers are places.
    if (!hasNames || !/\p{L}/u.test(field.value)) return;
    timer = window.setTimeout(() => void search(), PAUSE);
  };
  const onsubmit = (event: Event) => {
    event.preventDefault();
    try {
      go(field.value);
      dialog.close();
    } catch (error) {
      // A text that is no place may be a label's name.
      if (matches[0]) take(matches[0]);
      else says.textContent = explain(error);
    }
  };
  const dialog = sheet(
    "Go to",
    h(
      "form",
      { className: "field", onsubmit, oninput },
      field,
      h("button", { type: "submit" }, "Go"),
    ),
    list,
    says,
  );
  dialog.addEventListener("close", () => ending.abort());
  return dialog;
}
