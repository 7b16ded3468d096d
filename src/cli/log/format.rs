//! The format of log lines: text, or one JSON object per line.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Json, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes events in the format chosen at that moment.
pub(super) struct Chosen {
    /// Whether lines are JSON from now on.
    is_json: Arc<AtomicBool>,
    text: Format<Full>,
    json: Format<Json>,
}

impl Chosen {
    pub fn new(is_json: Arc<AtomicBool>) -> Self {
        let text = Format::default().with_target(false);
        let json = Format::default().with_target(false).json();
        let json = json
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false);
        Self {
            is_json,
            text,
            json,
        }
    }
}

impl<S, N> FormatEvent<S, N> for Chosen
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if self.is_json.load(Ordering::Relaxed) {
            self.json.format_event(context, writer, event)
        } else {
            self.text.format_event(context, writer, event)
        }
    }
}

/// A line that does not come from `tracing`; as JSON, it has the fields of lines from `tracing`.
pub(super) fn error_line(is_json: bool, text: &str, place: Option<&Location<'_>>) -> String {
    if !is_json {
        return format!("{text}\n");
    }
    let mut timestamp = String::new();
    // Only the formatter could fail, and a String takes everything.
    let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
    let place = place.map(ToString::to_string);
    let line = json!({ "timestamp": timestamp, "level": "ERROR", "message": text, "place": place });
    format!("{line}\n")
}
