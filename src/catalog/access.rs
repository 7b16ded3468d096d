//! Who may see which datasets: secrets, the datasets that each opens, and the secrets that a
//! request presents.
//!
//! Only digests of secrets are kept, and they are compared in constant time: neither timing nor a
//! log shows a secret.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use blake3::Hash;
use voltile_base::name::{Name, Pattern};

use crate::config::{AccessSettings, Fault};

/// The size limit of a file of secrets, in bytes.
const LONGEST_FILE: u64 = 1 << 20;
/// The minimum length of secrets in bytes; shorter ones can be guessed.
const SHORTEST_SAFE: usize = 16;

/// The rules by which datasets are protected. Without entries everything is public.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AccessRules {
    entries: Vec<AccessEntry>,
}

/// Secrets, and the datasets that they open.
#[derive(Debug, Clone, PartialEq)]
struct AccessEntry {
    datasets: Vec<Pattern>,
    secrets: Vec<Hash>,
}

/// The entries whose secrets a request presents, by index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Grants(BTreeSet<usize>);

impl Grants {
    /// Whether no secret was presented, or only wrong ones.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The rules, and the problems found while reading the secrets.
#[derive(Debug)]
pub struct OpenedAccess {
    /// The rules. An entry whose file cannot be read has no secrets: nothing opens its datasets.
    pub access: AccessRules,
    /// Files that cannot be used, by the key of the setting.
    pub faults: Vec<Fault>,
    /// Files that can be used, but perhaps should not.
    pub warnings: Vec<String>,
}

impl AccessRules {
    /// Reads the files of secrets.
    pub fn open(settings: &[AccessSettings]) -> OpenedAccess {
        let mut entries = Vec::new();
        let mut faults = Vec::new();
        let mut warnings = Vec::new();
        for (index, given) in settings.iter().enumerate() {
            let key = format!("access[{index}].secrets");
            // The path is empty if it was missing or wrong, which the configuration reports itself.
            let mut secrets = Vec::new();
            if !given.secrets.as_os_str().is_empty() {
                match read_secrets(&given.secrets) {
                    Ok(read) => secrets = read,
                    Err(problem) => faults.push(Fault::new(key.as_str(), problem)),
                }
            }
            if secrets.iter().any(|secret| secret.len() < SHORTEST_SAFE) {
                warnings.push(format!(
                    "{key}: {} has a secret of less than {SHORTEST_SAFE} characters, which can be guessed",
                    given.secrets.display()
                ));
            }
            warnings.extend(
                readable_by_others(&given.secrets).map(|warning| format!("{key}: {warning}")),
            );
            let digests = secrets.iter().map(|secret| digest(secret.as_bytes()));
            entries.push(AccessEntry {
                datasets: given.datasets.clone(),
                secrets: digests.collect(),
            });
        }
        OpenedAccess {
            access: AccessRules { entries },
            faults,
            warnings,
        }
    }

    /// Whether nothing is protected.
    pub fn is_open(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries that one of the presented secrets opens.
    pub fn grants<'s>(&self, presented: impl IntoIterator<Item = &'s [u8]>) -> Grants {
        let presented: Vec<Hash> = presented.into_iter().map(digest).collect();
        let mut opened = BTreeSet::new();
        for (index, entry) in self.entries.iter().enumerate() {
            // The comparisons go on after a match: otherwise the time taken would tell of it.
            let mut is_opened = false;
            for known in &entry.secrets {
                for given in &presented {
                    is_opened |= known == given;
                }
            }
            if is_opened {
                opened.insert(index);
            }
        }
        Grants(opened)
    }

    /// Whether a dataset of this name is visible: no entry protects it, or one that does was
    /// opened.
    pub fn shows(&self, dataset: &Name, grants: &Grants) -> bool {
        let mut protecting = self.protecting(dataset).peekable();
        protecting.peek().is_none() || protecting.any(|index| grants.0.contains(&index))
    }

    /// Whether a request may learn that there is no dataset of this name: only if it has opened an
    /// entry that covers the name, or all entries. Otherwise the answers would show which names are
    /// protected.
    pub fn tells_absence(&self, dataset: &Name, grants: &Grants) -> bool {
        self.opens_all(grants)
            || self
                .protecting(dataset)
                .any(|index| grants.0.contains(&index))
    }

    /// Whether all entries were opened.
    pub fn opens_all(&self, grants: &Grants) -> bool {
        grants.0.len() == self.entries.len()
    }

    /// Names in the entries that no dataset has: a misspelt name leaves a dataset public.
    pub fn unknown_names<'a>(
        &'a self,
        is_known: impl Fn(&str) -> bool + 'a,
    ) -> impl Iterator<Item = &'a str> {
        let patterns = self.entries.iter().flat_map(|entry| &entry.datasets);
        patterns
            .filter_map(Pattern::literal)
            .filter(move |name| !is_known(name))
    }

    /// The indices of the entries that protect a dataset.
    fn protecting<'a>(&'a self, dataset: &'a Name) -> impl Iterator<Item = usize> + 'a {
        let entries = self.entries.iter().enumerate();
        entries
            .filter(move |(_, entry)| {
                let mut patterns = entry.datasets.iter();
                patterns.any(|pattern| pattern.matches(dataset))
            })
            .map(|(index, _)| index)
    }
}

fn digest(secret: &[u8]) -> Hash {
    Hash::from(blake3::derive_key(
        "voltile 2026 secret of an access entry",
        secret,
    ))
}

