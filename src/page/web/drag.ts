// Lets a line or a rectangle be dragged on the picture.

import type { Triple } from "./data";
import { h, svg } from "./dom";
import type { Pane } from "./pane";

export type Shape = "line" | "rectangle";

/** Two points of the volume: the ends of a line, or opposite corners of a rectangle. */
export type Ends = [Triple, Triple];

export class Drag {
  private readonly mark = svg("svg", { class: "mark", "aria-hidden": "true" });
  private readonly cover = h("div", { className: "cover" }, this.mark);
  private readonly ending = new AbortController();
  private from: Triple | null = null;
  private to: Triple | null = null;
  /** More lines or rectangles, each with the text that is drawn at it. */
  private others: { ends: Ends; says: string }[] = [];

  /** Covers a pane until `close`; `done` gets the ends whenever the pointer is released. */
  constructor(
    private readonly pane: Pane,
    private readonly shape: Shape,
    private readonly done: (from: Triple, to: Triple) => void,
  ) {
    pane.element.append(this.cover);
    this.ending.signal.addEventListener("abort", () => this.cover.remove());
    this.listen(this.cover);
    pane.onMove(() => this.draw(), this.ending.signal);
  }

  private listen(cover: HTMLElement): void {
    const pointOf = (event: PointerEvent) => {
      const { left, top } = cover.getBoundingClientRect();
      return this.pane.pointAtPixel(event.clientX - left, event.clientY - top);
    };
    cover.addEventListener("pointerdown", (event) => {
      event.stopPropagation();
      cover.setPointerCapture(event.pointerId);
      // `to` is the end that moves: if the pointer takes the end `from`, the ends change places.
      const taken = (event.target as Element).getAttribute("data-end");
      if (taken === null) this.from = this.to = pointOf(event);
      else if (taken === "0") [this.from, this.to] = [this.to, this.from];
    });
    cover.addEventListener("pointermove", (event) => {
      if (!cover.hasPointerCapture(event.pointerId)) return;
      this.to = pointOf(event);
      this.draw();
    });
    cover.addEventListener("pointerup", (event) => {
      if (!this.from || !cover.hasPointerCapture(event.pointerId)) return;
      this.to = pointOf(event);
      cover.classList.add("done");
      this.draw();
      this.done(this.from, this.to);
    });
  }

  /** Shows given ends. */
  show(from: Triple, to: Triple): void {
    this.from = from;
    this.to = to;
    this.draw();
  }

  /** Forgets the ends, so that another line or rectangle can be dragged. */
  clear(): void {
    this.from = this.to = null;
    this.cover.classList.remove("done");
    this.draw();
  }

  /** Draws more lines or rectangles beside the dragged one. */
  showOthers(others: { ends: Ends; says: string }[]): void {
    this.others = others;
    this.draw();
  }

  private draw(): void {
    const drawn = this.others.flatMap(({ ends, says }) => {
      const [a, b] = this.onScreen(ends);
      const place = { x: Math.min(a.x, b.x) + 4, y: Math.min(a.y, b.y) + 14 };
      const outline = this.outline(a, b);
      outline.setAttribute("fill", "none");
      return [outline, svg("text", place, says)];
    });
    if (this.from && this.to) {
      const [a, b] = this.onScreen([this.from, this.to]);
      const handles = [a, b].map(({ x, y }, i) =>
        svg("circle", { cx: x, cy: y, r: 6, "data-end": i, class: "end" }),
      );
      drawn.push(this.outline(a, b), ...handles);
    }
    this.mark.replaceChildren(...drawn);
  }

  private onScreen([from, to]: Ends): [DOMPoint, DOMPoint] {
    const pixel = (point: Triple) => DOMPoint.fromPoint(this.pane.pixelOf(point));
    return [pixel(from), pixel(to)];
  }

  private outline(a: DOMPoint, b: DOMPoint): SVGElement {
    if (this.shape === "line") return svg("path", { d: `M${a.x} ${a.y}L${b.x} ${b.y}` });
    const x = Math.min(a.x, b.x);
    const y = Math.min(a.y, b.y);
    return svg("rect", { x, y, width: Math.abs(b.x - a.x), height: Math.abs(b.y - a.y) });
  }

  close(): void {
    this.ending.abort();
  }
}
