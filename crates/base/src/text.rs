//! Text for people.

use std::fmt::Display;

/// The items with commas between them.
pub fn joined(items: impl IntoIterator<Item: Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(", ")
}