/// The secrets in a file, one per line. Empty lines and lines that begin with `#` are skipped.
fn read_secrets(path: &Path) -> Result<Vec<String>, String> {
    let unreadable = |error: io::Error| format!("{} cannot be read: {error}", path.display());
    let file = File::open(path).map_err(|error| match path.symlink_metadata() {
        Ok(_) => unreadable(error),
        // The path may be a secret, put there by mistake.
        Err(_) => format!(
            "there is no file at the path that it gives, which is not repeated here in case it is a secret ({error}); \
             expected the path of a text file with one secret per line, relative to the configuration file"
        ),
    })?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(format!(
            "{} is not a file; a text file with one secret per line is expected",
            path.display()
        ));
    }
    let mut text = String::new();
    file.take(LONGEST_FILE + 1)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    if text.len() as u64 > LONGEST_FILE {
        return Err(format!(
            "{} is larger than 1 MiB; one secret per line is expected",
            path.display()
        ));
    }
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let secrets: Vec<String> = lines.map(str::to_owned).collect();
    if secrets.is_empty() {
        return Err(format!(
            "{} has no secret; one per line is expected",
            path.display()
        ));
    }
    for (number, secret) in (1..).zip(&secrets) {
        // Not every client can send other characters as a password or in a path.
        if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "{}: secret {number} has spaces or other characters than visible ASCII",
                path.display()
            ));
        }
    }
    Ok(secrets)
}

/// A warning if every user of this machine can read a file.
fn readable_by_others(path: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt;
    let mode = path.metadata().ok()?.permissions().mode();
    // The permission of users who are neither the owner nor in the file's group.
    let is_readable = mode & 0o004 != 0;
    is_readable.then(|| {
        format!(
            "every user of this machine can read {}; chmod o-r it",
            path.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn opened(entries: &[(&str, &[&str])]) -> OpenedAccess {
        let place = tempfile::tempdir().unwrap();
        let entry = |(at, (text, datasets)): (usize, &(&str, &[&str]))| {
            let secrets = place.path().join(format!("{at}.txt"));
            fs::write(&secrets, text).unwrap();
            let datasets = datasets
                .iter()
                .map(|text| Pattern::new(text).unwrap())
                .collect();
            AccessSettings { secrets, datasets }
        };
        AccessRules::open(&entries.iter().enumerate().map(entry).collect::<Vec<_>>())
    }

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn a_secret_opens_the_datasets_of_its_entry_alone() {
        let OpenedAccess { access, faults, .. } = opened(&[
            (
                "# the lab\nlab-secret-of-today\r\n\nlab-secret-of-yesterday\n",
                &["brain", "raw-*"],
            ),
            ("guest-secret-of-today", &["raw-1"]),
        ]);
        assert_eq!(faults, []);
        let grants = |secret: &str| access.grants([secret.as_bytes()]);
        let seen = |secret: &str| {
            ["brain", "raw-1", "raw-2", "public"]
                .map(|dataset| access.shows(&name(dataset), &grants(secret)))
        };
        assert_eq!(seen("lab-secret-of-today"), [true, true, true, true]);
        assert_eq!(seen("lab-secret-of-yesterday"), [true, true, true, true]);
        assert_eq!(seen("guest-secret-of-today"), [false, true, false, true]);
        for wrong in [
            "",
            "lab",
            "# the lab",
            "lab-secret-of-today\r",
            "LAB-SECRET-OF-TODAY",
        ] {
            assert!(grants(wrong).is_empty(), "{wrong}");
            assert_eq!(seen(wrong), [false, false, false, true]);
        }
        let both = access.grants(["lab-secret-of-today".as_bytes(), b"guest-secret-of-today"]);
        assert!(access.tells_absence(&name("absent"), &both));
        assert!(access.tells_absence(&name("raw-9"), &grants("lab-secret-of-today")));
        assert!(!access.tells_absence(&name("absent"), &grants("lab-secret-of-today")));
        assert!(!access.tells_absence(&name("raw-9"), &grants("guest-secret-of-today")));
        assert_eq!(
            access
                .unknown_names(|name| name == "brain")
                .collect::<Vec<_>>(),
            ["raw-1"]
        );
    }

    #[test]
    fn without_entries_everything_is_public() {
        let access = AccessRules::default();
        let nobody = access.grants([b"anything".as_slice()]);
        assert!(
            access.is_open()
                && access.shows(&name("a"), &nobody)
                && access.tells_absence(&name("a"), &nobody)
        );
    }

    #[test]
    fn an_entry_without_secrets_stays_closed() {
        for (text, problem) in [
            ("", "has no secret"),
            ("# only a remark\n", "has no secret"),
            ("two words\n", "secret 1 has spaces"),
        ] {
            let OpenedAccess { access, faults, .. } = opened(&[(text, &["*"])]);
            assert!(
                faults[0].key == "access[0].secrets" && faults[0].problem.contains(problem),
                "{faults:?}"
            );
            assert!(!access.shows(&name("brain"), &access.grants([text.trim().as_bytes()])));
        }
    }

    #[test]
    fn a_secret_in_place_of_its_file_is_not_repeated() {
        for secret in ["hunter2", "/base64/of+a/secret=", &"x".repeat(5000)] {
            let given = AccessSettings {
                secrets: secret.into(),
                datasets: vec![Pattern::any()],
            };
            let OpenedAccess {
                faults, warnings, ..
            } = AccessRules::open(&[given]);
            let told = format!("{faults:?} {warnings:?}");
            assert!(
                told.contains("access[0].secrets") && told.contains("the path of a text file"),
                "{told}"
            );
            assert!(!told.contains(secret.trim_start_matches('/')), "{told}");
        }
    }

    #[test]
    fn weak_secrets_are_named_without_being_shown() {
        let warnings = opened(&[("hunter2\n", &["*"])]).warnings.join("\n");
        assert!(
            warnings.contains("can be guessed") && !warnings.contains("hunter2"),
            "{warnings}"
        );
    }
}
