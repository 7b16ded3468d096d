// The sheet "About this file": how its layout was recognised, what is stored and how, voxel sizes,
// and what is slow.

import { addressOf, type Channel, type Dataset, explain, type PlaneName, sound } from "./data";
import { h, sheet } from "./dom";
import { PLANES } from "./geometry";
import { wordFilter } from "./text";
import { when } from "./when";

/** What the server's description has besides what the page always needs. */
type About = Dataset & {
  /** What is slow or wrong, and the command that mends it. */
  warnings?: { channel: string; problem: string; mend: string | null }[];
  /** By path, and by name. */
  attributes?: Record<string, Record<string, string>>;
};

/** A tile that reads more stored voxels than this is slow. */
const MAX_READ = 2 ** 24;

/** With warnings, which a server that only has the plain description does not give. */
async function load(dataset: Dataset): Promise<About> {
  const path = `datasets/${addressOf(dataset)}`;
  const full = await fetch(`${path}/about.json`);
  return (await (await sound(full.ok ? full : await fetch(`${path}.json`))).json()) as About;
}

/** Why tiles of a channel in a plane are slow, and what helps; null if they are not. */
function reason(channel: Channel, plane: PlaneName): string | null {
  const read = (level: Channel["levels"][number]) =>
    level.voxels_read?.[PLANES.indexOf(plane)] ?? 0;
  const most = Math.max(0, ...channel.levels.map(read));
  const chunk = channel.levels.find((level) => level.storage?.chunk)?.storage?.chunk;
  if (most <= MAX_READ) return null;
  const stored = chunk
    ? `which is stored in chunks of ${chunk.join(" × ")} (slowest axis first)`
    : "whose coarser levels are not stored";
  return (
    `A tile of plane ${plane} reads ${(most / 1e6).toFixed(0)} million voxels of ${channel.label ?? channel.name}, ${stored}. ` +
    "Chunks that are cubes make all planes fast: voltile pyramid --rechunk writes them."
  );
}

/** Longer texts are wrapped. */
const LONG = 24;

const table = (head: string[], rows: (string | number)[][]): HTMLElement =>
  h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...head.map((text) => h("th", { scope: "col" } as never, text)))),
    h(
      "tbody",
      {},
      ...rows.map((row) =>
        h(
          "tr",
          {},
          ...row.map((cell) =>
            h("td", { className: String(cell).length > LONG ? "long" : "" }, String(cell)),
          ),
        ),
      ),
    ),
  );

function content(about: About): HTMLElement[] {
  const known = about.warnings?.map(
    ({ channel, problem, mend }) => `${channel}: ${problem}${mend ? ` · ${mend}` : ""}`,
  );
  const slow =
    known ??
    about.channels.flatMap((channel) => PLANES.flatMap((plane) => reason(channel, plane) ?? []));
  const notices = (about.notices ?? []).map((notice) =>
    h(
      "p",
      { className: `warning ${notice.severity}` },
      h("b", {}, notice.severity),
      ` · ${notice.about === about.token ? "" : `${notice.about}: `}${notice.text}`,
    ),
  );
  const problems = about.channels.flatMap(({ problem }) => problem ?? []);
  const levels = about.channels.flatMap((channel) =>
    channel.levels.map(({ level, size, path, storage }) => [
      channel.label ?? channel.name,
      level,
      size.join(" × "),
      path ?? "computed",
      storage?.chunk ? storage.chunk.join(" × ") : (storage?.layout ?? ""),
      storage ? storage.filters.join(", ") || "none" : "",
    ]),
  );
  const sizes = about.channels.map((channel) => [
    channel.label ?? channel.name,
    channel.labels_because ? `labels, because ${channel.labels_because}` : channel.kind,
    channel.dtype,
    channel.voxel_size
      ? `${channel.voxel_size.map((size) => Number(size.toPrecision(6))).join(" × ")} ${channel.voxel_unit ?? ""}`
      : "not known",
    channel.voxel_size_from ?? "",
    [
      channel.times ?? "",
      channel.timing && `every ${Number(channel.timing.step.toPrecision(4))} s`,
      channel.timing?.began && `from ${when([channel], 0)}`,
    ]
      .filter(Boolean)
      .join(", "),
  ]);
  const file = [
    about.folder && `in the folder ${about.folder}`,
    about.bytes && `${(about.bytes / 2 ** 20).toFixed(1)} MiB`,
    about.modified &&
      `changed ${new Date(about.modified).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" })}`,
  ]
    .filter(Boolean)
    .join(" · ");
  return [
    ...(file ? [h("p", {}, file)] : []),
    ...(about.layouts ?? []).map(({ layout, because }) =>
      h("p", {}, h("b", {}, layout), ` · ${because}`),
    ),
    ...notices,
    ...[...problems, ...slow].map((text) => h("p", { className: "warning" }, text)),
    h("h3", {}, "Channels"),
    table(["Channel", "Kind", "Type", "Voxel, x × y × z", "Found in", "Times"], sizes),
    ...(about.channels.some((channel) => channel.transform?.in_words)
      ? [
          h("h3", {}, "In space"),
          table(
            ["Channel", "Its voxels, besides their size"],
            about.channels.map((channel) => [
              channel.label ?? channel.name,
              channel.transform?.in_words ?? "as stored",
            ]),
          ),
        ]
      : []),
    h("h3", {}, "Stored"),
    table(
      ["Channel", "Level", "Size, x × y × z", "Path", "Chunks, slowest axis first", "Filters"],
      levels,
    ),
    ...attributes(Object.entries(about.attributes ?? {})),
  ];
}

/** The attributes of each group and dataset, and a field that leaves those with its words. */
function attributes(objects: [string, Record<string, string>][]): HTMLElement[] {
  if (!objects.length) return [];
  const list = h("div", {});
  const show = (words: string) => {
    const hasWords = wordFilter(words);
    const found = objects.flatMap(([path, all]) => {
      const rows = Object.entries(all).filter((row) => hasWords([path, ...row].join(" ")));
      return rows.length ? [h("h4", {}, path), table(["Attribute", "Value"], rows)] : [];
    });
    list.replaceChildren(...(found.length ? found : [h("p", {}, "No attribute has these words.")]));
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

/** Why the first slow channel of these is slow in a plane; null if none is known to be. */
export const slowness = (channels: Channel[], plane: PlaneName): string | null =>
  channels.map((channel) => reason(channel, plane)).find((text) => text !== null) ?? null;
