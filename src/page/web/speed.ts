// How fast the line is, by the length of answers and the time from their first byte to their last,
// which the browser measures. The time before the first byte does not count.

/** The number of last answers that count, the least bytes of each, and how many must be known. */
const KEPT = 24;
const LEAST = 16_000;
const ENOUGH = 2;
/** The bytes per second below which a line is slow. */
const SLOW = 2e6;

/** The speed of the last answers, in bytes per second. */
let rates: number[] = [];

new PerformanceObserver((list) => {
  const came = (list.getEntries() as PerformanceResourceTiming[]).filter(
    ({ transferSize, responseStart }) => transferSize >= LEAST && responseStart > 0,
  );
  rates.push(
    ...came.map(
      ({ responseStart, responseEnd, transferSize }) =>
        transferSize / (Math.max(responseEnd - responseStart, 0.1) / 1000),
    ),
  );
  rates = rates.slice(-KEPT);
}).observe({ type: "resource", buffered: true });

/**
 * The speed that a quarter of the answers exceed: a slow line slows all answers, a busy computer
 * only some.
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
