// Text around the picture: notices, problems with a remedy, and the keys.

import type { Dataset } from "./data";
import { button, h, iconButton, sheet } from "./dom";
import { KEYS } from "./keys";

/** Notices at the bottom of the stage. */
export class Notices {
  private readonly words = h("span", {});
  private readonly said = h(
    "p",
    { className: "said", role: "status", hidden: true },
    this.words,
    iconButton("close", "Close the notice", () => (this.said.hidden = true)),
  );
  private readonly reason = h("span", {});
  private readonly trouble = h("p", { className: "problem", role: "alert", hidden: true });
  readonly element = h("div", { className: "notices" }, this.said, this.trouble);

  constructor(retry: () => void) {
    this.trouble.append(
      this.reason,
      button("Try again", retry),
      button("Dismiss", () => this.clear()),
    );
  }

  /** Hides the problem. */
  clear(): void {
    this.trouble.hidden = true;
  }

  /** A notice that stays until it is closed or the next one replaces it. */
  say(text: string): void {
    this.words.textContent = text;
    this.said.hidden = false;
  }

  /** A notice that stays beside other notices until it is dismissed. */
  stay(text: string): void {
    const line = h(
      "p",
      { role: "status" },
      text,
      button("Dismiss", () => line.remove()),
    );
    this.element.append(line);
  }

  /** A notice that stays while something is done; the person can cancel it. */
  work(text: string): { signal: AbortSignal; say(text: string): void; end(): void } {
    const ending = new AbortController();
    const said = h("span", {}, text);
    const line = h(
      "p",
      { className: "work", role: "status" },
      said,
      button("Cancel", () => {
        ending.abort();
        line.remove();
      }),
    );
    this.element.append(line);
    return {
      signal: ending.signal,
      say: (now) => (said.textContent = now),
      end: () => line.remove(),
    };
  }

  problem(reason: string): void {
    this.reason.textContent = `Some of the picture could not be loaded: ${reason}`;
    this.trouble.hidden = false;
  }
}

/** The line above the picture: the worst notice about the data, and a button for all notices. */
export class WorstNotice {
  private readonly text = h("span", { className: "text" });
  private readonly all = h("button", { type: "button", className: "plain" });
  readonly element = h(
    "p",
    { className: "told", role: "status", hidden: true },
    this.text,
    this.all,
    iconButton("close", "Close the notice", () => this.close()),
  );
  /** The text of the notice that was closed; the line stays hidden until it has another text. */
  private closed = "";

  constructor(about: () => void) {
    this.all.addEventListener("click", about);
  }

  private close(): void {
    this.closed = this.text.textContent ?? "";
    this.element.hidden = true;
  }

  /** Shows the notices of a dataset, or only how many there are until they have been loaded. */
  show({ token, noticed, notices }: Dataset): void {
    const { errors = 0, warnings = 0 } = noticed ?? {};
    const [worst] = notices ?? [];
    this.element.classList.toggle("error", errors > 0);
    this.text.textContent = worst
      ? `${worst.about === token ? "" : `${worst.about}: `}${worst.text}`
      : countsText(errors, warnings);
    this.element.hidden = this.text.textContent === this.closed || errors + warnings === 0;
    this.text.title = this.text.textContent;
    this.all.textContent =
      errors + warnings > 1 ? `All ${errors + warnings} notices` : "About this file";
  }
}

/** The number of errors and of warnings about data. */
export function countsText(errors: number, warnings: number): string {
  const some = (count: number, what: string) =>
    count ? [`${count} ${what}${count > 1 ? "s" : ""}`] : [];
  return [...some(errors, "error"), ...some(warnings, "warning")].join(", ");
}

/** The keys and gestures. */
export function helpDialog(): HTMLDialogElement {
  const line = (keys: string, says: string) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, says)];
  return sheet(
    "Keys",
    h(
      "dl",
      {},
      ...KEYS.flatMap(({ keys, says }) => line(keys, says)),
      ...line("wheel", "zoom; with shift or alt: slices, with both: ten slices"),
      ...line("drag, pinch", "move, zoom"),
      ...line("click", "with all three planes: set where they cross"),
    ),
  );
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
