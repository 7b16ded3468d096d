// "Go to": one field for a position, a slice, a label, or a link of this page or of Neuroglancer.

import {
  type Channel,
  companions,
  type Dataset,
  endOf,
  explain,
  type PlaneName,
  type Triple,
} from "./data";
import { h, sheet } from "./dom";
import { at, AXES, AXIS_NAMES } from "./geometry";
import { type Named, searchNames } from "./names";
import { metres } from "./scale";
import { isLabel } from "./view";

export type Target =
  | { kind: "point"; at: Triple }
  | { kind: "time"; time: number }
  | { kind: "label"; id: string }
  | { kind: "hash"; hash: string };

const EXAMPLES =
  "For example: 120, 45, 7 · 120, 45 · 12 µm, 4.5 µm, 0.7 µm · slice 40 · time 3 · label 1234 · a link of this page or of Neuroglancer";

/** A position in a Neuroglancer link, in voxels with the dataset's offset. */
function neuroglancer(text: string, voxel: Triple, unit: string | null): Triple | null {
  const state = JSON.parse(decodeURIComponent(text)) as {
    position?: number[];
    dimensions?: Record<string, [number, string]>;
  };
  const { position, dimensions } = state;
  if (!position || !dimensions) return null;
  const names = Object.keys(dimensions);
  const metre = metres(unit) ?? 1e-9;
  const found = ["x", "y", "z"].map((name, axis) => {
    const value = position[names.indexOf(name)];
    const [scale] = dimensions[name] ?? [];
    return value === undefined || scale === undefined
      ? NaN
      : (value * scale) / (at(voxel, axis) * metre);
  });
  return found.every(Number.isFinite) ? (found as Triple) : null;
}

/** Which slices or times there are. */
const among = (count: number, first: number, what: string): string =>
  count === 1
    ? `there is only ${what} ${first}`
    : `there are ${what}s ${first} to ${first + count - 1}`;

/** What a text means; an error says what is expected. */
export function parse(
  text: string,
  dataset: Dataset,
  channel: Channel | undefined,
  plane: PlaneName,
  here: Triple,
): Target {
  const trimmed = text.trim();
  const wrong = new Error(`“${trimmed.slice(0, 60)}” is no place. ${EXAMPLES}`);
  const voxel = channel?.voxel_size ?? null;
  const size = channel ? endOf(companions(dataset, channel)) : null;
  const placed = (numbers: Triple): Target => {
    const point = numbers.map((value, axis) => value - at(dataset.offset, axis)) as Triple;
    const outside = [0, 1, 2].find(
      (axis) => size && (at(point, axis) < 0 || at(point, axis) >= at(size, axis)),
    );
    if (size && outside !== undefined) {
      const [name, first, count] = [
        AXIS_NAMES[outside],
        at(dataset.offset, outside),
        at(size, outside),
      ];
      throw new Error(
        `There is no ${name} ${Math.floor(at(numbers, outside))}: ${name} is ${count === 1 ? first : `${first} to ${first + count - 1}`}.`,
      );
    }
    return { kind: "point", at: point };
  };
  const state = /#!(.+)$/.exec(trimmed)?.[1];
  if (state !== undefined) {
    try {
      const found = neuroglancer(state, voxel ?? [1, 1, 1], channel?.voxel_unit ?? null);
      if (found) return placed(found);
    } catch {
      // no JSON: as any other text that is no place
    }
    throw wrong;
  }
  const hash = /#[^?#]+\?.*$/.exec(trimmed)?.[0];
  if (hash) return { kind: "hash", hash };
  const label = /^label\s+(\S+)$/i.exec(trimmed)?.[1];
  if (label && isLabel(label)) return { kind: "label", id: label };
  const axis = AXES[plane].slice;
  const time = /^time\s+(\d+)$/i.exec(trimmed)?.[1];
  if (time) {
    const times = Math.max(1, ...dataset.channels.map((each) => each.times ?? 1));
    if (Number(time) >= times)
      throw new Error(`There is no time ${time}: ${among(times, 0, "time")}.`);
    return { kind: "time", time: Number(time) };
  }
  const slice = /^(?:slice\s+)?(-?\d+)$/i.exec(trimmed)?.[1];
  if (slice) {
    const number = Number(slice) - at(dataset.offset, axis);
    if (size && (number < 0 || number >= at(size, axis))) {
      // A number that is none of a slice may be a label's.
      if (
        trimmed === slice &&
        isLabel(slice) &&
        dataset.channels.some(({ kind }) => kind === "labels")
      )
        return { kind: "label", id: slice };
      throw new Error(
        `There is no slice ${slice}: ${among(at(size, axis), at(dataset.offset, axis), "slice")}.`,
      );
    }
    return {
      kind: "point",
      at: here.map((value, i) => (i === axis ? number + 0.5 : value)) as Triple,
    };
  }
  const parts = /[,;]/.test(trimmed) ? trimmed.split(/[,;]/) : trimmed.split(/\s+(?=-?[\d.])/);
  const read = parts.map((part) =>
    /^\s*(?:[xyz]\s*=?\s*)?(-?[\d.]+(?:e-?\d+)?)\s*([^\d\s.,]*)\s*$/i.exec(part),
  );
  const lastUnit = read.at(-1)?.[2] || null;
  if (read.length < 2 || read.length > 3 || read.some((one) => !one)) throw wrong;
  const numbers = read.map((one, i) => {
    const [value, unit] = [Number(one?.[1]), one?.[2] || lastUnit];
    if (!unit || /^(vx|px|voxels?)$/.test(unit))
      return Number.isInteger(value) ? value + 0.5 : value;
    const [of, ours] = [metres(unit), metres(channel?.voxel_unit ?? null)];
    if (of === null)
      throw new Error(
        `“${unit}” is no unit of length. Use nm, µm, mm or m, or no unit for voxels.`,
      );
    if (!voxel || ours === null)
      throw new Error("The size of a voxel is not known, so give the position in voxels.");
    // Lengths count from the dataset's first voxel with its offset, as voxels do.
    return (value * of) / (at(voxel, i) * ours);
  });
  // Two numbers are x and y of the same slice.
  return placed([numbers[0] ?? 0, numbers[1] ?? 0, numbers[2] ?? here[2] + at(dataset.offset, 2)]);
}

/** How long typing pauses before names are searched, in milliseconds. */
const PAUSE = 200;

/**
 * The field; `go` may throw, and what it says is shown. Labels with names are searched meanwhile,
 * and `choose` gets one of them.
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
  const list = h("ul", { className: "found", "aria-label": "Labels with such a name" });
  let [found, ending, timer] = [[] as Named[], new AbortController(), 0];
  const take = (label: Named) => {
    choose(label);
    dialog.close();
  };
  const search = async () => {
    const { signal } = ending;
    try {
      found = await searchNames(dataset, field.value.trim(), signal);
    } catch (error) {
      if (!signal.aborted) says.textContent = explain(error);
      return;
    }
    const button = (label: Named) =>
      h("button", { type: "button", onclick: () => take(label) }, `${label.name} · ${label.id}`);
    list.replaceChildren(...found.map((label) => h("li", {}, button(label))));
  };
  const oninput = () => {
    window.clearTimeout(timer);
    ending.abort();
    [found, ending] = [[], new AbortController()];
    list.replaceChildren();
    // Numbers are places.
    if (hasNames && /\p{L}/u.test(field.value))
      timer = window.setTimeout(() => void search(), PAUSE);
  };
  const onsubmit = (event: Event) => {
    event.preventDefault();
    try {
      go(field.value);
      dialog.close();
    } catch (error) {
      if (found[0]) take(found[0]);
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
