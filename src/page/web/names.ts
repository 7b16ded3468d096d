// Names of labels, and labels whose names contain a text.

import { addressOf, type Channel, type Dataset, loadJson } from "./data";

/** A label with a name, and its channel. */
export interface Named {
  channel: Channel;
  id: string;
  name: string;
}

/** The most labels that a search shows. */
const MAX_FOUND = 8;

/** Requests the labels of a channel to which a query applies. */
async function ask(
  dataset: Dataset,
  channel: Channel,
  query: Record<string, string>,
  signal: AbortSignal,
): Promise<Named[]> {
  const labels = `datasets/${addressOf(dataset)}/${channel.name}/labels.json`;
  const address = `${labels}?${new URLSearchParams(query)}`;
  const page = await loadJson<{ labels: { id: string; name: string }[] }>(address, { signal });
  return page.labels.map(({ id, name }) => ({ channel, id, name }));
}

/** The names of labels by their ids, without labels that have none. */
export async function namesOf(
  dataset: Dataset,
  channel: Channel,
  ids: string[],
  signal: AbortSignal,
): Promise<Map<string, string>> {
  const asked = ids.filter((id) => /^\d+$/.test(id));
  if (!channel.names || !asked.length) return new Map();
  const labels = await ask(dataset, channel, { id: asked.join() }, signal);
  return new Map(labels.map(({ id, name }) => [id, name]));
}

/** The labels of all channels whose name, or another text of theirs, contains a text. */
export async function searchNames(
  dataset: Dataset,
  text: string,
  signal: AbortSignal,
): Promise<Named[]> {
  const channels = dataset.channels.filter((channel) => channel.names);
  const labels = await Promise.all(
    channels.map((channel) =>
      ask(dataset, channel, { search: text, count: String(MAX_FOUND) }, signal),
    ),
  );
  return labels.flat().slice(0, MAX_FOUND);
}
