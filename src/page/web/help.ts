// Text around the picture: temporary notices, problems with a remedy, and the keys.

import { h, sheet } from "./dom";
import { KEYS } from "./keys";

const SAID_FOR = 4000;

/** Notices at the bottom of the stage. */
export class Notices {
  private readonly said = h("p", { className: "said", role: "status", hidden: true });
  private readonly reason = h("span", {});
  private readonly trouble = h("p", { className: "problem", role: "alert", hidden: true });
  readonly element = h("div", { className: "notices" }, this.said, this.trouble);
  private timer = 0;

  constructor(retry: () => void) {
    this.trouble.append(this.reason, h("button", { type: "button", onclick: retry }, "Try again"),
      h("button", { type: "button", onclick: () => this.clear() }, "Dismiss"));
  }

  /** Hides the problem. */
  clear(): void {
    this.trouble.hidden = true;
  }

  say(text: string): void {
    this.said.textContent = text;
    this.said.hidden = false;
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => (this.said.hidden = true), SAID_FOR);
  }

  /** A notice that stays until it is dismissed. */
  stay(text: string): void {
    const line = h("p", { role: "status" }, text, h("button", { type: "button", onclick: () => line.remove() }, "Dismiss"));
    this.element.append(line);
  }

  /** A notice that stays while something is done, which can be cancelled. */
  work(text: string): { signal: AbortSignal; say(text: string): void; end(): void } {
    const ending = new AbortController();
    const said = h("span", {}, text);
    const line = h("p", { className: "work", role: "status" }, said,
      h("button", { type: "button", onclick: () => { ending.abort(); line.remove(); } }, "Cancel"));
    this.element.append(line);
    return { signal: ending.signal, say: (now) => (said.textContent = now), end: () => line.remove() };
  }

  problem(reason: string): void {
    this.reason.textContent = `Some of the picture could not be loaded: ${reason}`;
    this.trouble.hidden = false;
  }
}

/** The keys and gestures. */
export function helpDialog(): HTMLDialogElement {
  const line = (keys: string, says: string) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, says)];
  return sheet("Keys",
    h("dl", {}, ...KEYS.flatMap(({ keys, says }) => line(keys, says)),
      ...line("wheel", "zoom; with shift or alt: slices, with both: ten slices"),
      ...line("drag, pinch", "move, zoom"),
      ...line("click", "with all three planes: set where they cross")));
}

/** Copies text to the clipboard; false if the browser does not allow it. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text); // only on https and localhost
    return true;
  } catch {
    const field = h("textarea", { value: text, className: "offscreen" });
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    return copied;
  }
}
