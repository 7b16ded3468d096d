// The tools of the stories: they start a server and a browser, wait for the picture, and read it.
//
// Each story gets its own page. The story fails if anything goes wrong in the page meanwhile (an
// error on the console, a request that fails or is refused, a request to another host), unless it
// expects that: see `forgiven`.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, openSync, readSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** How long a step may take, in milliseconds. */
export const PATIENCE = 60_000;
const volumes = path.join(path.dirname(fileURLToPath(import.meta.url)), "volumes.py");

/** Makes the test's volumes in a folder of their own. */
export function makeVolumes(python) {
  const folder = mkdtempSync(path.join(tmpdir(), "voltile-page-"));
  execFileSync(python, [volumes, "make", folder]);
  return folder;
}

/**
 * Starts a `volumes.py` that answers questions; it describes them. Returns the function that asks it
 * a list of questions, and waits for the list of answers: the colours or values that h5py reads.
 */
export function startAnswering(python) {
  // Pipes with names, because Node can wait only for files.
  const folder = mkdtempSync(path.join(tmpdir(), "voltile-page-"));
  const [asked, answered] = ["questions", "answers"].map((name) => path.join(folder, name));
  execFileSync("mkfifo", [asked, answered]);
  spawn(python, [volumes, "answer", asked, answered], { stdio: "inherit" });
  const [questions, answers] = [openSync(asked, "w"), openSync(answered, "r")];
  rmSync(folder, { recursive: true });
  return (list) => {
    writeFileSync(questions, `${JSON.stringify(list)}\n`);
    const line = JSON.parse(readLine(answers));
    if (line.error) throw new Error(line.error);
    return line;
  };
}

/** Waits for a line that is read from a pipe; the writer waits for questions after each line. */
function readLine(pipe) {
  const buffer = Buffer.alloc(1 << 16);
  let line = "";
  while (!line.endsWith("\n")) {
    const length = readSync(pipe, buffer);
    if (length === 0) throw new Error("the other end of the pipe was closed");
    line += buffer.toString("latin1", 0, length);
  }
  return line;
}

/** Makes other files: `volumes.py` with these arguments. */
export const write = (python, ...words) => execFileSync(python, [volumes, ...words]);

/**
 * Writes a file as a microscope does. `slices` grows with each slice that is flushed; `begun`
 * resolves with the first one, `closed` when the file is closed, to the number of slices.
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

/** Runs lines of Python that assign to `voxels`; returns the shape and the values of that array. */
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
  const bind = words.includes("--bind") ? [] : ["--bind", "127.0.0.1:0"];
  const child = spawn(voltile, ["serve", ...words, ...bind]);
  let log = "";
  let out = "";
  child.stderr.on("data", (data) => (log += data));
  return new Promise((resolve, reject) => {
    child.on("exit", (code) => reject(new Error(`voltile ended with ${code}:\n${log}`)));
    child.stdout.on("data", (data) => {
      out += data;
      const found = /^page (http:\S+)/m.exec(out);
      if (found) resolve({ address: found[1], log: () => log, stop: () => stop(child) });
    });
  });
}

/** Stops a server; resolves to its exit status. */
function stop(child) {
  return new Promise((resolve) => {
    child.removeAllListeners("exit");
    child.on("exit", (code) => resolve(code));
    child.kill("SIGTERM");
  });
}

/**
 * A page of the browser, with its requests and what went wrong in it. A story sets `forgiven` to a
 * pattern of the faults that it expects.
 */
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
      const [path] = request.url().split("#");
      if (path === server.address && request.resourceType() === "fetch")
        note("the page fetches itself");
    });
    // The page itself aborts requests that it does not need any more: that is no failure.
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

  /** Opens the page: "" the default view, "#" the list of datasets, any other hash a view. */
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
      // While one dataset replaces another, there is neither a status line nor a pane.
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

  /** The colours of a pane's pixels at places of its canvas. */
  pixels(plane, places) {
    return this.page.evaluate(
      ([plane, places]) => {
        const canvas = document.querySelector(`.pane[data-plane="${plane}"] canvas`);
        // From a copy: the browser warns of a canvas that is read often, and the page does not read
        // its own.
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
   * The places on a pane's canvas at which pixels of a level are shown, if the point `centre` of
   * the level is in the pane's middle; `scale` is the size of a level's pixel in CSS pixels.
   */
  async places(plane, centre, pixels, scale = 1) {
    const box = await this.page.locator(`.pane[data-plane="${plane}"] .canvas`).boundingBox();
    if (box.x % 1 || box.y % 1 || box.width % 1 || box.height % 1)
      throw new Error(`not on whole pixels: ${JSON.stringify(box)}`);
    const place = (side, middle, pixel) => {
      const onScreen = (i) => side / 2 + (i - middle) * scale;
      if (scale !== 1) return Math.floor(onScreen(pixel + 0.5));
      // At 1:1 the tile's edge is rounded as in drawer.ts, and its pixels follow one by one.
      const tile = Math.floor(pixel / 512) * 512;
      return Math.floor(onScreen(tile) + 0.501) + pixel - tile;
    };
    return pixels.map(([column, row]) => [
      place(box.width, centre[0], column),
      place(box.height, centre[1], row),
    ]);
  }

  /** The page that an action opens in a new tab; its faults count as faults of this page. */
  async opened(action) {
    const [tab] = await Promise.all([this.context.waitForEvent("page"), action()]);
    return new Visit(this.context, tab, this.server, this.wrong);
  }

  /** The colours of the screen at places of the page, in CSS pixels. */
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

  /** The pictures of all panes, as text, to be compared. */
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

/** Fails unless two lists of colours are the same; each part of a colour may differ by `most`. */
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
