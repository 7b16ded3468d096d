// The sheet "About this file": how its layout was recognised, what is stored and how, voxel sizes,
// and what is slow.

import {
  addressOf,
  type Channel,
  type Dataset,
  explain,
  labelOf,
  type Notice,
  type PlaneName,
  requireOk,
} from "./data";
import { h, sheet, table } from "./dom";
import { PLANES } from "./geometry";
import { bytesText, wordFilter } from "./text";
import { when } from "./when";

/** The server's description of a dataset with parts that only this sheet needs. */
type About = Dataset & {
  /** Problems that make tiles slow or wrong, with the commands that mend them. */
  warnings?: { channel: string; problem: string; mend: string | null }[];
  /** The attributes of each object of the file: by the object's path, then by their names. */
  attributes?: Record<string, Record<string, string>>;
};

/** A tile that reads more stored voxels than this is slow. */
const MAX_READ = 2 ** 24;

/** The description with warnings and attributes; without them from a server that has none. */
async function load(dataset: Dataset): Promise<About> {
  const path = `datasets/${addressOf(dataset)}`;
  const full = await fetch(`${path}/about.json`);
  const response = full.ok ? full : await fetch(`${path}.json`);
  return (await (await requireOk(response)).json()) as About;
}

/** Why tiles of a channel in a plane are slow, and what helps; null if they are not slow. */
function reason(channel: Channel, plane: PlaneName): string | null {
  const axis = PLANES.indexOf(plane);
  const most = Math.max(0, ...channel.levels.map((level) => level.voxels_read?.[axis] ?? 0));
  if (most <= MAX_READ) return null;
  const chunk = channel.levels.find((level) => level.storage?.chunk)?.storage?.chunk;
  const stored = chunk
    ? `which is stored in chunks of ${chunk.join(" × ")} (slowest axis first)`
    : "whose coarser levels are not stored";
  const millions = (most / 1e6).toFixed(0);
  return (
    `A tile of plane ${plane} reads ${millions} million voxels of ${labelOf(channel)}, ${stored}. ` +
    "Chunks that are cubes make all planes fast: voltile pyramid --rechunk writes them."
  );
}

/** A notice about the data, with how grave it is. */
function noticeLine({ severity, about, text }: Notice, token: string): HTMLElement {
  const subject = about === token ? "" : `${about}: `;
  return h("p", { className: `warning ${severity}` }, h("b", {}, severity), ` · ${subject}${text}`);
}

/** The folder, the length and the date of the files; empty if the server does not tell them. */
function fileText({ folder, bytes, modified }: About): string {
  const parts: string[] = [];
  if (folder) parts.push(`in the folder ${folder}`);
  if (bytes) parts.push(bytesText(bytes));
  if (modified) {
    const date = new Date(modified).toLocaleString("en", {
      dateStyle: "medium",
      timeStyle: "short",
    });
    parts.push(`changed ${date}`);
  }
  return parts.join(" · ");
}

/** Each problem that makes tiles wrong or slow, with the command that mends it if there is one. */
function problemsOf({ channels, warnings }: About): string[] {
  const unread = channels.flatMap(({ problem }) => problem ?? []);
  const known = warnings?.map(
    ({ channel, problem, mend }) => `${channel}: ${problem}${mend ? ` · ${mend}` : ""}`,
  );
  const slow = () =>
    channels.flatMap((channel) => PLANES.flatMap((plane) => reason(channel, plane) ?? []));
  return [...unread, ...(known ?? slow())];
}

/** The time points of a channel: their number, their distance, and the date of the first. */
function timesText(channel: Channel): string {
  const { times, timing } = channel;
  const parts: string[] = [];
  if (times) parts.push(String(times));
  if (timing) parts.push(`every ${Number(timing.step.toPrecision(4))} s`);
  if (timing?.began) parts.push(`from ${when([channel], 0)}`);
  return parts.join(", ");
}

