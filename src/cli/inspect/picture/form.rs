//! The forms in which a picture can be sent to a terminal, and which of them is used.

use clap::ValueEnum;

use super::terminal::Understood;

/// The form named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli::inspect) enum Choice {
    /// The best that the terminal understands; half blocks if standard output is not a terminal.
    Auto,
    /// The Kitty graphics protocol.
    Kitty,
    /// Sixel, with up to 256 colours.
    Sixel,
    /// Half-block characters: in 24-bit colour if COLORTERM is "truecolor" or "24bit", else in 256 colours.
    Blocks,
}

/// The form in which pictures are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Kitty,
    Sixel,
    Blocks(Depth),
}

/// The colours of characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// The 240 fixed colours of xterm's palette of 256.
    Indexed,
    /// 24-bit colours.
    Direct,
}

/// What the process knows about its terminal without asking it.
#[derive(Debug, Clone, Default)]
pub(super) struct Environment {
    /// Whether standard output is a terminal.
    pub is_terminal: bool,
    /// The terminal's name, which ssh passes on.
    pub term: String,
    /// What the terminal says about its colours.
    pub colorterm: String,
}

impl Environment {
    /// The environment of this process.
    pub fn of_process(is_terminal: bool) -> Self {
        let variable = |name: &str| std::env::var_os(name).unwrap_or_default().to_string_lossy().into_owned();
        Self { is_terminal, term: variable("TERM"), colorterm: variable("COLORTERM") }
    }

    fn depth(&self) -> Depth {
        match self.colorterm.as_str() {
            "truecolor" | "24bit" => Depth::Direct,
            _ => Depth::Indexed,
        }
    }

    /// The form that a terminal of this name understands, if the name says it. Terminal multiplexers have names of their
    /// own, as they understand less than the terminal around them.
    fn known(&self) -> Option<Form> {
        let begins_with = |names: &[&str]| names.iter().any(|name| self.term.starts_with(name));
        if begins_with(&["xterm-kitty", "xterm-ghostty"]) {
            Some(Form::Kitty)
        } else if begins_with(&["foot", "mlterm", "yaft"]) {
            Some(Form::Sixel)
        } else if matches!(self.term.as_str(), "" | "dumb" | "linux") {
            // They may print a question instead of answering it.
            Some(Form::Blocks(self.depth()))
        } else {
            None
        }
    }
}

/// The form to use. `ask` asks the terminal; it is only called if nothing else decides.
pub(super) fn chosen(choice: Choice, environment: &Environment, ask: impl FnOnce() -> Understood) -> Form {
    let blocks = Form::Blocks(environment.depth());
    match choice {
        Choice::Kitty => Form::Kitty,
        Choice::Sixel => Form::Sixel,
        Choice::Blocks => blocks,
        Choice::Auto if !environment.is_terminal => blocks,
        Choice::Auto => environment.known().unwrap_or_else(|| match ask() {
            Understood { kitty: true, .. } => Form::Kitty,
            Understood { sixel: true, .. } => Form::Sixel,
            _ => blocks,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(is_terminal: bool, term: &str, colorterm: &str) -> Environment {
        Environment { is_terminal, term: term.to_owned(), colorterm: colorterm.to_owned() }
    }

    fn unasked() -> Understood {
        panic!("the terminal was asked")
    }

    #[test]
    fn an_explicit_choice_asks_nobody() {
        let anywhere = environment(true, "xterm-256color", "");
        assert_eq!(chosen(Choice::Kitty, &anywhere, unasked), Form::Kitty);
        assert_eq!(chosen(Choice::Sixel, &anywhere, unasked), Form::Sixel);
        assert_eq!(chosen(Choice::Blocks, &anywhere, unasked), Form::Blocks(Depth::Indexed));
    }

    #[test]
    fn files_and_pipes_get_half_blocks() {
        let kitty = environment(false, "xterm-kitty", "truecolor");
        assert_eq!(chosen(Choice::Auto, &kitty, unasked), Form::Blocks(Depth::Direct));
    }

    #[test]
    fn some_terminals_are_known_by_name() {
        for (term, form) in [
            ("xterm-kitty", Form::Kitty),
            ("xterm-ghostty", Form::Kitty),
            ("foot-extra", Form::Sixel),
            ("linux", Form::Blocks(Depth::Indexed)),
            ("dumb", Form::Blocks(Depth::Indexed)),
            ("", Form::Blocks(Depth::Indexed)),
        ] {
            assert_eq!(chosen(Choice::Auto, &environment(true, term, ""), unasked), form, "{term}");
        }
    }

    #[test]
    fn other_terminals_are_asked() {
        for term in ["xterm-256color", "tmux-256color", "screen"] {
            let terminal = environment(true, term, "24bit");
            let form = |kitty, sixel| chosen(Choice::Auto, &terminal, || Understood { kitty, sixel });
            assert_eq!(form(true, true), Form::Kitty);
            assert_eq!(form(false, true), Form::Sixel);
            assert_eq!(form(false, false), Form::Blocks(Depth::Direct));
        }
    }
}
