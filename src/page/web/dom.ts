// Creates elements without a framework: one function, and icons as paths.

type Child = Node | string | null | undefined | false;
type Props = Record<string, unknown>;

/**
 * Creates an element: properties are set as properties, `on…` as listeners, names with a dash as
 * attributes.
 */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value as EventListener);
    else if (name.includes("-") || name === "role") element.setAttribute(name, String(value));
    else if (value !== undefined) Object.assign(element, { [name]: value });
  }
  element.append(
    ...children.filter((child): child is Node | string => child != null && child !== false),
  );
  return element;
}

const ICONS = {
  back: "M15 5l-7 7 7 7",
  previous: "M15 6l-6 6 6 6",
  next: "M9 6l6 6-6 6",
  fit: "M3 4h18v16H3zM7 12h10M7 12l2-2M7 12l2 2M17 12l-2-2M17 12l-2 2",
  screen: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  link: "M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1",
  picture: "M3 5h18v14H3zM3 16l5-5 4 4 3-3 6 5M16 9v.1",
  voxels: "M12 4v11M7 11l5 5 5-5M4 20h16",
  ruler: "M3 16L16 3l5 5L8 21zM7 12l2 2M10 9l2 2M13 6l2 2",
  region: "M4 6h16v12H4zM8 6v3M12 6v3M16 6v3",
  bookmark: "M6 3h12v18l-6-5-6 5z",
  goto: "M12 21s7-6 7-11a7 7 0 0 0-14 0c0 5 7 11 7 11zM12 8v4M10 10h4",
  about: "M12 3a9 9 0 1 0 .1 0zM12 11v6M12 7v.1",
  play: "M7 5l12 7-12 7z",
  follow: "M5 5l8 7-8 7zM18 5v14",
  pause: "M8 5v14M16 5v14",
  more: "M5 11.5v1M12 11.5v1M19 11.5v1",
  close: "M6 6l12 12M18 6L6 18",
  neuroglancer: "M4 4h7v7H4zM14 4h6v7h-6zM4 14h7v6H4zM14 14h6v6h-6z",
  zarr: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
  layers: "M12 4l9 5-9 5-9-5zM3 14l9 5 9-5",
  help: "M9 9a3 3 0 1 1 4 3c-1 .5-1 1-1 2M12 18v.1",
};

export type IconName = keyof typeof ICONS;

/** Creates an element of a drawing. */
export function svg(
  tag: string,
  attributes: Record<string, string | number>,
  ...children: (Node | string)[]
): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** An icon in the text colour. */
export const icon = (name: IconName): SVGElement =>
  svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));

/** A button with a text. */
export const button = (text: string, onclick: () => void): HTMLButtonElement =>
  h("button", { type: "button", onclick }, text);

/** A button with an icon; the tooltip and screen readers give its name. */
export function iconButton(name: IconName, label: string, onclick: () => void): HTMLButtonElement {
  return h(
    "button",
    { type: "button", className: "icon", title: label, "aria-label": label, onclick },
    icon(name),
  );
}

/** Longer texts in cells of tables are wrapped. */
const LONG_CELL = 24;

/** A table with a row of headings. */
export function table(headings: string[], rows: (string | number)[][]): HTMLTableElement {
  const heading = (text: string) => {
    const cell = h("th", {}, text);
    cell.scope = "col";
    return cell;
  };
  const cell = (value: string | number) => {
    const text = String(value);
    return h("td", { className: text.length > LONG_CELL ? "long" : "" }, text);
  };
  return h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...headings.map(heading))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map(cell)))),
  );
}

/** A dialog over the page, with a title and a button that closes it. */
export function sheet(title: string, ...content: Child[]): HTMLDialogElement {
  const close = h(
    "button",
    {
      type: "button",
      className: "icon close",
      title: "Close",
      "aria-label": "Close",
      onclick: () => dialog.close(),
    },
    icon("close"),
  );
  const dialog: HTMLDialogElement = h(
    "dialog",
    { className: "sheet", "aria-label": title } as never,
    h("header", {}, h("h2", {}, title), close),
    ...content,
  );
  // A click beside the dialog closes it.
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  return dialog;
}

/** Lets the browser save bytes as a file. */
export function save(bytes: BlobPart, type: string, name: string): void {
  const address = URL.createObjectURL(new Blob([bytes], { type }));
  const link = h("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  window.setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
