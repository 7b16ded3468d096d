//! Paths as they are written to the log: without a secret.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// A path that is a secret's prefix and nothing else.
const HIDDEN: &str = "/k/…";

/// The path of a request without the secret in `/k/SECRET`, with or without the base path before it.
///
/// Forms that the server does not take for a secret are hidden too, because a person may have meant one: repeated
/// slashes, and escapes.
pub(super) fn path<'p>(path: &'p str, base_path: &str) -> Cow<'p, str> {
    let (base, rest) = match path.strip_prefix(base_path) {
        Some(rest) if rest.starts_with('/') || rest.starts_with('%') => {
            path.split_at(path.len() - rest.len())
        }
        _ => ("", path),
    };
    match behind_secret(rest) {
        Some(behind) => Cow::Owned(format!("{base}{HIDDEN}{behind}")),
        None => Cow::Borrowed(path),
    }
}

/// What follows `/k/SECRET`; `None` if the path does not begin with it.
fn behind_secret(path: &str) -> Option<&str> {
    let is_plain = path.starts_with("/k/") && !path.starts_with("/k//");
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let is_secret =
        decoded.trim_start_matches('/').strip_prefix('k').is_some_and(|rest| rest.starts_with('/'));
    if !is_secret {
        return None;
    }
    // What follows an unusual form cannot be told from the secret.
    Some(if is_plain {
        path["/k/".len()..].find('/').map_or("", |end| &path["/k/".len() + end..])
    } else {
        ""
    })
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn secrets_are_not_shown() {
        for (asked, base, shown) in [
            ("/k/secret/a/b.png", "", "/k/…/a/b.png"),
            ("/k/secret", "", "/k/…"),
            ("/k/secret/", "", "/k/…/"),
            ("/k/", "", "/k/…"),
            ("/k//secret/a", "", "/k/…"),
            ("//k/secret/a", "", "/k/…"),
            ("/%6b/secret/a", "", "/k/…"),
            ("/k%2Fsecret/a", "", "/k/…"),
            ("%2Fk/secret/a", "", "/k/…"),
            ("/base/k/secret/a", "/base", "/base/k/…/a"),
            ("/k/secret/a", "/base", "/k/…/a"),
            ("/kasthuri/a", "", "/kasthuri/a"),
            ("/a/k/b", "", "/a/k/b"),
            ("/base/a", "/base", "/base/a"),
            ("/", "", "/"),
        ] {
            assert_eq!(path(asked, base), shown, "{asked}");
        }
    }
}
