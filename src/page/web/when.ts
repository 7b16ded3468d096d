// When a time point was recorded: its date by the clock of the instrument, else its distance from
// the first.

import { type Channel, timeOf } from "./data";

/**
 * Seconds after the first time point as text: with a unit up to a minute, then as minutes or hours.
 */
function elapsed(seconds: number, step: number): string {
  const digits = Math.min(6, Math.max(0, Math.ceil(-Math.log10(step) + 0.5)));
  if (seconds < 60) return `${Number(seconds.toFixed(digits))} s`;
  const parts = [
    Math.floor(seconds / 3600),
    Math.floor(seconds / 60) % 60,
    Math.floor(seconds) % 60,
  ];
  return (
    (parts[0] ? parts : parts.slice(1))
      .map((part, i) => (i ? String(part).padStart(2, "0") : String(part)))
      .join(":") + (parts[0] ? " h" : " min")
  );
}

/** When the first of the channels that knows it recorded a time point; empty if none does. */
export function when(channels: Channel[], time: number): string {
  const channel = channels.find(({ timing }) => timing);
  if (!channel?.timing) return "";
  const { step, began, uneven } = channel.timing;
  const point = timeOf(channel, time) ?? 0;
  const seconds = uneven?.[point] ?? step * point;
  // No time zone is known, so none is converted.
  const first = began ? Date.parse(`${began}Z`) : NaN;
  if (Number.isNaN(first)) return elapsed(seconds, step);
  const date = new Date(first + seconds * 1000).toISOString().replace("T", " ");
  return date.slice(0, step < 1 ? 23 : 19);
}
