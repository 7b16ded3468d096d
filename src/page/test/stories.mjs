// What a person does with the page, and what must then be on the screen.
//
// Pixels are compared with h5py's, at places spread over the pane: at one voxel a pixel they must be the same.

import path from "node:path";

import { equal, same, truth } from "./harness.mjs";

/** A grid of pixels of a picture of so many columns and rows, kept off edges and overlays. */
function spread([columns, rows], count = 7) {
  const at = (i, length) => Math.floor(((i + 0.5) / count) * length);
  return Array.from({ length: count * count }, (_, i) => [at(i % count, columns), at(Math.floor(i / count), rows)]);
}

const EM = { path: "/em", axes: "zyx", index: {}, box: [1, 1, 1], window: null };
const PYRAMID = { path: "/raw", axes: "zyx", index: {}, box: [1, 1, 1], window: null };
const FILM = { path: "/film", axes: "tczyx", box: [1, 1, 1], window: [100, 3000] };
const DEMO = "#demo-v1?plane=xy&at=512.25,512.25,24&zoom=1&show=em";
const MIDDLE = [512.25, 512.25];
// Those that the pane shows at 1:1, whatever its size.
const NEAR = spread([600, 500]).map(([x, y]) => [x + 212, y + 262]);

export const stories = (world) => {
  const demo = (question) => world.ask([{ file: world.demo, ...question }])[0];
  const made = (question) => world.ask([{ file: path.join(world.folder, "test.h5"), ...question }])[0];
  const shows = async (visit, plane, centre, pixels, expected, most = 0, scale = 1) =>
    same(await visit.pixels(plane, await visit.places(plane, centre, pixels, scale)), expected, most);
  const emAt = (z) => demo({ ...EM, at: NEAR.map(([x, y]) => [x, y, z]) });

  /**
   * Waits until colours in Neuroglancer's panels pass a check. `shown` has, for some of the panels, its number and the voxel at
   * an offset from the panel's middle, in pixels.
   */
  const inPanels = async (tab, count, shown, check) => {
    const panels = () => tab.page.$$eval(".neuroglancer-rendered-data-panel", (all) =>
      all.map((panel) => panel.getBoundingClientRect()).map(({ x, y, width, height }) => ({ x, y, width, height })));
    const wantedIn = (boxes) => shown.flatMap(([panel, voxel]) => {
      const { x: left, y: top, width, height } = boxes[panel];
      // Off the lines through the middle, and inside the few sections.
      const near = [-190, -133, -71, 57, 119, 187].flatMap((i) => [-9, -5, 4, 8].map((j) => (panel === 3 ? [j, Math.round(i / 2)] : [i, j])));
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
        check(await tab.colours(wanted.map(({ place }) => place)), wanted.map(({ at }) => at));
        return;
      } catch (error) {
        if (Date.now() > deadline) throw error;
      }
    }
  };

  return {
    async "The list shows every dataset with a picture, and a click opens one"(visit) {
      await visit.open("#");
      await visit.page.waitForFunction(() =>
        document.images.length === 4 && [...document.images].every((image) => image.complete && image.naturalWidth === 512));
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
        const [ids, raw] = [made({ ...PYRAMID, path: "/ids", labels: true, at }), made({ ...PYRAMID, at })];
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
      await visit.page.waitForFunction((wanted) => document.querySelector(".status").textContent.includes(wanted), `part ${id}`);
    },

    async "Keys, buttons, slider, number and wheel go through the slices"(visit) {
      await visit.open(DEMO);
      const goes = async (z) => {
        await visit.settle();
        equal(await visit.page.inputValue(".slicer.axis-z input[type=number]"), String(z), "the slice's number");
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
      truth(visit.hash().includes("at=512.25,512.25,8"), `the address does not tell of the slice: ${visit.hash()}`);
    },

    async "The slices that come next are there before they are asked for"(visit) {
      await visit.open(DEMO);
      await visit.page.keyboard.press("Period");
      await visit.settle();
      await visit.page.waitForFunction(() =>
        [26, 27, 28].every((z) => performance.getEntriesByType("resource").some(({ name }) => name.includes(`/em/xy/${z}/`))));
    },

    async "The wheel zooms about the cursor, and a coarser level is drawn"(visit) {
      await visit.open(DEMO);
      await visit.page.mouse.move(400, 400);
      await visit.page.mouse.wheel(0, -240);
      await visit.settle();
      truth(Number(/zoom=([\d.]+)/.exec(visit.hash())?.[1]) > 1.2, `the wheel did not zoom in: ${visit.hash()}`);
      await visit.open("#demo-v1?plane=xy&at=512.5,512.5,24&zoom=0.5&show=em");
      const pixels = spread([400, 400]).map(([x, y]) => [x + 56, y + 56]);
      await shows(visit, "xy", [256.25, 256.25], pixels, demo({ ...EM, box: [2, 2, 1], at: pixels.map(([x, y]) => [x, y, 24]) }));
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
      for (const [plane, key, column] of [["xz", "y", 0], ["yz", "x", 1]]) {
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
      await visit.page.mouse.click(Math.round(box.x + box.width / 2) + 60, Math.round(box.y + box.height / 2) - 90);
      await visit.settle();
      const [x, y, z] = /at=([\d.]+),([\d.]+),([\d.]+)/.exec(visit.hash()).slice(1).map(Number);
      truth(Math.abs(x - 560) < 2 && Math.abs(y - 410) < 2 && Math.floor(z) === 24, `the planes cross at ${x}, ${y}, ${z}`);
      const rows = spread([200, 100]).map(([i, row]) => [i, row + 100]);
      const depth = (row) => Math.floor((row * 0.004) / 0.03);
      const xz = rows.map(([i, row]) => [i + 450, row]);
      await shows(visit, "xz", [x, 7.5 * z], xz, demo({ ...EM, at: xz.map(([i, row]) => [i, Math.floor(y), depth(row)]) }));
      const yz = rows.map(([i, row]) => [i + 310, row]);
      await shows(visit, "yz", [y, 7.5 * z], yz, demo({ ...EM, at: yz.map(([i, row]) => [Math.floor(x), i, depth(row)]) }));
      await world.picture(visit, "all");
    },

    async "Time has a slider and a key, channels add up in their colours"(visit) {
      await visit.open("#film?plane=xy&at=175.25,100.25,3&zoom=1&show=first:M,second:G");
      const pixels = spread([350, 200], 9);
      const film = (t, c) => made({ ...FILM, index: { t, c }, at: pixels.map(([x, y]) => [x, y, 3]) });
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
      await shows(visit, "xy", [175.25, 100.25], pixels, film1(3).map(([a]) => [a, a, 0]));
      await visit.page.check("#on-colours");
      await visit.page.uncheck("#on-second");
      await visit.settle();
      const rgb = made({ path: "/rgb", axes: "zyxc", index: {}, box: [1, 1, 1], rgb: true, at: pixels.map(([x, y]) => [x, y, 3]) });
      await shows(visit, "xy", [175.25, 100.25], pixels, rgb);
    },

    async "A window is set by its handles, in the data's own values, and by a link"(visit) {
      await visit.open("#film?plane=xy&at=175.25,100.25,3&zoom=1&time=2&show=first:M:500:2500,second:G");
      const pixels = spread([350, 200], 9);
      const film = (c, window) => made({ ...FILM, window, index: { t: 2, c }, at: pixels.map(([x, y]) => [x, y, 3]) });
      const green = film(1, FILM.window);
      const mixed = (magenta) => magenta.map(([a], i) => [a, green[i][0], a]);
      await shows(visit, "xy", [175.25, 100.25], pixels, mixed(film(0, [500, 2500])));
      await visit.page.locator(".channel[data-channel=first] .track svg").waitFor(); // the histogram has been measured
      await visit.page.locator(".channel[data-channel=first] .handle").first().fill("256");
      await visit.settle();
      const [low, high] = /first:M:([\d.]+):([\d.]+)/.exec(visit.hash()).slice(1).map(Number);
      truth(low > 1600 && low < 1900, `the middle of the values is not ${low}`);
      await shows(visit, "xy", [175.25, 100.25], pixels, mixed(film(0, [low, high])));
      await world.picture(visit, "window");
      await visit.page.locator(".channel[data-channel=first] .window button").click();
      await visit.settle();
      await shows(visit, "xy", [175.25, 100.25], pixels, mixed(film(0, FILM.window)));
    },

    async "Where no mount is adjustable, a window stretches the grey values that there are"(visit) {
      await visit.page.route("**/datasets.json", async (route) => {
        const response = await route.fetch();
        const site = await response.json();
        site.mounts = site.mounts.filter((mount) => !mount.adjustable);
        await route.fulfill({ response, json: site });
      });
      await visit.open(DEMO);
      await visit.page.locator(".window .handle").first().fill("128"); // of 512: 64 of 256 grey values
      await visit.settle();
      const low = Number(/em::([\d.]+):([\d.]+)/.exec(visit.hash())?.[1]);
      truth(Math.abs(low - 64) < 1, `the handle set ${visit.hash()}`);
      await shows(visit, "xy", MIDDLE, NEAR, demo({ ...EM, window: [low, 255], at: NEAR.map(([x, y]) => [x, y, 24]) }), 1);
      await world.picture(visit, "window");
      await visit.open("#demo-v1?plane=xy&at=512.25,512.25,24&zoom=1&show=em:R:60:180");
      const red = demo({ ...EM, window: [60, 180], at: NEAR.map(([x, y]) => [x, y, 24]) }).map(([v]) => [v, 0, 0]);
      await shows(visit, "xy", MIDDLE, NEAR, red, 1);
      await visit.page.click(".window button");
      await visit.settle();
      await shows(visit, "xy", MIDDLE, NEAR, emAt(24).map(([v]) => [v, 0, 0]));
    },

    async "Labels lie over the image, as opaque as one likes, and nothing hides where there is none"(visit) {
      await visit.open("#made?plane=xy&at=603.25,320.25,9&zoom=1&show=pyramid,ids:100");
      const pixels = spread([600, 500]).map(([x, y]) => [x + 300, y + 50]);
      const at = pixels.map(([x, y]) => [x, y, 2]);
      const ids = made({ ...PYRAMID, path: "/ids", labels: true, at });
      const raw = made({ ...PYRAMID, at });
      const mixed = (part) => ids.map((id, i) => (id.some(Boolean) ? id.map((v, c) => v * part + raw[i][c] * (1 - part)) : raw[i]));
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
      for (const pixel of [[421, 333], [650, 180]]) {
        const [[x, y]] = await visit.places("xy", [600.25, 300.25], [pixel]);
        const [raw, id] = ["/raw", "/ids"].map((name) => made({ ...PYRAMID, path: name, values: true, at: [[...pixel, 2]] })[0]);
        await visit.page.mouse.move(box.x + x + 0.5, box.y + y + 0.5);
        await visit.page.waitForFunction((wanted) => document.querySelector(".status").textContent.includes(wanted), `ids ${id} · pyramid ${raw}`);
        await visit.page.keyboard.press("v");
        await visit.page.waitForFunction(async (wanted) => (await navigator.clipboard.readText()) === wanted, id);
      }
      // The slice below the cursor changes with the slice that is shown.
      await visit.page.keyboard.press("Period");
      const [raw] = made({ ...PYRAMID, values: true, at: [[650, 180, 3]] });
      await visit.page.waitForFunction((wanted) => document.querySelector(".status").textContent.endsWith(wanted), `pyramid ${raw}`);
      await visit.page.mouse.move(5, 5);
      await visit.page.waitForFunction(() => !document.querySelector(".status").textContent.includes("pyramid"));
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
      const mixed = (dimmed) => colours.map((colour, i) => {
        const part = values[i] === "0" ? 0 : values[i] === id ? 1 : dimmed;
        return colour.map((v, c) => v * part + raw[i][c] * (1 - part));
      });
      const box = await visit.page.locator('.pane[data-plane="xy"] .canvas').boundingBox();
      const [[x, y]] = await visit.places("xy", [600.25, 300.25], [pixels[chosen]]);
      await visit.page.mouse.move(box.x + x + 0.5, box.y + y + 0.5);
      await visit.page.waitForFunction((wanted) => document.querySelector(".status").textContent.includes(wanted), `ids ${id}`);
      await visit.page.keyboard.press("s");
      await visit.settle();
      truth(visit.hash().includes(`=ids:100:${id},`), `the address does not name the label: ${visit.hash()}`);
      await shows(visit, "xy", [600.25, 300.25], pixels, mixed(48 / 255), 2);
      await world.picture(visit, "selected");
      await visit.page.check("#alone-ids");
      await visit.settle();
      await shows(visit, "xy", [600.25, 300.25], pixels, mixed(0), 1);
      truth(visit.hash().includes(`=ids:100:${id}:alone,`), `the address does not say that it is alone: ${visit.hash()}`);
      // The same label in another plane, whose rows of voxels are many pixels high, and at a coarser level.
      await visit.open(`#made?plane=xz&at=603.25,320.25,10.1&zoom=1&show=ids:100:${id}:alone`);
      const cut = spread([600, 22]).map(([i, row]) => [i + 300, row]);
      const places = cut.map(([i, row]) => [i, 300, Math.floor((row * 4) / 10)]);
      const ids = made({ ...PYRAMID, path: "/ids", values: true, at: places });
      const shown = made({ ...PYRAMID, path: "/ids", labels: true, at: places }).map((colour, i) => (ids[i] === id ? colour : [0, 0, 0]));
      truth(new Set(ids).size > 2 && ids.includes(id), "the cut shows too few labels");
      await shows(visit, "xz", [600.25, 3.1 * 2.5], cut, shown);
      await visit.page.fill("#label-ids", "");
      await visit.page.keyboard.press("Enter");
      await visit.settle();
      truth(visit.hash().endsWith("show=ids:100"), `all labels are not shown again: ${visit.hash()}`);
    },

    async "Neuroglancer opens at the same place and shows the same voxels in every panel"(visit) {
      const [x, y, z] = [600, 300, 4];
      await visit.open("#made?plane=all&at=603.25,320.25,11.3&zoom=2&show=pyramid");
      const tab = await visit.opened(() => visit.page.keyboard.press("n"));
      // xy, xz, three dimensions, yz. Two pixels are a voxel of 4 nm; a section is 10 nm thick; in yz, z goes left.
      const [h, v] = [0.5, 0.5 * (4 / 10)];
      const shown = [
        [0, ([i, j]) => [x + 0.5 + i * h, y + 0.5 + j * h, z]],
        [1, ([i, j]) => [x + 0.5 + i * h, y, z + 0.5 + j * v]],
        [3, ([i, j]) => [x, y + 0.5 + j * h, z + 0.5 - i * v]],
      ];
      await inPanels(tab, 4, shown, (colours, at) => same(colours, made({ ...PYRAMID, at }), 1));
      await world.picture(tab, "neuroglancer");
      truth(tab.requests.some((url) => url.includes("/neuroglancer/made/pyramid/0/")), "no chunk of level 0 was requested");
      await tab.page.close();
      // Several layers at once, one of them with chunks that are passed through.
      await visit.open("#demo-v1?plane=all&at=512,512,24&zoom=1&show=em,actin:M,segmentation:40");
      const layers = await visit.opened(() => visit.page.keyboard.press("n"));
      const finest = ["em", "actin", "segmentation"].map((name) => `/neuroglancer/demo-v1/${name}/0/`);
      for (const end = Date.now() + 60_000; !finest.every((path) => layers.requests.some((url) => url.includes(path))); ) {
        truth(Date.now() < end, `chunks of level 0 are missing: ${layers.requests.filter((url) => url.includes("demo-v1"))}`);
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
        const isChosen = made({ ...PYRAMID, path: "/ids", values: true, at }).map((label) => label === id);
        const colour = colours[isChosen.indexOf(true)];
        truth(isChosen.includes(true) && isChosen.includes(false) && new Set(colour).size > 1, `the label is ${colour}`);
        same(colours, made({ ...PYRAMID, at }).map((grey, i) => (isChosen[i] ? colour : grey)), 1);
      });
      await world.picture(tab, "neuroglancer-labels");
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
          position: [x + 3, y + 20, z + 7], crossSectionScale: 0.5, layout: "xy", // OME-Zarr counts from centres of voxels
        };
        await visit.page.goto("about:blank");
        await visit.page.goto(`${world.server.address}neuroglancer/#!${encodeURIComponent(JSON.stringify(state))}`);
        await inPanels(visit, 1, near, (colours, at) => same(colours, made({ ...PYRAMID, at }), 1));
        await world.picture(visit, `neuroglancer-zarr-${version}`);
      }
    },

    async "Offsets shift numbers, and stored levels of odd sizes lie where they belong"(visit) {
      // z 9 is slice 2 (the offset is 7); 0.5 is level 1, which the file has, rounded down.
      await visit.open("#made?plane=xy&at=603.5,320.5,9&zoom=0.5&show=pyramid");
      equal(await visit.page.inputValue(".slicer.axis-z input[type=number]"), "9", "the slice's number");
      const pixels = spread([590, 340]);
      const half = made({ ...PYRAMID, path: "/half", at: pixels.map(([x, y]) => [x, y, 2]) });
      await shows(visit, "xy", [300.25, 150.25], pixels, half);
      // Two screen pixels a voxel: no level is finer, and edges stay sharp.
      await visit.open("#made?plane=xy&at=1103.25,620.25,9&zoom=2&show=pyramid");
      const fine = spread([200, 150]).map(([x, y]) => [x + 980, y + 540]);
      await shows(visit, "xy", [1100.25, 600.25], fine, made({ ...PYRAMID, at: fine.map(([x, y]) => [x, y, 2]) }), 0, 2);
      await visit.open("#made?plane=xz&at=603.25,320.25,10.1&zoom=1&show=pyramid");
      const cut = [[150, 1], [400, 8], [700, 14], [900, 19]];
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
      const press = (...keys) => keys.reduce((before, key) => before.then(() => visit.page.keyboard.press(key)), Promise.resolve());
      await press("Tab", "Enter"); // the first card: demo-v1
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
      truth(visit.hash().includes("segmentation:40"), `space did not switch a channel: ${visit.hash()}`);
      await press("Backspace");
      await visit.page.waitForSelector(".list");
    },

    async "The address of the tile can be copied, and the cursor tells where it is"(visit) {
      await visit.context.grantPermissions(["clipboard-read", "clipboard-write"]);
      await visit.open("#made?plane=xy&at=903.25,320.25,9&zoom=1&show=pyramid:C");
      await visit.page.click("button[title^='Copy']");
      await visit.page.waitForSelector(".said:not([hidden])");
      const url = await visit.page.evaluate(() => navigator.clipboard.readText());
      equal(url, `${world.server.address}ndtilecache/tilecache/mcfc/made/pyramid:C/xy/9/0_1_0.png`, "the copied address");
      truth((await fetch(url)).ok, "the copied address has no tile");
      await world.picture(visit, "copied");
      const box = await visit.page.locator(".pane").boundingBox();
      await visit.page.mouse.move(box.x + box.width / 2 + 10, box.y + box.height / 2 - 20);
      await visit.page.waitForFunction(() => /x 91[34] {2}y (299|300|301) {2}z 9/.test(document.querySelector(".status").textContent));
    },

    async "Two fingers zoom"(visit) {
      await visit.open(DEMO);
      const devtools = await visit.context.newCDPSession(visit.page);
      const touch = (type, ...points) => devtools.send("Input.dispatchTouchEvent", { type, touchPoints: points });
      const pair = (apart) => [{ x: 200 - apart, y: 300, id: 0 }, { x: 200 + apart, y: 300, id: 1 }];
      await touch("touchStart", ...pair(40));
      for (let apart = 45; apart <= 100; apart += 5) await touch("touchMove", ...pair(apart));
      await touch("touchEnd");
      await visit.settle();
      const zoom = Number(/zoom=([\d.]+)/.exec(visit.hash())?.[1]);
      truth(zoom > 1.7 && zoom < 3.2, `fingers that went 2.5 times as far apart zoomed to ${zoom}`);
      await world.picture(visit, "phone");
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
        equal(told.replace(name, ""), "There is no dataset “” here. If it is protected, enter a secret that shows it.", name);
      }
      await page.evaluate(() => (location.hash = "#hidden?plane=xy&at=603.5,320.5,2"));
      await page.getByRole("alert").filter({ hasText: "hidden" }).waitFor();
      await world.picture(visit, "protected");
      await page.keyboard.press("Tab");
      truth(await page.getByLabel("Secret of protected datasets").evaluate((field) => field === document.activeElement), "Tab does not lead to the field");
      await page.keyboard.type("a wrong secret");
      await page.keyboard.press("Enter");
      await page.getByText("The secret in this address is wrong").waitFor();
      await world.picture(visit, "wrong-secret");
      truth(await page.getByLabel("Secret").evaluate((field) => field === document.activeElement), "the field does not have the focus");
      await page.keyboard.type(secret);
      await page.keyboard.press("Enter");
      await visit.settle();
      equal(await visit.text("h1"), "hidden", "what opened");
      equal(new URL(page.url()).pathname, `/k/${encodeURIComponent(secret)}/`, "where");
      await visit.open("#");
      equal(await page.getByLabel("Secret of protected datasets").count(), 1, "the fields below the list");
    },

    async "What goes wrong is said in words, with a way out"(visit) {
      visit.forgiven = /.*/;
      await visit.page.route("**/datasets.json", (route) => route.abort());
      await visit.open("");
      await visit.page.waitForSelector("text=Is voltile still running?");
      await world.picture(visit, "nobody-there");
      await visit.page.unroute("**/datasets.json");
      await visit.page.click("text=Try again");
      await visit.page.waitForSelector(".list");
      await visit.open("#");
      await visit.page.evaluate(() => (location.hash = "#nowhere"));
      await visit.page.waitForSelector("text=There is no dataset “nowhere” here.");
      const problem = { status: 500, contentType: "application/problem+json", body: '{"detail":"the chunk is damaged"}' };
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
        await visit.open("#demo-v1?plane=all&at=512,512,24&show=em,actin:M,nuclei:C,segmentation:30");
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
