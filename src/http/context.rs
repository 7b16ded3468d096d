//! A request before its path is parsed: the datasets that it may see, and the part of its path
//! after the base path and the secret.
//!
//! Secrets are taken from `Authorization` (Bearer, or the password of Basic: RFC 6750, RFC 7617)
//! and from the path prefix `/k/SECRET`. Viewers keep that prefix, because the addresses in
//! documents are relative to it or contain it.

use std::borrow::Cow;
use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::http::header;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use url::form_urlencoded;

use super::client;
use super::record::RequestRecord;
use super::site::Site;
use crate::catalog::Catalog;
use crate::catalog::access::{AccessRules, Grants};
use crate::service::Demand;

/// Precedes a secret in a path.
pub(super) const SECRET_MARK: &str = "/k/";

/// A request that is being answered.
pub(super) struct Context<'r> {
    pub site: &'r Arc<Site>,
    pub request: &'r HttpRequest,
    pub record: &'r RequestRecord,
    /// The datasets that the request may see, as of its start.
    pub catalog: Arc<Catalog>,
    /// The entries of `[[access]]` that the request's secrets open.
    pub grants: Grants,
    /// The raw path below the base path and the secret; it begins with a slash.
    pub path: &'r str,
    /// The prefix `/k/SECRET` as it was sent; empty if there was none.
    pub secret_prefix: &'r str,
}

/// Why a request has no [`Context`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal<'r> {
    /// The secret in the path is wrong. Holds the part of the path after the secret.
    Secret(&'r str),
    /// The final slash of a folder is missing from the path. Holds the path's last segment.
    Slash(&'r str),
}

impl<'r> Context<'r> {
    pub fn new(
        site: &'r Arc<Site>,
        request: &'r HttpRequest,
        record: &'r RequestRecord,
    ) -> Result<Self, Refusal<'r>> {
        let all = site.service.catalog();
        let parts = PathParts::find(request.uri().path(), &site.server.base_path, all.access())?;
        let grants = grants(all.access(), request, &parts)?;
        if parts.path.is_empty() {
            return Err(Refusal::Slash(last_segment(parts.prefix)));
        }
        let catalog = all.visible_to(&grants);
        Ok(Self {
            site,
            request,
            record,
            catalog,
            grants,
            path: parts.path,
            secret_prefix: parts.prefix,
        })
    }

    /// Whether no dataset is hidden from the request, whatever its name.
    pub fn sees_everything(&self) -> bool {
        self.catalog.access().opens_all(&self.grants)
    }

    pub fn demand(&self) -> Demand {
        client::demand(self.request, &self.site.server.trusted_proxies)
    }

    /// The public address of `/`, without the final slash: scheme, host, base path and secret.
    pub fn base(&self) -> Result<String, client::BadHost> {
        let server = &self.site.server;
        let mut base = client::base_url(self.request, &server.trusted_proxies)?;
        base.push_str(&server.base_path);
        base.push_str(self.secret_prefix);
        Ok(base)
    }
}

/// The parts of a raw path after the base path.
#[derive(Debug, PartialEq, Eq)]
struct PathParts<'p> {
    /// `/k/SECRET`, or empty.
    prefix: &'p str,
    /// All that follows; empty, or begins with a slash.
    path: &'p str,
}

impl<'p> PathParts<'p> {
    fn find(path: &'p str, base_path: &str, access: &AccessRules) -> Result<Self, Refusal<'p>> {
        let path = match path.strip_prefix(base_path) {
            Some("") if !base_path.is_empty() => return Err(Refusal::Slash(last_segment(path))),
            Some(rest) if rest.starts_with('/') => rest,
            // A proxy may remove the base path.
            _ => path,
        };
        // Without rules of access there are no secrets: /k/ begins a path like any other.
        let Some(rest) = path.strip_prefix(SECRET_MARK).filter(|_| !access.is_open()) else {
            return Ok(Self { prefix: "", path });
        };
        let end = rest.find('/').unwrap_or(rest.len());
        let (prefix, path) = path.split_at(SECRET_MARK.len() + end);
        Ok(Self { prefix, path })
    }
}

/// The value of a parameter in a query.
pub(super) fn query_parameter(query: &str, parameter: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs
        .find(|(name, _)| name == parameter)
        .map(|(_, value)| value.into_owned())
}

fn last_segment(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The entries of `[[access]]` that the request's secrets open. A wrong secret in the path is an
/// error; a wrong one in a header is ignored, because it may be meant for a proxy.
fn grants<'r>(
    access: &AccessRules,
    request: &HttpRequest,
    parts: &PathParts<'r>,
) -> Result<Grants, Refusal<'r>> {
    if access.is_open() {
        return Ok(Grants::default());
    }
    let escaped = parts.prefix.strip_prefix(SECRET_MARK);
    let decoded = escaped.map(|secret| Cow::from(percent_decode_str(secret)));
    let path_secret = decoded.as_deref();
    if path_secret.is_some_and(|secret| access.grants([secret]).is_empty()) {
        return Err(Refusal::Secret(parts.path));
    }
    let header_secrets: Vec<Vec<u8>> = request
        .headers()
        .get_all(header::AUTHORIZATION)
        .filter_map(|value| credentials(value.as_bytes()))
        .take(MAX_CREDENTIALS)
        .collect();
    let header_secrets = header_secrets.iter().map(Vec::as_slice);
    Ok(access.grants(path_secret.into_iter().chain(header_secrets)))
}

/// The maximum number of `Authorization` headers that are looked at; there should be one.
const MAX_CREDENTIALS: usize = 4;

/// The secret in a value of `Authorization`: `Bearer SECRET`, or `Basic` with `USER:SECRET` in
/// Base64.
fn credentials(value: &[u8]) -> Option<Vec<u8>> {
    let value = value.trim_ascii();
    let end = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = value.split_at(end);
    let rest = rest.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some(rest.to_vec());
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let pair = STANDARD.decode(rest).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    pair.get(colon + 1..).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_tokens_or_passwords() {
        for (value, secret) in [
            ("Bearer abc", Some("abc")),
            ("bearer   abc ", Some("abc")),
            ("Basic dXNlcjphYmM=", Some("abc")),
            ("Basic dXNlcjphOmI=", Some("a:b")),
            ("Basic OmFiYw==", Some("abc")),
            ("Basic dXNlcg==", None),
            ("Basic %%%", None),
            ("Digest abc", None),
            ("abc", None),
            ("", None),
        ] {
            let found = credentials(value.as_bytes());
            assert_eq!(found.as_deref(), secret.map(str::as_bytes), "{value}");
        }
    }

    #[test]
    fn paths_are_taken_with_and_without_the_base_path() {
        let of = |path, base| {
            PathParts::find(path, base, &AccessRules::default()).map(|place| place.path)
        };
        assert_eq!(of("/a/b", ""), Ok("/a/b"));
        assert_eq!(of("/a/b", "/x"), Ok("/a/b"));
        assert_eq!(of("/x/a/b", "/x"), Ok("/a/b"));
        assert_eq!(of("/x/", "/x"), Ok("/"));
        assert_eq!(of("/xy/a", "/x"), Ok("/xy/a"));
        assert_eq!(of("/y/x", "/y/x"), Err(Refusal::Slash("x")));
        assert_eq!(of("/k/secret/a", ""), Ok("/k/secret/a"));
    }
}
