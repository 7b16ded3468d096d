use std::net::SocketAddr;

use actix_web::test::TestRequest;

use super::*;
use crate::service::Urgency;

fn trusted() -> Vec<Proxy> {
    ["192.0.2.1", "192.0.2.2", "10.0.0.0/8"]
        .map(|text| Proxy::new(text).unwrap())
        .to_vec()
}

fn request(peer: &str, headers: &[(&str, &str)]) -> HttpRequest {
    let peer = SocketAddr::new(peer.parse().unwrap(), 4711);
    let request = TestRequest::with_uri("/projects.json").peer_addr(peer);
    headers
        .iter()
        .fold(request, |request, header| request.append_header(*header))
        .to_http_request()
}

fn client(peer: &str, headers: &[(&str, &str)]) -> Client {
    demand(&request(peer, headers), &trusted()).client
}

fn address(address: &str) -> Client {
    Client::new(address.parse().unwrap())
}

#[test]
fn forwarded_addresses_are_believed_of_trusted_proxies_alone() {
    let forwarded = [("x-forwarded-for", "198.51.100.7")];
    assert_eq!(client("192.0.2.1", &forwarded), address("198.51.100.7"));
    assert_eq!(client("10.1.2.3", &forwarded), address("198.51.100.7"));
    assert_eq!(client("192.0.2.3", &forwarded), address("192.0.2.3"));
    assert_eq!(client("192.0.2.1", &[]), address("192.0.2.1"));
}

#[test]
fn the_client_is_the_last_address_that_is_no_trusted_proxy() {
    for (list, expected) in [
        ("203.0.113.9, 198.51.100.7", "198.51.100.7"),
        ("203.0.113.9, 198.51.100.7, 192.0.2.2", "198.51.100.7"),
        (
            "203.0.113.9,198.51.100.7:1234 , 192.0.2.2,10.0.0.5",
            "198.51.100.7",
        ),
        ("2001:db8:1::9", "2001:db8:1::9"),
        ("[2001:db8:1::9]", "2001:db8:1::9"),
        ("[2001:db8:1::9]:4711", "2001:db8:1::9"),
        ("192.0.2.2, 10.0.0.5", "192.0.2.2"),
        ("203.0.113.9, unknown", "192.0.2.1"),
        ("203.0.113.9, nonsense, 10.0.0.5", "10.0.0.5"),
        ("203.0.113.9, ", "192.0.2.1"),
        ("", "192.0.2.1"),
    ] {
        assert_eq!(
            client("192.0.2.1", &[("x-forwarded-for", list)]),
            address(expected),
            "{list:?}"
        );
    }
    let lines = [
        ("x-forwarded-for", "203.0.113.9"),
        ("x-forwarded-for", "198.51.100.7"),
    ];
    assert_eq!(client("192.0.2.1", &lines), address("198.51.100.7"));
}

#[test]
fn forwarded_is_read_where_nothing_else_is_there() {
    for (list, expected) in [
        ("for=198.51.100.7", "198.51.100.7"),
        (
            "for=203.0.113.9, For=\"198.51.100.7:80\";proto=https",
            "198.51.100.7",
        ),
        (
            "for=198.51.100.7;host=\"a,b;for=c\", for=192.0.2.2",
            "198.51.100.7",
        ),
        (
            "for=198.51.100.7;host=\"a\\\"\", for=192.0.2.2",
            "198.51.100.7",
        ),
        ("for=\"[2001:db8:1::9]:4711\"", "2001:db8:1::9"),
        ("for=_hidden", "192.0.2.1"),
        ("proto=https", "192.0.2.1"),
        ("\"", "192.0.2.1"),
    ] {
        assert_eq!(
            client("192.0.2.1", &[("forwarded", list)]),
            address(expected),
            "{list:?}"
        );
    }
    let both = [
        ("forwarded", "for=203.0.113.9"),
        ("x-forwarded-for", "198.51.100.7"),
    ];
    assert_eq!(client("192.0.2.1", &both), address("198.51.100.7"));
}

#[test]
fn whoever_connects_to_the_unix_socket_is_believed_only_if_that_is_configured() {
    let unix = || TestRequest::with_uri("/").insert_header(("host", "a.test"));
    let request = unix().insert_header(("x-forwarded-for", "198.51.100.7, 10.0.0.5"));
    let request = request
        .insert_header(("x-forwarded-proto", "https"))
        .to_http_request();
    let mut proxies = trusted();
    assert_eq!(demand(&request, &proxies).client, address("0.0.0.0"));
    assert_eq!(base_url(&request, &proxies), right("http://a.test"));
    proxies.push(Proxy::new("unix").unwrap());
    assert_eq!(demand(&request, &proxies).client, address("198.51.100.7"));
    assert_eq!(base_url(&request, &proxies), right("https://a.test"));
    assert_eq!(
        demand(&unix().to_http_request(), &proxies).client,
        address("0.0.0.0")
    );
    assert_eq!(
        client("192.0.2.3", &[("x-forwarded-for", "198.51.100.7")]),
        address("192.0.2.3")
    );
    let any = [Proxy::new("0.0.0.0/0").unwrap()];
    assert_eq!(
        demand(&request, &any).client,
        address("0.0.0.0"),
        "a network has no Unix sockets"
    );
}

