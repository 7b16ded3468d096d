// How fast the line is, by the length of answers and the time from their first byte to their last,
// which the browser measures. The time before the first byte does not count.

/** Only the last answers count, at most this many. */
const MAX_ANSWERS = 24;
/** Answers with fewer bytes do not count: their time says little about the line. */
const LEAST_BYTES = 16_000;
/** The speed is unknown until this many answers count. */
const ENOUGH = 2;
/** The bytes per second below which a line is slow. */
const SLOW = 2e6;

/** The speed of the last answers, in bytes per second. */
let rates: number[] = [];

new PerformanceObserver((list) => {
  const answers = list.getEntries() as PerformanceResourceTiming[];
  for (const { transferSize, responseStart, responseEnd } of answers) {
    if (transferSize >= LEAST_BYTES && responseStart > 0) {
      const milliseconds = Math.max(responseEnd - responseStart, 0.1);
      rates.push(transferSize / (milliseconds / 1000));
    }
  }
  rates = rates.slice(-MAX_ANSWERS);
}).observe({ type: "resource", buffered: true });

/**
 * The upper quartile of the speeds, as a slow line slows all answers, but a busy computer only some
 * of them; null while it is unknown.
 */
function rate(): number | null {
  const sorted = [...rates].sort((a, b) => b - a);
  return sorted.length < ENOUGH ? null : (sorted[Math.floor(sorted.length / 4)] ?? null);
}

/** Whether the person has asked the browser to save data. */
const saves = (): boolean =>
  (navigator as { connection?: { saveData?: boolean } }).connection?.saveData === true;

/** Whether the line was measured to be slow, or data is to be saved. */
export const isSlow = (): boolean => saves() || (rate() ?? Infinity) < SLOW;
