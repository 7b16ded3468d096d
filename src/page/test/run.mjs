// The browser test of the page: run.mjs --voltile FILE --python FILE --chromium FILE --out FOLDER
// [WORDS OF A STORY]
//
// With --zarr-python FILE, a Python that has zarr, the lines of "Copy as Python" are run, too.
//
// Runs the stories one after the other, prints each with its result, keeps screenshots in FOLDER,
// measures the page's weight (which has a limit) and the time to the first tile (which has none,
// because machines differ). The last line is `N passed, N failed, N skipped`.

import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";

import { chromium } from "playwright-core";

import {
  makeVolumes,
  microscope,
  run,
  serve,
  start,
  startAnswering,
  Visit,
  write,
} from "./harness.mjs";
import { OPTIONS, stories } from "./stories.mjs";

/** The limit of the page's weight: of its compressed files together. */
const MAX_BYTES = 185_000;

const { values: options, positionals: words } = parseArgs({
  allowPositionals: true,
  options: Object.fromEntries(
    ["voltile", "python", "chromium", "out", "zarr-python"].map((name) => [
      name,
      { type: "string" },
    ]),
  ),
});
mkdirSync(options.out, { recursive: true });

/** The page's weight: the bytes of its own files, compressed. */
async function weigh(address) {
  let bytes = 0;
  for (const name of ["", "page.js", "page.css", "icon.svg"]) {
    const response = await fetch(address + name, { headers: { "Accept-Encoding": "gzip" } });
    if (!response.ok)
      throw new Error(`${name || "/"} answers ${response.status}: is the viewer built in?`);
    bytes += Number(response.headers.get("content-length"));
  }
  return bytes;
}

/**
 * Milliseconds from opening the demo volume, with nothing cached, to the first tile on the screen.
 */
async function firstTile(browser, server) {
  const visit = await Visit.begin(browser, server);
  await visit.page.goto(`${server.address}#demo-v1`, { waitUntil: "commit" });
  const time = await visit.page.waitForFunction(() => {
    const canvas = document.querySelector(".pane canvas");
    if (!canvas?.width) return false;
    const small = new OffscreenCanvas(16, 16).getContext("2d", { willReadFrequently: true });
    small.drawImage(canvas, 0, 0, 16, 16);
    return small.getImageData(0, 0, 16, 16).data.some((value) => value > 0) && performance.now();
  });
  const milliseconds = Math.round(await time.jsonValue());
  await visit.context.close();
  return milliseconds;
}

/** Runs a story, and prints its result; returns whether it passed. */
async function tell(name, story, browser, server) {
  const began = Date.now();
  const visit = await Visit.begin(browser, server, OPTIONS[name]);
  try {
    await story(visit);
    await visit.end();
    console.log(`ok      ${name} (${Date.now() - began} ms)`);
    return true;
  } catch (error) {
    await visit.page
      .screenshot({ path: path.join(options.out, "failed.png") })
      .catch(() => undefined);
    await visit.context.close().catch(() => undefined);
    console.log(`FAILED  ${name}\n        ${String(error.message).replaceAll("\n", "\n        ")}`);
    if (visit.wrong.length)
      console.log(`        beside: ${visit.wrong.slice(0, 4).join("\n        ")}`);
    return false;
  }
}

/** A Python that can read OME-Zarr: the named one, or else that of scripts/clients-check. */
function zarrPython() {
  const candidates = [options["zarr-python"], ".tools/clients-venv/bin/python"].filter(Boolean);
  return candidates.find((python) => {
    try {
      execFileSync(python, ["-c", "import zarr, fsspec, aiohttp"], { stdio: "ignore" });
      return true;
    } catch {
      return false;
    }
  });
}

const readsZarr = zarrPython();
const folder = makeVolumes(options.python);
const server = await serve(options.voltile, folder);
// Neuroglancer needs WebGL 2; with these flags Chromium has it without a graphics card.
const WEBGL = [
  "--use-gl=angle",
  "--use-angle=swiftshader",
  "--enable-unsafe-swiftshader",
  "--ignore-gpu-blocklist",
];
const browser = await chromium.launch({
  executablePath: options.chromium,
  args: ["--no-sandbox", ...WEBGL],
});
const world = {
  folder,
  out: options.out,
  server,
  demo: /the demo volume is (\S+)/.exec(server.log())?.[1],
  ask: startAnswering(options.python),
  start: (...words) => start(options.voltile, words),
  write: (...words) => write(options.python, ...words),
  unzipped: (file) => write(options.python, "unzip", file).toString(),
  microscope: (...words) => microscope(options.python, ...words),
  runPython: readsZarr && ((code) => run(readsZarr, code)),
  picture: (visit, name) => visit.page.screenshot({ path: path.join(options.out, `${name}.png`) }),
};

let passed = 0;
let failed = 0;
const count = (good) => (good ? (passed += 1) : (failed += 1));
const bytes = await weigh(server.address);
console.log(`measured: the page weighs ${bytes} bytes compressed (at most ${MAX_BYTES})`);
count(bytes <= MAX_BYTES);
console.log(`measured: first tile on the screen after ${await firstTile(browser, server)} ms`);
for (const [name, story] of Object.entries(stories(world))) {
  if (words.every((word) => name.toLowerCase().includes(word.toLowerCase())))
    count(await tell(name, story, browser, server));
}
await browser.close();
const code = await server.stop();
if (code !== 0 || /panicked|defect/.test(server.log())) {
  console.log(`FAILED  the server ended with ${code}\n${server.log()}`);
  failed += 1;
}
rmSync(folder, { recursive: true });
console.log(`${passed} passed, ${failed} failed, 0 skipped`);
process.exit(failed ? 1 : 0);
