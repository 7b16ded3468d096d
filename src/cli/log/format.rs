//! The format of log lines: text, or one JSON object per line.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes each event in the format chosen at the time.
pub(super) struct ChosenFormat {
    /// Whether lines are JSON from now on.
    is_json: Arc<AtomicBool>,
    text: Format<Full>,
    json: Format<Json>,
}

impl ChosenFormat {
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

impl<S, N> FormatEvent<S, N> for ChosenFormat
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
