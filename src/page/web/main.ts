// Entry point: fetches the datasets, then shows the list or the dataset that the URL names, and follows changes of both.

import { type Dataset, explain, loadSite, type Site } from "./data";
import { h } from "./dom";
import { firstChoice, List } from "./list";
import { Live } from "./live";
import { secretForm } from "./secret";
import { tokenOf } from "./view";
import { Viewer } from "./viewer";

const page = document.getElementById("page") as HTMLElement;
const choice = firstChoice();
let shown: Viewer | List | null = null;

function notice(text: string, ...more: (HTMLElement | false | undefined)[]): HTMLElement {
  return h("main", { className: "notice" }, h("p", { role: "alert" }, text), ...more);
}

const named = (site: Site): Dataset | undefined => site.datasets.find((each) => each.token === tokenOf(location.hash));

/** Shows what the URL names. */
function route(site: Site): void {
  const token = tokenOf(location.hash);
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
  const dataset = named(site);
  if (!dataset?.channels.length) {
    const way = site.protected ? " If it is protected, enter a secret that shows it." : "";
    const all = h("a", { href: "#" }, "All datasets");
    page.replaceChildren(notice(`There is no dataset “${token}” here.${way}`, site.protected && secretForm(), all));
    return;
  }
  document.title = `${token} · voltile`;
  const viewer = new Viewer(site, dataset, location.hash);
  page.replaceChildren(viewer.element);
  viewer.open();
  shown = viewer;
}

/**
 * OpenSeadragon adds a style sheet to the page, which our Content-Security-Policy forbids, unless one is there.
 * This empty element with the expected attribute prevents that; the rule itself is in style.css.
 */
function spareStyle(): void {
  const mark = document.createElementNS("urn:voltile", "style");
  mark.setAttribute("data-openseadragon-mobile-css", "true");
  document.head.append(mark);
}

/** Gives datasets that have changed addresses of their version: what the browser keeps is of another one. */
function renew(site: Site, before: Site): void {
  const old = new Map(before.datasets.map((dataset) => [dataset.token, dataset]));
  for (const dataset of site.datasets) {
    const { version, address } = old.get(dataset.token) ?? dataset;
    if (!dataset.version) continue;
    dataset.address = version === dataset.version ? address : `${dataset.token}@${dataset.version}`;
  }
}

/** Keeps the page true while datasets come, change and go. */
function follow(first: Site): void {
  let site = first;
  const version = (dataset: Dataset | undefined) => dataset && (dataset.version ?? JSON.stringify(dataset));
  const changed = async (restarted: boolean) => {
    const before = site;
    try {
      site = await loadSite();
      renew(site, before);
    } catch {
      return; // the stream comes back, and with it the next change
    }
    const now = named(site);
    if (shown instanceof List) shown.update(site);
    else if (version(named(before)) !== version(now)) {
      if (shown instanceof Viewer && now && shown.canTake(now)) shown.take(now);
      else route(site);
    }
    else if (restarted && shown) shown.retry();
  };
  window.addEventListener("hashchange", () => route(site));
  // One after the other, so that an older answer does not come last.
  let last = Promise.resolve();
  new Live((restarted) => (last = last.then(() => changed(restarted))));
}

async function begin(): Promise<void> {
  try {
    const site = await loadSite();
    const only = site.datasets.length === 1 ? site.datasets[0] : undefined;
    // A list of one dataset is skipped, but "back" leads to it.
    if (only && location.hash === "") history.replaceState(null, "", `#${only.token}`);
    route(site);
    follow(site);
  } catch (error) {
    page.replaceChildren(notice(explain(error), h("button", { type: "button", onclick: begin }, "Try again")));
  }
}

spareStyle();
void begin();
