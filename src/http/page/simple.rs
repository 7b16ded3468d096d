//! The simple page: every dataset with an image of each channel in each plane, and the path of each
//! image.
//!
//! Plain HTML without scripts; at `/` if there is no viewer, and always at `/simple`.

use std::fmt::Write;
use std::sync::Arc;

use actix_web::http::header::{self, HeaderValue};
use voltile_base::geometry::Plane;

use super::assets::has_viewer;
use crate::catalog::{Catalog, Channel, Dataset};
use crate::config::Mount;
use crate::http::context::Context;
use crate::http::documents::{self, Document};
use crate::http::escape::in_markup;
use crate::http::problem::Answer;

pub(super) const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}\
h1 small{font-weight:normal;font-size:1rem;opacity:.7}\
ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:1rem}\
figure{margin:0;width:16rem}\
img{width:16rem;height:16rem;background:#000;image-rendering:auto;border-radius:4px}\
figcaption{font-size:.85rem;overflow-wrap:anywhere}";

/// The `Content-Security-Policy` of the simple page: no scripts, and only one inline style, which
/// is allowed by its digest.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'sha256-//Fv/v5pkXB09g8Fs9JnctUW//HIbIoo/VOxjVH/lEM='; img-src 'self'; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'self'";

/// A form for a secret, which leads to the page with that secret in its address: see `secret`.
const FORM: &str = "<form action=\"k/\"><label for=\"secret\">Secret of protected datasets</label> <input id=\"secret\" \
                    name=\"secret\" type=\"password\" required autocomplete=\"off\"> <button>Open</button></form>";

const NO_VIEWER: &str = "<p>This voltile was built without its viewer. Run <code>scripts/page</code>, which needs \
                         node and npm, and build it again.</p>";

/// The page.
pub(in crate::http) async fn answer(context: &Context<'_>) -> Answer {
    let catalog = Arc::clone(&context.catalog);
    let site = Arc::clone(context.site);
    // Not below `/k/SECRET`: the address in the form is relative to `/`.
    let form = if context.secret_prefix.is_empty() && !context.sees_everything() {
        FORM
    } else {
        ""
    };
    let mut response = documents::answer(context, &("simple", form), 0, move || {
        let page = index(&catalog, &site.server.mounts, has_viewer(), form);
        Ok(Document::new("text/html; charset=utf-8", vec![page.into()]))
    })
    .await?;
    response.headers_mut().insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(POLICY),
    );
    Ok(response)
}

/// The page as HTML, with images from the first mount, and a form at its end.
fn index(catalog: &Catalog, mounts: &[Mount], has_viewer: bool, form: &str) -> String {
    let mount = mounts
        .first()
        .map_or("", |mount| mount.tile_service.as_str());
    let mut body = String::new();
    for dataset in catalog.datasets() {
        // Writing to a string cannot fail.
        let _ = write!(body, "<h2>{}</h2><ul>", dataset.token);
        let address = catalog.address(dataset);
        for channel in dataset.listed() {
            for plane in Plane::ALL {
                body.push_str(&figure(mount, &address, dataset, channel, plane));
            }
        }
        body.push_str("</ul>");
    }
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>voltile</title><style>{STYLE}</style>\
         <h1>voltile <small>{} · <a href=\"datasets.json\">datasets.json</a> · <a href=\"metrics\">metrics</a></small></h1>\
         {note}{body}{form}</html>",
        env!("CARGO_PKG_VERSION"),
        note = if has_viewer { "" } else { NO_VIEWER },
    )
}

/// The image of a channel in a plane. Names are safe in HTML; labels come from files, and are
/// escaped.
fn figure(
    mount: &str,
    address: &str,
    dataset: &Dataset,
    channel: &Channel,
    plane: Plane,
) -> String {
    let path = format!(
        "{mount}/tilecache/{}",
        dataset.sample_path(address, channel, plane)
    );
    let label = channel
        .facts
        .label
        .as_deref()
        .map(in_markup)
        .unwrap_or_default();
    let size = channel.size();
    format!(
        "<li><figure><a href=\"{path}\"><img loading=\"lazy\" alt=\"{plane} slice of {name}\" src=\"{path}\"></a>\
         <figcaption><b>{name}</b> {label} {plane}, {kind}, {dtype}, {size}<br><code>{path}</code></figcaption>\
         </figure></li>",
        name = channel.name,
        kind = channel.kind.name(),
        dtype = channel.voxel.name(),
    )
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_policy_names_the_style() {
        let digest = base64(&Sha256::digest(STYLE));
        assert!(
            POLICY.contains(&format!("style-src 'sha256-{digest}'")),
            "right would be {digest}"
        );
    }

    fn base64(bytes: &[u8]) -> String {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let letters = |three: &[u8]| {
            let bits = (0..3).fold(0, |bits, at| {
                bits << 8 | usize::from(*three.get(at).unwrap_or(&0))
            });
            let of = |at: usize| {
                if at <= three.len() {
                    char::from(LETTERS[bits >> (18 - 6 * at) & 63])
                } else {
                    '='
                }
            };
            [0, 1, 2, 3].map(of)
        };
        bytes.chunks(3).flat_map(letters).collect()
    }
}
