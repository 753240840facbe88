//! A row as texts by name.

/// Names of columns as the query gives them; a NULL is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row(Vec<(Box<str>, Option<Box<str>>)>);

impl Row {
    pub fn push(&mut self, name: &str, value: Option<String>) {
        self.0.push((name.into(), value.map(Into::into)));
    }

    /// In the order of the query.
    pub fn columns(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(name, value)| (&**name, value.as_deref()))
    }

    /// The first column's.
    pub fn first(&self) -> Option<&str> {
        self.0.first()?.1.as_deref()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
