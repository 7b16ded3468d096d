//! The page at `/` and Neuroglancer at `/neuroglancer/`, as `build.rs` has embedded them; the
//! simple page if they could not be built.
//!
//! The files of both are embedded twice, compressed and uncompressed, so that nothing is compressed
//! at run time and clients without gzip are served too. Their sources are in `src/page`, which is
//! not a Rust module.

pub(super) mod assets;
mod secret;
mod simple;

use actix_web::http::StatusCode;
use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse};

use super::caching::is_known;
use super::codings;
use super::context::Context;
use assets::{Asset, NEUROGLANCER, neuroglancer};
pub(super) use secret::refused;
pub(super) use simple::answer as simple;

/// The `Content-Security-Policy` of the page, which loads everything from this server and has no
/// inline scripts or styles. Only pages of this server may embed it in a frame: to embed it
/// elsewhere, let a proxy change this header.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// The policy of Neuroglancer, which starts workers, has decoders in WebAssembly, and images in its
/// style sheet.
const NEUROGLANCER_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; \
                                   style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                                   form-action 'none'; frame-ancestors 'self'";

/// Answers paths of the files of the pages: `/`, `/neuroglancer/`, and the files that they load.
pub(super) fn answer(context: &Context<'_>) -> Option<HttpResponse> {
    let Context { path, request, .. } = context;
    let name = match path.strip_prefix('/')? {
        "" => "index.html",
        NEUROGLANCER => "neuroglancer/index.html",
        // The addresses in its page are relative to the address with the slash.
        "neuroglancer" if neuroglancer().is_some() => {
            return Some(
                HttpResponse::MovedPermanently()
                    .insert_header((header::LOCATION, NEUROGLANCER))
                    .finish(),
            );
        }
        name => name,
    };
    Some(file(assets::find(name)?, request))
}

/// Redirects from the address of a folder without its final slash to the address with it, because
/// addresses in the folder's page are relative to the folder. `segment` is the last one of its
/// path.
pub(super) fn add_slash(segment: &str, query: &str) -> HttpResponse {
    // The dot keeps a segment with a colon from being read as a scheme (RFC 3986, section 4.2).
    let mark = if query.is_empty() { "" } else { "?" };
    redirect(
        StatusCode::TEMPORARY_REDIRECT,
        format!("./{segment}/{mark}{query}"),
    )
}

/// A redirect that is not cached, and does not send the old address as the referrer.
fn redirect(status: StatusCode, location: String) -> HttpResponse {
    HttpResponse::build(status)
        .insert_header((header::LOCATION, location))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .finish()
}

fn file(asset: &Asset, request: &HttpRequest) -> HttpResponse {
    let gzip = codings::accepted(request).gzip;
    // The two encodings differ in their bytes, so they need different ETags.
    let etag = format!("\"{}{}\"", asset.digest, if gzip { "-gz" } else { "" });
    let policy = if asset.name.starts_with(NEUROGLANCER) {
        NEUROGLANCER_POLICY
    } else {
        POLICY
    };
    let is_current = is_known(request, &etag);
    let mut response = if is_current {
        HttpResponse::NotModified()
    } else {
        HttpResponse::Ok()
    };
    response
        .insert_header((header::ETAG, etag))
        // Revalidated each time, mostly with a 304: a new server must not be used with an old page.
        .insert_header((header::CACHE_CONTROL, "no-cache"))
        .insert_header((header::VARY, "Accept-Encoding"))
        .insert_header((header::CONTENT_SECURITY_POLICY, policy))
        .insert_header((header::REFERRER_POLICY, "same-origin"));
    if is_current {
        return response.finish();
    }
    response.content_type(content_type(asset.name));
    if gzip {
        response.insert_header((header::CONTENT_ENCODING, "gzip"));
    }
    response.body(if gzip { asset.gzip } else { asset.plain })
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
