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
 * A view in which exactly the named channels are on. It stays at its place if the first of them can
 * be drawn over what was shown; otherwise it moves to the middle of that channel.
 */
function showing(dataset: Dataset, view: View, names: string[]): View {
  const shown = structuredClone(view.shown);
  for (const [name, look] of Object.entries(shown)) look.on = names.includes(name);
  const first = dataset.channels.find(({ name }) => names.includes(name));
  const stays = !first || drawable(dataset, view).includes(first);
  const place = stays ? {} : { at: middle(first), zoom: 0, time: firstTime(first) };
  // Images that come on take over the range of an image that was on, if all have one range.
  const [lead] = imagesOn(dataset, view);
  return coloured(dataset, ranged(dataset, { ...view, ...place, shown }, lead ?? null, {}));
}

const visibleNames = (dataset: Dataset, view: View): string[] =>
  dataset.channels.filter((channel) => isOn(view, channel)).map(({ name }) => name);

/** A view with a channel toggled; if it cannot be shown with the others, it replaces them. */
export function switched(dataset: Dataset, view: View, channel: Channel): View {
  const on = visibleNames(dataset, view);
  let names = [channel.name];
  if (on.includes(channel.name)) names = on.filter((name) => name !== channel.name);
  else if (drawable(dataset, view).includes(channel)) names = [...on, channel.name];
  return showing(dataset, view, names);
}

/** A view with one channel alone; if it is alone already, with the channels shown before. */
export function solo(dataset: Dataset, view: View, channel: Channel): View {
  const on = visibleNames(dataset, view);
  if (on.join() !== channel.name)
    return { ...showing(dataset, view, [channel.name]), before: on.length > 1 ? on : view.before };
  return view.before ? { ...showing(dataset, view, view.before), before: null } : view;
}

/**
 * A view that shows the next (`by` 1) or the previous (`by` -1) channel of a list alone, counted
 * from the first channel that is shown. After the last comes the first.
 */
export function beside(dataset: Dataset, view: View, by: 1 | -1, among: Channel[]): View {
  const here = among.findIndex((channel) => isOn(view, channel));
  // If none of them is shown, the next one is the first, and the previous one the last.
  const from = here < 0 && by < 0 ? 0 : here;
  const next = among[(from + by + among.length) % among.length];
  return next && next !== among[here] ? solo(dataset, view, next) : view;
}

/**
 * If all images are to have one range, a view in which they have the range of the first visible
 * image whose range is known; otherwise the same view.
 */
export function withOneRange(dataset: Dataset, view: View): View {
  const lead = imagesOn(dataset, view).find(isMeasured);
  return view.oneRange && lead ? ranged(dataset, view, lead, {}) : view;
}

/**
 * A view in which a part of how a channel is shown has changed. If all images have one range, the
 * channel's range and exponent become those of all images that are shown, even if `part` is empty.
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