#[test]
fn a_prefetch_says_so() {
    let urgency = |purpose| demand(&request("192.0.2.1", &[("sec-purpose", purpose)]), &[]).urgency;
    assert_eq!(urgency("prefetch;prerender"), Urgency::Prefetch);
    assert_eq!(
        (urgency("prefetching"), urgency("")),
        (Urgency::Wanted, Urgency::Wanted)
    );
}

fn requested(peer: &str, headers: &[(&str, &str)]) -> Result<String, BadHost> {
    base_url(&request(peer, headers), &trusted())
}

fn right(base: &str) -> Result<String, BadHost> {
    Ok(base.to_owned())
}

#[test]
fn the_host_is_the_one_that_the_outermost_trusted_proxy_was_asked_by() {
    let host = ("host", "inner.test:8080");
    assert_eq!(
        requested("192.0.2.1", &[host]),
        right("http://inner.test:8080")
    );
    let one = [
        host,
        ("x-forwarded-host", "a.test"),
        ("x-forwarded-proto", "HTTPS"),
    ];
    assert_eq!(requested("192.0.2.1", &one), right("https://a.test"));
    assert_eq!(
        requested("192.0.2.3", &one),
        right("http://inner.test:8080")
    );
    let made_up = [
        host,
        ("x-forwarded-for", "198.51.100.7"),
        ("x-forwarded-host", "evil.test, a.test"),
    ];
    assert_eq!(requested("192.0.2.1", &made_up), right("http://a.test"));
    let two = [
        host,
        ("x-forwarded-for", "198.51.100.7, 10.0.0.5"),
        ("x-forwarded-host", "evil.test, a.test, b.test"),
    ];
    assert_eq!(requested("192.0.2.1", &two), right("http://a.test"));
    let replaced = [
        host,
        ("x-forwarded-for", "198.51.100.7, 10.0.0.5"),
        ("x-forwarded-host", "a.test"),
    ];
    assert_eq!(requested("192.0.2.1", &replaced), right("http://a.test"));
    let element = [
        host,
        (
            "forwarded",
            "host=evil.test, for=198.51.100.7;host=\"a.test:80\";proto=https, for=10.0.0.5",
        ),
    ];
    assert_eq!(requested("192.0.2.1", &element), right("https://a.test:80"));
}

#[test]
fn what_is_no_host_or_no_scheme_is_refused() {
    let longest = "a".repeat(LONGEST_HOST);
    for good in [
        "a",
        "A-b_c.test:1",
        "127.0.0.1",
        "127.0.0.1:65535",
        "[::1]",
        "[2001:db8::1]:80",
        &longest,
    ] {
        assert_eq!(
            requested("192.0.2.3", &[("host", good)]),
            right(&format!("http://{good}"))
        );
    }
    let too_long = "a".repeat(LONGEST_HOST + 1);
    let wrong = [
        "",
        ":80",
        "a:",
        "a:b",
        "a:65536",
        "a:1:2",
        "a b",
        "a/b",
        "a\"b",
        "a<b>",
        "u@a",
        "a%41",
        "[::1",
        "[::g]",
        "[::1]a",
        "[1.2.3.4]",
        "[fe80::1%25eth0]",
        &too_long,
    ];
    for wrong in wrong {
        assert_eq!(
            requested("192.0.2.3", &[("host", wrong)]),
            Err(BadHost::Malformed("Host")),
            "{wrong:?}"
        );
        let forwarded = [("host", "a.test"), ("x-forwarded-host", wrong)];
        assert_eq!(
            requested("192.0.2.1", &forwarded),
            Err(BadHost::Malformed("x-forwarded-host")),
            "{wrong:?}"
        );
    }
    assert_eq!(requested("192.0.2.3", &[]), Err(BadHost::Missing));
    assert_eq!(
        requested("192.0.2.3", &[("host", "a.test"), ("host", "b.test")]),
        Err(BadHost::Missing)
    );
    for scheme in ["javascript", "", "ftp", "http:"] {
        let headers = [("host", "a.test"), ("x-forwarded-proto", scheme)];
        assert_eq!(
            requested("192.0.2.1", &headers),
            Err(BadHost::Scheme("x-forwarded-proto")),
            "{scheme:?}"
        );
    }
}

#[test]
fn the_host_of_a_whole_url_goes_before_the_header() {
    let request =
        TestRequest::with_uri("http://a.test:81/projects.json").insert_header(("host", "b.test"));
    assert_eq!(
        base_url(&request.to_http_request(), &[]),
        right("http://a.test:81")
    );
    let request = TestRequest::with_uri("http://user@a.test/projects.json");
    assert_eq!(
        base_url(&request.to_http_request(), &[]),
        Err(BadHost::Malformed("the request's URL"))
    );
}

proptest::proptest! {
    #[test]
    fn no_header_gets_anything_else_into_a_base(
        name in "host|forwarded|x-forwarded-(for|host|proto)",
        value in "((for|host|proto|=|;|,|\"|\\\\|\\[|\\]|:|192\\.0\\.2\\.[1-9]|::1|a\\.test|https?| )|[ -~]){0,20}",
    ) {
        let request = request("192.0.2.1", &[("host", "a.test"), (name.as_str(), value.as_str())]);
        demand(&request, &trusted());
        if let Ok(base) = base_url(&request, &trusted()) {
            let host = base.strip_prefix("http://").or_else(|| base.strip_prefix("https://")).unwrap();
            assert!(is_host(host) && host.len() <= LONGEST_HOST, "{base}");
        }
    }
}
