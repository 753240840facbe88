//! A row as texts by name.

/// Columns by the names that the query gives them; NULL columns are absent.
///
/// A column that can't be converted to text holds the reason as an error, since it matters only to
/// callers that read that column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row(Vec<(Box<str>, Cell)>);

/// The rows that a query found, or how many it changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryResult {
    pub rows: Vec<Row>,
    pub changed: u64,
}

type Cell = Result<Option<Box<str>>, Box<str>>;

impl Row {
    pub fn push(&mut self, name: &str, value: Option<String>) {
        self.0.push((name.into(), Ok(value.map(Into::into))));
    }

    pub fn push_unread(&mut self, name: &str, why: String) {
        self.0.push((name.into(), Err(why.into())));
    }

    /// In the order of the query.
    pub fn columns(&self) -> impl Iterator<Item = (&str, Result<Option<&str>, &str>)> {
        self.0.iter().map(|(name, cell)| (&**name, seen(cell)))
    }

    /// The first column's.
    pub fn first(&self) -> Result<Option<&str>, &str> {
        self.0.first().map_or(Ok(None), |(_, cell)| seen(cell))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn seen(cell: &Cell) -> Result<Option<&str>, &str> {
    cell.as_ref().map(Option::as_deref).map_err(|why| &**why)
}
