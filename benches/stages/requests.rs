//! The cost of a request before any voxel is read, and the whole cost if the tile is in the cache.

use std::future::Future;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use criterion::Criterion;
use voltile::catalog::Catalog;
use voltile::service::{Client, Demand, RenderPool, TileService};
use voltile_base::flow::activity::Activity;
use voltile_base::metrics::Metrics;
use voltile_base::request::{TilePath, TileRequest};

use crate::layouts::{self, open_catalog};

const SIMPLE: &str = "/ndtilecache/tilecache/plain/raw/xy/17/0_0_0.png";
const COLOURED: &str = "/ndtilecache/tilecache/mcfc/plain/raw:R,raw:G,raw:B/xy/17/0_0_0.png";

fn parse(path: &str) -> TileRequest {
    TilePath::split(path).unwrap().unwrap().request().unwrap()
}

/// Fetches a tile; returns its length in bytes.
async fn fetch(service: &TileService, request: &TileRequest) -> usize {
    let demand = Demand::wanted(Client::InProcess);
    let catalog = service.catalog();
    let plan = service
        .plan(&catalog, &request.token, demand, || {
            catalog.plan_tile(request)
        })
        .await
        .unwrap();
    let tile = service.fetch(&plan, demand, &Arc::default(), None).await;
    tile.unwrap().bytes.len()
}

/// Fetches a tile by a single poll, which suffices if the tile is cached.
fn poll_tile(service: &TileService, request: &TileRequest) -> Poll<usize> {
    pin!(fetch(service, request)).poll(&mut Context::from_waker(Waker::noop()))
}

fn service(catalog: Catalog, metrics: Metrics, activity: Activity) -> TileService {
    let queue_length = 4;
    let cache_bytes = 64 << 20;
    let neighbours = 0;
    let pool = RenderPool::new(NonZeroUsize::MIN, queue_length, activity, metrics.clone()).unwrap();
    TileService::new(catalog, cache_bytes, neighbours, pool, metrics).unwrap()
}

/// Parsing a path, resolving names, deriving key and plan; and a tile from the cache.
pub fn requests(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plain.h5");
    layouts::plain(&path, |builder| builder.chunk((64, 64, 64)));
    let (catalog, metrics, activity) = open_catalog(&path);
    let mut group = criterion.benchmark_group("request");
    for (name, path) in [("simple", SIMPLE), ("three colours", COLOURED)] {
        let request = parse(path);
        group.bench_function(format!("{name}: parse the path"), |b| {
            b.iter(|| parse(black_box(path)));
        });
        group.bench_function(format!("{name}: plan"), |b| {
            b.iter(|| catalog.plan_tile(black_box(&request)).unwrap());
        });
    }
    // With time, because the check for changed files has a time limit.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _context = runtime.enter();
    let service = service(catalog, metrics, activity);
    let request = parse(SIMPLE);
    // Draws the tile, so that it is in the cache.
    runtime.block_on(fetch(&service, &request));
    group.bench_function("a tile from the cache", |b| {
        b.iter(|| poll_tile(&service, black_box(&request)));
    });
    group.finish();
}
