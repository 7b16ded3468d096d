//! The format of log lines: text, or one JSON object per line.
//!
//! It is chosen by the configuration, which is read after the log has begun: lines before that are text.

use std::fmt;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Json, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::config::LogFormat;

static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Uses a format from now on.
pub(in crate::cli) fn choose(format: LogFormat) {
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// Writes events in the format chosen at that moment.
pub(super) struct Chosen {
    text: Format<Full>,
    json: Format<Json>,
}

impl Default for Chosen {
    fn default() -> Self {
        let text = Format::default().with_target(false);
        let json = Format::default().with_target(false).json();
        let json = json.flatten_event(true).with_current_span(false).with_span_list(false);
        Self { text, json }
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
        if is_json() {
            self.json.format_event(context, writer, event)
        } else {
            self.text.format_event(context, writer, event)
        }
    }
}

/// The line for a panic.
pub(super) fn panic_line(panic: &PanicHookInfo<'_>, text: &str) -> String {
    if !is_json() {
        return format!("{text}\n");
    }
    let place = panic.location().map(ToString::to_string);
    error_line(text, place.as_deref())
}

/// The line that says how many lines were lost.
pub(super) fn lost_line(lost: u64) -> String {
    let text = format!("{lost} lines of this log were lost: standard error could not be written");
    if is_json() { error_line(&text, None) } else { format!("{text}\n") }
}

/// A line with the fields that tracing's own lines have.
fn error_line(text: &str, place: Option<&str>) -> String {
    let mut timestamp = String::new();
    // Only the formatter could fail, and a String takes everything.
    let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
    let line = json!({ "timestamp": timestamp, "level": "ERROR", "message": text, "place": place });
    format!("{line}\n")
}
