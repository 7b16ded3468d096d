//! The answer to a wrong secret in a path. A browser gets a page with a field for the right one.
//!
//! The field works without scripts: the browser sends the secret as `?secret=…` to the address of
//! the page, and is redirected to the address with that secret. The answer offers no Basic
//! authentication, for which browsers would ask in a dialog of their own: it would not help,
//! because the secret in the path remains wrong.

use actix_web::http::StatusCode;
use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::simple::{POLICY, STYLE};
use crate::http::context::query_parameter;
use crate::http::problem;

/// The bytes of a secret that are escaped in a path.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The response to a path with a wrong secret; `rest` is the part of the path after it.
pub(in crate::http) fn refused(request: &HttpRequest, rest: &str) -> HttpResponse {
    if let Some(secret) = typed_secret(request.query_string()) {
        return super::redirect(StatusCode::SEE_OTHER, location(&secret, rest));
    }
    let mut accepted = request
        .headers()
        .get_all(header::ACCEPT)
        .filter_map(|value| value.to_str().ok());
    if !accepted.any(|types| types.contains("text/html")) {
        return problem::wrong_secret();
    }
    HttpResponse::Unauthorized()
        .insert_header((header::WWW_AUTHENTICATE, problem::BEARER))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .insert_header((header::CONTENT_SECURITY_POLICY, POLICY))
        .content_type("text/html; charset=utf-8")
        .body(format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>Secret needed · voltile</title><style>{STYLE}</style><main><h1>voltile</h1>\
             <p id=\"why\">The secret in this address is wrong, or not valid any more.</p>\
             <form><label for=\"secret\">Secret</label> <input id=\"secret\" name=\"secret\" type=\"password\" required \
             autofocus autocomplete=\"off\" aria-describedby=\"why\"> <button>Open</button></form></main></html>"
        ))
}

/// The secret that was typed into the field, in a query; `None` if it is empty.
fn typed_secret(query: &str) -> Option<String> {
    query_parameter(query, "secret").filter(|secret| !secret.is_empty())
}

/// The address with another secret, relative to the address with the wrong secret:
/// `../../SECRET/a/b` for `/k/WRONG/a/b`, and `./SECRET/` for `/k/WRONG`.
fn location(secret: &str, rest: &str) -> String {
    // The dots keep the secret from being read as a scheme or a host (RFC 3986, section 4.2).
    let up = if rest.is_empty() {
        "./".to_owned()
    } else {
        "../".repeat(rest.matches('/').count())
    };
    let rest = if rest.is_empty() { "/" } else { rest };
    format!("{up}{}{rest}", utf8_percent_encode(secret, ESCAPED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_secret_takes_the_place_of_the_wrong_one() {
        for (query, wrong, rest, address) in [
            ("secret=right", "http://h/k/wrong", "", "http://h/k/right/"),
            ("secret=right", "http://h/k/", "", "http://h/k/right/"),
            (
                "secret=right",
                "http://h/k/wrong/",
                "/",
                "http://h/k/right/",
            ),
            (
                "a=b&secret=a%2Fb+c",
                "http://h/base/k/wrong/a/b.json",
                "/a/b.json",
                "http://h/base/k/a%2Fb%20c/a/b.json",
            ),
            (
                "secret=right",
                "http://h/k/wrong//x",
                "//x",
                "http://h/k/right//x",
            ),
            (
                "secret=%2F%2Fevil.example",
                "http://h/k/wrong/",
                "/",
                "http://h/k/%2F%2Fevil.example/",
            ),
            (
                "secret=javascript:alert(1)",
                "http://h/k/wrong",
                "",
                "http://h/k/javascript%3Aalert%281%29/",
            ),
        ] {
            let location = location(&typed_secret(query).unwrap(), rest);
            assert_eq!(
                url::Url::parse(wrong)
                    .unwrap()
                    .join(&location)
                    .unwrap()
                    .as_str(),
                address
            );
        }
        for nothing in ["", "secret", "secret=", "other=secret"] {
            assert_eq!(typed_secret(nothing), None, "{nothing}");
        }
    }
}
