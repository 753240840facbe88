//! The tree that reading produces: directives and sections, in the order in which they act.
//!
//! Conditions, includes and macros are gone; what they let through stands where it was, with the
//! file and line it came from. A line out of a macro names the macro's definition and use as its
//! file, as Apache does.

use crate::{
    limits::SHOWN_LINE_BYTES_MAX,
    line::trimmed,
    row::{Row, Shape},
    word::words,
};
use saker_config::{Diagnostic, Severity, model::Origin};
use std::fmt::Write as _;

/// A directive, or a section with what is in it.
#[derive(Clone, Debug)]
pub struct Node {
    /// `None` for a name that is no directive, or one of a module that is not loaded.
    pub row: Option<&'static Row>,
    /// As written, with the `<` of a section; bytes that are no UTF-8 are replaced.
    pub name: Box<str>,
    /// The rest of the line, variables put in.
    pub text: Box<[u8]>,
    pub children: Vec<Node>,
    pub origin: Origin,
    /// Position among all lines that were read.
    pub sequence: u32,
}

impl Node {
    pub fn is_section(&self) -> bool {
        self.name.starts_with('<')
    }

    /// Returns whether this is the directive or section (with its `<`) of that name, in any case.
    pub fn is(&self, name: &str) -> bool {
        self.row
            .map_or(&*self.name, |row| row.name)
            .eq_ignore_ascii_case(name)
    }

    /// The manual's spelling where it is known.
    pub fn canonical_name(&self) -> &str {
        self.row.map_or(&self.name, |row| row.name)
    }

    /// The arguments, quotes and escapes resolved; of a section those before its `>`.
    pub fn arguments(&self) -> Vec<Vec<u8>> {
        words(self.argument_text())
    }

    /// [`Self::arguments`] as one text with its quotes: for directives that take their line apart
    /// themselves.
    pub fn argument_text(&self) -> &[u8] {
        let is_section = self
            .row
            .map_or(self.is_section(), |row| row.shape == Shape::Section);
        match self
            .text
            .iter()
            .rposition(|byte| *byte == b'>')
            .filter(|_| is_section)
        {
            Some(end) => trimmed(self.text.get(..end).unwrap_or_default()),
            None => &self.text,
        }
    }

    pub fn error(&self, message: impl Into<String>, help: Option<String>) -> Diagnostic {
        self.diagnostic(Severity::Error, message.into(), help)
    }

    pub fn warning(&self, message: impl Into<String>, help: Option<String>) -> Diagnostic {
        self.diagnostic(Severity::Warning, message.into(), help)
    }

    pub fn note(&self, message: impl Into<String>, help: Option<String>) -> Diagnostic {
        self.diagnostic(Severity::Note, message.into(), help)
    }

    /// With the cause underlined: its name.
    pub fn diagnostic(
        &self,
        severity: Severity,
        message: String,
        help: Option<String>,
    ) -> Diagnostic {
        let length = self.name.chars().count().max(1) as u32;
        let indent = " ".repeat(self.origin.column.saturating_sub(1).min(200) as usize);
        let mut origin = self.origin.clone();
        origin.column = indent.len() as u32 + 1;
        let text = self.text.get(..SHOWN_LINE_BYTES_MAX).unwrap_or(&self.text);
        let name: String = self.name.chars().take(SHOWN_LINE_BYTES_MAX).collect();
        let line = format!("{indent}{name} {}", String::from_utf8_lossy(text));
        Diagnostic::with_line(severity, origin, length, message, help, line.trim_end())
    }
}

/// The content of a whole configuration or an `.htaccess` file.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub nodes: Vec<Node>,
}

impl Tree {
    /// As `apache2 -t -D DUMP_CONFIG` prints it, without the comments that say which file and line.
    pub fn dump(&self) -> String {
        let mut text = String::new();
        dump_nodes(&self.nodes, 0, &mut text);
        text
    }

    /// Every node, sections before what is in them.
    pub fn walk(&self, visit: &mut dyn FnMut(&Node)) {
        walk_nodes(&self.nodes, visit);
    }
}

fn dump_nodes(nodes: &[Node], depth: usize, text: &mut String) {
    for node in nodes {
        // Writing to a String can't fail.
        let _ = writeln!(
            text,
            "{}{} {}",
            "  ".repeat(depth),
            node.canonical_name(),
            String::from_utf8_lossy(&node.text)
        );
        if !node.children.is_empty() {
            dump_nodes(&node.children, depth + 1, text);
            let _ = writeln!(
                text,
                "{}</{}>",
                "  ".repeat(depth),
                node.canonical_name().trim_start_matches('<')
            );
        }
    }
}

fn walk_nodes(nodes: &[Node], visit: &mut dyn FnMut(&Node)) {
    for node in nodes {
        visit(node);
        walk_nodes(&node.children, visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::find_row;

    fn node(name: &str, text: &str, children: Vec<Node>) -> Node {
        let origin = Origin {
            file: "a.conf".into(),
            line: 3,
            column: 3,
        };
        Node {
            row: find_row(name.as_bytes()),
            name: name.into(),
            text: text.as_bytes().into(),
            children,
            origin,
            sequence: 0,
        }
    }

    #[test]
    fn arguments() {
        let texts = |node: &Node| {
            node.arguments()
                .into_iter()
                .map(|word| String::from_utf8(word).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            texts(&node("SetEnv", "a \"b c\">", vec![])),
            ["a", "b c", ">"]
        );
        assert_eq!(texts(&node("<Directory", "\"/a b\"> x", vec![])), ["/a b"]);
        assert!(node("<directory", "/>", vec![]).is("<Directory"));
    }

    #[test]
    fn dump_and_diagnostics() {
        let section = node("<Directory", "/x>", vec![node("Options", "None", vec![])]);
        let text = section.error("wrong", None).to_string();
        assert_eq!(
            text,
            "a.conf:3:3: error: wrong\n  |\n3 |   <Directory /x>\n  |   ^^^^^^^^^^\n"
        );
        let tree = Tree {
            nodes: vec![section, node("<Files", "a>", vec![])],
        };
        assert_eq!(
            tree.dump(),
            "<Directory /x>\n  Options None\n</Directory>\n<Files a>\n"
        );
        let mut count = 0;
        tree.walk(&mut |_| count += 1);
        assert_eq!(count, 3);
    }
}
