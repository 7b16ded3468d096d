//! Protected datasets: responses reveal nothing about them to requests that may not see them.

use actix_web::HttpResponse;
use actix_web::http::header::{self, HeaderValue};

use super::context::Context;
use super::problem::MissingDataset;
use super::{cors, problem};

/// Answers 401 instead of 404 if the named dataset could be one that is hidden from this request,
/// and keeps shared caches from storing a response that a secret has opened.
pub(super) fn apply(context: &Context<'_>, mut response: HttpResponse) -> HttpResponse {
    let access = context.catalog.access();
    if access.is_open() {
        return response;
    }
    let is_hidden = match response.extensions().get::<MissingDataset>() {
        Some(missing) => !access.tells_absence(&missing.0, &context.grants),
        None => false,
    };
    if is_hidden {
        response = problem::unauthorized();
    }
    if !context.grants.is_empty() {
        let before = response
            .headers()
            .get(header::CACHE_CONTROL)
            .and_then(|value| value.to_str().ok());
        let private = HeaderValue::from_str(&made_private(before.unwrap_or_default()));
        response
            .headers_mut()
            .insert(header::CACHE_CONTROL, private.unwrap_or(PRIVATE));
    }
    if !context.secret_prefix.is_empty() {
        // The address of this document must not reach other servers.
        response
            .headers_mut()
            .insert(header::REFERRER_POLICY, NO_REFERRER);
    }
    cors::add_to_vary(response.headers_mut(), "Authorization");
    response
}

const PRIVATE: HeaderValue = HeaderValue::from_static("private");
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");

/// A `Cache-Control` that keeps shared caches from storing the response (RFC 9111, section 5.2.2):
/// `private, max-age=9` for `public, max-age=9`.
fn made_private(cache_control: &str) -> String {
    let mut directives = vec!["private"];
    for directive in cache_control.split(',').map(str::trim) {
        let name = directive.split('=').next().unwrap_or(directive);
        let is_left_out = ["", "public", "private", "s-maxage"]
            .iter()
            .any(|left_out| name.eq_ignore_ascii_case(left_out));
        if !is_left_out {
            directives.push(directive);
        }
    }
    directives.join(", ")
}

#[cfg(test)]
mod tests {
    use super::made_private;

    #[test]
    fn a_private_response_is_not_stored_by_shared_caches() {
        for (before, after) in [
            ("", "private"),
            ("public, max-age=3600", "private, max-age=3600"),
            ("Public,s-maxage=9, max-age=1", "private, max-age=1"),
            ("no-store", "private, no-store"),
            ("private=\"Set-Cookie\"", "private"),
        ] {
            assert_eq!(made_private(before), after);
        }
    }
}
