//! Checks of a section's own line: the closing `>`, the number of arguments, `<Else>` after `<If>`,
//! the methods of `<Limit>`.

use crate::{
    row::{Row, Shape},
    shape,
    tree::Node,
    word::{word, words},
};

/// Methods that Apache knows by number, HEAD as GET; others are given numbers when first named.
pub const METHODS: &[&str] = &[
    "GET",
    "PUT",
    "POST",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "VERSION-CONTROL",
    "CHECKOUT",
    "UNCHECKOUT",
    "CHECKIN",
    "UPDATE",
    "LABEL",
    "REPORT",
    "MKWORKSPACE",
    "MKACTIVITY",
    "BASELINE-CONTROL",
    "MERGE",
];

/// A set of methods, as `<Limit>` counts them: HEAD is GET, and unregistered ones fall together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Methods(u32);

impl Methods {
    pub fn all() -> Methods {
        Methods(u32::MAX)
    }

    fn named(words: &[Vec<u8>]) -> Methods {
        Methods(
            words
                .iter()
                .fold(0, |set, word| set | 1 << number(word).unwrap_or(31)),
        )
    }

    /// The methods that are left inside a section.
    pub fn within(self, row: &Row, words: &[Vec<u8>]) -> Methods {
        match row.name {
            "<Limit" => Methods(self.0 & Methods::named(words).0),
            "<LimitExcept" => Methods(self.0 & !Methods::named(words).0),
            _ => self,
        }
    }
}

/// The number of a method that Apache knows without registration; names are exact.
fn number(word: &[u8]) -> Option<usize> {
    let word = if word == b"HEAD" { b"GET" } else { word };
    METHODS.iter().position(|method| method.as_bytes() == word)
}

/// Which of `<If>`, `<ElseIf>` and `<Else>` came last among the sections of one scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IfScope {
    #[default]
    Nothing,
    Condition,
    Else,
}

/// Apache's complaint about a section's line, in its words.
pub(crate) fn section_fault(
    node: &Node,
    row: &Row,
    methods: Methods,
    in_htaccess: bool,
    scope: &mut IfScope,
) -> Option<String> {
    if row.shape != Shape::Section {
        return None;
    }
    let title = row.title();
    let argument = match shape::section_argument(&title, &node.text) {
        Ok(argument) => argument,
        Err(unclosed) => return Some(unclosed),
    };
    let missing = argument
        .is_empty()
        .then(|| format!("{title} directive requires additional arguments"));
    match row.name {
        "<Directory" | "<DirectoryMatch" | "<Location" | "<LocationMatch" | "<Files"
        | "<FilesMatch" | "<ProxyMatch" => missing.or_else(|| multiple_paths(&title, argument)),
        // A URL may have parameters of its server behind it.
        "<VirtualHost" | "<Proxy" => missing,
        "<If" | "<ElseIf" | "<Else" => missing
            .filter(|_| row.name != "<Else")
            .or_else(|| if_fault(row, argument, scope)),
        "<Limit" | "<LimitExcept" => {
            missing.or_else(|| limit_fault(row, argument, methods, in_htaccess))
        }
        "<RequireAll" | "<RequireAny" | "<RequireNone" => {
            require_fault(&title, argument, &node.children)
        }
        _ => None,
    }
}

fn require_fault(title: &str, argument: &[u8], children: &[Node]) -> Option<String> {
    let decides = |child: &Node| {
        child
            .canonical_name()
            .trim_start_matches('<')
            .starts_with("Require")
    };
    match (argument.is_empty(), children.iter().any(decides)) {
        (false, _) => Some(format!(
            "{title} directive doesn't take additional arguments"
        )),
        (true, false) => Some(format!(
            "{title} directive contains no authorization directives"
        )),
        (true, true) => None,
    }
}

fn multiple_paths(title: &str, argument: &[u8]) -> Option<String> {
    let (first, rest) = word(argument);
    let rest = if first == b"~" { word(rest).1 } else { rest };
    (!rest.is_empty()).then(|| format!("Multiple {title} arguments not (yet) supported."))
}

fn if_fault(row: &Row, argument: &[u8], scope: &mut IfScope) -> Option<String> {
    let before = *scope;
    *scope = if row.name == "<Else" {
        IfScope::Else
    } else {
        IfScope::Condition
    };
    if row.name == "<Else" {
        if !argument.is_empty() {
            return Some("<Else> does not take an argument".into());
        }
    } else if !word(argument).1.is_empty() {
        return Some(format!("Multiple {} arguments not supported.", row.title()));
    }
    let is_alone = row.name != "<If" && before != IfScope::Condition;
    is_alone.then(|| {
        "<Else> or <ElseIf> section without previous <If> or <ElseIf> section in same scope".into()
    })
}

fn limit_fault(row: &Row, argument: &[u8], methods: Methods, in_htaccess: bool) -> Option<String> {
    let names = words(argument);
    if row.name == "<Limit" && names.iter().any(|name| name == b"TRACE") {
        return Some("TRACE cannot be controlled by <Limit>, see TraceEnable".into());
    }
    if let Some(unknown) = names
        .iter()
        .find(|name| in_htaccess && number(name).is_none())
    {
        let name = String::from_utf8_lossy(unknown);
        return Some(format!(
            "Could not register method '{name}' for {} from .htaccess configuration",
            row.name
        ));
    }
    let left = methods.within(row, &names);
    match left {
        Methods(0) => Some(format!("{} directive excludes all methods", row.title())),
        left if left == methods => Some(format!(
            "{} directive specifies methods already excluded",
            row.title()
        )),
        _ => None,
    }
}
