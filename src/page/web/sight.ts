// The labels in sight of a channel, with their colours and names: a list that follows the view
// while it is open.

import { explain } from "./data";
import { h } from "./dom";
import { labelColour } from "./labels";
import type { Shown } from "./view";

/** A label in sight. */
export interface Seen {
  id: string;
  /** The number of its voxels in sight. */
  voxels: number;
  /** Empty if the label has no name. */
  name: string;
}

/** The labels in sight. */
export interface SeenLabels {
  /** The labels with the most voxels, largest first. */
  seen: Seen[];
  /** The number of all labels in sight. */
  count: number;
}

/** How long the view rests before the list follows it, in milliseconds. */
const REST = 400;

export class SightList {
  private readonly list = h("ul", { className: "found" });
  private readonly says = h("p", { className: "reason", role: "status" });
  readonly element = h(
    "details",
    { className: "sight", ontoggle: () => this.moved() },
    h("summary", {}, "Labels in sight"),
    this.says,
    this.list,
  );
  private timer = 0;
  private ending = new AbortController();
  private shown: Pick<Shown, "shuffle" | "selected"> = { shuffle: 0, selected: null };
  private seen: Seen[] = [];

  constructor(
    private readonly read: (signal: AbortSignal) => Promise<SeenLabels>,
    private readonly choose: (id: string) => void,
  ) {}

  /** Follows the view, which may show other labels now; `shown` is the look of the labels. */
  moved(shown = this.shown): void {
    const looksDifferent =
      shown.shuffle !== this.shown.shuffle || shown.selected !== this.shown.selected;
    this.shown = shown;
    if (looksDifferent) this.draw();
    window.clearTimeout(this.timer);
    if (this.element.open) this.timer = window.setTimeout(() => void this.fill(), REST);
  }

  private async fill(): Promise<void> {
    this.ending.abort();
    this.ending = new AbortController();
    const { signal } = this.ending;
    try {
      const { seen, count } = await this.read(signal);
      if (signal.aborted) return;
      this.says.textContent = "";
      if (count === 0) this.says.textContent = "No labels in sight.";
      if (count > seen.length) {
        this.says.textContent = `${count} labels; the largest ${seen.length}:`;
      }
      this.seen = seen;
      this.draw();
    } catch (error) {
      if (!signal.aborted) this.says.textContent = explain(error);
    }
  }

  private draw(): void {
    const focused = [...this.list.children].findIndex((line) =>
      line.contains(document.activeElement),
    );
    this.list.replaceChildren(...this.seen.map((label) => this.line(label)));
    this.list.children[focused]?.querySelector("button")?.focus();
  }

  private line({ id, voxels, name }: Seen): HTMLElement {
    const { shuffle, selected } = this.shown;
    const mark = h("i", { className: "colour" });
    mark.style.background = `rgb(${labelColour(BigInt(id), shuffle).join()})`;
    const text = name ? `${name} · ${id}` : id;
    return h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          title: `${text}: ${voxels.toLocaleString("en")} voxels in sight`,
          "aria-pressed": selected?.id === id,
          onclick: () => this.choose(id),
        },
        mark,
        text,
      ),
    );
  }
}
