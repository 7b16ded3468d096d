//! The content codings that a client accepts (RFC 9110, section 12.5.3).

use actix_web::HttpRequest;
use actix_web::http::header;

use crate::render::plan::AcceptedCodings;

/// The request headers that decide the coding: the value of `Vary`.
pub(super) const DECISIVE: &str = "Accept-Encoding, User-Agent";

/// The codings that a client accepts and can decode.
pub(super) fn accepted(request: &HttpRequest) -> AcceptedCodings {
    let values = |name| {
        request
            .headers()
            .get_all(name)
            .filter_map(|value| value.to_str().ok())
    };
    let list: Vec<&str> = values(header::ACCEPT_ENCODING)
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    // CloudVolume requests deflate and then fails on it.
    let is_requests = values(header::USER_AGENT).any(|agent| agent.contains("python-requests"));
    AcceptedCodings {
        zlib: !is_requests && is_accepted(&list, &["deflate"]),
        gzip: is_accepted(&list, &["gzip", "x-gzip"]),
    }
}

/// Whether a list of codings with weights accepts one, by any of its names or by `*`.
fn is_accepted(list: &[&str], names: &[&str]) -> bool {
    let mut any = false;
    for item in list {
        let (coding, parameters) = item.split_once(';').unwrap_or((item, ""));
        if names
            .iter()
            .any(|name| coding.trim().eq_ignore_ascii_case(name))
        {
            return is_weighted(parameters);
        }
        any |= coding.trim() == "*" && is_weighted(parameters);
    }
    any
}

/// Whether the weight is above zero and at most 1; it is 1 if it is absent.
fn is_weighted(parameters: &str) -> bool {
    let weight = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim())
    });
    weight.is_none_or(|weight| {
        weight
            .parse::<f32>()
            .is_ok_and(|weight| weight > 0.0 && weight <= 1.0)
    })
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
