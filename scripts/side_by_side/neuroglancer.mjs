// Opens Neuroglancer once, in a browser without any cache: neuroglancer.mjs CHROMIUM ADDRESS PICTURE
//
// Prints JSON: `seconds` from the beginning of the navigation until all visible chunks of four panels were drawn and
// stayed so, as Neuroglancer itself tells; `first`, the seconds until its first request for data; `needed` and
// `available`, its count of visible chunks; the rectangles of the panels (xy, xz, three dimensions, yz); and the requested
// URLs. Writes a screenshot. playwright-core is that of the page's tests.

import { createRequire } from "node:module";

const { chromium } = createRequire(new URL("../../src/page/package.json", import.meta.url))("playwright-core");

const PATIENCE = 60_000;
// Neuroglancer needs WebGL 2, which Chromium draws without a graphics card.
const WEBGL = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"];

/** In the page: follows the viewer from its creation; `loaded` becomes the time at which everything was there. */
function follow() {
  const SETTLED = 500;
  const slices = (display) => [...display.panels].map((panel) => panel.sliceView).filter(Boolean);
  const hasChunks = ({ visibleLayers }) =>
    visibleLayers.size > 0 && [...visibleLayers.values()].every(({ visibleSources }) => visibleSources.length > 0);
  // A panel is ready if all chunks that it shows are in the memory of the graphics card.
  const isLoaded = ({ display, layerManager }) =>
    display.panels.size === 4 && slices(display).length === 3 && slices(display).every(hasChunks) &&
    layerManager.managedLayers.every((layer) => layer.isReady()) && display.isReady();
  let since = null;
  const note = (viewer) => (since = isLoaded(viewer) ? (since ?? performance.now()) : null);
  window.loaded = new Promise((resolve) => {
    const made = (viewer) => {
      Object.defineProperty(window, "viewer", { value: viewer });
      viewer.display.updateFinished.add(() => note(viewer));
      const timer = setInterval(() => {
        if (since === null || note(viewer) === null || performance.now() - since < SETTLED) return;
        clearInterval(timer);
        resolve(since);
      }, 50);
    };
    Object.defineProperty(window, "viewer", { set: made, configurable: true });
  });
}

/** In the page: what it shows. */
async function describe() {
  const count = (name) => viewer.layerManager.managedLayers.flatMap(({ layer }) => layer.renderLayers)
    .reduce((sum, { layerChunkProgressInfo }) => sum + layerChunkProgressInfo[name], 0);
  const panels = [...document.querySelectorAll(".neuroglancer-rendered-data-panel")].map((panel) => {
    const { x, y, width, height } = panel.getBoundingClientRect();
    return [x, y, width, height];
  });
  return { needed: count("numVisibleChunksNeeded"), available: count("numVisibleChunksAvailable"), panels };
}

const [executablePath, address, picture] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", ...WEBGL] });
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  page.setDefaultTimeout(PATIENCE);
  const requests = [];
  const wrong = [];
  page.on("request", (request) => requests.push(request));
  page.on("requestfailed", (request) => wrong.push(`${request.url()} failed: ${request.failure()?.errorText}`));
  page.on("response", (response) => response.ok() || wrong.push(`${response.url()} was answered with ${response.status()}`));
  page.on("pageerror", (error) => wrong.push(`an uncaught error: ${error.message}`));
  await page.addInitScript(follow);
  await page.goto(address);
  const late = new Promise((_, reject) => setTimeout(() => reject(new Error(`not loaded within ${PATIENCE} ms`)), PATIENCE).unref());
  const loaded = await Promise.race([page.evaluate(() => window.loaded), late]).catch((error) => {
    throw new Error(`${error.message}\n${wrong.join("\n")}`);
  });
  const begun = await page.evaluate(() => performance.timeOrigin);
  const data = requests.find((request) => request.url().endsWith("/info"));
  const shown = await page.evaluate(describe);
  await page.screenshot({ path: picture });
  const urls = requests.map((request) => request.url());
  const first = (data.timing().startTime - begun) / 1000;
  console.log(JSON.stringify({ seconds: loaded / 1000, first, ...shown, urls, wrong }));
} finally {
  await browser.close();
}
