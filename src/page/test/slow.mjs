// Measures how soon the page shows something on a slow line: slow.mjs --voltile FILE
// [--voltile FILE ...] --python FILE --chromium FILE --file FILE --link '#TOKEN?…' [OPTION...]
//
//   --file FILE --link '#TOKEN?…'  a volume to zoom into, and the view to begin with
//   --kilobits N                   the line's speed per second (10000); an answer takes 100 ms more
//   --rounds N                     the number of rounds, in which the programs take turns (3)
//
// Prints medians for each program. For the list of 1,500 datasets: the milliseconds until its first
// picture, and the kilobytes fetched. For three steps of zoom: the milliseconds until all panes
// show the new view, and until they show it exactly, and the kilobytes fetched.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";

import { chromium } from "playwright-core";

import { start, Visit, write } from "./harness.mjs";

const { values: options } = parseArgs({
  options: {
    voltile: { type: "string", multiple: true },
    ...Object.fromEntries(
      ["python", "chromium", "file", "link"].map((name) => [name, { type: "string" }]),
    ),
    kilobits: { type: "string", default: "10000" },
    rounds: { type: "string", default: "3" },
  },
});

/** A page on the slow line; `line.bytes` counts the bytes that it fetches. */
async function visitSlowly(browser, server) {
  const visit = await Visit.begin(browser, server);
  const session = await visit.slow(Number(options.kilobits));
  const line = { bytes: 0 };
  session.on("Network.dataReceived", ({ encodedDataLength }) => (line.bytes += encodedDataLength));
  return { visit, line };
}

/** Does an action; returns the milliseconds until each wait in `seen` ends, and the kilobytes. */
async function timed(line, action, seen) {
  const before = line.bytes;
  const began = performance.now();
  await action();
  const times = [];
  for (const wait of seen) {
    await wait();
    times.push(Math.round(performance.now() - began));
  }
  return [...times, Math.round((line.bytes - before) / 1000)];
}

/** Opens the list of datasets. */
async function list(browser, server) {
  const { visit, line } = await visitSlowly(browser, server);
  const firstPicture = () =>
    visit.page.waitForFunction(() =>
      [...document.images].some((image) => image.complete && image.naturalWidth > 1),
    );
  const opened = await timed(line, () => visit.page.goto(`${server.address}#`), [firstPicture]);
  await visit.context.close();
  return opened;
}

/** Three steps of zoom into the middle, from a view at rest. */
async function zoom(browser, server) {
  const { visit, line } = await visitSlowly(browser, server);
  await visit.page.goto(server.address + options.link);
  await visit.settle();
  const steps = async () => {
    for (let step = 0; step < 3; step += 1) await visit.page.keyboard.press("+");
    await visit.page.waitForFunction(() =>
      document.querySelector(".pane").matches(".busy, .lossy"),
    );
  };
  const noPaneIs = (classes) => () =>
    visit.page.waitForFunction(
      (classes) => !document.querySelector(`.pane:is(${classes})`),
      classes,
    );
  const times = await timed(line, steps, [noPaneIs(".busy"), noPaneIs(".busy, .lossy")]);
  await visit.context.close();
  return times;
}

const median = (numbers) =>
  numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)];

const folder = path.join(mkdtempSync(path.join(tmpdir(), "voltile-slow-")), "many");
write(options.python, "many", folder, "1500");
const browser = await chromium.launch({ executablePath: options.chromium, args: ["--no-sandbox"] });
const rows = new Map();
for (let round = 0; round < Number(options.rounds); round += 1) {
  for (const voltile of options.voltile) {
    const many = await start(voltile, ["--config", path.join(folder, "voltile.toml")]);
    const one = await start(voltile, [options.file]);
    const measured = {
      "1,500 datasets": await list(browser, many),
      "three steps of zoom": await zoom(browser, one),
    };
    await Promise.all([many.stop(), one.stop()]);
    for (const [name, figures] of Object.entries(measured)) {
      const key = `${name}, ${voltile}`;
      rows.set(key, [...(rows.get(key) ?? []), figures]);
    }
  }
}
await browser.close();
for (const [name, rounds] of rows) {
  const figures = rounds[0].map((_, place) => median(rounds.map((round) => round[place])));
  const kilobytes = figures.pop();
  console.log(`${name}: ${figures.join(", ")} ms, ${kilobytes} kB`);
}
