//! The rows that the parts find.

/// A fact: a name, a value, and where it is from or what it means.
pub type Row = (String, String, String);

/// One of them.
pub fn row(name: &str, value: impl Into<String>, meaning: impl Into<String>) -> Row {
    (name.to_owned(), value.into(), meaning.into())
}
