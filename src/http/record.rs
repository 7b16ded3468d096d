//! The record of a request while it is answered: its id, form and trace. Once it is answered, the
//! request is counted, and logged if the configuration says so; the client gets the id in
//! `X-Request-Id`, and the trace in `Server-Timing`.

mod redaction;

use std::cell::{Cell, OnceCell};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::body::{BodySize, MessageBody};
use actix_web::http::Method;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};
use voltile_base::flow::trace::{Outcome, RequestId, Stage, Trace};
use voltile_base::metrics::{DatasetCounters, Form};

use super::client;
use super::site::Site;
use crate::catalog::Dataset;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
static SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");
/// `Server-Timing` of a cache hit: the most frequent outcome must not allocate.
const HIT: HeaderValue = HeaderValue::from_static("cache;desc=\"hit\"");

/// The record of one request.
pub(super) struct RequestRecord {
    /// The outcome, and the stages and chunks of a render.
    pub trace: Arc<Trace>,
    began: Instant,
    form: Cell<Form>,
    counters: OnceCell<Arc<DatasetCounters>>,
}

impl RequestRecord {
    pub fn start(request: &HttpRequest) -> Self {
        Self {
            trace: Arc::new(Trace::new(id_of(request))),
            began: Instant::now(),
            form: Cell::default(),
            counters: OnceCell::new(),
        }
    }

    /// Records the form of the requested resource.
    pub fn set_form(&self, form: Form) {
        self.form.set(form);
    }

    /// Records the dataset that is requested.
    pub fn set_dataset(&self, dataset: &Dataset) {
        // This is called once for each request.
        let _ = self.counters.set(Arc::clone(&dataset.counters));
    }

    /// Counts the request, logs it, and adds headers to its response.
    pub fn finish(&self, site: &Site, request: &HttpRequest, response: &mut HttpResponse) {
        let span = self.began.elapsed();
        let form = self.form.get();
        let outcome = self.trace.outcome();
        let status = response.status();
        if let Some(id) = self.trace.request_id()
            && let Ok(id) = HeaderValue::from_maybe_shared(id.bytes())
        {
            response.headers_mut().insert(REQUEST_ID.clone(), id);
        }
        if status.is_success() {
            self.add_timing(span, response.headers_mut());
        }
        let bytes = sent_bytes(request, response);
        site.service
            .metrics()
            .count_request(form, status.as_u16(), outcome, span);
        if let Some(counters) = self.counters.get() {
            counters.count_request(bytes);
        }
        if site.log.access {
            tracing::info!(
                method = request.method().as_str(),
                path = %redaction::path(request.uri().path()),
                status = status.as_u16(),
                bytes,
                ms = milliseconds(span),
                client = %client::address(request, &site.server.trusted_proxies),
                cache = outcome.name(),
                form = form.name(),
                request = self.trace.id(),
                "answered"
            );
        }
        // 0 switches this log off. Documents and errors have no outcome.
        let is_slow = !site.log.slow.is_zero() && span > site.log.slow;
        if is_slow && outcome != Outcome::None {
            self.log_slow(site, request, status.as_u16(), span);
        }
    }

    /// `Server-Timing` (W3C): the stages of a render, or else where the bytes came from.
    fn add_timing(&self, span: Duration, headers: &mut HeaderMap) {
        let value = match self.trace.outcome() {
            Outcome::None => None,
            Outcome::Hit => Some(HIT),
            Outcome::Miss => HeaderValue::try_from(self.stages(span)).ok(),
            outcome => HeaderValue::try_from(format!("cache;desc=\"{}\"", outcome.name())).ok(),
        };
        if let Some(value) = value {
            headers.insert(SERVER_TIMING.clone(), value);
        }
    }

    /// The milliseconds of each stage.
    fn stages(&self, span: Duration) -> String {
        let mut text = String::with_capacity(128);
        for (stage, name) in Stage::ALL {
            let stage_time = self.stage_milliseconds(stage);
            let _ = write!(text, "{name};dur={stage_time:.3}, ");
        }
        let _ = write!(text, "total;dur={:.3}", milliseconds(span));
        text
    }

    fn stage_milliseconds(&self, stage: Stage) -> f64 {
        milliseconds(self.trace.stage(stage))
    }

    fn log_slow(&self, site: &Site, request: &HttpRequest, status: u16, span: Duration) {
        tracing::info!(
            path = %redaction::path(request.uri().path()),
            status,
            cache = self.trace.outcome().name(),
            ms = milliseconds(span),
            queue_ms = self.stage_milliseconds(Stage::Queue),
            read_ms = self.stage_milliseconds(Stage::Read),
            decode_ms = self.stage_milliseconds(Stage::Decode),
            draw_ms = self.stage_milliseconds(Stage::Draw),
            encode_ms = self.stage_milliseconds(Stage::Encode),
            chunks_read = self.trace.chunks_read(),
            chunks_cached = self.trace.chunks_cached(),
            stored_bytes = self.trace.stored_bytes(),
            request = self.trace.id(),
            "slower than log.slow, which is {}",
            humantime::format_duration(site.log.slow)
        );
    }
}

/// The id of a request: the one given by a proxy, else the trace id of a distributed trace (W3C
/// Trace Context), else a random one.
fn id_of(request: &HttpRequest) -> RequestId {
    let headers = request.headers();
    let given = headers.get(&REQUEST_ID);
    given
        .and_then(|id| RequestId::given(id.as_bytes()))
        .or_else(|| RequestId::traced(headers.get(&TRACE_PARENT)?.as_bytes()))
        .unwrap_or_else(RequestId::random)
}

/// The number of bytes of the body that are sent; 0 for a stream, whose length is unknown.
fn sent_bytes(request: &HttpRequest, response: &HttpResponse) -> u64 {
    match response.body().size() {
        BodySize::Sized(bytes) if request.method() != Method::HEAD => bytes,
        _ => 0,
    }
}

/// A time in milliseconds, rounded to microseconds.
fn milliseconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e6).round() / 1e3
}
