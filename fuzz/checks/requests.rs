//! A fuzz target: the whole way of a request, from the bytes of its head to the bytes of its
//! answer, on a few small files.

use std::path::Path;
use std::sync::OnceLock;

use actix_web::body::{BodySize, MessageBody, to_bytes};
use actix_web::http::{StatusCode, Uri};
use actix_web::test::TestRequest;
use actix_web::web;
use tokio::runtime::{Builder, Runtime};
use voltile_base::flow::activity::Activity;
use voltile_base::metrics::Metrics;

use super::answer;
use super::site::LiveSite;
use crate::catalog::Catalog;
use crate::config::{self, Layers};
use crate::service::{RenderPool, TileService};

/// Files with stored levels, a series, labels and an offset, in the folder of fixtures.
const FILES: [&str; 4] = ["levels.h5", "series.h5", "labels.h5", "rgb.h5"];

/// Answers the request that these bytes are, if its head is complete. Panics if the answer has the
/// status 500, which means a defect of the server, or if its body breaks off.
pub(crate) fn run(bytes: &[u8]) {
    let mut headers = [httparse::EMPTY_HEADER; 96];
    let mut head = httparse::Request::new(&mut headers);
    if !head.parse(bytes).is_ok_and(|status| status.is_complete()) {
        return;
    }
    let (method, path) = (
        head.method.unwrap_or_default(),
        head.path.unwrap_or_default(),
    );
    let (Ok(method), true) = (method.parse(), path.parse::<Uri>().is_ok()) else {
        return;
    };
    let mut request = TestRequest::with_uri(path).method(method);
    for header in head.headers.iter() {
        request = request.append_header((header.name, header.value));
    }
    let (runtime, site) = site();
    let status = runtime.block_on(async {
        let response = answer(site.clone(), request.to_http_request()).await;
        let status = response.status();
        // A stream of events goes on for ever.
        if !matches!(response.body().size(), BodySize::Stream) {
            assert!(
                to_bytes(response.into_body()).await.is_ok(),
                "the body of {path} breaks off"
            );
        }
        status
    });
    assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{path}");
}

/// A server's state without its sockets, made once.
fn site() -> (&'static Runtime, &'static web::Data<LiveSite>) {
    static SITE: OnceLock<(Runtime, web::Data<LiveSite>)> = OnceLock::new();
    #[allow(clippy::expect_used, reason = "without it nothing can be tested")]
    let (runtime, site) = SITE.get_or_init(|| {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        (runtime, web::Data::new(open_site().expect("the fixtures")))
    });
    (runtime, site)
}

fn open_site() -> Result<LiveSite, Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let files = FILES.map(|file| folder.join(file).into()).to_vec();
    let mut settings = config::load(&Layers {
        files,
        ..Layers::default()
    })
    .settings;
    settings
        .server
        .mounts
        .iter_mut()
        .for_each(|mount| mount.adjustable = true);
    settings
        .server
        .trusted_proxies
        .push(config::Proxy::new("0.0.0.0/0")?);
    settings.render.neighbours = 0;
    let opened = Catalog::open(&settings, &Metrics::default(), &Activity::default());
    assert_eq!(
        (opened.catalog.datasets().count(), opened.faults),
        (FILES.len(), Vec::new())
    );
    let pool = RenderPool::new(
        settings.render.threads,
        settings.render.queue,
        Activity::default(),
        Metrics::default(),
    )?;
    let service = TileService::new(
        opened.catalog,
        settings.cache.tiles,
        0,
        pool,
        Metrics::default(),
    )?;
    Ok(LiveSite::new(service.into(), &settings)?)
}
