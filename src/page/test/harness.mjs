// What the stories stand on: a server, a browser, waiting for the picture, and reading it.
//
// A story gets a page of its own. Whatever its page did wrong meanwhile (an error on the console, a
// request that failed or was refused, a question to another host) fails it, unless the story said
// that it would.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const PATIENCE = 60_000;
const volumes = path.join(path.dirname(fileURLToPath(import.meta.url)), "volumes.py");

/** Makes the test's volumes in a folder of their own. */
export function makeVolumes(python) {
  const folder = mkdtempSync(path.join(tmpdir(), "voltile-page-"));
  execFileSync(python, [volumes, "make", folder]);
  return folder;
}

/** What voxels look like, asked of h5py. */
export function ask(python, questions) {
  return JSON.parse(execFileSync(python, [volumes, "ask"], { input: JSON.stringify(questions) }));
}

/** Makes other files: `volumes.py` with these arguments. */
export const write = (python, ...words) => execFileSync(python, [volumes, ...words]);

/**
 * Writes a file as a microscope does: its slices as they are flushed, and their number when it is
 * closed.
 */
export function microscope(python, file, seconds) {
  const child = spawn(python, [volumes, "microscope", file, String(seconds)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const slices = [];
  const lines = createInterface(child.stdout);
  const begun = new Promise((resolve) =>
    lines.on("line", (line) => {
      slices.push(JSON.parse(line));
      resolve();
    }),
  );
  const closed = new Promise((resolve) => child.on("close", () => resolve(slices.length)));
  return { slices, begun, closed };
}

/** Runs lines of Python that end with voxels in a variable `voxels`; their shape and values. */
export function run(python, code) {
  return JSON.parse(
    execFileSync(python, [
      "-c",
      `${code}\nimport json\nprint(json.dumps([list(voxels.shape), voxels.ravel().tolist()]))`,
    ]),
  );
}

/**
 * Serves the test's volumes and the demo volume; resolves once voltile has said where it listens.
 */
export const serve = (voltile, folder) =>
  start(voltile, ["--demo", "--config", path.join(folder, "voltile.toml")]);

/** Starts voltile with arguments. */
export function start(voltile, words) {
  const place = words.includes("--bind") ? [] : ["--bind", "127.0.0.1:0"];
  const child = spawn(voltile, ["serve", ...words, ...place]);
  let log = "";
  let out = "";
  child.stderr.on("data", (data) => (log += data));
  return new Promise((resolve, reject) => {
    child.on("exit", (code) => reject(new Error(`voltile ended with ${code}:\n${log}`)));
    child.stdout.on("data", (data) => {
      out += data;
      const found = /^page (http:\S+)/m.exec(out);
      if (found) resolve({ address: found[1], log: () => log, stop: () => stopped(child) });
    });
  });
}

function stopped(child) {
  return new Promise((resolve) => {
    child.removeAllListeners("exit");
    child.on("exit", (code) => resolve(code));
    child.kill("SIGTERM");
  });
}

/** A page of the browser, with what went wrong in it. */
export class Visit {
  static async begin(browser, server, options = {}) {
    const context = await browser.newContext({
      viewport: { width: 1280, height: 800 },
      ...options,
    });
    return new Visit(context, await context.newPage(), server);
  }

  constructor(context, page, server, wrong = []) {
    Object.assign(this, { context, page, server, wrong, requests: [], forgiven: null });
    page.setDefaultTimeout(PATIENCE);
    const note = (text) => this.forgiven?.test(text) || this.wrong.push(text);
    page.on(
      "console",
      (message) =>
        ["error", "warning"].includes(message.type()) && note(`console: ${message.text()}`),
    );
    page.on("pageerror", (error) => note(`uncaught: ${error.message}`));
    page.on("request", (request) => {
      this.requests.push(request.url());
      if (!request.url().startsWith(server.address)) note(`another host: ${request.url()}`);
    });
    // What the page itself gives up, because a person has gone on, is no failure.
    page.on(
      "requestfailed",
      (request) =>
        request.failure()?.errorText === "net::ERR_ABORTED" ||
        note(`failed: ${request.url()} ${request.failure()?.errorText}`),
    );
    page.on(
      "response",
      (response) => response.status() >= 400 && note(`${response.status()}: ${response.url()}`),
    );
  }

  async open(hash = "") {
    await this.page.goto(`${this.server.address}${hash}`);
    if (hash === "#") await this.page.waitForSelector(".list a");
    if (hash.length > 1) await this.settle();
  }

  /**
   * Limits the line to `kilobits` per second, and delays each answer by 100 ms. Returns the session
   * of the developer tools that does so.
   */
  async slow(kilobits) {
    const session = await this.context.newCDPSession(this.page);
    await session.send("Network.enable");
    await session.send("Network.emulateNetworkConditions", {
      offline: false,
      latency: 100,
      downloadThroughput: kilobits * 125,
      uploadThroughput: kilobits * 125,
    });
    return session;
  }

  /** Waits until every pane shows what the view asks for, and nothing moves. */
  async settle() {
    await this.page.waitForSelector(".pane[data-shown]");
    await this.page.evaluate(() => (window.stateBefore = null));
    await this.page.waitForFunction(() => {
      // While a dataset makes room for another one, there is neither a line nor a pane.
      const line = document.querySelector(".status")?.textContent ?? "busy";
      const panes = [...document.querySelectorAll(".pane")].map(
        (pane) => `${pane.dataset.shown} ${pane.className}`,
      );
      const now = [location.hash, line, ...panes].join();
      if (window.stateBefore !== now || /busy|lossy/.test(now)) {
        window.stateBefore = now;
        window.stateSince = performance.now();
      }
      return performance.now() - window.stateSince > 450;
    });
  }

  /** Pixels of a pane at places of its canvas. */
  pixels(plane, places) {
    return this.page.evaluate(
      ([plane, places]) => {
        const canvas = document.querySelector(`.pane[data-plane="${plane}"] canvas`);
        // From a copy: reading a canvas often makes the browser complain of it, and the page does
        // not.
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
        copy.drawImage(canvas, 0, 0);
        const { data, width } = copy.getImageData(0, 0, canvas.width, canvas.height);
        return places.map(([x, y]) => [
          ...data.slice((y * width + x) * 4, (y * width + x) * 4 + 3),
        ]);
      },
      [plane, places],
    );
  }

  /**
   * Where pixels of a level are on a pane's canvas; `scale` is the CSS pixels that one of them
   * takes.
   */
  async places(plane, centre, pixels, scale = 1) {
    const box = await this.page.locator(`.pane[data-plane="${plane}"] .canvas`).boundingBox();
    if (box.x % 1 || box.y % 1 || box.width % 1 || box.height % 1)
      throw new Error(`not on whole pixels: ${JSON.stringify(box)}`);
    const place = (side, middle, pixel) => {
      const tile = Math.floor(pixel / 512) * 512;
      const edge = (i) => Math.floor(side / 2 + (i - middle) * scale + 0.501);
      return scale === 1
        ? edge(tile) + pixel - tile
        : Math.floor(side / 2 + (pixel + 0.5 - middle) * scale);
    };
    return pixels.map(([column, row]) => [
      place(box.width, centre[0], column),
      place(box.height, centre[1], row),
    ]);
  }

  /** A page that an action opens in a new tab, watched like the first one. */
  async opened(action) {
    const [tab] = await Promise.all([this.context.waitForEvent("page"), action()]);
    return new Visit(this.context, tab, this.server, this.wrong);
  }

  /** Colours of a screenshot at places of it, in CSS pixels. */
  async colours(places) {
    const png = (await this.page.screenshot()).toString("base64");
    return this.page.evaluate(
      async ([png, places]) => {
        const bytes = Uint8Array.from(atob(png), (character) => character.charCodeAt(0));
        const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }), {
          colorSpaceConversion: "none",
        });
        const copy = new OffscreenCanvas(image.width, image.height).getContext("2d");
        copy.drawImage(image, 0, 0);
        const { data, width } = copy.getImageData(0, 0, image.width, image.height);
        return places.map(([x, y]) => [
          ...data.slice((Math.floor(y) * width + Math.floor(x)) * 4).slice(0, 3),
        ]);
      },
      [png, places],
    );
  }

  /** Everything that the panes show. */
  pictures() {
    return this.page.evaluate(() =>
      [...document.querySelectorAll(".pane canvas")].map((canvas) => canvas.toDataURL()).join(),
    );
  }

  hash() {
    return new URL(this.page.url()).hash;
  }

  text(selector) {
    return this.page.locator(selector).first().textContent();
  }

  async end() {
    await this.context.close();
    if (this.wrong.length)
      throw new Error(`the page was not clean:\n  ${this.wrong.slice(0, 8).join("\n  ")}`);
  }
}

/** Fails unless two lists of colours are the same, up to a difference of `most` in each part. */
export function same(shown, expected, most = 0) {
  const far = shown.findIndex((colour, i) =>
    colour.some((part, c) => Math.abs(part - expected[i][c]) > most),
  );
  if (far >= 0) {
    const distinct = new Set(shown.map(String)).size;
    throw new Error(
      `pixel ${far} of ${shown.length} is ${shown[far]}, expected ${expected[far]} (${distinct} distinct colours are shown)`,
    );
  }
}

export function equal(found, expected, what) {
  if (found !== expected) throw new Error(`${what}: ${found}, expected ${expected}`);
}

export function truth(found, what) {
  if (!found) throw new Error(what);
}
