//! Choices on the command line, whose names and help texts stand beside their types; and options
//! that exclude others.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Parses one of these choices by its name. Each has a name and a help text.
pub(super) fn parser<T: Clone + Send + Sync>(
    choices: &'static [(T, &'static str, &'static str)],
) -> impl TypedValueParser<Value = T> {
    let values = choices
        .iter()
        .map(|(_, name, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(values).try_map(move |given| {
        let found = choices.iter().find(|(_, name, _)| *name == given);
        found
            .map(|(choice, ..)| choice.clone())
            .ok_or("it is not among the possible values")
    })
}

/// An error if one of these options is given, which cannot be used for this reason.
pub(super) fn refuse(options: &[(&str, bool)], why: &str) -> Result<(), String> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(format!("{option} {why}")),
        None => Ok(()),
    }
}
