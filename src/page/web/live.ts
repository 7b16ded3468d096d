// Changes of the datasets while the page is open: one event stream of the server for all pages of
// the browser.
//
// The pages agree over a BroadcastChannel which of them listens, and that page tells the others. If
// it is silent for a while, another page takes its place. If the server grants no stream, the
// listening page requests the datasets now and then.

import type { Change } from "./known";

// Times in milliseconds.
/** How often the listening page says that it is there. */
const BEAT = 4000;
/** After this long without word from the listening page, another page takes its place. */
const MAX_SILENCE = 11_000;
/** How long a new page waits for an answer of the listening page. */
const GREETING = 400;
/**
 * If the server refuses a stream, all datasets are requested after this time, and a stream again.
 */
const POLL = 15_000;

/** What pages tell each other; a `change` of null says that any dataset may have changed. */
type Message =
  | { kind: "who" }
  | { kind: "leads"; by: number }
  | { kind: "gone" }
  | { kind: "changed"; restarted: boolean; change: Change | null };

export class Live {
  private readonly id = Math.random();
  private readonly channel = new BroadcastChannel(`voltile ${location.pathname}`);
  private stream: EventSource | null = null;
  private leads = false;
  private timer = 0;
  private beat = 0;
  private poll = 0;
  /** When the server started, as its stream says; another time means that it has been restarted. */
  private started: number | null = null;

  /**
   * `changed` is called when datasets may have changed: `restarted` says whether the server answers
   * again after a pause, and `change` which datasets, null if any may have.
   */
  constructor(private readonly changed: (restarted: boolean, change: Change | null) => void) {
    this.channel.onmessage = (event) => this.hear(event.data as Message);
    this.say({ kind: "who" });
    this.electAfter(GREETING);
    window.addEventListener("pagehide", () => this.resign(true));
    window.addEventListener("pageshow", (event) => event.persisted && this.electAfter(GREETING));
  }

  private say(message: Message): void {
    this.channel.postMessage(message);
  }

  /** Takes the listening page's place after `wait` or a little later, which differs by page. */
  private electAfter(wait: number): void {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.lead(), wait * (1 + Math.random() / 2));
  }

  private hear(message: Message): void {
    if (message.kind === "changed") return this.changed(message.restarted, message.change);
    if (message.kind === "who" && this.leads) this.say({ kind: "leads", by: this.id });
    if (message.kind === "gone" && !this.leads) this.electAfter(GREETING);
    if (message.kind !== "leads") return;
    // If two pages listen, one of them stops.
    if (this.leads && message.by > this.id) return this.say({ kind: "leads", by: this.id });
    if (this.leads) this.resign(false);
    this.electAfter(MAX_SILENCE);
  }

  private lead(): void {
    this.leads = true;
    this.say({ kind: "leads", by: this.id });
    this.beat = window.setInterval(() => this.say({ kind: "leads", by: this.id }), BEAT);
    this.listen();
  }

  private resign(leaving: boolean): void {
    window.clearTimeout(this.timer);
    window.clearInterval(this.beat);
    window.clearTimeout(this.poll);
    this.stream?.close();
    this.stream = null;
    if (leaving && this.leads) this.say({ kind: "gone" });
    this.leads = false;
  }

  private tell(restarted: boolean, change: Change | null): void {
    this.say({ kind: "changed", restarted, change });
    this.changed(restarted, change);
  }

  private listen(): void {
    const stream = new EventSource("events");
    this.stream = stream;
    stream.addEventListener("hello", (event) => {
      const { started } = JSON.parse((event as MessageEvent<string>).data) as { started: number };
      // A stream that begins again may have missed something.
      if (this.started !== null) this.tell(this.started !== started, null);
      this.started = started;
    });
    stream.addEventListener("datasets", (event) =>
      this.tell(false, JSON.parse((event as MessageEvent<string>).data) as Change),
    );
    stream.addEventListener("error", () => {
      // The browser connects again by itself, unless the server refused.
      if (stream.readyState !== EventSource.CLOSED || this.stream !== stream) return;
      this.poll = window.setTimeout(() => {
        this.tell(false, null);
        this.listen();
      }, POLL);
    });
  }
}
