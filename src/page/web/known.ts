// The part of the site that the page knows: all its datasets, or only the datasets that links
// named. It also knows which datasets may have changed since.

import { type Dataset, loadSite, type Site } from "./data";

/** The tokens of datasets, as the server tells of a change. */
export interface Change {
  added: string[];
  changed: string[];
  removed: string[];
}

/** If more datasets than this changed, all are requested. */
const MANY = 50;

export class Known {
  private site: Site | null = null;
  /** Whether it has all datasets. */
  private whole = false;
  /** The datasets that may have changed since they were asked for. */
  private behind = new Set<string>();

  /** Notes a change; null stands for any. */
  heard(change: Change | null): void {
    if (!change) this.whole = false;
    const tokens = change
      ? [...change.added, ...change.changed, ...change.removed]
      : (this.site?.datasets ?? []).map(({ token }) => token);
    tokens.forEach((token) => this.behind.add(token));
  }

  /**
   * The site, if everything is known that a page of this dataset, or of all for an empty token,
   * needs.
   */
  now(token: string): Site | null {
    const { site, behind, whole } = this;
    if (!token) return whole && !behind.size ? site : null;
    return !behind.has(token) &&
      (whole || site?.datasets.some((dataset) => dataset.token === token))
      ? site
      : null;
  }

  /**
   * The site with everything that a page of the dataset, or of all, needs; requests only what is
   * not known.
   */
  async get(token: string): Promise<Site> {
    const known = this.now(token);
    if (known) return known;
    if (token) return this.renew([token]);
    return this.whole && this.behind.size <= MANY ? this.renew([...this.behind]) : this.renew(null);
  }

  /** Asks for these datasets, or for all. */
  private async renew(tokens: string[] | null): Promise<Site> {
    const asked = tokens ?? [...this.behind];
    asked.forEach((token) => this.behind.delete(token));
    try {
      const site = await loadSite(tokens ?? undefined);
      const before = this.site?.datasets ?? [];
      site.datasets.forEach((dataset) =>
        addressed(
          dataset,
          before.find(({ token }) => token === dataset.token),
        ),
      );
      if (tokens) {
        const others = before.filter(({ token }) => !tokens.includes(token));
        site.datasets = [...others, ...site.datasets.filter(({ token }) => tokens.includes(token))];
      } else this.whole = true;
      this.site = site;
      return site;
    } catch (error) {
      asked.forEach((token) => this.behind.add(token));
      throw error;
    }
  }
}

/**
 * Gives a changed dataset addresses with its version, so that the browser does not use old tiles.
 */
function addressed(dataset: Dataset, before: Dataset | undefined): void {
  if (!dataset.version || !before) return;
  dataset.address =
    before.version === dataset.version ? before.address : `${dataset.token}@${dataset.version}`;
}