/** The size of a channel's voxels with its unit. */
function voxelText({ voxel_size: size, voxel_unit: unit }: Channel): string {
  if (!size) return "not known";
  return `${size.map((edge) => Number(edge.toPrecision(6))).join(" × ")} ${unit ?? ""}`;
}

/** A row of each channel: its kind, type, voxel size and time points. */
function channelTable(channels: Channel[]): HTMLElement {
  const rows = channels.map((channel) => [
    labelOf(channel),
    channel.labels_because ? `labels, because ${channel.labels_because}` : channel.kind,
    channel.dtype,
    voxelText(channel),
    channel.voxel_size_from ?? "",
    timesText(channel),
  ]);
  return table(["Channel", "Kind", "Type", "Voxel, x × y × z", "Found in", "Times"], rows);
}

/** A row of each level of each channel: its size, and how it is stored. */
function levelTable(channels: Channel[]): HTMLElement {
  const rows = channels.flatMap((channel) =>
    channel.levels.map(({ level, size, path, storage }) => [
      labelOf(channel),
      level,
      size.join(" × "),
      path ?? "computed",
      storage?.chunk?.join(" × ") ?? storage?.layout ?? "",
      storage ? storage.filters.join(", ") || "none" : "",
    ]),
  );
  return table(
    ["Channel", "Level", "Size, x × y × z", "Path", "Chunks, slowest axis first", "Filters"],
    rows,
  );
}

/** How the voxels of registered channels lie in space. */
function spaceTable(channels: Channel[]): HTMLElement[] {
  if (!channels.some((channel) => channel.transform?.in_words)) return [];
  const rows = channels.map((channel) => [
    labelOf(channel),
    channel.transform?.in_words ?? "as stored",
  ]);
  return [h("h3", {}, "In space"), table(["Channel", "Its voxels, besides their size"], rows)];
}

function content(about: About): HTMLElement[] {
  const { token, channels, layouts = [] } = about;
  const file = fileText(about);
  return [
    ...(file ? [h("p", {}, file)] : []),
    ...layouts.map(({ layout, because }) => h("p", {}, h("b", {}, layout), ` · ${because}`)),
    ...(about.notices ?? []).map((notice) => noticeLine(notice, token)),
    ...problemsOf(about).map((text) => h("p", { className: "warning" }, text)),
    h("h3", {}, "Channels"),
    channelTable(channels),
    ...spaceTable(channels),
    h("h3", {}, "Stored"),
    levelTable(channels),
    ...attributes(Object.entries(about.attributes ?? {})),
  ];
}

/** The attributes of each group and dataset, and a field that filters them by words. */
function attributes(objects: [string, Record<string, string>][]): HTMLElement[] {
  if (!objects.length) return [];
  const list = h("div", {});
  const show = (words: string) => {
    const hasWords = wordFilter(words);
    const parts = objects.flatMap(([path, values]) => {
      const rows = Object.entries(values).filter((row) => hasWords([path, ...row].join(" ")));
      return rows.length ? [h("h4", {}, path), table(["Attribute", "Value"], rows)] : [];
    });
    list.replaceChildren(...(parts.length ? parts : [h("p", {}, "No attribute has these words.")]));
  };
  show("");
  const field = h("input", {
    type: "search",
    placeholder: "Search",
    "aria-label": "Search in the attributes",
    id: "attributes",
    oninput: () => show(field.value),
  });
  return [h("h3", {}, "Attributes"), h("div", { className: "field" }, field), list];
}

export function aboutSheet(dataset: Dataset): HTMLDialogElement {
  const body = h("div", { className: "about" }, "Loading …");
  load(dataset)
    .then(content)
    .then(
      (parts) => body.replaceChildren(...parts),
      (error: unknown) => body.replaceChildren(explain(error)),
    );
  return sheet("About this file", body);
}

/** Why the first channel that is slow in a plane is slow; null if none is known to be. */
export const slowness = (channels: Channel[], plane: PlaneName): string | null =>
  channels.map((channel) => reason(channel, plane)).find((text) => text !== null) ?? null;
