//! The content codings that a client accepts (RFC 9110, section 12.5.3).

use actix_web::HttpRequest;
use actix_web::http::header::{
    self, AcceptEncoding, Encoding, Header, Preference, Quality, QualityItem,
};
use voltile_render::plan::AcceptedCodings;

/// The request headers that decide the coding, for `Vary`.
pub(super) const DECISIVE: &str = "Accept-Encoding, User-Agent";

/// The codings that a client accepts and can decode.
pub(super) fn accepted(request: &HttpRequest) -> AcceptedCodings {
    // A client whose header is malformed is taken to accept nothing.
    let list = AcceptEncoding::parse(request).map_or_else(|_| Vec::new(), |list| list.0);
    // CloudVolume, which uses python-requests, requests deflate and then fails on it.
    let is_python_requests = request
        .headers()
        .get_all(header::USER_AGENT)
        .filter_map(|agent| agent.to_str().ok())
        .any(|agent| agent.contains("python-requests"));
    AcceptedCodings {
        zlib: !is_python_requests && is_accepted(&list, Encoding::deflate()),
        gzip: is_accepted(&list, Encoding::gzip()),
    }
}

/// Whether a list accepts a coding, by its name or by `*`, with a weight above zero.
fn is_accepted(list: &[QualityItem<Preference<Encoding>>], coding: Encoding) -> bool {
    let coding = Preference::Specific(coding);
    list.iter()
        .find(|accepted| accepted.item == coding)
        .or_else(|| list.iter().find(|accepted| accepted.item.is_any()))
        .is_some_and(|accepted| accepted.quality > Quality::ZERO)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn weights_and_wildcards_count_and_python_requests_is_not_sent_deflate() {
        for (list, agent, zlib, gzip) in [
            ("gzip, deflate, br, zstd", "Mozilla/5.0", true, true),
            ("gzip, deflate, br", "python-requests/2.32.5", false, true),
            ("deflate", "python-requests/2.32.5", false, false),
            ("", "curl/8", false, false),
            ("identity", "curl/8", false, false),
            ("GZIP;q=0.5,deflate; q=0", "curl/8", false, true),
            ("*", "curl/8", true, true),
            ("*, gzip;q=0", "curl/8", true, false),
            ("*;q=0", "curl/8", false, false),
            ("deflate;q=x", "curl/8", false, false),
            ("deflate;level=1;q=0, gzip;q=1e9", "curl/8", false, false),
        ] {
            let request = TestRequest::default()
                .insert_header((header::ACCEPT_ENCODING, list))
                .insert_header((header::USER_AGENT, agent))
                .to_http_request();
            assert_eq!(
                accepted(&request),
                AcceptedCodings { zlib, gzip },
                "{list} of {agent}"
            );
        }
    }
}
