// The sheet "About this file": how its layout was recognised, what is stored and how, voxel sizes, attributes, and what is slow.

import { addressOf, type Dataset, explain, sound } from "./data";
import { h, sheet } from "./dom";

/** The server's description, of which every part may be missing. */
interface About {
  layouts?: { layout: string; because: string }[];
  file?: string | null;
  warnings?: { message: string; channel?: string | null; plane?: string | null }[];
  attributes?: Attribute[];
  channels?: {
    name: string; label?: string | null; dtype?: string; kind?: string; voxel_size?: number[] | null; voxel_unit?: string | null;
    voxel_because?: string | null; problem?: string | null; attributes?: Attribute[];
    levels?: { level: number; size: number[]; path?: string | null; storage?: Storage | null }[];
  }[];
}
interface Storage { layout: string; shape: number[]; chunk?: number[] | null; filters: string[]; missing_filters?: string[]; reading?: string }
interface Attribute { path?: string; name: string; value: unknown }

const MAX_ATTRIBUTES = 200;

async function load(dataset: Dataset): Promise<About> {
  return (await (await sound(await fetch(`datasets/${addressOf(dataset)}/about.json`))).json()) as About;
}

const table = (head: string[], rows: (string | number)[][]): HTMLElement =>
  h("table", {}, h("thead", {}, h("tr", {}, ...head.map((text) => h("th", { scope: "col" } as never, text)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, String(cell)))))));

function attributes(about: About): HTMLElement[] {
  const all = [...(about.attributes ?? []), ...(about.channels ?? []).flatMap(({ name, attributes: own }) => (own ?? []).map((one) => ({ ...one, path: one.path ?? name })))];
  if (!all.length) return [];
  const body = h("div", { className: "attributes" });
  const show = (words: string) => {
    const text = ({ path, name, value }: Attribute) => [path ?? "", name, typeof value === "string" ? value : JSON.stringify(value)];
    const found = all.map(text).filter((row) => row.join(" ").toLowerCase().includes(words.toLowerCase()));
    const more = found.length - MAX_ATTRIBUTES;
    body.replaceChildren(table(["Object", "Attribute", "Value"], found.slice(0, MAX_ATTRIBUTES)), h("p", {}, more > 0 ? `and ${more} more: search` : ""));
  };
  show("");
  return [h("h3", {}, "Attributes"),
    h("input", { type: "search", placeholder: "Search attributes", "aria-label": "Search attributes", oninput: (event: Event) => show((event.target as HTMLInputElement).value) }), body];
}

function content(about: About): HTMLElement[] {
  const warnings = (about.warnings ?? []).map(({ message, channel, plane }) => h("p", { className: "warning" }, [channel, plane].filter(Boolean).join(", "), channel || plane ? ": " : "", message));
  const levels = (about.channels ?? []).flatMap((channel) => (channel.levels ?? []).map(({ level, size, path, storage }) => [
    channel.label ?? channel.name, level, size.join(" × "), path ?? "computed", storage?.chunk ? storage.chunk.join(" × ") : (storage?.layout ?? ""),
    storage ? storage.filters.join(", ") || "none" : "",
  ]));
  const sizes = (about.channels ?? []).map((channel) => [channel.label ?? channel.name, channel.kind ?? "", channel.dtype ?? "",
    channel.voxel_size ? `${channel.voxel_size.join(" × ")} ${channel.voxel_unit ?? ""}` : "not known", channel.voxel_because ?? ""]);
  return [
    ...(about.file ? [h("p", {}, about.file)] : []),
    ...(about.layouts ?? []).map(({ layout, because }) => h("p", {}, h("b", {}, layout), ` · ${because}`)),
    ...(warnings.length ? [h("h3", {}, "What is slow"), ...warnings] : []),
    h("h3", {}, "Channels"), table(["Channel", "Kind", "Type", "Voxel, x × y × z", "Found in"], sizes),
    h("h3", {}, "Stored"), table(["Channel", "Level", "Size, x × y × z", "Path", "Chunks, slowest axis first", "Filters"], levels),
    ...attributes(about),
  ];
}

export function aboutSheet(dataset: Dataset): HTMLDialogElement {
  const body = h("div", { className: "about" }, "Loading …");
  load(dataset).then((about) => body.replaceChildren(...content(about)), (error: unknown) => body.replaceChildren(explain(error)));
  return sheet("About this file", body);
}

/** Why a plane is slow, as the server says; null if it does not. */
export async function slowness(dataset: Dataset, channels: string[], plane: string): Promise<string | null> {
  const about = await load(dataset).catch(() => null);
  const fits = (wanted: string[], one: string | null | undefined) => !one || wanted.includes(one);
  return about?.warnings?.find((warning) => fits(channels, warning.channel) && fits([plane], warning.plane))?.message ?? null;
}
