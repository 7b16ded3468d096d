// When a time point was recorded: its date by the clock of the instrument, else its distance from
// the first.

import { type Channel, timeOf } from "./data";

/**
 * The time since the first time point, for time points that are `step` seconds apart: `12.5 s`, and
 * from a minute on `3:07 min` or `1:03:07 h`.
 */
function elapsed(seconds: number, step: number): string {
  // Enough decimals to tell neighbouring time points apart: 2 for steps of 0.04 s.
  const digits = Math.min(6, Math.max(0, Math.ceil(-Math.log10(step) + 0.5)));
  if (seconds < 60) return `${Number(seconds.toFixed(digits))} s`;
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  const padded = (part: number) => String(Math.floor(part)).padStart(2, "0");
  const rest = padded(seconds % 60);
  return hours ? `${hours}:${padded(minutes)}:${rest} h` : `${minutes}:${rest} min`;
}

/**
 * When a time point was recorded, by the first channel whose file says it: `2024-05-03 14:02:11`,
 * or the time since the first time point. Empty if no file says it.
 */
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
