//! The table of directives as a page: what becomes of each, for people who bring a configuration.

use crate::{
    row::{Row, Treatment},
    rows::rows,
};
use std::fmt::Write as _;

const HEAD: &str = "# Apache's directives

What becomes of each directive of Apache 2.4 under `saker run --apache`. Made from the table that reads configurations (`make docs`);
`saker check --apache FILE` says the same of yours, with file and line.

- **honored**: does what [Apache's manual](https://httpd.apache.org/docs/2.4/mod/directives.html) says.
- **not yet**: read and checked; nothing follows so far, and the check says so. Where it decides who may see something, everybody is refused.
- **no effect**: read; there is nothing to be done, for the reason given.
- **not honored**: with what to do instead.

";

/// `docs/apache-directives.md`
pub fn reference_markdown() -> String {
    let mut all: Vec<&Row> = rows().collect();
    all.sort_by_key(|row| row.name.trim_start_matches('<').to_ascii_lowercase());
    let honored = all
        .iter()
        .filter(|row| row.treatment == Treatment::Honored)
        .count();
    let mut page = format!(
        "{HEAD}{honored} of {} are honored.\n\n| directive | module | where | |\n| --- | --- | --- | --- |\n",
        all.len()
    );
    for row in all {
        let module = row
            .modules
            .first()
            .map_or("core", |module| module.trim_end_matches("_module"));
        let name = row.title().replace('|', "\\\\|");
        let _ = writeln!(
            page,
            "| `{name}` | {module} | {} | {} |",
            row.contexts.describe(),
            what(row.treatment)
        );
    }
    page
}

fn what(treatment: Treatment) -> String {
    match treatment {
        Treatment::Honored => "**honored**".into(),
        Treatment::Pending => "not yet".into(),
        Treatment::NoEffect(reason) => format!("no effect: {reason}"),
        Treatment::Unsupported(instead) => format!("not honored: {instead}"),
        Treatment::Later(part) => format!("not yet: comes with {part}"),
        Treatment::Denies(instead) => format!("not honored, so everybody is refused: {instead}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_directive() {
        let page = reference_markdown();
        assert_eq!(
            page.lines().filter(|line| line.starts_with("| `")).count(),
            rows().count()
        );
        assert!(
            page.contains("| `<Directory>` | core | server, virtual host |"),
            "{page}"
        );
    }
}
