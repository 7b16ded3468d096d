// Entry point: fetches the datasets, then shows the list or the dataset that the URL names.

import { explain, loadSite, type Site } from "./data";
import { h } from "./dom";
import { list } from "./list";
import { secretForm } from "./secret";
import { tokenOf } from "./view";
import { Viewer } from "./viewer";

const page = document.getElementById("page") as HTMLElement;
let viewer: Viewer | null = null;

function notice(text: string, ...more: (HTMLElement | false | undefined)[]): HTMLElement {
  return h("main", { className: "notice" }, h("p", { role: "alert" }, text), ...more);
}

/** Shows what the URL names. */
function route(site: Site): void {
  const token = tokenOf(location.hash);
  viewer?.close();
  viewer = null;
  if (!token) {
    document.title = "voltile";
    page.replaceChildren(list(site));
    return;
  }
  const dataset = site.datasets.find((each) => each.token === token);
  if (!dataset?.channels.length) {
    const way = site.protected ? " If it is protected, enter a secret that shows it." : "";
    const all = h("a", { href: "#" }, "All datasets");
    page.replaceChildren(notice(`There is no dataset “${token}” here.${way}`, site.protected && secretForm(), all));
    return;
  }
  document.title = `${token} · voltile`;
  viewer = new Viewer(site, dataset, location.hash);
  page.replaceChildren(viewer.element);
  viewer.open();
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

async function begin(): Promise<void> {
  try {
    const site = await loadSite();
    const only = site.datasets.length === 1 ? site.datasets[0] : undefined;
    // A list of one dataset is skipped, but "back" leads to it.
    if (only && location.hash === "") history.replaceState(null, "", `#${only.token}`);
    window.addEventListener("hashchange", () => route(site));
    route(site);
  } catch (error) {
    page.replaceChildren(notice(explain(error), h("button", { type: "button", onclick: begin }, "Try again")));
  }
}

spareStyle();
void begin();
