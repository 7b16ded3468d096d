//! The page at `/`: the viewer that `build.rs` has embedded, or the simple page if it could not be built.
//!
//! The viewer's files are embedded twice, compressed and uncompressed, so that nothing is compressed at run time and
//! clients without gzip are served too. Their sources are in `src/page`, which is not a Rust module.

mod simple;

use actix_web::http::header::{self, HeaderName};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};

use crate::catalog::Catalog;
use crate::config::Mount;

struct Asset {
    /// The path below `/`; that of the page itself is `index.html`.
    name: &'static str,
    digest: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
}

// Defines `static ASSETS: &[Asset]`; empty if the viewer is not built in.
include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Everything is loaded from this server, with no inline scripts or styles. Only pages of this server may embed the
/// page in a frame: to embed it elsewhere, let a proxy change this header.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// Whether the viewer is built in.
pub fn has_viewer() -> bool {
    !ASSETS.is_empty()
}

/// Answers paths that belong to the page: `/`, `/simple`, or a file of the viewer.
pub(super) fn answer(
    path: &str,
    request: &HttpRequest,
    catalog: &Catalog,
    mounts: &[Mount],
) -> Option<HttpResponse> {
    let name = match path.strip_prefix('/')? {
        "" => "index.html",
        name => name,
    };
    match ASSETS.iter().find(|asset| asset.name == name) {
        Some(asset) => Some(file(asset, request)),
        None if name == "simple" || path == "/" => Some(simple::index(catalog, mounts, has_viewer())),
        None => None,
    }
}

fn file(asset: &Asset, request: &HttpRequest) -> HttpResponse {
    let gzip = accepts_gzip(request);
    // The two encodings differ in their bytes, so they need different ETags.
    let etag = format!("\"{}{}\"", asset.digest, if gzip { "-gz" } else { "" });
    if super::tiles::is_known(request, &etag) {
        return described(HttpResponse::NotModified(), &etag).finish();
    }
    let mut response = described(HttpResponse::Ok(), &etag);
    response.content_type(content_type(asset.name));
    if gzip {
        response.insert_header((header::CONTENT_ENCODING, "gzip"));
    }
    response.body(if gzip { asset.gzip } else { asset.plain })
}

fn described(mut response: HttpResponseBuilder, etag: &str) -> HttpResponseBuilder {
    let fixed: [(HeaderName, &str); 5] = [
        (header::ETAG, etag),
        // Revalidated each time, mostly with a 304: a new server must not be used with an old page.
        (header::CACHE_CONTROL, "no-cache"),
        (header::VARY, "Accept-Encoding"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "same-origin"),
    ];
    fixed.into_iter().for_each(|header| {
        response.append_header(header);
    });
    response
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

/// Whether `Accept-Encoding` lists gzip, or `*` without gzip, with a weight other than 0 (RFC 9110, section 12.5.3).
fn accepts_gzip(request: &HttpRequest) -> bool {
    let values = request.headers().get_all(header::ACCEPT_ENCODING).filter_map(|value| value.to_str().ok());
    let weight_of = |wanted: &str| {
        let mut codings = values.clone().flat_map(|value| value.split(','));
        codings.find_map(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            parts.next()?.eq_ignore_ascii_case(wanted).then(|| weight(parts))
        })
    };
    weight_of("gzip").or_else(|| weight_of("*")).is_some_and(|weight| weight > 0.0)
}

/// The parameter `q`; 1 if there is none, or it is not a number.
fn weight<'a>(mut parameters: impl Iterator<Item = &'a str>) -> f32 {
    let weight = parameters.find_map(|part| part.strip_prefix(['q', 'Q'])?.trim_start().strip_prefix('='));
    weight.and_then(|weight| weight.trim().parse().ok()).unwrap_or(1.0)
}
