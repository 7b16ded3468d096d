// Entry point: fetches the datasets, then shows the list or the dataset that the URL names, and
// follows changes of both.

import { type Dataset, explain, type Site } from "./data";
import { button, h } from "./dom";
import { type Change, Known } from "./known";
import { firstChoice, List } from "./list";
import { Live } from "./live";
import { secretForm } from "./secret";
import { tokenOf } from "./view";
import { Viewer } from "./viewer";

const page = document.getElementById("page") as HTMLElement;
const choice = firstChoice();
const known = new Known();
let shown: Viewer | List | null = null;
/** The site from which the shown page was made. */
let shownSite: Site | null = null;

function notice(text: string, ...more: (HTMLElement | false | undefined)[]): HTMLElement {
  return h("main", { className: "notice" }, h("p", { role: "alert" }, text), ...more);
}

/** The dataset that the URL names. */
const namedDataset = (site: Site): Dataset | undefined =>
  site.datasets.find((each) => each.token === tokenOf(location.hash));

/** Shows what the URL names. */
function route(site: Site): void {
  const token = tokenOf(location.hash);
  shownSite = site;
  shown?.close();
  shown = null;
  if (!token) {
    document.title = "voltile";
    const list = new List(site, choice);
    page.replaceChildren(list.element);
    list.open();
    shown = list;
    return;
  }
  const dataset = namedDataset(site);
  if (!dataset?.channels.length) {
    const hint = site.protected ? " If it is protected, enter a secret that shows it." : "";
    const all = h("a", { href: "#" }, "All datasets");
    page.replaceChildren(
      notice(`There is no dataset “${token}” here.${hint}`, site.protected && secretForm(), all),
    );
    return;
  }
  document.title = `${token} · voltile`;
  const viewer = new Viewer(site, dataset, location.hash);
  page.replaceChildren(viewer.element);
  viewer.open();
  shown = viewer;
}

/**
 * OpenSeadragon adds a style sheet to the page, which our Content-Security-Policy forbids, unless
 * one is there. This empty element with the expected attribute prevents that; the rule itself is in
 * style.css.
 */
function spareStyle(): void {
  const mark = document.createElementNS("urn:voltile", "style");
  mark.setAttribute("data-openseadragon-mobile-css", "true");
  document.head.append(mark);
}

/** Shows what the URL names, once its dataset is known. */
async function show(): Promise<void> {
  const token = tokenOf(location.hash);
  const ready = known.now(token);
  if (!ready) {
    shown?.close();
    shown = null;
    page.replaceChildren(notice("Loading …"));
  }
  const site = ready ?? (await known.get(token));
  if (tokenOf(location.hash) === token) route(site);
}

/** Keeps the page up to date while datasets come, change and go. */
function follow(): void {
  const version = (dataset: Dataset | undefined) =>
    dataset && (dataset.version ?? JSON.stringify(dataset));
  const changed = async (restarted: boolean, change: Change | null) => {
    const token = tokenOf(location.hash);
    const before = shownSite?.datasets.find((dataset) => dataset.token === token);
    known.heard(change);
    let site: Site;
    try {
      site = await known.get(token);
    } catch {
      return; // the stream comes back, and with it the next change
    }
    if (token !== tokenOf(location.hash)) return;
    shownSite = site;
    const now = namedDataset(site);
    if (shown instanceof List) shown.update(site);
    else if (version(before) !== version(now)) {
      if (shown instanceof Viewer && now && shown.canTake(now)) shown.take(now);
      else route(site);
    } else if (restarted && shown) shown.retry();
  };
  window.addEventListener("hashchange", () => void attempt(show));
  // One after the other, so that an older answer does not come last.
  let last = Promise.resolve();
  new Live((restarted, change) => (last = last.then(() => changed(restarted, change))));
}

/** Does something that needs the server; if it fails, the page says so and offers to try again. */
async function attempt(task: () => Promise<void>): Promise<void> {
  try {
    await task();
  } catch (error) {
    shown?.close();
    shown = null;
    page.replaceChildren(
      notice(
        explain(error),
        button("Try again", () => void attempt(task)),
      ),
    );
  }
}

async function begin(): Promise<void> {
  const first = await known.get(tokenOf(location.hash));
  const only = first.datasets.length === 1 ? first.datasets[0] : undefined;
  // A list of one dataset is skipped, but "back" leads to it.
  if (only && location.hash === "") history.replaceState(null, "", `#${only.token}`);
  await show();
  follow();
}

spareStyle();
void attempt(begin);
