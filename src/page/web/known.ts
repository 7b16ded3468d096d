// The datasets that the page knows: all datasets of the site, or only those that links have named;
// and which of them may have changed since they were requested.

import { type Dataset, loadSite, type Site } from "./data";

/** The tokens of the datasets that have changed, in an event of the server. */
export interface Change {
  added: string[];
  changed: string[];
  removed: string[];
}

/** If more datasets than this changed, all are requested. */
const MANY = 50;

export class Known {
  private site: Site | null = null;
  /** Whether all datasets of the site are known. */
  private whole = false;
  /** The tokens of datasets that may have changed since they were requested. */
  private behind = new Set<string>();

  /** Notes a change; null means that every dataset may have changed. */
  heard(change: Change | null): void {
    if (!change) this.whole = false;
    const tokens = change
      ? [...change.added, ...change.changed, ...change.removed]
      : (this.site?.datasets ?? []).map(({ token }) => token);
    tokens.forEach((token) => this.behind.add(token));
  }

  /**
   * The site, if the dataset is known as it is now (with an empty token, if all datasets are); null
   * otherwise.
   */
  now(token: string): Site | null {
    const { site, behind, whole } = this;
    if (!token) return whole && !behind.size ? site : null;
    const isKnown = whole || site?.datasets.some((dataset) => dataset.token === token);
    return isKnown && !behind.has(token) ? site : null;
  }

  /**
   * The site with the dataset as it is now; with an empty token, with all datasets. Only datasets
   * that are unknown or may have changed are requested.
   */
  async get(token: string): Promise<Site> {
    const known = this.now(token);
    if (known) return known;
    if (token) return this.renew([token]);
    return this.whole && this.behind.size <= MANY ? this.renew([...this.behind]) : this.renew(null);
  }

  /** Requests the datasets of some tokens, or all, and puts them in place of the known ones. */
  private async renew(tokens: string[] | null): Promise<Site> {
    const asked = tokens ?? [...this.behind];
    asked.forEach((token) => this.behind.delete(token));
    try {
      const site = await loadSite(tokens ?? undefined);
      const before = this.site?.datasets ?? [];
      for (const dataset of site.datasets) {
        const known = before.find(({ token }) => token === dataset.token);
        setAddress(dataset, known);
      }
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
function setAddress(dataset: Dataset, before: Dataset | undefined): void {
  if (!dataset.version || !before) return;
  dataset.address =
    before.version === dataset.version ? before.address : `${dataset.token}@${dataset.version}`;
}
