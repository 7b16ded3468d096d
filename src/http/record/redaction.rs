//! Paths as they are written to the log: without a secret.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The path of a request with `…` in place of each secret: `/k/SECRET/a` becomes `/k/…/a`. Each
/// segment after a segment `k` or `K` counts as a secret, wherever it is: a misspelt address may
/// have one, too. If a path with a secret has escapes, which may stand for `k` or a slash, it is
/// cut at the first one: `/%6b/SECRET/a` becomes `/…`.
pub(super) fn path(path: &str) -> Cow<'_, str> {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    if hidden(&decoded).is_some()
        && let Some(escape) = path.find('%')
    {
        let before = &path[..escape];
        let shown = hidden(before).unwrap_or_else(|| before.to_owned());
        return Cow::Owned(format!("{shown}…"));
    }
    hidden(path).map_or(Cow::Borrowed(path), Cow::Owned)
}

/// The path with `…` in place of each secret; `None` if it has no secret.
fn hidden(path: &str) -> Option<String> {
    let mut is_after_k = false;
    let mut has_secret = false;
    let mut segments = Vec::new();
    for segment in path.split('/') {
        // In `/k//SECRET`, the empty segment is not the secret.
        let is_secret = is_after_k && !segment.is_empty();
        segments.push(if is_secret { "…" } else { segment });
        has_secret |= is_secret;
        is_after_k = segment.eq_ignore_ascii_case("k") || (is_after_k && segment.is_empty());
    }
    has_secret.then(|| segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn secrets_are_not_shown() {
        for (asked, shown) in [
            ("/k/secret/a/b.png", "/k/…/a/b.png"),
            ("/k/secret", "/k/…"),
            ("/k/secret/", "/k/…/"),
            ("/k/", "/k/"),
            ("/k//secret/a", "/k//…/a"),
            ("//k/secret/a", "//k/…/a"),
            ("/K/secret/a", "/K/…/a"),
            ("/%6b/secret/a", "/…"),
            ("/k%2Fsecret/a", "/k…"),
            ("/k/%73ecret/a", "/k/…"),
            ("/base/k/secret/a", "/base/k/…/a"),
            ("/base/base/k/secret/a", "/base/base/k/…/a"),
            ("/k/secret/k/other/a", "/k/…/k/…/a"),
            ("/kasthuri/a", "/kasthuri/a"),
            ("/a%20b/c", "/a%20b/c"),
            ("/", "/"),
        ] {
            assert_eq!(path(asked), shown, "{asked}");
        }
    }
}
