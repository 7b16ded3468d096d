//! What the example, the environment and messages need to know of a key. What it sets is in
//! [`Setting`](super::reader).

#[derive(Debug, Clone)]
pub(super) struct Key {
    pub name: &'static str,
    pub shape: Shape,
    /// One line for the example.
    pub doc: &'static str,
    /// Whether a server that runs keeps the value with which it was started, or one in the table.
    pub is_fixed: bool,
}

/// What is below a key.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// A value; the TOML text is its default.
    Default(&'static str),
    /// An optional value; the TOML text is an example.
    Optional(&'static str),
    /// A value that is nearly always needed; the TOML text is an example.
    Needed(&'static str),
    /// A value that may contain tables with these keys; the TOML text is an example.
    Inline(&'static str, Vec<Key>),
    /// An optional table, usually written in one line; the TOML text is an example.
    InlineTable(&'static str, Vec<Key>),
    /// One table.
    Table(Vec<Key>),
    /// An array of tables, of which one is there by default.
    List(Vec<Key>),
    /// An array of tables, empty by default.
    OptionalList(Vec<Key>),
    /// Tables with names chosen by the user; one name as an example.
    Named(&'static str, Vec<Key>),
}

impl Key {
    pub fn new(name: &'static str, shape: Shape) -> Self {
        Self {
            name,
            shape,
            doc: "",
            is_fixed: false,
        }
    }

    pub fn doc(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }

    /// The keys of the tables below this one.
    pub fn below(&self) -> &[Key] {
        match &self.shape {
            Shape::Default(_) | Shape::Optional(_) | Shape::Needed(_) => &[],
            Shape::Inline(_, keys)
            | Shape::InlineTable(_, keys)
            | Shape::Table(keys)
            | Shape::List(keys)
            | Shape::OptionalList(keys)
            | Shape::Named(_, keys) => keys,
        }
    }
}

pub(super) fn find<'k>(keys: &'k [Key], name: &str) -> Option<&'k Key> {
    keys.iter().find(|key| key.name == name)
}

pub(super) fn default(name: &'static str, value: &'static str) -> Key {
    Key::new(name, Shape::Default(value))
}

pub(super) fn optional(name: &'static str, example: &'static str) -> Key {
    Key::new(name, Shape::Optional(example))
}

pub(super) fn needed(name: &'static str, example: &'static str) -> Key {
    Key::new(name, Shape::Needed(example))
}
