// Bookmarks: views with names, which the browser keeps, and which are saved and read as JSON.

import { button, h, iconButton, save, sheet } from "./dom";
import { tokenOf } from "./view";

interface Bookmark {
  name: string;
  /** The address from the # on. */
  view: string;
}

const KEY = "voltile-bookmarks";

/** The bookmarks in a JSON text; of another text, throws an error that says what is expected. */
function read(text: string): Bookmark[] {
  let all: unknown;
  try {
    all = JSON.parse(text);
  } catch {
    all = null;
  }
  const isBookmark = (bookmark: unknown): bookmark is Bookmark => {
    const { name, view } = (bookmark ?? {}) as Partial<Bookmark>;
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
  const line = (bookmark: Bookmark) => {
    const link = h("a", { href: bookmark.view, onclick: () => dialog.close() }, bookmark.name);
    // Bookmarks of other datasets name the dataset.
    const own = tokenOf(bookmark.view);
    const tokenLabel = own === token ? null : h("small", {}, own);
    const remove = iconButton("close", `Remove ${bookmark.name}`, () =>
      keep(kept().filter((other) => !isSame(bookmark, other))),
    );
    return h("li", {}, link, tokenLabel, remove);
  };
  const show = () => {
    const all = kept();
    const own = all.filter((bookmark) => tokenOf(bookmark.view) === token);
    const others = all.filter((bookmark) => !own.includes(bookmark));
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
    const others = kept().filter((each) => each.name !== wanted || tokenOf(each.view) !== token);
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
        const loaded = read(text);
        const added = loaded.filter((bookmark) => !before.some((other) => isSame(bookmark, other)));
        keep([...before, ...added], `${added.length} of ${loaded.length} bookmarks are new.`);
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
