//! The rules of access to a dataset.

use std::collections::BTreeSet;

use voltile_base::name::{Name, Pattern};
use voltile_base::tile::Fingerprint;

use super::settings::AccessSettings;

/// Identifies the rules that protect a dataset by the patterns that match its token. Other datasets
/// and the secrets of the entries do not change the fingerprint.
pub(super) fn rules_of(token: &Name, entries: &[AccessSettings]) -> Option<Fingerprint> {
    let patterns = entries
        .iter()
        .flat_map(|entry| &entry.datasets)
        .filter(|pattern| pattern.matches(token));
    let texts: BTreeSet<&str> = patterns.map(Pattern::as_str).collect();
    (!texts.is_empty()).then(|| Fingerprint::digest(&texts))
}
