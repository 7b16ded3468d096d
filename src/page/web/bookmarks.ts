// Bookmarks: views with names, which the browser keeps, and which are saved and read as JSON.

import { button, h, iconButton, save, sheet } from "./dom";
import { tokenOf } from "./view";

interface Bookmark {
  name: string;
  /** The address from the # on. */
  view: string;
}

const KEY = "voltile-bookmarks";

/** The bookmarks in a JSON text; throws an error that says what was expected. */
function read(text: string): Bookmark[] {
  let all: unknown;
  try {
    all = JSON.parse(text);
  } catch {
    all = null;
  }
  const isBookmark = (one: unknown): one is Bookmark => {
    const { name, view } = (one ?? {}) as Partial<Bookmark>;
    return typeof name === "string" && typeof view === "string" && view.startsWith("#");
  };
  if (!Array.isArray(all) || !all.every(isBookmark))
    throw new Error(
      "This is not a file of bookmarks: a JSON list of objects with name and view is expected, " +
        "as “Save as a file” writes it.",
    );
  return all.map(({ name, view }) => ({ name, view }));
}

/** The bookmarks that the browser keeps; none if they cannot be read. */
function kept(): Bookmark[] {
  try {
    return read(localStorage.getItem(KEY) ?? "[]");
  } catch {
    return [];
  }
}

const isSame = (a: Bookmark, b: Bookmark): boolean => a.name === b.name && a.view === b.view;

/** The sheet of bookmarks; `view` is what is shown now. */
export function bookmarksSheet(view: string): HTMLDialogElement {
  const token = tokenOf(view);
  const list = h("ul", { className: "found bookmarks", "aria-label": "Bookmarks" });
  const says = h("p", { className: "reason", role: "status" });
  const keep = (all: Bookmark[], said = "") => {
    try {
      localStorage.setItem(KEY, JSON.stringify(all));
      says.textContent = said;
    } catch {
      says.textContent = "The browser does not let this page keep bookmarks.";
    }
    show();
  };
  const line = (one: Bookmark) => {
    const link = h("a", { href: one.view, onclick: () => dialog.close() }, one.name);
    // Bookmarks of other datasets say of which.
    const tokenLabel = tokenOf(one.view) === token ? null : h("small", {}, tokenOf(one.view));
    const remove = iconButton("close", `Remove ${one.name}`, () =>
      keep(kept().filter((other) => !isSame(one, other))),
    );
    return h("li", {}, link, tokenLabel, remove);
  };
  const show = () => {
    const all = kept();
    const own = all.filter((one) => tokenOf(one.view) === token);
    const others = all.filter((one) => !own.includes(one));
    list.replaceChildren(...[...own, ...others].map(line));
    saveButton.hidden = !all.length;
  };
  const name = h("input", {
    type: "text",
    id: "bookmark",
    autofocus: true,
    autocomplete: "off",
    placeholder: "Name",
    "aria-label": "Name of a bookmark for this view",
  });
  const onsubmit = (event: Event) => {
    event.preventDefault();
    const wanted = name.value.trim();
    if (!wanted) return;
    // A bookmark of this dataset with the same name is replaced.
    const others = kept().filter((one) => !(one.name === wanted && tokenOf(one.view) === token));
    keep([...others, { name: wanted, view }], `Kept “${wanted}”.`);
    name.value = "";
  };
  const saveButton = button("Save as a file", () =>
    save(`${JSON.stringify(kept(), null, 2)}\n`, "application/json", "voltile-bookmarks.json"),
  );
  const chooser = h("input", {
    type: "file",
    accept: "application/json,.json",
    id: "bookmarks-file",
    "aria-label": "A file of bookmarks",
    onchange: async () => {
      const text = await chooser.files?.[0]?.text();
      chooser.value = "";
      if (text === undefined) return;
      try {
        const before = kept();
        const found = read(text);
        const added = found.filter((one) => !before.some((other) => isSame(one, other)));
        keep([...before, ...added], `${added.length} of ${found.length} bookmarks are new.`);
      } catch (error) {
        says.textContent = (error as Error).message;
      }
    },
  });
  const dialog = sheet(
    "Bookmarks",
    h(
      "form",
      { className: "field", onsubmit },
      name,
      h("button", { type: "submit" }, "Keep this view"),
    ),
    list,
    says,
    h(
      "div",
      { className: "field buttons" },
      saveButton,
      h("label", { className: "field" }, "Read a file ", chooser),
    ),
  );
  show();
  return dialog;
}
