//! Notices: facts about data that people must be told, and counts of them.
//!
//! A notice is made once, where the fact is found, and carried with the dataset. It is about data,
//! never about a request: missing sources, datasets that are not shown, units that are not applied,
//! levels that are not used.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One thing that people must be told about a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Notice {
    /// How bad it is.
    pub severity: Severity,
    /// The channel, or the path in the file, that it is about; the token if it is about the whole
    /// dataset.
    pub about: String,
    /// The sentence that people read.
    pub text: String,
}

/// How bad a notice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Data that belongs to the dataset cannot be shown.
    Error,
    /// Something is left out, or is not what it seems to be.
    Warning,
    /// Something that helps to understand the data.
    Info,
}

/// The numbers of errors and warnings among notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct NoticeCount {
    /// The number of errors.
    pub errors: usize,
    /// The number of warnings.
    pub warnings: usize,
}

impl Notice {
    fn new(severity: Severity, text: impl Into<String>) -> Self {
        Self {
            severity,
            about: String::new(),
            text: text.into(),
        }
    }

    /// An error about the channel on which it is recorded, unless [`Notice::about`] names something
    /// else.
    pub fn error(text: impl Into<String>) -> Self {
        Self::new(Severity::Error, text)
    }

    /// A warning about the channel on which it is recorded.
    pub fn warning(text: impl Into<String>) -> Self {
        Self::new(Severity::Warning, text)
    }

    /// Information about the channel on which it is recorded.
    pub fn info(text: impl Into<String>) -> Self {
        Self::new(Severity::Info, text)
    }

    /// This notice about a path in the file or a channel; one that is about something already is
    /// not changed.
    #[must_use]
    pub fn about(self, about: &str) -> Self {
        if self.about.is_empty() {
            Self {
                about: about.to_owned(),
                ..self
            }
        } else {
            self
        }
    }
}

impl Severity {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        }
    }
}

impl NoticeCount {
    /// Counts notices.
    pub fn of<'a>(notices: impl IntoIterator<Item = &'a Notice>) -> Self {
        let mut count = Self::default();
        for notice in notices {
            match notice.severity {
                Severity::Error => count.errors += 1,
                Severity::Warning => count.warnings += 1,
                Severity::Info => {}
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_keeps_what_it_is_about_and_those_that_inform_are_not_counted() {
        let notices = [
            Notice::error("gone").about("/a").about("raw"),
            Notice::warning("odd"),
            Notice::info("by the way"),
        ];
        assert_eq!(notices[0].about, "/a");
        assert_eq!(
            NoticeCount::of(&notices),
            NoticeCount {
                errors: 1,
                warnings: 1
            }
        );
        let json = r#"{"severity":"error","about":"/a","text":"gone"}"#;
        assert_eq!(serde_json::to_string(&notices[0]).unwrap(), json);
    }
}
