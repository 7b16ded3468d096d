// What a person does with the page, and what must then be on the screen.
//
// Pixels are compared with h5py's, at places spread over the pane: at one voxel a pixel they must
// be the same.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { equal, same, truth, Visit } from "./harness.mjs";

/** A grid of pixels of a picture of this size (columns, rows), kept off edges and overlays. */
function spread([columns, rows], count = 7) {
  const at = (i, length) => Math.floor(((i + 0.5) / count) * length);
  return Array.from({ length: count * count }, (_, i) => [
    at(i % count, columns),
    at(Math.floor(i / count), rows),
  ]);
}

/** The mean of numbers. */
const meanOf = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

/** The standard deviation of numbers as of a sample. */
function deviationOf(numbers) {
  const mean = meanOf(numbers);
  const squares = numbers.reduce((sum, number) => sum + (number - mean) ** 2, 0);
  return Math.sqrt(squares / (numbers.length - 1));
}

const EM = { path: "/em", axes: "zyx", index: {}, box: [1, 1, 1], window: null };
const PYRAMID = { path: "/raw", axes: "zyx", index: {}, box: [1, 1, 1], window: null };
const FILM = { path: "/film", axes: "tczyx", box: [1, 1, 1], window: [100, 3000] };
const DEMO = "#demo-v1?plane=xy&at=512.25,512.25,24&zoom=1&show=em";
const MAPS = path.join(
  path.dirname(fileURLToPath(import.meta.url)),
  "../../../crates/base/src/maps",
);
const MIDDLE = [512.25, 512.25];
// Those that the pane shows at 1:1, whatever its size.
const NEAR = spread([600, 500]).map(([x, y]) => [x + 212, y + 262]);

