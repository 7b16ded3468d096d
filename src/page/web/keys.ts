// The keyboard: every key and what it does, which is also the content of the help.

/** What keys do; `viewer.ts` does it. */
export interface Actions {
  step(by: number): void;
  slab(thicker: boolean): void;
  time(by: number): void;
  zoom(factor: number): void;
  pan(x: number, y: number): void;
  arrange(to: "xy" | "xz" | "yz" | "all"): void;
  channel(index: number, alone: boolean): void;
  beside(by: 1 | -1): void;
  whole(): void;
  actual(): void;
  screen(): void;
  link(): void;
  address(): void;
  place(): void;
  value(): void;
  select(): void;
  neuroglancer(): void;
  zarr(): void;
  picture(): void;
  voxels(): void;
  line(): void;
  region(): void;
  bookmarks(): void;
  goto(): void;
  about(): void;
  play(direction: number): void;
  follow(): void;
  panel(): void;
  escape(): void;
  help(): void;
  leave(): void;
}

interface Key {
  keys: string;
  says: string;
  matches(event: KeyboardEvent): boolean;
  acts(actions: Actions, event: KeyboardEvent): void;
}

/** How far an arrow moves the picture, in CSS pixels. */
const STEP = 80;

const key = (name: string, says: string, acts: (actions: Actions) => void): Key => ({
  keys: name,
  says,
  matches: (event) => event.key.toLowerCase() === name.toLowerCase() && !event.shiftKey,
  acts,
});

/** A key that also works with shift: it is known by its place, as shift changes its character. */
const placed = (name: string, code: string, says: string, acts: Key["acts"]): Key => ({
  keys: name,
  says,
  matches: (event) => event.key === name || event.code === code,
  acts,
});

const slicesOf = (event: KeyboardEvent) => (event.shiftKey ? 10 : 1);

export const KEYS: Key[] = [
  placed(",", "Comma", "previous slice, ten with shift", (actions, event) =>
    actions.step(-slicesOf(event)),
  ),
  placed(".", "Period", "next slice, ten with shift", (actions, event) =>
    actions.step(slicesOf(event)),
  ),
  placed("t", "KeyT", "next time point, previous with shift", (actions, event) =>
    actions.time(event.shiftKey ? -1 : 1),
  ),
  placed(
    "b",
    "KeyB",
    "a slab of slices: maximum, minimum, mean, one slice; with shift thicker, up to the whole stack",
    (actions, event) => actions.slab(event.shiftKey),
  ),
  key("z", "plane xy: slices along z", (actions) => actions.arrange("xy")),
  key("y", "plane xz: slices along y", (actions) => actions.arrange("xz")),
  key("x", "plane yz: slices along x", (actions) => actions.arrange("yz")),
  key("a", "all three planes, linked", (actions) => actions.arrange("all")),
  {
    keys: "1 … 9",
    says: "show or hide a channel; with shift, show it alone, or bring the others back",
    matches: (event) => /^Digit[1-9]$/.test(event.code),
    acts: (actions, event) => actions.channel(Number(event.code.slice(-1)) - 1, event.shiftKey),
  },
  placed("j", "KeyJ", "the next channel alone, the previous with shift", (actions, event) =>
    actions.beside(event.shiftKey ? -1 : 1),
  ),
  {
    keys: "← → ↑ ↓",
    says: "move",
    matches: (event) => event.key.startsWith("Arrow"),
    acts: (actions, { key: name }) =>
      actions.pan(
        STEP * (Number(name === "ArrowRight") - Number(name === "ArrowLeft")),
        STEP * (Number(name === "ArrowDown") - Number(name === "ArrowUp")),
      ),
  },
  {
    keys: "+",
    says: "zoom in",
    matches: ({ key: name }) => name === "+" || name === "=",
    acts: (actions) => actions.zoom(1.5),
  },
  {
    keys: "−",
    says: "zoom out",
    matches: ({ key: name }) => name === "-" || name === "_",
    acts: (actions) => actions.zoom(1 / 1.5),
  },
  key("0", "fit the whole plane", (actions) => actions.whole()),
  key("o", "one voxel per pixel", (actions) => actions.actual()),
  key("f", "full screen", (actions) => actions.screen()),
  key("g", "go to a position, a slice, a time, a label, a link", (actions) => actions.goto()),
  key("m", "measure along a line", (actions) => actions.line()),
  key("r", "measure a rectangle: mean, standard deviation, minimum, maximum", (actions) =>
    actions.region(),
  ),
  key("h", "bookmarks: views with names", (actions) => actions.bookmarks()),
  key("Escape", "end measuring, stop playing", (actions) => actions.escape()),
  placed("k", "KeyK", "play along time or slices, with shift backwards; stop", (actions, event) =>
    actions.play(event.shiftKey ? -1 : 1),
  ),
  key(
    "l",
    "follow the newest slice or time point of a file that is being written, stop",
    (actions) => actions.follow(),
  ),
  key("i", "about this file", (actions) => actions.about()),
  key("c", "copy the link to this view", (actions) => actions.link()),
  key("e", "save the view as a picture", (actions) => actions.picture()),
  key("d", "voxels as a file or in Python", (actions) => actions.voxels()),
  key("w", "copy the address of the tile in the middle", (actions) => actions.address()),
  key("q", "copy x, y, z under the cursor in voxels and in units", (actions) => actions.place()),
  key("v", "copy the value or label under the cursor", (actions) => actions.value()),
  key("s", "select the label under the cursor, or all again", (actions) => actions.select()),
  key("n", "open this view in Neuroglancer", (actions) => actions.neuroglancer()),
  key("u", "copy the OME-Zarr address", (actions) => actions.zarr()),
  key("p", "show or hide the channels panel", (actions) => actions.panel()),
  {
    keys: "?",
    says: "this help",
    matches: ({ key: name }) => name === "?",
    acts: (actions) => actions.help(),
  },
  key("Backspace", "back to the datasets", (actions) => actions.leave()),
];

/** Whether a key is not for the page: text fields keep their keys, and sliders their arrows. */
function isTaken(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return true;
  const target = event.target;
  if (target instanceof Element && target.closest("dialog[open]")) return true;
  if (!(target instanceof HTMLInputElement)) return false;
  if (["number", "text", "search"].includes(target.type)) return event.key !== "Escape";
  return target.type === "range" && event.key.startsWith("Arrow");
}

/** Listens until the signal aborts. */
export function listen(actions: Actions, signal: AbortSignal): void {
  const down = (event: KeyboardEvent) => {
    const pressed = isTaken(event) ? undefined : KEYS.find((each) => each.matches(event));
    if (!pressed) return;
    event.preventDefault();
    pressed.acts(actions, event);
  };
  document.addEventListener("keydown", down, { signal });
}
