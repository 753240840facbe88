//! Names of the tables, and the statements that make them.
//!
//! Called by: `connection`, when a connection is made.
//! Caveat: a server whose user may not make tables works with those that are there.
//! Out of scope: rows.

/// Name of a table or channel, as an identifier. Prefixes have no quotation marks
/// (`saker_config`).
pub fn quoted(prefix: &str, name: &str) -> String {
    format!("\"{prefix}:{name}\"")
}

/// Statements that make the tables.
pub fn statements(prefix: &str) -> Vec<String> {
    let table = |name: &str, columns: &str| {
        let name = quoted(prefix, name);
        format!("CREATE TABLE IF NOT EXISTS {name} ({columns})")
    };
    let own = "bigint GENERATED ALWAYS AS IDENTITY";
    vec![
        table(
            "purges",
            &format!("id {own} PRIMARY KEY, record bytea NOT NULL"),
        ),
        table("nodes", "id text PRIMARY KEY, state text NOT NULL"),
        table(
            "feeds",
            &format!(
                "id {own} PRIMARY KEY, feed smallint NOT NULL, \
                 at timestamptz NOT NULL DEFAULT clock_timestamp(), record bytea NOT NULL"
            ),
        ),
        table(
            "bans",
            &format!("name text PRIMARY KEY, number {own}, record bytea NOT NULL"),
        ),
        table(
            "state",
            "name text PRIMARY KEY, value bytea NOT NULL, until timestamptz",
        ),
        table(
            "locks",
            "name text PRIMARY KEY, token bigint NOT NULL, until timestamptz NOT NULL",
        ),
    ]
}