export const stories = (world) => {
  const demo = (question) => world.ask([{ file: world.demo, ...question }])[0];
  const made = (question) =>
    world.ask([{ file: path.join(world.folder, "test.h5"), ...question }])[0];
  const shows = async (visit, plane, centre, pixels, expected, most = 0, scale = 1) =>
    same(
      await visit.pixels(plane, await visit.places(plane, centre, pixels, scale)),
      expected,
      most,
    );
  const emAt = (z) => demo({ ...EM, at: NEAR.map(([x, y]) => [x, y, z]) });

  /**
   * Waits until colours in Neuroglancer's panels pass a check. `shown` has, for some of the panels,
   * its number and the voxel at an offset from the panel's middle, in pixels.
   */
  const inPanels = async (tab, count, shown, check) => {
    const panels = () =>
      tab.page.$$eval(".neuroglancer-rendered-data-panel", (all) =>
        all
          .map((panel) => panel.getBoundingClientRect())
          .map(({ x, y, width, height }) => ({ x, y, width, height })),
      );
    const wantedIn = (boxes) =>
      shown.flatMap(([panel, voxel]) => {
        const { x: left, y: top, width, height } = boxes[panel];
        // Off the lines through the middle, and inside the few sections.
        const near = [-190, -133, -71, 57, 119, 187].flatMap((i) =>
          [-9, -5, 4, 8].map((j) => (panel === 3 ? [j, Math.round(i / 2)] : [i, j])),
        );
        return near.map(([i, j]) => {
          const place = [Math.floor(left + width / 2) + i, Math.floor(top + height / 2) + j];
          const offset = [place[0] + 0.5 - left - width / 2, place[1] + 0.5 - top - height / 2];
          return { place, at: voxel(offset).map(Math.floor) };
        });
      });
    await tab.page.waitForSelector(".neuroglancer-rendered-data-panel");
    for (const deadline = Date.now() + 60_000; ; await tab.page.waitForTimeout(500)) {
      // The panels move while the layers' bar is filled.
      const boxes = await panels();
      try {
        equal(boxes.length, count, "the number of panels");
        const wanted = wantedIn(boxes);
        check(
          await tab.colours(wanted.map(({ place }) => place)),
          wanted.map(({ at }) => at),
        );
        return;
      } catch (error) {
        if (Date.now() > deadline) throw error;
      }
    }
  };

  /** Places around a middle, `step` pixels apart, and how far each is away. */
  const around = ([x, y], step) =>
    Array.from({ length: 25 * 25 }, (_, i) => {
      const away = [(i % 25) - 12, Math.floor(i / 25) - 12].map((count) => count * step);
      return { place: [Math.floor(x) + away[0], Math.floor(y) + away[1]], away };
    });

  /** The centre of the light, in pixels from the middle. */
  const middle = (colours, near) => {
    const light = colours.map((colour) => Math.max(...colour));
    const all = light.reduce((sum, one) => sum + one, 0);
    truth(Math.max(...light) > 100, "there is no bead");
    return [0, 1].map(
      (axis) => light.reduce((sum, one, i) => sum + one * near[i].away[axis], 0) / all,
    );
  };

  /** Waits for the brightest light in Neuroglancer's first panel. */
  const light = async (tab, check, otherwise) => {
    await tab.page.waitForSelector(".neuroglancer-rendered-data-panel");
    for (const deadline = Date.now() + 30_000; ; await tab.page.waitForTimeout(200)) {
      const { x, y, width, height } = await tab.page
        .locator(".neuroglancer-rendered-data-panel")
        .first()
        .boundingBox();
      const colours = await tab.colours(
        around([x + width / 2, y + height / 2], 4).map(({ place }) => place),
      );
      if (check(Math.max(...colours.flat()))) return;
      truth(Date.now() < deadline, otherwise);
    }
  };

  /**
   * Waits until a bead is in the middle of Neuroglancer's panels xy and xz, within a voxel of 4
   * pixels.
   */
  const inTheMiddle = async (tab, what) => {
    await tab.page.waitForSelector(".neuroglancer-rendered-data-panel");
    for (const deadline = Date.now() + 30_000; ; await tab.page.waitForTimeout(400)) {
      try {
        const boxes = await tab.page.$$eval(".neuroglancer-rendered-data-panel", (all) =>
          all
            .map((panel) => panel.getBoundingClientRect())
            .map(({ x, y, width, height }) => [x + width / 2, y + height / 2]),
        );
        equal(boxes.length, 4, "the number of panels");
        for (const panel of [0, 1]) {
          const near = around(boxes[panel], 4);
          const away = middle(await tab.colours(near.map(({ place }) => place)), near);
          truth(
            Math.hypot(...away) < 4,
            `the bead is ${away} pixels away in panel ${panel}, a voxel is 4`,
          );
        }
        return;
      } catch (error) {
        if (Date.now() < deadline) continue;
        await world.picture(tab, "no-bead");
        throw new Error(`${what}: ${error.message}`);
      }
    }
  };

  /**
   * Checks again until it holds: on a busy machine the event stream may begin anew, and the page
   * loads its tiles again.
   */
  const eventually = async (visit, check) => {
    for (const deadline = Date.now() + 15_000; ; await visit.page.waitForTimeout(200)) {
      try {
        return await check();
      } catch (error) {
        if (Date.now() > deadline) throw error;
      }
    }
  };

  /** A picture file: its size, and its colours at places. */
  const decoded = async (visit, file) => {
    const { width, height, data } = await visit.page.evaluate(async (base64) => {
      const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
      const image = await createImageBitmap(new Blob([bytes]), { colorSpaceConversion: "none" });
      const copy = new OffscreenCanvas(image.width, image.height).getContext("2d", {
        willReadFrequently: true,
      });
      copy.drawImage(image, 0, 0);
      const { data } = copy.getImageData(0, 0, image.width, image.height);
      let text = "";
      for (let i = 0; i < data.length; i += 32768)
        text += String.fromCharCode(...data.subarray(i, i + 32768));
      return { width: image.width, height: image.height, data: btoa(text) };
    }, file.toString("base64"));
    const pixels = Buffer.from(data, "base64");
    return {
      width,
      height,
      at: (places) =>
        places.map(([x, y]) => [...pixels.subarray((y * width + x) * 4, (y * width + x) * 4 + 3)]),
    };
  };

  /** Serves files of a folder, which is removed afterwards; the tale gets a page. */
  const servedFrom = async (visit, folder, words, tale) => {
    const server = await world.start(...words);
    const other = await Visit.begin(visit.context.browser(), server);
    try {
      await tale(other);
      await other.end();
    } finally {
      await server.stop();
      rmSync(folder, { recursive: true });
    }
  };

  /**
   * Serves files of registered setups; the tale gets a page and where the beads are, in nanometres.
   */
  const registered = async (visit, tale) => {
    const folder = mkdtempSync(path.join(tmpdir(), "voltile-registered-"));
    const beads = JSON.parse(world.write("registered", folder));
    await servedFrom(visit, folder, [folder], (other) => tale(other, beads));
  };

  /**
   * Serves a file that a microscope writes for some seconds; the tale gets its page, and the slices
   * as they are written.
   */
  const written = async (visit, seconds, tale) => {
    const folder = mkdtempSync(path.join(tmpdir(), "voltile-folder-"));
    const file = path.join(folder, "live.h5");
    const { slices, begun, closed } = world.microscope(file, seconds);
    await begun;
    await servedFrom(
      visit,
      folder,
      [file, "--set", "datasets.live.channels.raw.window=full"],
      async (other) => {
        await other.open("#live");
        await tale(other, slices, closed);
      },
    );
  };

  return {
    async "The list shows every dataset with a picture, and a click opens one"(visit) {
      await visit.open("#");
      await visit.page.waitForFunction(
        () =>
          document.images.length === 8 &&
          [...document.images].every((image) => image.complete && image.naturalWidth === 512),
      );
      await world.picture(visit, "list");
      await visit.page.click("text=demo-v1");
      await visit.settle();
      equal(await visit.text("h1"), "demo-v1", "the title");
    },

    async "A link shows the place it names, voxel for pixel"(visit) {
      await visit.open(DEMO);
      await shows(visit, "xy", MIDDLE, NEAR, emAt(24));
      await world.picture(visit, "xy");
    },

    async "Labels of a part of the volume are drawn at their place"(visit) {
      const inside = ([x, y, z]) => x >= 300 && x < 700 && y >= 100 && y < 400 && z >= 2 && z < 7;
      const expected = (at) => {
        const [ids, raw] = [
          made({ ...PYRAMID, path: "/ids", labels: true, at }),
          made({ ...PYRAMID, at }),
        ];
        return at.map((place, i) => (inside(place) && ids[i].some(Boolean) ? ids[i] : raw[i]));
      };
      const near = spread([600, 500]).map(([x, y]) => [x + 250, y + 50]);
      for (const z of [1, 4]) {
        await visit.open(`#placed?plane=xy&at=550.25,300.25,${z}&zoom=1&show=em,part:100`);
        await shows(visit, "xy", [550.25, 300.25], near, expected(near.map(([x, y]) => [x, y, z])));
      }
      await world.picture(visit, "placed");
      const box = await visit.page.locator('.pane[data-plane="xy"] .canvas').boundingBox();
      const [[x, y]] = await visit.places("xy", [550.25, 300.25], [[400, 200]]);
      await visit.page.mouse.move(box.x + x + 0.5, box.y + y + 0.5);
      const [id] = made({ ...PYRAMID, path: "/ids", values: true, at: [[400, 200, 4]] });
      await visit.page.waitForFunction(
        (wanted) => document.querySelector(".status").textContent.includes(wanted),
        `part ${id}`,
      );
    },

    async "Keys, buttons, slider, number and wheel go through the slices"(visit) {
      await visit.open(DEMO);
      const goes = async (z) => {
        await visit.settle();
        equal(
          await visit.page.inputValue(".slicer.axis-z input[type=number]"),
          String(z),
          "the slice's number",
        );
        await shows(visit, "xy", MIDDLE, NEAR, emAt(z));
      };
      for (let i = 0; i < 5; i += 1) await visit.page.keyboard.press("Period");
      await goes(29);
      await visit.page.keyboard.press("Shift+Comma");
      await goes(19);
      await visit.page.click(".slicer.axis-z button:last-of-type");
      await goes(20);
      await visit.page.locator(".slicer.axis-z input[type=range]").fill("33");
      await goes(33);
      await visit.page.fill(".slicer.axis-z input[type=number]", "7");
      await visit.page.keyboard.press("Enter");
      await goes(7);
      await visit.page.mouse.move(500, 400);
      await visit.page.keyboard.down("Shift");
      await visit.page.mouse.wheel(0, 120);
      await visit.page.keyboard.up("Shift");
      await goes(8);
      truth(
        visit.hash().includes("at=512.25,512.25,8"),
        `the address does not tell of the slice: ${visit.hash()}`,
      );
    },

    async "The slices that come next are there before they are asked for"(visit) {
      await visit.open(DEMO);
      await visit.page.keyboard.press("Period");
      await visit.settle();
      await visit.page.waitForFunction(() =>
        [26, 27, 28].every((z) =>
          performance
            .getEntriesByType("resource")
            .some(({ name }) => name.includes(`/em/xy/${z}/`)),
        ),
      );
    },

    async "The wheel zooms about the cursor, and a coarser level is drawn"(visit) {
      await visit.open(DEMO);
      await visit.page.mouse.move(400, 400);
      await visit.page.mouse.wheel(0, -240);
      await visit.settle();
      truth(
        Number(/zoom=([\d.]+)/.exec(visit.hash())?.[1]) > 1.2,
        `the wheel did not zoom in: ${visit.hash()}`,
      );
      await visit.open("#demo-v1?plane=xy&at=512.5,512.5,24&zoom=0.5&show=em");
      const pixels = spread([400, 400]).map(([x, y]) => [x + 56, y + 56]);
      await shows(
        visit,
        "xy",
        [256.25, 256.25],
        pixels,
        demo({ ...EM, box: [2, 2, 1], at: pixels.map(([x, y]) => [x, y, 24]) }),
      );
    },

    async "On a slow line a coarse picture comes first, and the old one stays until then"(visit) {
      await visit.slow(1000);
      const tiles = () =>
        visit.requests
          .filter((url) => /\/em[^/]*\/xy\//.test(url))
          .map((url) => /(\d+)\/\d+_\d+_(\d+)\.(?:png|jpg)/.exec(url).slice(1).map(Number));
      const light = async () =>
        (
          await visit.pixels(
            "xy",
            spread([600, 500]).map(([x, y]) => [x + 100, y + 50]),
          )
        ).filter((colour) => colour[0] > 0).length;
      await visit.page.goto(`${visit.server.address}${DEMO}`);
      // All of the pane has a picture while fine tiles are on their way.
      await visit.page.waitForFunction(() => document.querySelector(".pane canvas")?.width > 300);
      for (
        const deadline = Date.now() + 60_000;
        (await light()) < 45;
        await visit.page.waitForTimeout(50)
      )
        truth(Date.now() < deadline, "there is no picture");
      truth(
        await visit.page.evaluate(() => document.querySelector(".pane").classList.contains("busy")),
        "the fine tiles came first",
      );
      truth(tiles()[0][1] > 0, `the first tile is of level ${tiles()[0][1]}`);
      await visit.settle();
      await shows(visit, "xy", MIDDLE, NEAR, emAt(24));
      // A slice far away, of which nothing was prefetched.
      const before = tiles().length;
      await visit.page.evaluate(() => {
        const canvas = document.querySelector(".pane canvas");
        window.dark = 0;
        const look = () => {
          const copy = new OffscreenCanvas(16, 16).getContext("2d");
          copy.drawImage(
            canvas,
            canvas.width / 3,
            canvas.height / 3,
            canvas.width / 3,
            canvas.height / 3,
            0,
            0,
            16,
            16,
          );
          const { data } = copy.getImageData(0, 0, 16, 16);
          for (let i = 0; i < data.length; i += 4) if (data[i] === 0) window.dark += 1;
          requestAnimationFrame(look);
        };
        look();
      });
      await visit.page.locator(".slicer.axis-z input[type=range]").fill("3");
      await visit.settle();
      const [first, ...others] = tiles()
        .slice(before)
        .filter(([z]) => z === 3);
      truth(
        first[1] > 0 && others.some(([, level]) => level === 0),
        `tiles of slice 3 came in the order ${[first, ...others].join(" ")}`,
      );
      equal(await visit.page.evaluate(() => window.dark), 0, "dark places while the slice changed");
      await shows(visit, "xy", MIDDLE, NEAR, emAt(3));
    },

    async "A link to a dataset asks for its own document only, and a change for what has changed"(
      visit,
    ) {
      const folder = mkdtempSync(path.join(tmpdir(), "voltile-folder-"));
      for (const [name, seed] of [
        ["first", 1],
        ["second", 2],
        ["third", 3],
      ])
        world.write("another", path.join(folder, `${name}.h5`), String(seed));
      await servedFrom(visit, folder, [folder], async (other) => {
        const documents = () =>
          other.requests
            .filter((url) => url.includes("datasets.json"))
            .map((url) => url.split("datasets.json")[1]);
        await other.open("#second");
        equal(documents().join(), "?tokens=second", "the documents of a link");
        world.write("another", path.join(folder, "third.h5"), "4");
        world.write("another", path.join(folder, "second.h5"), "5");
        await other.page.waitForFunction(() =>
          performance.getEntriesByType("resource").some(({ name }) => name.includes("second@")),
        );
        truth(
          documents().every((query) => query === "?tokens=second"),
          `asked for ${documents()}`,
        );
        await other.settle(); // or the button may be replaced under the pointer
        await other.page.click("[aria-label='All datasets']");
        await other.page.waitForSelector("text=third");
        equal(documents().at(-1), "", "the document of the list");
        const before = documents().length;
        world.write("another", path.join(folder, "fourth.h5"), "6");
        await other.page.waitForSelector("text=fourth");
        equal(documents().slice(before).join(), "?tokens=fourth", "the documents of a change");
        equal(await other.page.locator(".card").count(), 4, "the datasets in the list");
        await other.page.click(".card[title=first]");
        await other.settle();
        equal(documents().length, before + 1, "the documents when one of the list is opened");
      });
    },

    async "A slab of slices is projected as numpy does it, in every plane, by key, number and link, and saved so"(
      visit,
    ) {
      await visit.open(DEMO);
      const projected = (mode, first, last, at) =>
        demo({ ...EM, slab: [2, first, last, mode], at });
      const shown = async (mode, first, last) => {
        await visit.settle();
        await shows(
          visit,
          "xy",
          MIDDLE,
          NEAR,
          projected(
            mode,
            first,
            last,
            NEAR.map(([x, y]) => [x, y, 0]),
          ),
          1,
        );
      };
      await visit.page.keyboard.press("b");
      equal(await visit.page.inputValue("#slab"), "max", "the kind of slab after the key");
      await shown("max", 20, 29);
      await visit.page.keyboard.press("b");
      await shown("min", 20, 29);
      await visit.page.keyboard.press("b");
      await shown("mean", 20, 29);
      truth(
        visit.hash().includes("slab=mean:9"),
        `the address does not tell of the slab: ${visit.hash()}`,
      );
      await visit.page.fill("#slab-slices", "4");
      await visit.page.keyboard.press("Enter");
      await shown("mean", 22, 26);
      await visit.page.keyboard.press("Period");
      await shown("mean", 23, 27);
      // The value under the cursor is that of the slab.
      const box = await visit.page.locator('.pane[data-plane="xy"] .canvas').boundingBox();
      const [[x, y]] = await visit.places("xy", MIDDLE, [[500, 500]]);
      await visit.page.mouse.move(box.x + x + 0.5, box.y + y + 0.5);
      const [value] = demo({ ...EM, slab: [2, 23, 27, "mean"], values: true, at: [[500, 500, 0]] });
      await visit.page.waitForFunction(
        (wanted) => document.querySelector(".status").textContent.includes(wanted),
        `em ${Number(Number(value).toPrecision(7))}`,
      );
      await visit.open(DEMO.replace("&show", "&slab=max:all&show"));
      await shown("max", 0, 48);
      await world.picture(visit, "slab");
      // What is saved is the projection, too.
      await visit.page.keyboard.press("e");
      const [download] = await Promise.all([
        visit.page.waitForEvent("download"),
        visit.page.click("text=Save picture"),
      ]);
      const saved = readFileSync(await download.path());
      truth(saved.includes("maximum of all slices"), "the caption does not tell of the slab");
      await visit.open("#demo-v1?plane=all&at=400.25,300.25,24&zoom=1&slab=max:all&show=em");
      equal(await visit.page.locator(".slab:visible").count(), 3, "panes that tell of the slab");
      const pixels = spread([300, 200]).map(([i, row]) => [i + 250, row + 80]);
      const z = (row) => Math.floor((row * 0.004) / 0.03);
      await shows(
        visit,
        "xz",
        [400.25, 24 * 7.5],
        pixels,
        demo({ ...EM, slab: [1, 0, 1024, "max"], at: pixels.map(([i, row]) => [i, 0, z(row)]) }),
        1,
      );
      await world.picture(visit, "slab-all");
    },

    async "On a slow line previews are shown while something moves, and exact tiles at rest"(
      visit,
    ) {
      await visit.slow(4000);
      await visit.page.goto(`${visit.server.address}${DEMO}`);
      await visit.page.waitForSelector(".pane[data-shown]:not(.lossy)");
      await visit.settle();
      await visit.page.locator(".slicer.axis-z input[type=range]").fill("9");
      await visit.page.waitForSelector(".lossy .preview:visible");
      truth(
        visit.requests.some((url) => /\/9\/\d+_\d+_0\.jpg$/.test(url)),
        "no preview was asked for",
      );
      await world.picture(visit, "preview");
      await visit.page.waitForSelector(".pane[data-shown]:not(.lossy):not(.busy)");
      await visit.settle();
      await shows(visit, "xy", MIDDLE, NEAR, emAt(9));
      // Previews that come into sight by a zoom are replaced as well.
      await visit.page.goto(
        `${visit.server.address}${DEMO.replace("zoom=1", "zoom=0.25").replace(/,\d+&/, ",9&")}`,
      );
      await visit.settle();
      await visit.page.keyboard.press("o");
      await visit.page.waitForSelector(".lossy .preview:visible");
      await visit.settle();
      await shows(visit, "xy", MIDDLE, NEAR, emAt(9));
    },

    async "A plane is fitted in every window, and no zoom is in the link until somebody zooms; a flat picture has one plane"(
      visit,
    ) {
      for (const [width, height] of [
        [1600, 1000],
        [1000, 700],
      ]) {
        await visit.page.setViewportSize({ width, height });
        await visit.open("#demo-v1");
        await visit.page.waitForFunction(() => location.hash.includes("at="));
        await visit.settle();
        truth(!visit.hash().includes("zoom"), `nobody zoomed at ${width}: ${visit.hash()}`);
      }
      await visit.page.setViewportSize({ width: 1400, height: 800 });
      await visit.settle();
      truth(!visit.hash().includes("zoom"), `nobody zoomed when the window grew: ${visit.hash()}`);
      await visit.page.keyboard.press("ArrowRight");
      await visit.page.waitForFunction(() => !location.hash.includes("at=512,512"));
      await visit.settle();
      truth(!visit.hash().includes("zoom"), `nobody zoomed, only moved: ${visit.hash()}`);
      await visit.page.keyboard.press("+");
      await visit.page.waitForFunction(() => location.hash.includes("zoom="));
      equal(await visit.page.locator(".planes button:visible").count(), 4, "planes of a volume");
      await visit.open("#ophys");
      equal(
        await visit.page.locator(".planes button:visible").count(),
        0,
        "planes of a flat movie",
      );
      truth(!(await visit.page.isVisible("#slab")), "a flat movie has slabs");
    },

    async "A drag moves the picture with the finger"(visit) {
      await visit.open(DEMO);
      await visit.page.mouse.move(600, 400);
      await visit.page.mouse.down();
      await visit.page.mouse.move(500, 350, { steps: 8 });
      await visit.page.waitForTimeout(300); // or it would be thrown
      await visit.page.mouse.up();
      await visit.settle();
      const [x, y] = /at=([\d.]+),([\d.]+)/.exec(visit.hash()).slice(1).map(Number);
      truth(Math.abs(x - 612) < 12 && Math.abs(y - 562) < 12, `moved to ${x}, ${y}`);
    },

    async "The other planes have square pixels, cut at the right place"(visit) {
      for (const [plane, key, column] of [
        ["xz", "y", 0],
        ["yz", "x", 1],
      ]) {
        await visit.open("#demo-v1?plane=xy&at=400.25,300.25,24&zoom=1&show=em");
        await visit.page.keyboard.press(key);
        await visit.settle();
        const pixels = spread([600, 300]).map(([x, y]) => [x + 60, y + 32]);
        const z = (row) => Math.floor((row * 0.004) / 0.03);
        const at = pixels.map(([i, row]) => (plane === "xz" ? [i, 300, z(row)] : [400, i, z(row)]));
        const centre = [column === 0 ? 400.25 : 300.25, 24 * 7.5];
        await shows(visit, plane, centre, pixels, demo({ ...EM, at }));
        await world.picture(visit, plane);
      }
    },

    async "All three planes are linked where they cross"(visit) {
      await visit.open("#demo-v1?plane=all&at=500.25,500.25,24.25&zoom=1&show=em");
      const box = await visit.page.locator('.pane[data-plane="xy"]').boundingBox();
      await visit.page.mouse.click(
        Math.round(box.x + box.width / 2) + 60,
        Math.round(box.y + box.height / 2) - 90,
      );
      await visit.settle();
      const [x, y, z] = /at=([\d.]+),([\d.]+),([\d.]+)/.exec(visit.hash()).slice(1).map(Number);
      truth(
        Math.abs(x - 560) < 2 && Math.abs(y - 410) < 2 && Math.floor(z) === 24,
        `the planes cross at ${x}, ${y}, ${z}`,
      );
      const rows = spread([200, 100]).map(([i, row]) => [i, row + 100]);
      const depth = (row) => Math.floor((row * 0.004) / 0.03);
      const xz = rows.map(([i, row]) => [i + 450, row]);
      await shows(
        visit,
        "xz",
        [x, 7.5 * z],
        xz,
        demo({ ...EM, at: xz.map(([i, row]) => [i, Math.floor(y), depth(row)]) }),
      );
      const yz = rows.map(([i, row]) => [i + 310, row]);
      await shows(
        visit,
        "yz",
        [y, 7.5 * z],
        yz,
        demo({ ...EM, at: yz.map(([i, row]) => [Math.floor(x), i, depth(row)]) }),
      );
      await world.picture(visit, "all");
      const lines = await visit.page
        .locator(".slicer:visible")
        .evaluateAll((all) => new Set(all.map((one) => one.getBoundingClientRect().top)).size);
      equal(lines, 1, "rows of sliders");
    },

    async "Time has a slider and a key, channels add up in their colours"(visit) {
      await visit.open("#film?plane=xy&at=175.25,100.25,3&zoom=1&show=first:M,second:G");
      const pixels = spread([350, 200], 9);
      const film = (t, c) =>
        made({ ...FILM, index: { t, c }, at: pixels.map(([x, y]) => [x, y, 3]) });
      const mixed = (t) => film(t, 0).map(([a], i) => [a, film1(t)[i][0], a]);
      let kept = {};
      const film1 = (t) => (kept[t] ??= film(t, 1));
      await shows(visit, "xy", [175.25, 100.25], pixels, mixed(0));
      await visit.page.keyboard.press("t");
      await visit.settle();
      await shows(visit, "xy", [175.25, 100.25], pixels, mixed(1));
      await visit.page.locator(".slicer.axis-t input[type=range]").fill("3");
      await visit.settle();
      await shows(visit, "xy", [175.25, 100.25], pixels, mixed(3));
      await world.picture(visit, "time-and-colours");
      await visit.page.uncheck("#on-first");
      await visit.page.check("#colour-second-Y", { force: true });
      await visit.settle();
      await shows(
        visit,
        "xy",
        [175.25, 100.25],
        pixels,
        film1(3).map(([a]) => [a, a, 0]),
      );
      await visit.page.check("#on-colours");
      await visit.page.uncheck("#on-second");
      await visit.settle();
      const rgb = made({
        path: "/rgb",
        axes: "zyxc",
        index: {},
        box: [1, 1, 1],
        rgb: true,
        at: pixels.map(([x, y]) => [x, y, 3]),
      });
      await shows(visit, "xy", [175.25, 100.25], pixels, rgb);
    },

    async "A range is set by handles, typed exactly, reset and inverted, and a link keeps it"(
      visit,
    ) {
      await visit.open(
        "#film?plane=xy&at=175.25,100.25,3&zoom=1&time=2&show=first:M:500:2500,second:G",
      );
      const pixels = spread([350, 200], 9);
      const film = (c, window, gamma = 1) =>
        made({ ...FILM, window, gamma, index: { t: 2, c }, at: pixels.map(([x, y]) => [x, y, 3]) });
      const green = film(1, FILM.window);
      const mixed = (magenta) => magenta.map(([a], i) => [a, green[i][0], a]);
      const first = visit.page.locator(".channel[data-channel=first]");
      await shows(visit, "xy", [175.25, 100.25], pixels, mixed(film(0, [500, 2500])));
      await first.locator(".track svg").waitFor(); // the histogram has been measured
      await first.locator(".handle").first().fill("256");
      await visit.settle();
      const [low, high] = /first:M:([\d.]+):([\d.]+)/.exec(visit.hash()).slice(1).map(Number);
      truth(low > 1600 && low < 1900, `the middle of the values is not ${low}`);
      equal(high, 2500, "the handle that was not moved");
      await shows(visit, "xy", [175.25, 100.25], pixels, mixed(film(0, [low, high])));
      await world.picture(visit, "window");
      // Beyond the data, and exactly.
      await visit.page.fill("#lowest-first", "-120.5");
      await visit.page.fill("#highest-first", "65535");
      await visit.page.keyboard.press("Enter");
      await visit.settle();
      truth(
        visit.hash().includes("first:M:-120.5:65535,"),
        `typed numbers are in the address: ${visit.hash()}`,
      );
      await shows(visit, "xy", [175.25, 100.25], pixels, mixed(film(0, [-120.5, 65535])));
      await visit.page.fill("#gamma-first", "2");
      await visit.page.keyboard.press("Enter");
      await visit.settle();
      await shows(visit, "xy", [175.25, 100.25], pixels, mixed(film(0, [-120.5, 65535], 2)));
      const hash = visit.hash();
      await visit.page.reload();
      await visit.settle();
      equal(visit.hash(), hash, "the address after a reload");
      await first.getByText("Reset").click();
      await visit.settle();
      await shows(visit, "xy", [175.25, 100.25], pixels, mixed(film(0, FILM.window)));
      await first.getByText("Invert").click();
      await visit.settle();
      await shows(visit, "xy", [175.25, 100.25], pixels, mixed(film(0, [3000, 100])));
    },

    async "The slider spans the common values, all of them by a button, and one range serves several channels by a tick"(
      visit,
    ) {
      await visit.open("#looks?plane=xy&at=175.25,100.25,1&zoom=1&show=hot");
      const pixels = spread([350, 200], 9);
      const look = (name, window) =>
        made({
          path: `/${name}`,
          axes: "zyx",
          index: {},
          box: [1, 1, 1],
          window,
          at: pixels.map(([x, y]) => [x, y, 1]),
        });
      const hot = visit.page.locator(".channel[data-channel=hot]");
      await hot.locator(".track svg").waitFor();
      const ends = async () => (await hot.locator(".ends span").allTextContents()).join(" to ");
      await eventually(visit, async () =>
        equal(await ends(), "81 to 972", "the ends of the slider"),
      );
      await hot.locator(".handle").last().fill("256");
      await visit.settle();
      const [low, high] = /hot::([\d.]+):([\d.]+)/.exec(visit.hash()).slice(1).map(Number);
      truth(Math.abs(high - (81 + 972) / 2) < 2, `the middle of the slider is ${high}`);
      await shows(visit, "xy", [175.25, 100.25], pixels, look("hot", [low, high]));
      await visit.page.click("#span-hot");
      await eventually(visit, async () =>
        equal(await ends(), "0 to 65,535", "the ends of all values"),
      );
      equal(await visit.page.getAttribute("#span-hot", "aria-pressed"), "true", "the button");
      await hot.locator(".handle").last().fill("512");
      await visit.settle();
      truth(visit.hash().endsWith(`hot::${low}:65535`), `the handle at the end: ${visit.hash()}`);
      await world.picture(visit, "all-values");
      await visit.open(
        "#film?plane=xy&at=175.25,100.25,3&zoom=1&time=2&show=first:M:500:2500,second:G",
      );
      const film = (c, window) =>
        made({ ...FILM, window, index: { t: 2, c }, at: pixels.map(([x, y]) => [x, y, 3]) });
      const mixed = (...windows) => {
        const [magenta, green] = windows.map((window, c) => film(c, window));
        return magenta.map(([a], i) => [a, green[i][0], a]);
      };
      await shows(visit, "xy", [175.25, 100.25], pixels, mixed([500, 2500], [100, 3000]));
      await visit.page.check("#one-range");
      await visit.settle();
      await shows(visit, "xy", [175.25, 100.25], pixels, mixed([500, 2500], [500, 2500]));
      await visit.page.fill("#highest-second", "1234");
      await visit.page.keyboard.press("Enter");
      await visit.settle();
      truth(
        /ranges=one&show=first:M:500:1234,second:G:500:1234$/.test(visit.hash()),
        `the link has one range: ${visit.hash()}`,
      );
      await shows(visit, "xy", [175.25, 100.25], pixels, mixed([500, 1234], [500, 1234]));
      await visit.page.reload();
      await visit.settle();
      truth(await visit.page.isChecked("#one-range"), "the tick is lost");
      await visit.page.uncheck("#one-range");
      await visit.page.fill("#highest-second", "2000");
      await visit.page.keyboard.press("Enter");
      await visit.settle();
      await shows(visit, "xy", [175.25, 100.25], pixels, mixed([500, 1234], [500, 2000]));
    },

    async "Of a hundred positions one is shown; channels are found by words, shown alone, and one after the other"(
      visit,
    ) {
      const folder = mkdtempSync(path.join(tmpdir(), "voltile-positions-"));
      const file = path.join(folder, "positions.h5");
      world.write("positions", file);
      await servedFrom(visit, folder, [file], async (other) => {
        const { page } = other;
        const on = () =>
          page.evaluate(() =>
            new URLSearchParams(location.hash.split("?")[1])
              .get("show")
              .split(",")
              .map((each) => each.split(":")[0])
              .join(),
          );
        await other.open("#positions");
        const [first, second, ...more] = (await on()).split(",");
        truth(
          second &&
            !more.length &&
            /position_00.*channel_0/.test(first) &&
            /position_00.*channel_1/.test(second),
          `${await on()} open together`,
        );
        await page.fill("#channels-words", "POSITION_42 channel");
        equal(await page.locator(".panel .channel").count(), 2, "channels with the words");
        await page.fill("#channels-words", "channel_1");
        equal(await page.locator(".panel .channel").count(), 100, "channels with the other words");
        await world.picture(other, "channels-found");
        await page.keyboard.press("Escape");
        await page
          .locator(".pane")
          .first()
          .click({ position: { x: 20, y: 200 } });
        await page.keyboard.press("j");
        await other.settle();
        truth(
          /position_01.*channel_1$/.test(await on()),
          `${await on()} comes after the first, of those with the words`,
        );
        const at = ([x, y]) => [x, y, 1];
        const pixels = spread([60, 40]);
        await page.keyboard.press("o");
        await other.settle();
        const limits = await page.evaluate(
          async (name) =>
            (await (await fetch("datasets/positions.json")).json()).channels.find(
              (channel) => channel.name === name,
            ).window,
          await on(),
        );
        await shows(
          other,
          "xy",
          [30, 20],
          pixels,
          world.ask([
            {
              file,
              path: "/plate_a/position_01/channel_1",
              axes: "zyx",
              index: {},
              box: [1, 1, 1],
              window: limits,
              at: pixels.map(at),
            },
          ])[0],
        );
        await page.keyboard.press("Shift+J");
        await page.keyboard.press("Shift+J");
        await other.settle();
        truth(/position_99.*channel_1$/.test(await on()), `${await on()} comes before the first`);
        await page.fill("#channels-words", "nowhere");
        await page.getByText("No channel has these words.").waitFor();
      });
      await visit.open("#film?plane=xy&at=175.25,100.25,3&zoom=1&time=2&show=first:M,second:G");
      const show = () => visit.hash().split("show=")[1];
      await visit.page.click(".channel[data-channel=second] .switch span", { modifiers: ["Alt"] });
      await visit.settle();
      equal(show(), "second:G", "the channel that alt and click show alone");
      await visit.page.click(".channel[data-channel=second] .switch span", { modifiers: ["Alt"] });
      await visit.settle();
      equal(show(), "first:M,second:G", "the channels after the second click");
      await visit.page.keyboard.press("Shift+Digit2");
      await visit.settle();
      equal(show(), "first:M", "the channel that the key shows alone");
      await visit.page.click("[aria-label^='The next channel']");
      await visit.settle();
      equal(show(), "second:G", "the next channel");
      await visit.page.keyboard.press("Shift+Digit3");
      await visit.settle();
      equal(show(), "first:M,second:G", "the channels after the key");
    },

    async "A channel may have any colour, and signed data a map with zero in its middle, which Invert turns round"(
      visit,
    ) {
      await visit.open("#film?plane=xy&at=175.25,100.25,3&zoom=1&time=2&show=first");
      const pixels = spread([350, 200], 9);
      const film = (c) =>
        made({ ...FILM, index: { t: 2, c }, at: pixels.map(([x, y]) => [x, y, 3]) });
      const scaled = (shade) =>
        [255, 136, 0x21].map((part) => Math.floor((2 * part * shade + 255) / 510));
      await visit.page.fill("#colour-first-any", "#ff8821");
      await visit.settle();
      truth(visit.hash().endsWith("show=first:ff8821"), `the link has the colour: ${visit.hash()}`);
      await shows(
        visit,
        "xy",
        [175.25, 100.25],
        pixels,
        film(0).map(([a]) => scaled(a)),
      );
      await visit.open(
        "#film?plane=xy&at=175.25,100.25,3&zoom=1&time=2&show=first:ff8821,second:B",
      );
      const [first, second] = [film(0), film(1)];
      await shows(
        visit,
        "xy",
        [175.25, 100.25],
        pixels,
        first.map(([a], i) =>
          scaled(a).map((part, c) => Math.min(255, part + (c === 2 ? second[i][0] : 0))),
        ),
      );
      await world.picture(visit, "any-colour");
      await visit.open("#looks?plane=xy&at=175.25,100.25,1&zoom=1&show=signed");
      await visit.page.locator(".channel[data-channel=signed] .track svg").waitFor();
      const map = path.join(MAPS, "coolwarm.lut");
      const signed = (window) =>
        made({
          path: "/signed",
          axes: "zyx",
          index: {},
          box: [1, 1, 1],
          map,
          window,
          at: pixels.map(([x, y]) => [x, y, 1]),
        });
      await visit.page.check("#colour-signed-coolwarm", { force: true });
      await visit.settle();
      const [low, high] = /signed:coolwarm:(-[\d.]+):([\d.]+)$/
        .exec(visit.hash())
        .slice(1)
        .map(Number);
      truth(low === -high && high > 490, `zero is not in the middle of ${low} to ${high}`);
      await shows(visit, "xy", [175.25, 100.25], pixels, signed([low, high]));
      await world.picture(visit, "map-coolwarm");
      await visit.page.click(".channel[data-channel=signed] >> text=Invert");
      await visit.settle();
      await shows(visit, "xy", [175.25, 100.25], pixels, signed([high, low]));
    },

    async "While a handle moves, the tiles that there are get stretched; at rest they are rendered from the data"(
      visit,
    ) {
      await visit.open("#film?plane=xy&at=175.25,100.25,3&zoom=1&time=2&show=first");
      const pixels = spread([350, 200], 9);
      const film = (window) =>
        made({ ...FILM, window, index: { t: 2, c: 0 }, at: pixels.map(([x, y]) => [x, y, 3]) });
      const handle = visit.page.locator(".channel[data-channel=first] .handle").last();
      await visit.page.locator(".channel[data-channel=first] .track svg").waitFor();
      const drawn = () => visit.requests.filter((url) => url.includes("/view/")).length;
      // The handle is held: each of these is a movement, none lets go.
      const high = await handle.evaluate(async (input) => {
        for (const value of ["480", "400", "300"]) {
          input.value = value;
          input.dispatchEvent(new Event("input"));
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
        return Number(document.querySelector("#highest-first").value);
      });
      equal(drawn(), 0, "tiles that were rendered while the handle moved");
      await visit.settle();
      truth(drawn() > 0, "the range is not rendered from the data once the handle rests");
      await shows(visit, "xy", [175.25, 100.25], pixels, film([100, high]));
    },

    async "Colour maps are those of the server, bent by gamma, and a link keeps them"(visit) {
      await visit.open("#film?plane=xy&at=175.25,100.25,3&zoom=1&time=1&show=first");
      const pixels = spread([350, 200], 9);
      const film = (more) =>
        made({ ...FILM, ...more, index: { t: 1, c: 0 }, at: pixels.map(([x, y]) => [x, y, 3]) });
      for (const map of ["fire", "viridis", "magma", "cyanhot", "coolwarm"]) {
        await visit.page.check(`#colour-first-${map}`, { force: true });
        await visit.settle();
        await shows(
          visit,
          "xy",
          [175.25, 100.25],
          pixels,
          film({ map: path.join(MAPS, `${map}.lut`) }),
        );
        await world.picture(visit, `map-${map}`);
      }
      await visit.page.check("#colour-first-inverted", { force: true });
      await visit.settle();
      await shows(
        visit,
        "xy",
        [175.25, 100.25],
        pixels,
        film({}).map((grey) => grey.map((part) => 255 - part)),
      );
      await visit.open(
        "#film?plane=xy&at=175.25,100.25,3&zoom=1&time=1&show=first:viridis:200:2000:0.5",
      );
      await shows(
        visit,
        "xy",
        [175.25, 100.25],
        pixels,
        film({ window: [200, 2000], gamma: 0.5, map: path.join(MAPS, "viridis.lut") }),
      );
    },

    async "Auto is the range of what is visible"(visit) {
      await visit.open("#film?plane=xy&at=40,40,3&zoom=20&time=2&show=first");
      await visit.page.locator(".channel[data-channel=first] .track svg").waitFor();
      await visit.page.click(".channel[data-channel=first] >> text=Auto");
      await visit.page.waitForFunction(() => /first::\d/.test(location.hash));
      const [low, high] = /first::([\d.]+):([\d.]+)/.exec(visit.hash()).slice(1).map(Number);
      const box = await visit.page.locator('.pane[data-plane="xy"] .canvas').boundingBox();
      const half = [box.width / 40, box.height / 40].map(Math.round);
      const all = [];
      for (let y = Math.max(0, 40 - half[1]); y < 40 + half[1]; y += 1)
        for (let x = Math.max(0, 40 - half[0]); x < 40 + half[0]; x += 1) all.push([x, y, 3]);
      const values = made({ ...FILM, index: { t: 2, c: 0 }, values: true, at: all }).map(Number);
      truth(
        low >= Math.min(...values) - 20 &&
          high <= Math.max(...values) + 20 &&
          high - low > 0.8 * (Math.max(...values) - Math.min(...values)),
        `${low} to ${high} is not the range of ${Math.min(...values)} to ${Math.max(...values)}`,
      );
    },

    async "Where the server does not adjust, there is no slider, and a link shows the server's range"(
      visit,
    ) {
      await visit.page.route("**/datasets.json*", async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, json: { ...(await response.json()), adjust: false } });
      });
      await visit.open("#film?plane=xy&at=175.25,100.25,3&zoom=1&time=2&show=first::500:2500");
      const pixels = spread([350, 200], 9);
      await shows(
        visit,
        "xy",
        [175.25, 100.25],
        pixels,
        made({ ...FILM, index: { t: 2, c: 0 }, at: pixels.map(([x, y]) => [x, y, 3]) }),
      );
      await visit.page.getByText("100 to 3000").waitFor();
      equal(await visit.page.locator(".handle").count(), 0, "handles");
      equal(
        visit.requests.filter((url) => url.includes("/view/")).length,
        0,
        "requests for other ranges",
      );
    },

    async "Several channels of one recording open together in different colours, and an empty volume says so"(
      visit,
    ) {
      await visit.open("#film?plane=xy&at=175.25,100.25,3&zoom=1");
      const pixels = spread([350, 200], 9);
      const film = (c) =>
        made({ ...FILM, index: { t: 0, c }, at: pixels.map(([x, y]) => [x, y, 3]) });
      const [green, magenta] = [film(0), film(1)];
      await shows(
        visit,
        "xy",
        [175.25, 100.25],
        pixels,
        green.map(([g], i) => [magenta[i][0], g, magenta[i][0]]),
      );
      await visit.open("#empty");
      await visit.page.getByText("all voxels are 0").waitFor();
      await world.picture(visit, "empty");
    },

    async "Channels that the server has left for later are asked for again"(visit) {
      let answers = 0;
      await visit.page.route("**/datasets/empty*.json", async (route) => {
        const response = await route.fetch();
        const dataset = await response.json();
        answers += 1;
        if (answers === 1)
          for (const channel of dataset.channels)
            Object.assign(channel, { window: null, percentiles: null, histogram: null });
        await route.fulfill({ response, json: dataset });
      });
      await visit.open("#empty");
      await visit.page.getByText("all voxels are 0").waitFor();
      equal(answers, 2, "requests until all is known");
    },

    async "The movie of an NWB file opens rather than its mean picture, and its time is in seconds"(
      visit,
    ) {
      await visit.open("#ophys");
      truth(/show=data$/.test(visit.hash()), `the movie is not shown: ${visit.hash()}`);
      equal(await visit.text(".player .when"), "0 s", "the time of the first frame");
      await visit.page.keyboard.press("t");
      await visit.settle();
      equal(await visit.text(".player .when"), "0.25 s", "the time of the second frame");
      await world.picture(visit, "ophys");
      await visit.page.keyboard.press("i");
      await visit.page.getByText("every 0.25 s").waitFor();
      await visit.page.fill("#attributes", "WHEEL movie");
      await visit.page.getByText("awake mouse on a wheel").waitFor();
      equal(
        await visit.page.getByText("nwb_version", { exact: true }).count(),
        0,
        "attributes without the words",
      );
      await visit.page.fill("#attributes", "nothing has this");
      await visit.page.getByText("No attribute has these words.").waitFor();
    },

    async "Labels lie over the image, as opaque as one likes, and nothing hides where there is none"(
      visit,
    ) {
      await visit.open("#made?plane=xy&at=603.25,320.25,9&zoom=1&show=pyramid,ids:100");
      const pixels = spread([600, 500]).map(([x, y]) => [x + 300, y + 50]);
      const at = pixels.map(([x, y]) => [x, y, 2]);
      const ids = made({ ...PYRAMID, path: "/ids", labels: true, at });
      const raw = made({ ...PYRAMID, at });
      const mixed = (part) =>
        ids.map((id, i) =>
          id.some(Boolean) ? id.map((v, c) => v * part + raw[i][c] * (1 - part)) : raw[i],
        );
      await shows(visit, "xy", [600.25, 300.25], pixels, mixed(1));
      await visit.page.locator(".channel[data-channel=ids] input[type=range]").fill("30");
      await visit.settle();
      await shows(visit, "xy", [600.25, 300.25], pixels, mixed(0.3), 2);
      await world.picture(visit, "labels");
    },

    async "The values under the cursor are shown, and a key copies the label"(visit) {
      await visit.context.grantPermissions(["clipboard-read", "clipboard-write"]);
      await visit.open("#made?plane=xy&at=603.25,320.25,9&zoom=1&show=pyramid,ids:100");
      const box = await visit.page.locator('.pane[data-plane="xy"] .canvas').boundingBox();
      for (const pixel of [
        [421, 333],
        [650, 180],
      ]) {
        const [[x, y]] = await visit.places("xy", [600.25, 300.25], [pixel]);
        const [raw, id] = ["/raw", "/ids"].map(
          (name) => made({ ...PYRAMID, path: name, values: true, at: [[...pixel, 2]] })[0],
        );
        await visit.page.mouse.move(box.x + x + 0.5, box.y + y + 0.5);
        await visit.page.waitForFunction(
          (wanted) => document.querySelector(".status").textContent.includes(wanted),
          `ids ${id} · pyramid ${raw}`,
        );
        await visit.page.keyboard.press("v");
        await visit.page.waitForFunction(
          async (wanted) => (await navigator.clipboard.readText()) === wanted,
          id,
        );
      }
      // The slice below the cursor changes with the slice that is shown.
      await visit.page.keyboard.press("Period");
      const [raw] = made({ ...PYRAMID, values: true, at: [[650, 180, 3]] });
      await visit.page.waitForFunction(
        (wanted) => document.querySelector(".status").textContent.endsWith(wanted),
        `pyramid ${raw}`,
      );
      await visit.page.mouse.move(5, 5);
      await visit.page.waitForFunction(
        () => !document.querySelector(".status").textContent.includes("pyramid"),
      );
    },

    async "The name of a label is shown under the cursor, and Go to finds labels by their names"(
      visit,
    ) {
      await visit.open("#placed?plane=xy&at=500.25,250.25,4.5&zoom=1&show=em,part:100");
      const box = await visit.page.locator('.pane[data-plane="xy"] .canvas').boundingBox();
      for (const pixel of [
        [421, 333],
        [650, 180],
      ]) {
        const [[x, y]] = await visit.places("xy", [500.25, 250.25], [pixel]);
        const [id] = made({ ...PYRAMID, path: "/ids", values: true, at: [[...pixel, 4]] });
        await visit.page.mouse.move(box.x + x + 0.5, box.y + y + 0.5);
        const shown = `part ${id} Region ${"ABCDEFG"[id / 1000003]}`;
        await visit.page.waitForFunction(
          (wanted) => document.querySelector(".status").textContent.includes(wanted),
          shown,
        );
      }
      await visit.page.keyboard.press("g");
      await visit.page.fill("#goto", "gion d");
      await world.picture(visit, "goto-names");
      await visit.page.getByRole("button", { name: "Region D · 3000009" }).click();
      await visit.page.waitForFunction(
        () => location.hash.includes("part:100:3000009") && !location.hash.includes("at=500.25"),
      );
      await visit.settle();
      // The first label that is found is taken by Enter.
      await visit.page.keyboard.press("g");
      await visit.page.fill("#goto", "REGION E");
      await visit.page.getByRole("button", { name: "Region E" }).waitFor();
      await visit.page.keyboard.press("Enter");
      await visit.page.waitForFunction(() => location.hash.includes("part:100:4000012"));
    },

    async "A selected label stays, the others are dimmed or hidden, and a link keeps that"(visit) {
      await visit.open("#made?plane=xy&at=603.25,320.25,9&zoom=1&show=pyramid,ids:100");
      const pixels = spread([600, 500]).map(([x, y]) => [x + 300, y + 50]);
      const at = pixels.map(([x, y]) => [x, y, 2]);
      const values = made({ ...PYRAMID, path: "/ids", values: true, at });
      const colours = made({ ...PYRAMID, path: "/ids", labels: true, at });
      const raw = made({ ...PYRAMID, at });
      const chosen = values.findIndex((id) => id !== "0");
      const id = values[chosen];
      const mixed = (dimmed) =>
        colours.map((colour, i) => {
          const part = values[i] === "0" ? 0 : values[i] === id ? 1 : dimmed;
          return colour.map((v, c) => v * part + raw[i][c] * (1 - part));
        });
      const box = await visit.page.locator('.pane[data-plane="xy"] .canvas').boundingBox();
      const [[x, y]] = await visit.places("xy", [600.25, 300.25], [pixels[chosen]]);
      await visit.page.mouse.move(box.x + x + 0.5, box.y + y + 0.5);
      await visit.page.waitForFunction(
        (wanted) => document.querySelector(".status").textContent.includes(wanted),
        `ids ${id}`,
      );
      await visit.page.keyboard.press("s");
      await visit.settle();
      truth(
        visit.hash().includes(`=ids:100:${id},`),
        `the address does not name the label: ${visit.hash()}`,
      );
      await shows(visit, "xy", [600.25, 300.25], pixels, mixed(48 / 255), 2);
      await world.picture(visit, "selected");
      await visit.page.check("#alone-ids");
      await visit.settle();
      await shows(visit, "xy", [600.25, 300.25], pixels, mixed(0), 1);
      truth(
        visit.hash().includes(`=ids:100:${id}:alone,`),
        `the address does not say that it is alone: ${visit.hash()}`,
      );
      // The same label in another plane, whose rows of voxels are many pixels high, and at a
      // coarser level.
      await visit.open(`#made?plane=xz&at=603.25,320.25,10.1&zoom=1&show=ids:100:${id}:alone`);
      const cut = spread([600, 22]).map(([i, row]) => [i + 300, row]);
      const places = cut.map(([i, row]) => [i, 300, Math.floor((row * 4) / 10)]);
      const ids = made({ ...PYRAMID, path: "/ids", values: true, at: places });
      const shown = made({ ...PYRAMID, path: "/ids", labels: true, at: places }).map((colour, i) =>
        ids[i] === id ? colour : [0, 0, 0],
      );
      truth(new Set(ids).size > 2 && ids.includes(id), "the cut shows too few labels");
      await shows(visit, "xz", [600.25, 3.1 * 2.5], cut, shown);
      await visit.page.fill("#label-ids", "");
      await visit.page.keyboard.press("Enter");
      await visit.settle();
      truth(
        visit.hash().endsWith("show=ids:100"),
        `all labels are not shown again: ${visit.hash()}`,
      );
    },

    async "Labels get other colours, outlines only, and a list of those in sight with names; a link keeps that"(
      visit,
    ) {
      await visit.open("#made?plane=xy&at=603.25,320.25,9&zoom=1&show=pyramid,ids:100");
      const pixels = spread([600, 500], 30).map(([x, y]) => [x + 300, y + 50]);
      const at = (away = [0, 0]) => pixels.map(([x, y]) => [x + away[0], y + away[1], 2]);
      const raw = made({ ...PYRAMID, at: at() });
      const values = (away) => made({ ...PYRAMID, path: "/ids", values: true, at: at(away) });
      const ids = values();
      const colours = (shuffle) =>
        made({ ...PYRAMID, path: "/ids", labels: true, shuffle, at: at() });
      const over = (labels, isDrawn) =>
        labels.map((colour, i) => (ids[i] !== "0" && isDrawn(i) ? colour : raw[i]));
      for (const shuffle of [1, 2]) {
        await visit.page.click("#shuffle-ids");
        await visit.settle();
        truth(
          visit.hash().includes(`=ids:100:::${shuffle},`),
          `the address has no number of the colours: ${visit.hash()}`,
        );
        await shows(
          visit,
          "xy",
          [600.25, 300.25],
          pixels,
          over(colours(shuffle), () => true),
        );
      }
      await visit.page.click("#outlines-ids");
      await visit.settle();
      const next = [
        [-1, 0],
        [1, 0],
        [0, -1],
        [0, 1],
      ].map(values);
      const isEdge = ids.map((id, i) => next.some((each) => each[i] !== id));
      truth(isEdge.some(Boolean) && !isEdge.every(Boolean), "there are no outlines to be compared");
      await shows(
        visit,
        "xy",
        [600.25, 300.25],
        pixels,
        over(colours(2), (i) => isEdge[i]),
      );
      await world.picture(visit, "outlines");
      const hash = visit.hash();
      truth(
        hash.includes("=ids:100:::2:outlines,"),
        `the address does not tell of outlines: ${hash}`,
      );
      await visit.page.reload();
      await visit.settle();
      equal(visit.hash(), hash, "the address after a reload");
      // Where two tiles meet: the outline is that of the labels, not of the tiles.
      await visit.open(hash.replace("at=603.25", "at=515.25"));
      const seam = Array.from({ length: 200 }, (_, i) => [511 + (i % 2), 120 + 2 * i]);
      const seen = (away) =>
        made({
          ...PYRAMID,
          path: "/ids",
          values: true,
          at: seam.map(([x, y]) => [x + away[0], y + away[1], 2]),
        });
      const [here, ...around4] = [
        [0, 0],
        [-1, 0],
        [1, 0],
        [0, -1],
        [0, 1],
      ].map(seen);
      const [paint, below] = [{ labels: true, path: "/ids", shuffle: 2 }, {}].map((more) =>
        made({ ...PYRAMID, ...more, at: seam.map(([x, y]) => [x, y, 2]) }),
      );
      await shows(
        visit,
        "xy",
        [512.25, 300.25],
        seam,
        here.map((id, i) =>
          id !== "0" && around4.some((each) => each[i] !== id) ? paint[i] : below[i],
        ),
      );
      await visit.open("#placed?plane=xy&at=500.25,250.25,4.5&zoom=2&show=em,part:100");
      await visit.page.click("text=Labels in sight");
      await visit.page.waitForSelector(".sight .found li");
      const listed = await visit.page.locator(".sight .found button").allTextContents();
      equal(
        [...listed].sort().join(),
        [1, 2, 3, 4, 5, 6].map((label) => `Region ${"ABCDEFG"[label]} · ${label * 1000003}`).join(),
        "the labels in sight",
      );
      await world.picture(visit, "labels-in-sight");
      await visit.page.click(".sight .found >> text=Region C");
      await visit.page.waitForFunction(() => location.hash.includes("part:100:2000006"));
      await visit.page.waitForSelector(".sight .found [aria-pressed=true] >> text=Region C");
    },

    async "Neuroglancer opens at the same place and shows the same voxels in every panel"(visit) {
      const [x, y, z] = [600, 300, 4];
      await visit.open("#made?plane=all&at=603.25,320.25,11.3&zoom=2&show=pyramid");
      const tab = await visit.opened(() => visit.page.keyboard.press("n"));
      // xy, xz, three dimensions, yz. Two pixels are a voxel of 4 nm; a section is 10 nm thick; in
      // yz, z goes left.
      const [h, v] = [0.5, 0.5 * (4 / 10)];
      const shown = [
        [0, ([i, j]) => [x + 0.5 + i * h, y + 0.5 + j * h, z]],
        [1, ([i, j]) => [x + 0.5 + i * h, y, z + 0.5 + j * v]],
        [3, ([i, j]) => [x, y + 0.5 + j * h, z + 0.5 - i * v]],
      ];
      await inPanels(tab, 4, shown, (colours, at) => same(colours, made({ ...PYRAMID, at }), 1));
      await world.picture(tab, "neuroglancer");
      truth(
        tab.requests.some((url) => url.includes("/neuroglancer/made/pyramid/0/")),
        "no chunk of level 0 was requested",
      );
      await tab.page.close();
      // Several layers at once, one of them with chunks that are passed through.
      await visit.open("#demo-v1?plane=all&at=512,512,24&zoom=1&show=em,actin:M,segmentation:40");
      const layers = await visit.opened(() => visit.page.keyboard.press("n"));
      const finest = ["em", "actin", "segmentation"].map(
        (name) => `/neuroglancer/demo-v1/${name}/0/`,
      );
      for (
        const end = Date.now() + 60_000;
        !finest.every((path) => layers.requests.some((url) => url.includes(path)));
      ) {
        truth(
          Date.now() < end,
          `chunks of level 0 are missing: ${layers.requests.filter((url) => url.includes("demo-v1"))}`,
        );
        await layers.page.waitForTimeout(250);
      }
      await layers.page.waitForTimeout(2000);
      await world.picture(layers, "neuroglancer-layers");
      await layers.page.close();
    },

    async "Neuroglancer draws labels over the image, whichever channel comes first"(visit) {
      const [x, y, z] = [600, 300, 2];
      // A pixel of a panel, and its voxel: two pixels are a voxel.
      const near = [[0, ([i, j]) => [x + 0.5 + i / 2, y + 0.5 + j / 2, z]]];
      const [id] = made({ ...PYRAMID, path: "/ids", values: true, at: [[x + 30, y + 2, z]] });
      await visit.open(`#made?plane=xy&at=603.25,320.25,9&zoom=2&show=ids:100:${id}:alone,pyramid`);
      truth(visit.hash().includes("show=ids:"), `the image comes first: ${visit.hash()}`);
      const tab = await visit.opened(() => visit.page.keyboard.press("n"));
      await inPanels(tab, 1, near, (colours, at) => {
        const isChosen = made({ ...PYRAMID, path: "/ids", values: true, at }).map(
          (label) => label === id,
        );
        const colour = colours[isChosen.indexOf(true)];
        truth(
          isChosen.includes(true) && isChosen.includes(false) && new Set(colour).size > 1,
          `the label is ${colour}`,
        );
        same(
          colours,
          made({ ...PYRAMID, at }).map((grey, i) => (isChosen[i] ? colour : grey)),
          1,
        );
      });
      await world.picture(tab, "neuroglancer-labels");
      await tab.page.close();
    },

    async "Neuroglancer opens a series with a time slider, in the page's range, gamma and colour map"(
      visit,
    ) {
      const [x, y, z] = [175, 100, 3];
      await visit.open(
        "#film?plane=xy&at=175.25,100.25,3.25&zoom=2&time=2&show=first:viridis:200:3000:2",
      );
      const tab = await visit.opened(() => visit.page.keyboard.press("n"));
      const near = [[0, ([i, j]) => [x + 0.5 + i / 2, y + 0.5 + j / 2, z]]];
      const look = { ...FILM, window: [200, 3000], gamma: 2, map: path.join(MAPS, "viridis.lut") };
      await inPanels(tab, 1, near, (colours, at) =>
        same(colours, made({ ...look, index: { t: 2, c: 0 }, at }), 4),
      );
      await world.picture(tab, "neuroglancer-time");
      const state = JSON.parse(decodeURIComponent(new URL(tab.page.url()).hash.slice(2)));
      equal(state.position.join(), "175,100,3,2", "the position, which has a time");
      await tab.page.close();
    },

    async "Neuroglancer shows channels as bright as the page does, and lengths without a unit as voxels"(
      visit,
    ) {
      await visit.context.addInitScript(() => {
        window.written = [];
        const write = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
          window.written.push(text);
          return write.call(this, text, ...rest);
        };
      });
      const [x, y, z] = [175, 100, 3];
      await visit.open("#stained?plane=xy&at=175.25,100.25,3.25&zoom=2&show=a:M,b:G");
      const tab = await visit.opened(() => visit.page.keyboard.press("n"));
      const near = [[0, ([i, j]) => [x + 0.5 + i / 2, y + 0.5 + j / 2, z]]];
      let places = [];
      const painted = (at) => {
        const [magenta, green] = [0, 1].map((c) => made({ ...FILM, index: { t: 0, c }, at }));
        return magenta.map(([shade], i) => [shade, green[i][0], shade]);
      };
      await inPanels(tab, 1, near, (colours, at) => same(colours, painted((places = at)), 1));
      await world.picture(tab, "neuroglancer-stained");
      await world.picture(visit, "stained");
      await shows(
        visit,
        "xy",
        [175.25, 100.25],
        places.map(([x, y]) => [x, y]),
        painted(places),
        0,
        2,
      );
      const written = (await tab.page.evaluate(() => window.written)).filter((text) =>
        /^[\d.]+ /.test(text),
      );
      equal([...new Set(written)].join(), "50 ", "what the scale bar says");
      await tab.page.close();
    },

    async "Neuroglancer has the page's colours of labels"(visit) {
      const [x, y, z] = [600, 300, 2];
      const near = [[0, ([i, j]) => [x + 0.5 + i / 2, y + 0.5 + j / 2, z]]];
      await visit.open("#made?plane=xy&at=603.25,320.25,9&zoom=2&show=ids:100");
      const tab = await visit.opened(() => visit.page.keyboard.press("n"));
      const background = [128, 128, 128]; // Neuroglancer's
      const painted = (at) =>
        made({ ...PYRAMID, path: "/ids", labels: true, at }).map((colour) =>
          colour.some(Boolean) ? colour : background,
        );
      await inPanels(tab, 1, near, (colours, at) => same(colours, painted(at), 2));
      await tab.page.close();
    },

    async "Neuroglancer opens OME-Zarr of both versions"(visit) {
      const [x, y, z] = [600, 300, 2];
      const near = [[0, ([i, j]) => [x + 0.5 + i / 2, y + 0.5 + j / 2, z]]];
      const shader = "void main() { emitGrayscale(toNormalized(getDataValue())); }";
      visit.forgiven = /\b404\b/; // it looks for the documents of either version
      for (const version of ["0.4", "0.5"]) {
        const source = `zarr://${world.server.address}zarr/${version}/made.ome.zarr`;
        const state = {
          dimensions: { x: [4e-9, "m"], y: [4e-9, "m"], z: [1e-8, "m"] },
          layers: [{ name: "made", type: "image", source, shader }],
          position: [x + 3, y + 20, z + 7],
          crossSectionScale: 0.5,
          layout: "xy", // OME-Zarr counts from centres of voxels
        };
        await visit.page.goto("about:blank");
        await visit.page.goto(
          `${world.server.address}neuroglancer/#!${encodeURIComponent(JSON.stringify(state))}`,
        );
        await inPanels(visit, 1, near, (colours, at) => same(colours, made({ ...PYRAMID, at }), 1));
        await world.picture(visit, `neuroglancer-zarr-${version}`);
      }
    },

    async "One click shows all setups of registered files in Neuroglancer, each bead where it is in all of them"(
      visit,
    ) {
      await registered(visit, async (other, beads) => {
        for (const [file, time, setups] of [
          ["angles", 0, 4],
          ["tiles", 0, 3],
          ["drift", 1, 2],
        ]) {
          await other.open(`#${file}?plane=xy&at=60.5,50.5,20.5&zoom=2&time=${time}`);
          if (file === "angles") {
            truth(
              (await other.text(".panel")).includes(
                "rotated by 45° about the axis 0, 1, 0; moved by",
              ),
              "the panel does not say why",
            );
            await world.picture(other, "registered");
          }
          const tab = await other.opened(() => other.page.click("text=All in Neuroglancer"));
          await tab.page.waitForURL(/#!/);
          const state = JSON.parse(decodeURIComponent(new URL(tab.page.url()).hash.slice(2)));
          equal(
            state.layers.filter((layer) => layer.visible !== false).length,
            setups,
            "the layers that are shown",
          );
          equal(JSON.stringify(state.dimensions.x), '[1e-9,"m"]', "the unit of space");
          tab.forgiven = /icon\.svg|ERR_FAILED/; // of about:blank
          for (const layer of state.layers)
            Object.assign(layer, {
              shaderControls: { normalized: { range: [100, 1000] } },
              opacity: 1,
            });
          Object.assign(state, {
            crossSectionScale: 125,
            layout: "4panel",
            showAxisLines: false,
            crossSectionBackgroundColor: "#000000",
          });
          await tab.page.goto("about:blank");
          const shows = async (wanted) => {
            const layers = state.layers.map((layer) => ({ ...layer, visible: wanted(layer) }));
            await tab.page.goto(
              `${other.server.address}neuroglancer/#!${encodeURIComponent(JSON.stringify({ ...state, layers }))}`,
            );
          };
          for (const bead of beads.slice(0, file === "angles" ? 2 : 1)) {
            state.position = [...bead, ...state.position.slice(3)];
            for (const only of state.layers) {
              await shows(() => false);
              await light(tab, (most) => most < 30, "it is not dark");
              await shows((layer) => layer === only);
              await inTheMiddle(tab, `${only.name} of ${file} at ${bead}`);
            }
          }
          await shows(() => true);
          await light(tab, (most) => most > 100, "there is no bead");
          await world.picture(tab, `neuroglancer-${file}`);
          await tab.page.close();
        }
      });
    },

    async "Registered tiles lie over one another on the page, and have the slices that are stored"(
      visit,
    ) {
      await registered(visit, async (other, [bead]) => {
        // The box around all tiles begins 30, 20 and 3 voxels before the first.
        const [x, y, z] = [
          bead[0] / 500 + 30.5,
          bead[1] / 500 + 20.5,
          Math.floor(bead[2] / 2000 + 3),
        ];
        for (const [setup, slice] of [
          ["s00", 19],
          ["s01", 17],
          ["s02", 22],
        ]) {
          await other.open(`#tiles?plane=xy&at=${x},${y},${z}&zoom=4&show=${setup}::100:1000`);
          truth(
            (await other.page.getAttribute(".pane", "data-shown")).includes(`/xy/${slice}/`),
            `slice ${slice} of ${setup} is not shown`,
          );
          const box = await other.page.locator(".pane .canvas").boundingBox();
          const near = around([box.width / 2, box.height / 2], 3);
          const [across, down] = middle(
            await other.pixels(
              "xy",
              near.map(({ place }) => place),
            ),
            near,
          );
          truth(
            Math.hypot(across, down) < 4,
            `the bead of ${setup} is ${across}, ${down} pixels away, a voxel is 4`,
          );
        }
        // A mosaic opens whole; where tiles overlap, one lies on top, and nothing is added.
        const tiles = (...names) =>
          `#tiles?plane=xy&at=${x},${y},${z}&zoom=4&show=${names.map((name) => `${name}::100:1000`).join()}`;
        const canvas = await other.page.locator(".pane .canvas").boundingBox();
        const near = around([canvas.width / 2, canvas.height / 2], 3).map(({ place }) => place);
        await other.open(tiles("s02"));
        const top = await other.pixels("xy", near);
        await other.open(tiles("s00", "s01", "s02"));
        await eventually(other, async () => same(await other.pixels("xy", near), top));
        await other.open("#tiles");
        await other.page.waitForFunction(() =>
          /ranges=one&show=s00,s01::(\d+:\d+),s02::\1$/.test(location.hash),
        ); // all in the range of the first
        await other.settle();
        await world.picture(other, "mosaic");
        await other.open("#");
        // The server may have to measure the range of the first tile before.
        await other.page.waitForFunction(
          () => document.querySelectorAll(".card[title=tiles] img[src]").length === 3,
        );
        await other.page.waitForFunction(() =>
          [...document.images].every((image) => image.complete && image.naturalWidth),
        );
        equal(
          await other.page.locator(".card[title=tiles] img").count(),
          3,
          "the tiles of the card",
        );
        // The server gives the tiles different ranges; the card has that of the first.
        const sources = await other.page
          .locator(".card[title=tiles] img")
          .evaluateAll((images) => images.map((image) => image.src));
        const { channels } = await (
          await fetch(`${other.server.address}datasets/tiles.json`)
        ).json();
        const [low, high] = channels[0].window;
        truth(
          new Set(channels.map(({ window }) => window.join())).size > 1,
          "all tiles have the same range anyway",
        );
        for (const [i, source] of sources.slice(1).entries()) {
          truth(
            source.includes(`/s0${i + 1}:${low}:${high}:1:`),
            `the range of a tile of the card is not ${low} to ${high}: ${source}`,
          );
        }
        await world.picture(other, "mosaic-list");
        await other.open(
          `#tiles?plane=all&at=${x},${y},${z}&zoom=3&show=s00:R:100:1000,s01:G:100:1000,s02:B:100:1000`,
        );
        await world.picture(other, "registered-tiles");
      });
    },

    async "Offsets shift numbers, and stored levels of odd sizes lie where they belong"(visit) {
      // z 9 is slice 2 (the offset is 7); 0.5 is level 1, which the file has, rounded down.
      await visit.open("#made?plane=xy&at=603.5,320.5,9&zoom=0.5&show=pyramid");
      equal(
        await visit.page.inputValue(".slicer.axis-z input[type=number]"),
        "9",
        "the slice's number",
      );
      const pixels = spread([590, 340]);
      const half = made({ ...PYRAMID, path: "/half", at: pixels.map(([x, y]) => [x, y, 2]) });
      await shows(visit, "xy", [300.25, 150.25], pixels, half);
      // Two screen pixels a voxel: no level is finer, and edges stay sharp.
      await visit.open("#made?plane=xy&at=1103.25,620.25,9&zoom=2&show=pyramid");
      const fine = spread([200, 150]).map(([x, y]) => [x + 980, y + 540]);
      await shows(
        visit,
        "xy",
        [1100.25, 600.25],
        fine,
        made({ ...PYRAMID, at: fine.map(([x, y]) => [x, y, 2]) }),
        0,
        2,
      );
      await visit.open("#made?plane=xz&at=603.25,320.25,10.1&zoom=1&show=pyramid");
      const cut = [
        [150, 1],
        [400, 8],
        [700, 14],
        [900, 19],
      ];
      const at = cut.map(([x, row]) => [x, 300, Math.floor((row * 4) / 10)]);
      await shows(visit, "xz", [600.25, 3.1 * 2.5], cut, made({ ...PYRAMID, at }));
    },

    async "A link shows the same view again, and the browser's Back goes back"(visit) {
      await visit.open("#made?plane=all&at=500,200,10&zoom=0.7&show=pyramid:C,ids:60");
      const before = await visit.pictures();
      const hash = visit.hash();
      await visit.page.reload();
      await visit.settle();
      equal(visit.hash(), hash, "the address after a reload");
      truth(before === (await visit.pictures()), "the picture after a reload is another one");
      await visit.page.click("a[aria-label='All datasets']");
      await visit.page.waitForSelector(".list");
      await visit.page.goBack();
      await visit.settle();
      truth(before === (await visit.pictures()), "the picture after going back is another one");
    },

    async "A keyboard is enough"(visit) {
      await visit.open("#");
      const press = (...keys) =>
        keys.reduce(
          (before, key) => before.then(() => visit.page.keyboard.press(key)),
          Promise.resolve(),
        );
      // Behind the search, the order and the heading of its folder.
      const onCard = () => visit.page.evaluate(() => document.activeElement.title === "demo-v1");
      for (let i = 0; i < 12 && !(await onCard()); i += 1) await press("Tab");
      await press("Enter");
      await visit.settle();
      equal(await visit.text("h1"), "demo-v1", "what opened");
      await press("1", "2", "o", "Period", "Shift+Comma"); // actin off, em on, 1:1
      await visit.settle();
      await press("ArrowRight", "ArrowDown");
      await visit.settle();
      const [x, y] = /at=([\d.]+),([\d.]+)/.exec(visit.hash()).slice(1).map(Number);
      truth(Math.abs(x - 592) < 1 && Math.abs(y - 592) < 1, `arrows went to ${x}, ${y}`);
      await shows(visit, "xy", [x, y], NEAR, emAt(15));
      await press("a");
      await visit.settle();
      equal(await visit.page.locator(".pane").count(), 3, "panes");
      await press("?");
      await world.picture(visit, "help");
      await press("Escape", "z", "0");
      await visit.settle();
      truth(!visit.hash().includes("zoom"), `0 did not show everything: ${visit.hash()}`);
      await visit.page.focus("#on-segmentation");
      await press("Space");
      await visit.settle();
      truth(
        visit.hash().includes("segmentation:40"),
        `space did not switch a channel: ${visit.hash()}`,
      );
      await press("Backspace");
      await visit.page.waitForSelector(".list");
    },

    async "The link and the address of the tile can be copied, and the cursor tells where it is"(
      visit,
    ) {
      await visit.context.grantPermissions(["clipboard-read", "clipboard-write"]);
      await visit.open("#made?plane=xy&at=903.25,320.25,9&zoom=1&show=pyramid:C");
      await visit.page.click("button[title^='Copy the link']");
      await visit.page.waitForSelector(".said:not([hidden])");
      equal(
        await visit.page.evaluate(() => navigator.clipboard.readText()),
        visit.page.url(),
        "the copied link",
      );
      await visit.page.click("summary[aria-label=More]");
      await visit.page.click("text=Copy the address of the centre tile");
      await visit.page.waitForFunction(async () =>
        (await navigator.clipboard.readText()).includes("tilecache"),
      );
      const url = await visit.page.evaluate(() => navigator.clipboard.readText());
      equal(
        url,
        `${world.server.address}ndtilecache/tilecache/mcfc/made/pyramid:C/xy/9/0_1_0.png`,
        "the copied address",
      );
      truth((await fetch(url)).ok, "the copied address has no tile");
      await world.picture(visit, "copied");
      const box = await visit.page.locator(".pane").boundingBox();
      await visit.page.mouse.move(box.x + box.width / 2 + 10, box.y + box.height / 2 - 20);
      await visit.page.waitForFunction(() =>
        /x 91[34] {2}y (299|300|301) {2}z 9/.test(document.querySelector(".status").textContent),
      );
    },

    async "Two fingers zoom"(visit) {
      await visit.open(DEMO);
      const devtools = await visit.context.newCDPSession(visit.page);
      const touch = (type, ...points) =>
        devtools.send("Input.dispatchTouchEvent", { type, touchPoints: points });
      const pair = (apart) => [
        { x: 200 - apart, y: 300, id: 0 },
        { x: 200 + apart, y: 300, id: 1 },
      ];
      await touch("touchStart", ...pair(40));
      for (let apart = 45; apart <= 100; apart += 5) await touch("touchMove", ...pair(apart));
      await touch("touchEnd");
      await visit.settle();
      const zoom = Number(/zoom=([\d.]+)/.exec(visit.hash())?.[1]);
      truth(zoom > 1.7 && zoom < 3.2, `fingers that went 2.5 times as far apart zoomed to ${zoom}`);
      await visit.page.touchscreen.tap(180, 320);
      await visit.page.waitForFunction(() =>
        / em \d+/.test(document.querySelector(".status").textContent),
      );
      await world.picture(visit, "phone");
      await visit.page.keyboard.press("r");
      await world.picture(visit, "phone-region");
      await visit.page.keyboard.press("Escape");
      await visit.page.keyboard.press("e");
      await world.picture(visit, "phone-picture");
      await visit.page.keyboard.press("Escape");
      await visit.page.click("button[title^='Channels']");
      await world.picture(visit, "phone-channels");
      await visit.page.click("button[title^='Channels']");
      await visit.page.click("text=all three");
      await visit.settle();
      await world.picture(visit, "phone-all");
      await visit.open("#");
      await visit.page.waitForSelector(".list");
      await world.picture(visit, "phone-list");
    },

    async "A protected dataset is opened by its secret, typed with the keyboard"(visit) {
      visit.forgiven = /40[14]/; // Chromium asks for an icon of the page that asks for the secret.
      const { page } = visit;
      const secret = "secret-of-the-browser-test/+";
      await page.goto(`${visit.server.address}#hidden?plane=xy&at=603.5,320.5,2`);
      for (const name of ["hidden", "nowhere"]) {
        await page.evaluate((hash) => (location.hash = hash), `#${name}?plane=xy&at=603.5,320.5,2`);
        const told = await page.getByRole("alert").filter({ hasText: name }).textContent();
        equal(
          told.replace(name, ""),
          "There is no dataset “” here. If it is protected, enter a secret that shows it.",
          name,
        );
      }
      await page.evaluate(() => (location.hash = "#hidden?plane=xy&at=603.5,320.5,2"));
      await page.getByRole("alert").filter({ hasText: "hidden" }).waitFor();
      await world.picture(visit, "protected");
      await page.keyboard.press("Tab");
      truth(
        await page
          .getByLabel("Secret of protected datasets")
          .evaluate((field) => field === document.activeElement),
        "Tab does not lead to the field",
      );
      await page.keyboard.type("a wrong secret");
      await page.keyboard.press("Enter");
      await page.getByText("The secret in this address is wrong").waitFor();
      await world.picture(visit, "wrong-secret");
      truth(
        await page.getByLabel("Secret").evaluate((field) => field === document.activeElement),
        "the field does not have the focus",
      );
      await page.keyboard.type(secret);
      await page.keyboard.press("Enter");
      await visit.settle();
      equal(await visit.text("h1"), "hidden", "what opened");
      equal(new URL(page.url()).pathname, `/k/${encodeURIComponent(secret)}/`, "where");
      await visit.open("#");
      equal(
        await page.getByLabel("Secret of protected datasets").count(),
        1,
        "the fields below the list",
      );
    },

    async "Thousands of datasets: only pictures in sight are requested, words find a dataset, the keyboard reaches it"(
      visit,
    ) {
      const folder = path.join(mkdtempSync(path.join(tmpdir(), "voltile-many-")), "many");
      world.write("many", folder, "2000");
      const server = await world.start("--config", path.join(folder, "voltile.toml"));
      const other = await Visit.begin(visit.context.browser(), server);
      try {
        await other.open("#");
        await other.page.waitForFunction(() =>
          [...document.images].some((image) => image.complete && image.naturalWidth),
        );
        console.log(
          `measured: 2,000 datasets, first thumbnail after ${Math.round(await other.page.evaluate(() => performance.now()))} ms`,
        );
        await other.page.waitForFunction(() =>
          [...document.images]
            .filter((image) => image.hasAttribute("src"))
            .every((image) => image.complete),
        );
        const asked = () => other.requests.filter((url) => url.endsWith(".png")).length;
        const inSight = () =>
          other.page.$$eval(
            ".card",
            (cards) =>
              cards.filter(
                (card) =>
                  card.getBoundingClientRect().top < innerHeight &&
                  card.getBoundingClientRect().bottom > 0,
              ).length,
          );
        equal(asked(), await inSight(), "requested pictures");
        truth(
          (await other.page.locator(".card").count()) < 60,
          "too many cards are in the document",
        );
        await world.picture(other, "list-many");
        await other.page.evaluate(() => scrollTo(0, document.body.scrollHeight));
        await other.page.waitForSelector("text=d1999");
        await other.page.waitForTimeout(500);
        truth(asked() < 80, `${asked()} pictures were requested on the way to the end`);
        await other.page.fill("#search", "d0123");
        await other.page.waitForFunction(() => document.querySelectorAll(".card").length === 1);
        equal(await other.text(".list header [role=status]"), "1 of 2,000 datasets", "the count");
        equal(
          await other.page.getAttribute("[aria-posinset]", "aria-setsize"),
          "1",
          "the number of cards, for screen readers",
        );
        await other.page.focus("#order");
        await other.page.keyboard.press("Tab");
        await other.page.keyboard.press("Enter");
        await other.settle();
        equal(await other.text("h1"), "d0123", "what opened");
        await other.page.goBack();
        await other.page.waitForSelector(".list");
        equal(await other.page.inputValue("#search"), "d0123", "the words after going back");
        await other.page.fill("#search", "nowhere");
        await other.page.waitForSelector("text=No dataset has these words.");
        await other.end();
      } finally {
        await server.stop();
        rmSync(path.dirname(folder), { recursive: true });
      }
    },

    async "What is missing is told, and is neither black nor a value"(visit) {
      const folder = mkdtempSync(path.join(tmpdir(), "voltile-missing-"));
      world.write("incomplete", folder);
      const server = await world.start(
        ...["half.h5", "floats.h5", "whole.h5"].map((name) => path.join(folder, name)),
      );
      const other = await Visit.begin(visit.context.browser(), server);
      /** Whether the page shows its pattern around the middle of the pane, and no tile. */
      const hasPattern = async () => {
        const box = await other.page.locator(".pane .canvas").boundingBox();
        const middle = [box.x + box.width / 2, box.y + box.height / 2];
        const colours = await other.colours(
          Array.from({ length: 20 }, (_, i) => [middle[0] + i - 10, middle[1]]),
        );
        const distinct = new Set(colours.map(String));
        return (
          distinct.size > 1 &&
          distinct.size < 12 &&
          colours.every((colour) => Math.max(...colour) < 60 && Math.min(...colour) > 8)
        );
      };
      const point = async () => {
        const box = await other.page.locator(".pane .canvas").boundingBox();
        await other.page.mouse.move(box.x + box.width / 2 - 6, box.y + box.height / 2 - 5);
        await other.page.mouse.move(box.x + box.width / 2 - 5, box.y + box.height / 2 - 5);
      };
      try {
        await other.open("#");
        await other.page.waitForSelector(".card[title=half] .mark.error");
        await other.page.waitForFunction(() =>
          [...document.images].every((image) => image.complete && image.naturalWidth),
        );
        equal(await other.page.locator(".mark").count(), 1, "cards with a mark");
        await world.picture(other, "missing-list");
        await other.open("#half?plane=xy&at=200,150,1&show=raw");
        await other.page.waitForSelector(".told.error >> text=gone.h5");
        truth(!(await hasPattern()), "what is there has a pattern");
        await point();
        await other.page.waitForFunction(() =>
          / raw 39\d/.test(document.querySelector(".status").textContent),
        );
        await other.open("#half?plane=xy&at=200,150,6&show=raw");
        await other.page.reload();
        await other.page.waitForSelector(".told.error >> text=gone.h5");
        await other.settle();
        truth(await hasPattern(), "what is missing has no pattern");
        const asked = other.page.waitForResponse((response) =>
          response.url().includes("voxels/half"),
        );
        await point();
        await asked;
        await other.page.waitForTimeout(300);
        await other.page.waitForFunction(() =>
          document.querySelector(".status").textContent.endsWith(" raw missing"),
        );
        await world.picture(other, "missing-source");
        const file = path.join(folder, "first.h5");
        const at = Array.from({ length: 20 }, (_, i) => [50 + (i % 10), 150, 2 + (i > 9)]);
        const [values] = world.ask([{ ...PYRAMID, file, path: "/data", values: true, at }]);
        equal(values.length, 20, "the values that are there");
        const mean = meanOf(values.map(Number));
        const deviation = Number(deviationOf(values.map(Number)).toPrecision(6));
        // In the plane xz, half of the rectangle's rows are in the file that is not there.
        await other.page.keyboard.press("y");
        await other.settle();
        await other.page.keyboard.press("r");
        await other.page.fill("#region-from", "50, 2");
        await other.page.fill("#region-to", "60, 6");
        await other.page.keyboard.press("Enter");
        await other.page.getByText("10 × 4 voxels").waitFor();
        equal(
          (await other.page.locator(".measure tbody td").allTextContents()).join(" | "),
          `1 | raw | ${mean} | ${deviation} | ${values[0]} | ${values[9]} | 20, 20 missing`,
          "the table of a rectangle with a missing source",
        );
        await world.picture(other, "missing-region");
        // A line has no values there, either.
        await other.page.keyboard.press("Escape");
        await other.page.keyboard.press("m");
        await other.page.fill("#line-from", "50, 0.5");
        await other.page.fill("#line-to", "50, 7.5");
        await other.page.keyboard.press("Enter");
        await other.page.waitForSelector(".measure .plot");
        const [table] = await Promise.all([
          other.page.waitForEvent("download"),
          other.page.click("text=Save CSV"),
        ]);
        const [, ...rows] = readFileSync(await table.path(), "utf8")
          .trim()
          .split("\n");
        equal(
          rows.map((row) => row.split(",").slice(3).join(" ")).join(),
          [0, 1, 2, 3, 4, 5, 6, 7].map((z) => `${z} ${z < 4 ? values[0] : ""}`).join(),
          "the values along a line with a missing source",
        );
        await other.page.keyboard.press("Escape");
        await other.page.keyboard.press("z");
        await other.page.click(".told >> text=About this file");
        await other.page.waitForSelector(".about .warning.error >> text=gone.h5");
        await world.picture(other, "missing-about");
        await other.page.keyboard.press("Escape");
        await other.open("#floats?plane=xy&at=200,150,0&show=raw:inverted");
        await other.page.reload();
        await other.page.waitForFunction(() =>
          document.querySelector(".pane")?.dataset.shown?.includes("view/"),
        );
        await other.settle();
        truth(await hasPattern(), "NaN has no pattern");
        await point();
        await other.page.waitForTimeout(600);
        truth(
          (await other.text(".status")).endsWith(" raw missing"),
          `NaN is told as a value: ${await other.text(".status")}`,
        );
        await world.picture(other, "missing-nan");
        const [download] = await Promise.all([
          other.page.waitForEvent("download"),
          other.page.keyboard.press("e").then(() => other.page.click("text=Save picture")),
        ]);
        const png = readFileSync(await download.path()).toString("base64");
        const alphas = await other.page.evaluate(async (png) => {
          const bytes = Uint8Array.from(atob(png), (character) => character.charCodeAt(0));
          const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
          const context = new OffscreenCanvas(image.width, image.height).getContext("2d", {
            willReadFrequently: true,
          });
          context.drawImage(image, 0, 0);
          const alpha = (x, y) => context.getImageData(Math.floor(x), Math.floor(y), 1, 1).data[3];
          const middle = image.width / 2;
          return [alpha(middle, image.height / 2 - 20), alpha(2, 2)];
        }, png);
        equal(
          alphas.join(),
          "0,255",
          "the opacity of NaN and of what is outside in the saved picture",
        );
        // A link with a channel that does not exist.
        await other.open("#whole?plane=xy&at=200,150,0&show=nucleus");
        await other.page.waitForSelector(
          ".said:not([hidden]) >> text=There is no channel “nucleus”",
        );
        await other.settle();
        truth(
          (await other.page.locator(".pane").getAttribute("data-shown")).includes("/raw/"),
          "the default channel is not shown",
        );
        await other.page.waitForTimeout(4500);
        truth(await other.page.isVisible(".said"), "the notice has gone by itself");
        await world.picture(other, "unknown-channel");
        await other.page.click(".said [aria-label='Close the notice']");
        await other.page.waitForSelector(".said", { state: "hidden" });
        await other.end();
      } finally {
        await server.stop();
        rmSync(folder, { recursive: true });
      }
    },

    async "New and removed datasets appear by themselves, by one stream for all pages, also after a restart"(
      visit,
    ) {
      const folder = mkdtempSync(path.join(tmpdir(), "voltile-folder-"));
      world.write("another", path.join(folder, "one.h5"), "9");
      world.write("another", path.join(folder, "deep", "two.h5"), "9");
      let server = await world.start(folder);
      const port = new URL(server.address).port;
      const other = await Visit.begin(visit.context.browser(), server);
      other.forgiven = /ERR_|50\d/; // the server goes away for a while
      try {
        await other.open("#");
        await other.page.waitForFunction(() => document.querySelectorAll(".card").length === 2);
        const tab = await other.context.newPage();
        const streams = [];
        tab.on(
          "request",
          (request) => request.url().endsWith("/events") && streams.push(request.url()),
        );
        await tab.goto(`${server.address}#`);
        await tab.waitForSelector(".card");
        await tab.waitForTimeout(1500);
        streams.push(...other.requests.filter((url) => url.endsWith("/events")));
        equal(streams.length, 1, "streams of two pages");
        world.write("another", path.join(folder, "three.h5"), "9");
        for (const page of [other.page, tab])
          await page.waitForFunction(() => document.querySelectorAll(".card").length === 3);
        rmSync(path.join(folder, "one.h5"));
        for (const page of [other.page, tab])
          await page.waitForFunction(() => document.querySelectorAll(".card").length === 2);
        const watched = new Visit(other.context, tab, server, other.wrong);
        watched.forgiven = other.forgiven;
        const pixels = spread([64, 64], 5);
        const two = () =>
          world.ask([
            {
              file: path.join(folder, "deep", "two.h5"),
              ...PYRAMID,
              at: pixels.map(([x, y]) => [x, y, 0]),
            },
          ])[0];
        await watched.open("#two?plane=xy&at=32.25,32.25,0&zoom=1");
        await shows(watched, "xy", [32.25, 32.25], pixels, two());
        world.write("another", path.join(folder, "deep", "two.h5"), "10");
        await tab.waitForFunction(() =>
          document.querySelector(".pane")?.dataset.shown?.includes("@"),
        );
        await watched.settle();
        await shows(watched, "xy", [32.25, 32.25], pixels, two());
        await tab.goto(`${server.address}#`);
        await tab.waitForSelector(".card");
        await server.stop();
        world.write("another", path.join(folder, "four.h5"), "9");
        server = await world.start(folder, "--bind", `127.0.0.1:${port}`);
        for (const page of [other.page, tab])
          await page.waitForFunction(() => document.querySelectorAll(".card").length === 3);
        await other.page.getByText("deep (1)").click(); // the folder is closed
        await other.page.waitForFunction(() => document.querySelectorAll(".card").length === 2);
        await other.page.getByText("deep (1)").click();
        await other.page.selectOption("#order", "date");
        await other.page.waitForFunction(
          () => document.querySelectorAll(".card")[0]?.title === "four",
        );
        await world.picture(other, "list-live");
        await other.end();
      } finally {
        await server.stop();
        rmSync(folder, { recursive: true });
      }
    },

    async "The newest slice of a file that is being written comes to the screen by itself"(visit) {
      await written(visit, 12, async (other, slices, closed) => {
        const { page } = other;
        await page.click("text=Follow newest");
        // The colours in the middle, each with the time when it came.
        await page.evaluate(() => {
          window.seen = [];
          const one = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
          const look = () => {
            const canvas = document.querySelector(".pane canvas");
            one.drawImage(canvas, canvas.width >> 1, canvas.height >> 1, 1, 1, 0, 0, 1, 1);
            const [colour] = one.getImageData(0, 0, 1, 1).data;
            if (window.seen.at(-1)?.[0] !== colour) window.seen.push([colour, Date.now()]);
            requestAnimationFrame(look);
          };
          look();
        });
        const began = Date.now();
        await page.waitForTimeout(2000);
        equal(await page.getAttribute(".follow", "aria-pressed"), "true", "it follows");
        // The first slice has one value, but there will be others.
        equal(await page.inputValue("#highest-raw"), "255", "its range can be chosen");
        await world.picture(other, "following");
        const count = await closed;
        await page.waitForFunction(
          (colour) => window.seen.at(-1)?.[0] === colour,
          slices.at(-1)[1],
        );
        const seen = await page.evaluate(() => window.seen);
        const numbers = new Map(slices.map(([number, colour]) => [colour, number]));
        const delays = slices
          .filter(([, , flushed]) => flushed > began)
          .map(
            ([number, , flushed]) =>
              seen.find(([colour, at]) => at >= flushed && numbers.get(colour) >= number)[1] -
              flushed,
          )
          .sort((a, b) => a - b);
        truth(delays.length > 10, `only ${delays.length} slices came`);
        console.log(
          `measured: ${count} slices; each on the screen ${Math.round(delays[delays.length >> 1])} ms after its flush (median), at most ${Math.round(delays.at(-1))} ms`,
        );
        await page.waitForFunction(() => document.querySelector(".follow").hidden);
        await other.settle();
        await page.waitForFunction(
          (text) => document.querySelector(".axis-z .total").textContent === text,
          `of 0–${count - 1}`,
        );
        await page.keyboard.press(",");
        await page.waitForFunction((colour) => window.seen.at(-1)[0] === colour, slices.at(-2)[1]);
      });
    },

    async "Following ends when a person goes to another slice"(visit) {
      await written(visit, 6, async ({ page }, _slices, closed) => {
        await page.keyboard.press("l");
        await page.waitForFunction(
          () => document.querySelector(".follow").getAttribute("aria-pressed") === "true",
        );
        await page.waitForTimeout(700);
        await page.keyboard.press(",");
        await page.waitForFunction(
          () => document.querySelector(".follow").getAttribute("aria-pressed") === "false",
        );
        const place = await page.inputValue(".axis-z input[type=number]");
        await closed;
        await page.waitForFunction(() => document.querySelector(".follow").hidden);
        equal(await page.inputValue(".axis-z input[type=number]"), place, "the slice");
      });
    },

    async "Where the server grants no stream, the page asks now and then"(visit) {
      const folder = mkdtempSync(path.join(tmpdir(), "voltile-folder-"));
      world.write("another", path.join(folder, "one.h5"), "9");
      world.write("another", path.join(folder, "two.h5"), "9");
      const server = await world.start(folder);
      const other = await Visit.begin(visit.context.browser(), server);
      other.forgiven = /503/;
      try {
        await other.page.route("**/events", (route) =>
          route.fulfill({ status: 503, headers: { "Retry-After": "1" } }),
        );
        await other.open("#");
        await other.page.waitForFunction(() => document.querySelectorAll(".card").length === 2);
        world.write("another", path.join(folder, "three.h5"), "9");
        await other.page.waitForFunction(() => document.querySelectorAll(".card").length === 3);
        await other.end();
      } finally {
        await server.stop();
        rmSync(folder, { recursive: true });
      }
    },

    async "A picture has the pixels of the view, a scale bar, a caption, texts and a name"(visit) {
      await visit.open("#made?plane=xy&at=903.25,320.25,9&zoom=1&show=pyramid");
      for (const [choice, factor] of [
        [0, 1],
        [1, 1],
        [0, 2],
      ]) {
        await visit.page.keyboard.press("e");
        await visit.page.check(`#resolution-${choice}`);
        await visit.page.selectOption("#picture-factor", String(factor));
        await visit.page.setChecked("#with-scale", choice === 1);
        if (choice === 1) {
          await visit.page.fill("#scale-length", "400 nm");
          await visit.page.selectOption("#scale-place", "top right");
          await visit.page.fill("#scale-colour", "#ff0000");
        }
        await world.picture(visit, "save-picture");
        const [download] = await Promise.all([
          visit.page.waitForEvent("download"),
          visit.page.click("text=Save picture"),
        ]);
        equal(download.suggestedFilename(), "made_xy_z9.png", "the name of the file");
        const file = readFileSync(await download.path());
        const text = file.toString("latin1");
        truth(
          text.includes("iTXtDescription") &&
            text.includes("made \u00c2\u00b7 plane xy") &&
            text.includes("#made?plane=xy"),
          "the PNG has no texts",
        );
        const box = await visit.page.locator('.pane[data-plane="xy"] .canvas').boundingBox();
        // The first column and row of the picture, and its size in voxels.
        const edge = (side, middle) =>
          choice === 0 ? 0 : Math.max(0, Math.floor(middle - side / 2));
        const [x0, y0] = [edge(box.width, 900.25), edge(box.height, 300.25)];
        const voxels = spread([250, 250]).map(([x, y]) => [x + 750, y + 120]);
        const places =
          choice === 0
            ? (await visit.places("xy", [900.25, 300.25], voxels)).map((place) =>
                place.map((at) => at * factor),
              )
            : voxels.map(([x, y]) => [x - x0, y - y0]);
        const picture = await decoded(visit, file);
        same(picture.at(places), made({ ...PYRAMID, at: voxels.map(([x, y]) => [x, y, 2]) }));
        if (choice === 1) {
          // 400 nm are 100 voxels of 4 nm; the bar is red, at the right of the top, and the data
          // goes on around it.
          const row = Array.from({ length: picture.height }, (_, y) => y).find(
            (y) => picture.at([[picture.width - 30, y]])[0].join() === "255,0,0",
          );
          const red = Array.from(
            { length: picture.width },
            (_, x) => picture.at([[x, row + 1]])[0].join() === "255,0,0",
          );
          equal(red.filter(Boolean).length, 100, "the length of the bar in voxels");
          truth(
            row < 60 && red.lastIndexOf(true) > picture.width - 30,
            "the bar is not at the top right",
          );
          const beside = [
            [picture.width - 200, row],
            [picture.width - 150, row + 12],
          ];
          same(
            picture.at(beside),
            made({ ...PYRAMID, at: beside.map(([x, y]) => [x + x0, y + y0, 2]) }),
          );
        }
        await download.saveAs(path.join(world.out, `saved-${choice}-${factor}.png`));
      }
    },

    async "A picture has the measured line, and channels beside the merge; sequences over slices and time are ZIP files"(
      visit,
    ) {
      const saved = async () =>
        (
          await Promise.all([
            visit.page.waitForEvent("download"),
            visit.page.click(".sheet button[autofocus], .sheet > button"),
          ])
        )[0];
      await visit.open("#film?plane=xy&at=175.25,100.25,3&zoom=1&time=2&show=first:M,second:G");
      await visit.page.keyboard.press("m");
      await visit.page.fill("#line-from", "340, 50");
      await visit.page.fill("#line-to", "340, 150");
      await visit.page.keyboard.press("Enter");
      await visit.page.waitForFunction(
        () => document.querySelector(".measure .length")?.textContent === "Length 100 voxels",
      );
      await visit.page.evaluate(() => document.activeElement.blur());
      const pixels = spread([280, 180], 9).map(([x, y]) => [x + 65, y + 15]);
      const film = (c, z = 3, t = 2) =>
        made({ ...FILM, index: { t, c }, at: pixels.map(([x, y]) => [x, y, z]) });
      const merged = (first, second) => first.map(([a], i) => [a, second[i][0], a]);
      await visit.page.keyboard.press("e");
      await visit.page.check("#beside");
      await visit.page.uncheck("#with-scale");
      const three = await saved();
      equal(three.suggestedFilename(), "film_xy_z3_t2.png", "the name of the file");
      await three.saveAs(path.join(world.out, "saved-beside.png"));
      const picture = await decoded(visit, readFileSync(await three.path()));
      const box = await visit.page.locator('.pane[data-plane="xy"] .canvas').boundingBox();
      const places = await visit.places("xy", [175.25, 100.25], pixels);
      const [magenta, green] = [film(0), film(1)];
      const looks = [
        magenta.map(([a]) => [a, 0, a]),
        green.map(([a]) => [0, a, 0]),
        merged(magenta, green),
      ];
      looks.forEach((colours, i) =>
        same(picture.at(places.map(([x, y]) => [x + i * (box.width + 4), y])), colours),
      );
      const [[x, y]] = await visit.places("xy", [175.25, 100.25], [[340, 100]]);
      same(picture.at([[x, y]]), [[0xff, 0xe0, 0x66]], 2);
      await visit.page.keyboard.press("Escape");
      for (const [along, letter, from, to] of [
        ["slices along z", "z", 1, 4],
        ["time points", "t", 0, 3],
      ]) {
        await visit.page.keyboard.press("e");
        await visit.page.uncheck("#beside");
        await visit.page.selectOption("#sequence", along);
        await visit.page.fill("#sequence-first", String(from));
        await visit.page.fill("#sequence-last", String(to));
        const zip = await saved();
        equal(
          zip.suggestedFilename(),
          letter === "z" ? "film_xy_z1-4_t2.zip" : "film_xy_z3_t0-3.zip",
          "the name of the file",
        );
        const files = JSON.parse(world.unzipped(await zip.path()));
        equal(files.length, 4, "pictures of the sequence");
        for (const [i, [name, base64]] of files.entries()) {
          const number = from + i;
          equal(
            name,
            letter === "z" ? `film_xy_z${number}_t2.png` : `film_xy_z3_t${number}.png`,
            "the name of a picture",
          );
          const one = await decoded(visit, Buffer.from(base64, "base64"));
          const [z, t] = letter === "z" ? [number, 2] : [3, number];
          same(one.at(places), merged(film(0, z, t), film(1, z, t)));
        }
      }
    },

    async "Views with names are kept, and exported and imported as JSON"(visit) {
      const { page } = visit;
      await visit.open("#film?plane=xy&at=175.25,100.25,3&zoom=1&time=2&show=first:M");
      const kept = visit.hash();
      await page.keyboard.press("h");
      await page.fill("#bookmark", "A spindle");
      await page.keyboard.press("Enter");
      await page.getByText("Kept “A spindle”.").waitFor();
      await world.picture(visit, "bookmarks");
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.click("text=Save as a file"),
      ]);
      const json = readFileSync(await download.path(), "utf8");
      equal(
        JSON.stringify(JSON.parse(json)),
        JSON.stringify([{ name: "A spindle", view: kept }]),
        "the file",
      );
      await page.click("[aria-label='Remove A spindle']");
      equal(await page.locator(".bookmarks li").count(), 0, "bookmarks after one was removed");
      const read = (text) =>
        page.setInputFiles("#bookmarks-file", {
          name: "some.json",
          mimeType: "application/json",
          buffer: Buffer.from(text),
        });
      await read('{"nothing": 1}');
      await page.getByText("This is not a file of bookmarks").waitFor();
      await read(
        JSON.stringify([
          { name: "Elsewhere", view: "#made?plane=xz&at=400,200,11&show=pyramid" },
          ...JSON.parse(json),
        ]),
      );
      await page.getByText("2 of 2 bookmarks are new.").waitFor();
      await page.keyboard.press("Escape");
      await visit.open("#film");
      await page.keyboard.press("h");
      await page.click(".bookmarks >> text=A spindle");
      await page.waitForFunction((wanted) => location.hash === wanted, kept);
      await visit.settle();
      await page.keyboard.press("h");
      await page.click(".bookmarks >> text=Elsewhere");
      await page.waitForFunction(
        () =>
          location.hash.startsWith("#made?plane=xz") &&
          document.querySelector("h1")?.textContent === "made",
      );
      await visit.settle();
    },

    async "A rectangle has the mean, deviation, least and greatest of exact voxels, and an area"(
      visit,
    ) {
      await visit.context.grantPermissions(["clipboard-read", "clipboard-write"]);
      await visit.open("#made?plane=xy&at=603.25,320.25,9&zoom=1&show=pyramid,ids:50");
      await visit.page.keyboard.press("r");
      await visit.page.fill("#region-from", "403, 220");
      await visit.page.fill("#region-to", "433, 260");
      await visit.page.keyboard.press("Enter");
      await visit.page.getByText("30 × 40 voxels, 19,200 nm²").waitFor();
      await world.picture(visit, "region");
      await visit.page.click("text=Copy as CSV");
      await visit.page.waitForFunction(async () =>
        (await navigator.clipboard.readText()).startsWith("region"),
      );
      /** The rows of the table that was copied, without the number of the rectangle. */
      const copied = async () => {
        const text = await visit.page.evaluate(() => navigator.clipboard.readText());
        const [, ...rows] = text.trim().split("\n");
        return rows.map((row) => row.split(",").slice(1));
      };
      const [ids, raw] = await copied();
      const at = Array.from({ length: 1200 }, (_, i) => [
        400 + (i % 30),
        200 + Math.floor(i / 30),
        2,
      ]);
      const values = made({ ...PYRAMID, values: true, at }).map(Number);
      equal(values.length, 1200, "the values in the rectangle");
      const mean = meanOf(values);
      const deviation = deviationOf(values);
      truth(
        Math.abs(raw[1] - mean) < 1e-9 && Math.abs(raw[2] - deviation) < 1e-9,
        `${raw}: ${mean} and ${deviation} are expected`,
      );
      equal(
        raw.slice(3).join(),
        [
          Math.min(...values),
          Math.max(...values),
          "",
          1200,
          0,
          403,
          433,
          220,
          260,
          9,
          10,
          "",
        ].join(),
        "the other cells",
      );
      const labels = new Set(
        made({ ...PYRAMID, path: "/ids", values: true, at }).filter((id) => id !== "0"),
      );
      equal(ids[5], String(labels.size), "the number of labels");
      // An end that is taken moves; the other one stays.
      const box = await visit.page.locator('.pane[data-plane="xy"] .canvas').boundingBox();
      const [[x, y]] = await visit.places("xy", [600.25, 300.25], [[430, 240]]);
      await visit.page.mouse.move(box.x + x, box.y + y);
      await visit.page.mouse.down();
      await visit.page.mouse.move(box.x + x + 70, box.y + y + 60, { steps: 4 });
      await visit.page.mouse.up();
      await visit.page.getByText("100 × 100 voxels, 160,000 nm²").waitFor();
      // Rectangles are kept in one table, also while others are measured in other slices.
      await visit.page.click("text=Keep in the table");
      await visit.page.getByText("Drag another rectangle").waitFor();
      await visit.page.keyboard.press(".");
      await visit.page.waitForFunction(() => location.hash.includes(",10.5&"));
      equal(await visit.page.locator(".mark rect").count(), 0, "rectangles of another slice");
      await visit.page.mouse.move(box.x + x - 100, box.y + y - 100);
      await visit.page.mouse.down();
      await visit.page.mouse.move(box.x + x - 80, box.y + y - 90, { steps: 4 });
      await visit.page.mouse.up();
      await visit.page.getByText("20 × 10 voxels, 3,200 nm²").waitFor();
      equal(await visit.page.locator(".measure tbody tr").count(), 4, "rows of two rectangles");
      await visit.page.keyboard.press(",");
      await visit.page.waitForFunction(() => document.querySelectorAll(".mark rect").length === 2);
      await visit.settle();
      await world.picture(visit, "regions");
      await visit.page.click("text=Copy as CSV");
      await visit.page.waitForFunction(
        async () => (await navigator.clipboard.readText()).split("\n").length === 6,
      );
      const table = await copied();
      const large = made({
        ...PYRAMID,
        values: true,
        at: Array.from({ length: 10_000 }, (_, i) => [
          400 + (i % 100),
          200 + Math.floor(i / 100),
          2,
        ]),
      }).map(Number);
      const largeMean = meanOf(large);
      truth(Math.abs(table[1][1] - largeMean) < 1e-9, `${table[1]}: ${largeMean} is expected`);
      equal(table[1].slice(6, 10).join(), "10000,0,403,503", "voxels of the first rectangle");
      const [left, right, top, bottom, z] = table[3].slice(8, 13).map(Number);
      const small = made({
        ...PYRAMID,
        values: true,
        at: Array.from({ length: 200 }, (_, i) => [
          left - 3 + (i % 20),
          top - 20 + Math.floor(i / 20),
          z - 7,
        ]),
      }).map(Number);
      equal([right - left, bottom - top, z].join(), "20,10,9", "the second rectangle");
      equal(
        table[3].slice(3, 5).join(),
        [Math.min(...small), Math.max(...small)].join(),
        "least and greatest of the second rectangle",
      );
      // The table outlives the panel, until it is emptied.
      await visit.page.keyboard.press("Escape");
      await visit.page.keyboard.press("r");
      equal(await visit.page.locator(".measure tbody tr").count(), 2, "rows that were kept");
      await visit.page.click("text=Empty the table");
      equal(await visit.page.locator(".measure tbody tr").count(), 0, "rows of an empty table");
      await visit.page.keyboard.press("Escape");
      await visit.page.waitForFunction(() => !document.querySelector(".measure"));
    },

    async "The voxels of the view are a NumPy file, a TIFF, and lines of Python that read exactly them"(
      visit,
    ) {
      await visit.context.grantPermissions(["clipboard-read", "clipboard-write"]);
      await visit.open("#made?plane=xy&at=603.25,320.25,9&zoom=4&show=pyramid");
      await visit.page.keyboard.press("d");
      await world.picture(visit, "voxels");
      const number = async (name) => Number(await visit.page.inputValue(`#box-${name}`));
      const [x0, x1, y0, y1, z0, z1] = await Promise.all(
        ["x-first", "x-end", "y-first", "y-end", "z-first", "z-end"].map(number),
      );
      truth(
        x0 > 400 && x1 < 800 && y0 > 150 && y1 < 450 && z0 === 2 && z1 === 3,
        `the box is ${[x0, x1, y0, y1, z0, z1]}`,
      );
      const at = [];
      for (let y = y0; y < y1; y += 1) for (let x = x0; x < x1; x += 1) at.push([x, y, 2]);
      const expected = made({ ...PYRAMID, values: true, at }).map(Number);
      const [npy] = await Promise.all([
        visit.page.waitForEvent("download"),
        visit.page.click("a:text-is('.npy')"),
      ]);
      const bytes = readFileSync(await npy.path());
      equal(
        Buffer.compare(bytes.subarray(bytes.length - expected.length), Buffer.from(expected)),
        0,
        "the voxels of the file",
      );
      const [tif] = await Promise.all([
        visit.page.waitForEvent("download"),
        visit.page.click("a:text-is('.tif')"),
      ]);
      truth(
        /^(II\*\0|MM\0\*)/.test(readFileSync(await tif.path()).toString("latin1")),
        "the other file is no TIFF",
      );
      equal(
        await visit.page
          .getByText("channels", { exact: false })
          .and(visit.page.locator("a.button"))
          .isVisible(),
        false,
        "a file of several channels",
      );
      await visit.page.click("text=Copy as Python");
      await visit.page.waitForFunction(async () =>
        (await navigator.clipboard.readText()).includes("zarr"),
      );
      const code = await visit.page.evaluate(() => navigator.clipboard.readText());
      if (world.runPython) {
        const [shape, values] = world.runPython(code);
        equal(shape.join(), [1, y1 - y0, x1 - x0].join(), "the shape");
        equal(values.join(), expected.join(), "the voxels");
      } else {
        console.log("skipped: the lines of Python were not run, for want of a Python with zarr");
      }
      await visit.page.click("text=Drag a rectangle");
      const box = await visit.page.locator('.pane[data-plane="xy"] .canvas').boundingBox();
      const [[left, top], [right, bottom]] = await visit.places(
        "xy",
        [600.25, 300.25],
        [
          [580, 280],
          [619, 309],
        ],
        4,
      );
      await visit.page.mouse.move(box.x + left, box.y + top);
      await visit.page.mouse.down();
      await visit.page.mouse.move(box.x + right, box.y + bottom, { steps: 4 });
      await world.picture(visit, "rectangle");
      await visit.page.mouse.up();
      await visit.page.waitForSelector("#box-x-first");
      const dragged = await Promise.all(["x-first", "x-end", "y-first", "y-end"].map(number));
      truth(dragged.join() === "580,620,280,310", `the rectangle is ${dragged}`);
    },

    async "A line has a length in the file's unit, and the values of every channel along it"(
      visit,
    ) {
      await visit.context.grantPermissions(["clipboard-read", "clipboard-write"]);
      await visit.open("#made?plane=xy&at=603.25,320.25,9&zoom=1&show=pyramid,ids:50");
      await visit.page.keyboard.press("m");
      await visit.page.fill("#line-from", "403, 220");
      await visit.page.keyboard.press("Enter");
      await visit.page.fill("#line-to", "703, 620");
      await visit.page.keyboard.press("Enter");
      await visit.page.waitForFunction(
        () => document.querySelector(".measure .length")?.textContent === "Length 2 µm",
      ); // 500 voxels of 4 nm
      await world.picture(visit, "line");
      await visit.page.click("text=Copy as CSV");
      await visit.page.waitForFunction(async () =>
        (await navigator.clipboard.readText()).startsWith("distance"),
      );
      const lines = (await visit.page.evaluate(() => navigator.clipboard.readText()))
        .trim()
        .split("\n")
        .map((line) => line.split(","));
      equal(lines[0].join(), "distance (nm),x,y,z,ids,pyramid", "the head");
      equal(lines.length, 402, "lines");
      equal(
        `${lines[1].slice(1, 4)} ${lines.at(-1).slice(1, 4)} ${lines.at(-1)[0]}`,
        "403,220,9 703,620,9 2000",
        "the ends",
      );
      const at = lines.slice(1).map(([, x, y, z]) => [x - 3, y - 20, z - 7].map(Number));
      for (const [name, column] of [
        ["/ids", 4],
        ["/raw", 5],
      ]) {
        equal(
          lines
            .slice(1)
            .map((line) => line[column])
            .join(),
          made({ ...PYRAMID, path: name, values: true, at }).join(),
          name,
        );
      }
      await visit.page.keyboard.press("Escape");
      await visit.page.waitForFunction(() => !document.querySelector(".measure"));
      await visit.page.keyboard.press("m");
      await visit.page.mouse.move(300, 300);
      await visit.page.mouse.down();
      await visit.page.mouse.move(400, 300, { steps: 4 });
      await visit.page.mouse.up();
      await visit.page.waitForFunction(
        () => document.querySelector(".measure .length")?.textContent === "Length 400 nm",
      );
    },

    async "Go to takes positions with and without units, slices, labels and links, and says what it cannot take"(
      visit,
    ) {
      await visit.open("#made?plane=xy&at=603.25,320.25,9&zoom=1&show=pyramid,ids:100");
      const go = async (text) => {
        await visit.page.keyboard.press("g");
        await visit.page.fill("#goto", text);
        await visit.page.keyboard.press("Enter");
      };
      const arrives = async (text, place) => {
        await go(text);
        await visit.page.waitForFunction((wanted) => location.hash.includes(wanted), place);
        await visit.settle();
      };
      await arrives("120, 45, 8", "at=120.5,45.5,8.5");
      await arrives("2 µm, 800 nm, 100nm", "at=500,200,10");
      await arrives("slice 12", "at=500,200,12.5");
      await arrives(
        `${world.server.address}#made?plane=xz&at=400,200,11&show=pyramid`,
        "plane=xz&at=400,200,11",
      );
      const state = {
        dimensions: { x: [4e-9, "m"], y: [4e-9, "m"], z: [1e-8, "m"] },
        position: [610.5, 330.5, 12.5],
      };
      await arrives(
        `https://example.org/#!${encodeURIComponent(JSON.stringify(state))}`,
        "at=610.5,330.5,12.5",
      );
      await arrives("label 3000009", ":3000009");
      await visit.page.waitForFunction(() => !location.hash.includes("at=610.5"));
      await visit.settle();
      const [x, y, z] = /at=([\d.]+),([\d.]+),([\d.]+)/.exec(visit.hash()).slice(1).map(Number);
      equal(
        made({
          ...PYRAMID,
          path: "/ids",
          values: true,
          at: [[x - 3, y - 20, z - 7].map(Math.floor)],
        })[0],
        "3000009",
        "the label there",
      );
      await visit.page.keyboard.press("z");
      await visit.page.waitForFunction(() => location.hash.includes("plane=xy"));
      await go("slice 99");
      await visit.page.waitForSelector("text=There is no slice 99: there are slices 7 to 15.");
      await visit.page.fill("#goto", "120, 9000");
      await visit.page.keyboard.press("Enter");
      await visit.page.waitForSelector("text=There is no y 9000: y is 20 to 720.");
      await visit.page.fill("#goto", "time 3");
      await visit.page.keyboard.press("Enter");
      await visit.page.waitForSelector("text=There is no time 3: there is only time 0.");
      await visit.page.keyboard.press("Escape");
      await visit.page.waitForSelector("#goto", { state: "detached" });
      await arrives("90, 80", "at=90.5,80.5,");
      await visit.page.keyboard.press("q");
      await visit.page.waitForSelector("text=Copied 2 lines");
      // A number field gives the keyboard back.
      await visit.page.click(".slicer.axis-z input[type=number]");
      await visit.page.keyboard.press("Enter");
      await visit.page.keyboard.press("Period");
      await visit.page.waitForFunction(() => /at=90.5,80.5,\d+.5/.test(location.hash));
      await go("3000009");
      await visit.page.waitForFunction(() => !location.hash.includes("at=90.5,80.5,"));
      await go("label 12345");
      await visit.page.waitForSelector("text=There is no label 12345");
      // The notice is hidden after four seconds, perhaps before the picture is complete.
      await Promise.all([
        visit.page.waitForSelector("text=There is no label 54321"),
        visit.open("#made?plane=xy&at=603.25,320.25,9&zoom=1&show=pyramid,ids:100:54321"),
      ]);
      await go("somewhere");
      await visit.page.waitForSelector("text=is no place");
      await world.picture(visit, "goto");
    },

    async "All visible channels are one TIFF file"(visit) {
      await visit.open("#film?plane=xy&at=175.25,100.25,3&zoom=1&show=first:G,second:M");
      await visit.page.keyboard.press("d");
      const [tif] = await Promise.all([
        visit.page.waitForEvent("download"),
        visit.page.click("a:text-is('.tif, 2 channels')"),
      ]);
      truth(
        readFileSync(await tif.path())
          .toString("latin1")
          .includes("channels=2\n"),
        "the file has no two channels",
      );
    },

    async "About this file tells of layout, chunks, filters and voxel sizes"(visit) {
      await visit.open("#made?plane=xy&at=603.25,320.25,9&zoom=1&show=pyramid");
      visit.forgiven = /404/; // a server may have the plain description only
      await visit.page.keyboard.press("i");
      const text = visit.page.locator(".about");
      await text.getByText("Stored").waitFor();
      const said = await text.textContent();
      for (const wanted of ["/raw", "/half", "3 × 128 × 128", "deflate", "4 × 4 × 10 nm"])
        truth(said.includes(wanted), `${wanted} is missing in ${said}`);
      await world.picture(visit, "about");
    },

    async "Playing goes through every time point in order, backwards too, or through the slices"(
      visit,
    ) {
      await visit.open("#film?plane=xy&at=175.25,100.25,3&zoom=1&show=first");
      const times = () =>
        visit.page.evaluate(() => {
          window.times = [];
          new MutationObserver(() =>
            window.times.push(
              Number(/first\/xy\/(\d+)\//.exec(document.querySelector(".pane").dataset.shown)?.[1]),
            ),
          ).observe(document.querySelector(".pane"), { attributeFilter: ["data-shown"] });
        });
      await times();
      await visit.page.selectOption("#rate", "10");
      await visit.page.keyboard.press("Escape");
      await visit.page.click("button[title^=Play]");
      await visit.page.waitForFunction(() => window.times.length >= 7);
      await visit.page.keyboard.press("Escape");
      const seen = (await visit.page.evaluate(() => window.times)).slice(0, 7);
      equal(seen.join(), "1,2,3,0,1,2,3", "the time points that were shown");
      await visit.settle();
      await visit.page.evaluate(() => (window.times = []));
      const here = Number(/time=(\d)/.exec(visit.hash())?.[1] ?? 0);
      await visit.page.keyboard.press("Shift+K");
      await visit.page.waitForFunction(() => window.times.length >= 5);
      await visit.page.keyboard.press("Shift+K");
      const back = (await visit.page.evaluate(() => window.times)).slice(0, 5);
      equal(
        back.join(),
        [3, 2, 1, 0, 3].map((by) => (here + by) % 4).join(),
        "the time points backwards",
      );
      await visit.settle();
      const time = /time=\d/.exec(visit.hash())?.[0] ?? "show";
      await visit.page.selectOption("#play-along", "slices");
      await visit.page.keyboard.press("Escape");
      await visit.page.click("button[title^=Play]");
      await visit.page.waitForFunction(
        () => document.querySelector(".slicer.axis-z input[type=range]").value !== "3",
      );
      await visit.page.keyboard.press("Escape");
      await visit.settle();
      truth(
        !visit.hash().includes(",3&") && visit.hash().includes(time),
        `${visit.hash()} has the slice that played, and ${time}`,
      );
    },

    async "An address that is none is said to be none"(visit) {
      await visit.open("#");
      await visit.page.evaluate(() => (location.hash = "#%E0%A4%A"));
      await visit.page.waitForSelector("text=There is no dataset “%E0%A4%A” here.");
    },

    async "What goes wrong is said in words, with a way out"(visit) {
      visit.forgiven = /.*/;
      await visit.page.route("**/datasets.json*", (route) => route.abort());
      await visit.open("");
      await visit.page.waitForSelector("text=Is voltile still running?");
      await world.picture(visit, "nobody-there");
      await visit.page.unroute("**/datasets.json*");
      await visit.page.click("text=Try again");
      await visit.page.waitForSelector(".list");
      await visit.open("#");
      await visit.page.evaluate(() => (location.hash = "#nowhere"));
      await visit.page.waitForSelector("text=There is no dataset “nowhere” here.");
      const problem = {
        status: 500,
        contentType: "application/problem+json",
        body: '{"detail":"the chunk is damaged"}',
      };
      await visit.page.route("**/em/xy/24/**", (route) => route.fulfill(problem));
      await visit.page.evaluate((hash) => (location.hash = hash), DEMO);
      await visit.page.waitForSelector("text=the chunk is damaged");
      await world.picture(visit, "damaged");
      await visit.page.unroute("**/em/xy/24/**");
      await visit.page.click("text=Try again");
      await visit.settle();
      await shows(visit, "xy", MIDDLE, NEAR, emAt(24));
    },

    async "Light and dark"(visit) {
      for (const colorScheme of ["light", "dark"]) {
        await visit.page.emulateMedia({ colorScheme });
        await visit.open(
          "#demo-v1?plane=all&at=512,512,24&show=em,actin:M,nuclei:C,segmentation:30",
        );
        await world.picture(visit, `all-channels-${colorScheme}`);
        await visit.open("#");
        await visit.page.waitForSelector(".list img");
        await world.picture(visit, `list-${colorScheme}`);
      }
    },
  };
};

/** Stories of hands on glass have a phone. */
export const OPTIONS = {
  "Two fingers zoom": { viewport: { width: 400, height: 760 }, hasTouch: true, isMobile: true },
};
