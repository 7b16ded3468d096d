// A notebook of JupyterLab in a real browser: the page and Neuroglancer in cells, through jupyter-server-proxy.
//
//   node notebook.mjs CHROMIUM ADDRESS TOKEN [PICTURE]
//
// ADDRESS is that of a JupyterLab with the notebooks sides.ipynb and demo.ipynb. With PICTURE it only draws a picture of
// demo.ipynb into that file, otherwise it checks sides.ipynb. The last line is `N passed, N failed, N skipped`.

import { PATIENCE, Visit } from "../../src/page/test/harness.mjs";
import { createRequire } from "node:module";

// The packages of the page's tests.
const { chromium } = createRequire(new URL("../../src/page/test/harness.mjs", import.meta.url))("playwright-core");

const [executablePath, address, token, picture] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader"] });
const counts = { passed: 0, failed: 0 };

function check(what, isRight, why = "") {
  counts[isRight ? "passed" : "failed"] += 1;
  console.log(isRight ? `ok      ${what}` : `FAILED  ${what}: ${why}`);
}

/** Opens a notebook and starts all of its cells; also returns the answers that its page gets. */
async function opened(name, viewport) {
  const page = await (await browser.newContext({ viewport })).newPage();
  page.setDefaultTimeout(PATIENCE);
  const answers = [];
  page.on("response", (response) => answers.push(response));
  await page.goto(`${address}lab/tree/${name}.ipynb?reset&token=${token}`);
  await page.waitForSelector(".jp-Notebook .jp-Cell");
  await page.waitForFunction(() => {
    const kernel = window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel;
    return kernel?.connectionStatus === "connected" && kernel.status === "idle";
  });
  // Not awaited: it returns when all cells have run.
  await page.evaluate(() => void window.jupyterapp.commands.execute("notebook:run-all-cells"));
  return { page, answers };
}

/** The frame in the output of a cell, as a `Visit` of the page's tests, so that its methods can be used. */
async function framed(page, place) {
  const element = await page.waitForSelector(`.jp-Cell >> nth=${place} >> iframe`);
  const frame = await element.contentFrame();
  return Object.assign(Object.create(Visit.prototype), { page: frame });
}

async function sides() {
  const { page, answers } = await opened("sides", { width: 1200, height: 1000 });
  const visit = await framed(page, 0);
  await visit.settle();
  const box = await visit.page.locator('.pane[data-plane="xy"] .canvas').boundingBox();
  const [left, right] = await visit.pixels("xy", [-30, 30].map((by) => [Math.round(box.width / 2) + by, Math.round(box.height / 2)]));
  check("the page in a cell shows the voxels", `${left} ${right}` === "60,60,60 190,190,190", `${left} ${right}`);
  const shown = answers.find((answer) => answer.url() === visit.page.url().split("#")[0]);
  check("it is framed at Jupyter's own address", shown?.url().startsWith(`${address}proxy/`), shown?.url());
  check("and allows no other site to frame it", /frame-ancestors 'self'/.test(await shown?.headerValue("content-security-policy")));
  const said = await page.locator(".jp-Cell >> nth=1 >> .jp-OutputArea-output").textContent();
  check("voxels are arrays", said.replace(/\s+/g, " ").includes("[ 60, 60, 190, 190]"), said);
  const viewer = await framed(page, 2);
  const arrived = (path) => answers.some((answer) => answer.status() === 200 && path.test(new URL(answer.url()).pathname));
  for (const path of [/\/neuroglancer\/sides\/raw\/info$/, /\/neuroglancer\/sides\/raw\/\d\/0-\d+_0-\d+_\d-\d$/]) {
    for (let waited = 0; !arrived(path) && waited < PATIENCE; waited += 100) await page.waitForTimeout(100);
    check(`Neuroglancer in a cell gets ${path.source}`, arrived(path), viewer.page.url());
  }
  await page.goto(`${address}voltile/`);
  await page.waitForSelector(".list a");
  check("the launcher's entry serves the folder", (await page.locator(".list a").allTextContents()).join().includes("sides"));
}

async function demo(path) {
  const { page } = await opened("demo", { width: 1150, height: 950 });
  const visit = await framed(page, 0);
  await visit.settle();
  await page.addStyleTag({ content: ".Toastify { display: none }" });
  await page.locator(".jp-NotebookPanel-notebook").screenshot({ path, type: "jpeg", quality: 75 });
}

try {
  await (picture ? demo(picture) : sides());
} catch (error) {
  check("the notebook does what it should", false, error);
} finally {
  await browser.close();
}
console.log(`${counts.passed} passed, ${counts.failed} failed, 0 skipped`);
process.exit(counts.failed ? 1 : 0);
