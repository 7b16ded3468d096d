// Which channels are shown, and in which range: changes of a view.

import { baseWindow, type Channel, type Dataset, isMeasured } from "./data";
import {
  coloured,
  firstTime,
  heldOf,
  imagesOn,
  drawable,
  isOn,
  middle,
  type Shown,
  type View,
} from "./view";

/**
 * A view in which other channels are on; if they cannot be shown at the same place, in the middle
 * of the first.
 */
function showing(dataset: Dataset, view: View, names: string[]): View {
  const shown = structuredClone(view.shown);
  for (const [name, one] of Object.entries(shown)) one.on = names.includes(name);
  const first = dataset.channels.find(({ name }) => names.includes(name));
  const stays = !first || drawable(dataset, view).includes(first);
  const there = stays ? {} : { at: middle(first), zoom: 0, time: firstTime(first) };
  const [lead] = imagesOn(dataset, view);
  return coloured(dataset, ranged(dataset, { ...view, ...there, shown }, lead ?? null, {}));
}

const onIn = (dataset: Dataset, view: View): string[] =>
  dataset.channels.filter((channel) => isOn(view, channel)).map(({ name }) => name);

/** A view with a channel toggled; if it cannot be shown with the others, it replaces them. */
export function switched(dataset: Dataset, view: View, channel: Channel): View {
  const on = onIn(dataset, view);
  if (on.includes(channel.name))
    return showing(
      dataset,
      view,
      on.filter((name) => name !== channel.name),
    );
  return showing(
    dataset,
    view,
    drawable(dataset, view).includes(channel) ? [...on, channel.name] : [channel.name],
  );
}

/** A view with one channel alone; if it is alone already, with the channels shown before. */
export function solo(dataset: Dataset, view: View, channel: Channel): View {
  const on = onIn(dataset, view);
  if (on.join() !== channel.name)
    return { ...showing(dataset, view, [channel.name]), before: on.length > 1 ? on : view.before };
  return view.before ? { ...showing(dataset, view, view.before), before: null } : view;
}

/**
 * A view that shows one channel alone: the one that comes `by` places after the first channel that
 * is shown, where only the channels in `among` count.
 */
export function beside(dataset: Dataset, view: View, by: number, among: Channel[]): View {
  const here = among.findIndex((channel) => isOn(view, channel));
  const next =
    among[(here < 0 && by < 0 ? among.length - 1 : here + by + among.length) % among.length];
  return next && next !== among[here] ? solo(dataset, view, next) : view;
}

/** A view in which all visible images have the first known range, if they are to have one range. */
export function withOneRange(dataset: Dataset, view: View): View {
  const lead = imagesOn(dataset, view).find(isMeasured);
  return view.oneRange && lead ? ranged(dataset, view, lead, {}) : view;
}

/**
 * A view with another range or exponent of a channel, and of all images that are shown if they have
 * one range.
 */
export function ranged(
  dataset: Dataset,
  view: View,
  channel: Channel | null,
  part: Partial<Shown>,
): View {
  const lead = channel && view.shown[channel.name];
  if (!channel || !lead) return view;
  const shown = { ...view.shown, [channel.name]: { ...lead, ...part } };
  if (!view.oneRange) return { ...view, shown };
  const { window, gamma, held } = shown[channel.name] as Shown;
  for (const other of dataset.channels) {
    if (other === channel || other.kind !== "image" || !isOn(view, other)) continue;
    const before = shown[other.name] as Shown;
    shown[other.name] = {
      ...before,
      window: window ?? baseWindow(channel),
      gamma,
      held: held && heldOf(before),
    };
  }
  return { ...view, shown };
}
