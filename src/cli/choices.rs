//! Options on the command line that exclude others.

/// An error if one of these options is given, which cannot be used for this reason.
pub(super) fn refuse(options: &[(&str, bool)], why: &str) -> Result<(), String> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(format!("{option} {why}")),
        None => Ok(()),
    }
}
