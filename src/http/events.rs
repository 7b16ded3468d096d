//! `/events`: tells pages which datasets were added, changed or removed, as server-sent events.
//!
//! A listener holds the catalogue that its request may see (all listeners with the same grants
//! share it), and compares it with the next one. It ends when the server is being stopped, and when
//! the rules of access change, because its secret must then be checked again. The number of
//! listeners at one client address is limited.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::{ConnectionType, Method, Version, header};
use bytes::Bytes;
use futures_util::stream;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::context::Context;
use super::problem::{self, Answer};
use crate::catalog::Catalog;
use crate::catalog::access::Grants;
use crate::service::{Client, LiveState, TileService};

/// After this time without an event, a listener is sent a comment, which keeps its connection open.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The maximum number of listeners at one client address.
const MAX_LISTENERS: usize = 32;

/// The listeners of a server.
#[derive(Default)]
pub(super) struct Listeners {
    counts: Mutex<HashMap<Client, usize>>,
    draining: watch::Sender<bool>,
}

impl Listeners {
    /// Ends all listeners. A listener that comes later ends at once.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Becomes true when the listeners are to end.
    fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Counts a listener of a client; `None` if the client has too many.
    fn enter(self: &Arc<Self>, client: Client) -> Option<ListenerSeat> {
        let mut counts = self.counts.lock();
        let count = counts.entry(client).or_default();
        if *count == MAX_LISTENERS {
            return None;
        }
        *count += 1;
        Some(ListenerSeat {
            listeners: Arc::clone(self),
            client,
        })
    }
}

/// A listener in the count of its client; dropping it decrements the count.
struct ListenerSeat {
    listeners: Arc<Listeners>,
    client: Client,
}

impl Drop for ListenerSeat {
    fn drop(&mut self) {
        let mut counts = self.listeners.counts.lock();
        if let Some(count) = counts.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

/// The datasets that differ between two catalogues, by token.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct CatalogDifference {
    added: Vec<String>,
    changed: Vec<String>,
    removed: Vec<String>,
}

impl CatalogDifference {
    fn between(before: &Catalog, after: &Catalog) -> Self {
        let mut difference = Self::default();
        for dataset in after.datasets() {
            match before.dataset(&dataset.token) {
                None => difference.added.push(dataset.token.to_string()),
                Some(old)
                    if !Arc::ptr_eq(old, dataset)
                        && before.version(old) != after.version(dataset) =>
                {
                    difference.changed.push(dataset.token.to_string());
                }
                Some(_) => {}
            }
        }
        for dataset in before.datasets() {
            if after.dataset(&dataset.token).is_none() {
                difference.removed.push(dataset.token.to_string());
            }
        }
        difference
    }
}

struct EventListener {
    service: Arc<TileService>,
    changes: watch::Receiver<LiveState>,
    draining: watch::Receiver<bool>,
    /// The catalogue that the client knows from the events so far.
    seen: Arc<Catalog>,
    grants: Grants,
    _seat: ListenerSeat,
}

impl EventListener {
    /// The next bytes to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        // The timer is set once: changes that this listener does not see must not put off its
        // heartbeat.
        let mut silence = pin!(tokio::time::sleep(HEARTBEAT));
        loop {
            tokio::select! {
                biased;
                _ = self.draining.wait_for(|is_draining| *is_draining) => return None,
                changed = self.changes.changed() => changed.ok()?,
                () = &mut silence => return Some(Bytes::from_static(b":\n\n")),
            }
            let all = self.service.catalog();
            if all.access() != self.seen.access() {
                return None;
            }
            let now = all.visible_to(&self.grants);
            let difference = CatalogDifference::between(&self.seen, &now);
            self.seen = now;
            if difference != CatalogDifference::default() {
                return Some(event("datasets", &json!(difference)).into());
            }
        }
    }
}

fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// `/events`
pub(super) fn answer(context: &Context<'_>) -> Answer {
    let mut response = HttpResponse::Ok();
    response
        .content_type("text/event-stream")
        .insert_header((header::CACHE_CONTROL, "no-store"));
    if context.request.method() == Method::HEAD {
        // A body that never ends would block all further requests on the connection, although none
        // of it is sent.
        return Ok(response.finish());
    }
    let Some(seat) = context.site.listeners.enter(context.demand().client) else {
        return Ok(problem::busy(&format!(
            "there are {MAX_LISTENERS} listeners at this address, the maximum"
        )));
    };
    let description = &context.site.description;
    let hello = json!({ "version": description.version, "started": description.started });
    // Browsers connect again 3 s after a connection has ended.
    let greeting = format!("retry: 3000\n{}", event("hello", &hello));
    let service = Arc::clone(&context.site.service);
    let listener = EventListener {
        changes: service.changes(),
        // As of the request's start: a change since then is sent at once.
        seen: Arc::clone(&context.catalog),
        service,
        draining: context.site.listeners.draining(),
        grants: context.grants.clone(),
        _seat: seat,
    };
    let events = stream::unfold(
        (Some(greeting.into()), Box::new(listener)),
        async |(greeting, mut listener)| {
            let next = match greeting {
                Some(greeting) => greeting,
                None => listener.next().await?,
            };
            Some((Ok::<Bytes, Infallible>(next), (None, listener)))
        },
    );
    let mut response = response
        .insert_header(("X-Accel-Buffering", "no"))
        .streaming(events);
    if context.request.version() < Version::HTTP_11 {
        // HTTP/1.0 has no chunked encoding: the response ends with the connection.
        response.head_mut().no_chunking(true);
        response
            .head_mut()
            .set_connection_type(ConnectionType::Close);
    }
    Ok(response)
}
