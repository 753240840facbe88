//! The filters by the names that configurations use, with their place in the chain.
//!
//! Called by: the front ends, to order the filters of a response.
//! Caveat: filters are sorted by stage first and by the order of their names second, so that
//! `SetOutputFilter DEFLATE;SUBSTITUTE` substitutes before it compresses.
//! Out of scope: filters that an operator defines (`ext_filter`); they bring name and stage along.

/// Position of a filter in the chain, from the content to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Before all others: removes content codings.
    Decode,
    /// Changes the content (Apache's RESOURCE).
    Resource,
    /// Changes the representation of the content (CONTENT_SET).
    ContentSet,
    /// Framing, ranges.
    Protocol,
    /// The pace of the connection.
    Connection,
}

/// One built-in filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterRow {
    /// Compared without regard to case.
    pub name: &'static str,
    pub stage: Stage,
    /// It makes other content of a file. The result is not cached; filters that don't may leave
    /// files to their handler.
    pub changes_files: bool,
}

const fn row(name: &'static str, stage: Stage, changes_files: bool) -> FilterRow {
    FilterRow {
        name,
        stage,
        changes_files,
    }
}

pub const INFLATE: FilterRow = row("INFLATE", Stage::Decode, true);
pub const INCLUDES: FilterRow = row("INCLUDES", Stage::Resource, true);
pub const SUBSTITUTE: FilterRow = row("SUBSTITUTE", Stage::Resource, true);
pub const SED: FilterRow = row("Sed", Stage::Resource, true);
/// Pages of upstreams.
pub const PROXY_HTML: FilterRow = row("proxy-html", Stage::Resource, true);
pub const DATA: FilterRow = row("DATA", Stage::Resource, true);
/// Files come in the largest pieces anyway.
pub const BUFFER: FilterRow = row("BUFFER", Stage::ContentSet, false);
/// Decodes request bodies; responses are encoded by their handler or by `compress`.
pub const DEFLATE: FilterRow = row("DEFLATE", Stage::ContentSet, false);
/// Encoded by the handler or by `compress`.
pub const BROTLI_COMPRESS: FilterRow = row("BROTLI_COMPRESS", Stage::ContentSet, false);
pub const RATE_LIMIT: FilterRow = row("RATE_LIMIT", Stage::Connection, false);

/// All built-in filters.
pub const CATALOG: &[FilterRow] = &[
    INFLATE,
    INCLUDES,
    SUBSTITUTE,
    SED,
    PROXY_HTML,
    DATA,
    BUFFER,
    DEFLATE,
    BROTLI_COMPRESS,
    RATE_LIMIT,
];

/// Returns the built-in filter called `name`.
pub fn find(name: &str) -> Option<&'static FilterRow> {
    CATALOG
        .iter()
        .find(|row| row.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique() {
        let names: HashSet<String> = CATALOG
            .iter()
            .map(|row| row.name.to_ascii_lowercase())
            .collect();
        assert_eq!(names.len(), CATALOG.len());
        assert_eq!(find("sed"), Some(&SED));
    }

    #[test]
    fn stages_go_from_content_to_connection() {
        assert!(
            Stage::Decode < Stage::Resource
                && Stage::Resource < Stage::ContentSet
                && Stage::Protocol < Stage::Connection
        );
    }
}
