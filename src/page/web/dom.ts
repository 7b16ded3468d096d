// Creates elements without a framework: one function, and icons as paths.

type Child = Node | string | null | undefined | false;
type Props = Record<string, unknown>;

/** Creates an element: properties are set as properties, `on…` as listeners, names with a dash as attributes. */
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
  element.append(...children.filter((child): child is Node | string => child != null && child !== false));
  return element;
}

const ICONS = {
  back: "M15 5l-7 7 7 7",
  previous: "M15 6l-6 6 6 6",
  next: "M9 6l6 6-6 6",
  fit: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  screen: "M3 5h18v12H3zM8 21h8",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  neuroglancer: "M4 4h7v7H4zM14 4h6v7h-6zM4 14h7v6H4zM14 14h6v6h-6z",
  zarr: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
  layers: "M12 4l9 5-9 5-9-5zM3 14l9 5 9-5",
  help: "M9 9a3 3 0 1 1 4 3c-1 .5-1 1-1 2M12 18v.1",
};

/** An icon in the text colour. */
export function icon(name: keyof typeof ICONS): SVGElement {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** A button with an icon; the tooltip and screen readers give its name. */
export function iconButton(name: keyof typeof ICONS, label: string, onclick: () => void): HTMLButtonElement {
  return h("button", { type: "button", className: "icon", title: label, "aria-label": label, onclick }, icon(name));
}
