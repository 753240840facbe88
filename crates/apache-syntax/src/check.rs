//! Checks that each directive may stand where it stands and has the arguments that it takes.
//!
//! Runs over the whole tree once it is there, as Apache does, and says in Apache's words what
//! Apache would stop at; then what Saker makes of each directive, once per name. The difficulty is
//! the place: which overrides hold, which sections are around, which methods a `<Limit>` has left.
//! Values are looked at where they are one word of a closed list; the rest is the translation's.

use crate::{
    macros::shown,
    modules::{LoadedModules, Provision, find_module},
    options::{ANY_OPTION, parse_options},
    permission::{Permission, Verdict},
    read::acts_while_read,
    report::Report,
    row::{
        AUTH_CONFIG, DIRECTORY, FILES, IN_PROXY, IN_SECTION, IN_SERVER, LIMITS, LOCATION,
        Overrides, PROXIES, Refused, Row, Treatment, VIRTUAL_HOST,
    },
    rows::{NO_SUBVERSION, find_row, rows},
    sections::{IfScope, Methods, section_fault},
    shape,
    tree::Node,
};
use saker_config::{Diagnostic, Severity, nearest};
use std::collections::HashMap;

/// Unknown names that are compared with all known ones, which takes its time.
const SUGGESTIONS_MAX: usize = 50;

/// Checks the nodes of a whole configuration, or of an `.htaccess` file. What is to be passed over
/// is taken out.
pub(crate) fn check(
    nodes: &mut Vec<Node>,
    modules: &LoadedModules,
    permission: Option<&Permission>,
    report: &mut Report,
) {
    let mut checker = Checker {
        report,
        modules,
        permission,
        treated: HashMap::new(),
        suggestions_left: SUGGESTIONS_MAX,
    };
    let overrides = permission.map_or(IN_SERVER, |permission| permission.overrides);
    checker.nodes(
        nodes,
        &Place {
            overrides,
            around: &[],
            methods: Methods::all(),
        },
    );
    checker.tell_treatments();
}

/// The sections around a directive.
struct Place<'p> {
    overrides: Overrides,
    /// The sections, the outermost first.
    around: &'p [&'p Node],
    /// Those that the `<Limit>` sections leave.
    methods: Methods,
}

struct Checker<'r> {
    report: &'r mut Report,
    modules: &'r LoadedModules,
    permission: Option<&'r Permission>,
    /// By name: where it is first, what is said about it, how often it is.
    treated: HashMap<&'static str, (u32, Diagnostic, usize)>,
    suggestions_left: usize,
}

impl Checker<'_> {
    fn nodes(&mut self, nodes: &mut Vec<Node>, place: &Place<'_>) {
        let mut scope = IfScope::default();
        nodes.retain_mut(|node| self.node(node, place, &mut scope));
    }

    /// Checks one node. Returns whether it stays.
    fn node(&mut self, node: &mut Node, place: &Place<'_>, scope: &mut IfScope) -> bool {
        if self.permission.is_some() && self.report.has_errors() {
            // The first error is all that is told of an .htaccess file.
            return true;
        }
        node.row = find_row(node.name.as_bytes()).filter(|row| self.modules.has_any(row.modules));
        let Some(row) = node.row else {
            return self.unknown(node);
        };
        if acts_while_read(row) {
            let message = format!(
                "{} stands before the LoadModule of its module and is passed over, as in Apache",
                row.title()
            );
            self.say(node, Severity::Warning, message, Some(load_module(row)));
            return false;
        }
        match self.verdict(row, place) {
            Verdict::Permitted => {}
            Verdict::Ignored => {
                self.say(
                    node,
                    Severity::Warning,
                    format!("{} in .htaccess forbidden by AllowOverride", row.name),
                    None,
                );
                return false;
            }
            Verdict::Refused => {
                self.refuse(node, row, place);
                return true;
            }
        }
        if let Some(fault) = self.fault(node, row, place, scope) {
            self.say(node, Severity::Error, fault, None);
        }
        self.treat(node, row);
        if node.is_section() {
            self.section(node, row, place);
        }
        true
    }

    fn verdict(&self, row: &Row, place: &Place<'_>) -> Verdict {
        let in_require = place
            .around
            .iter()
            .any(|section| section.canonical_name().starts_with("<Require"));
        match self.permission {
            Some(permission) if !in_require => permission.verdict(row),
            Some(permission) if permission.lists(row) => Verdict::Permitted,
            _ if place.overrides.meets(row.overrides) => Verdict::Permitted,
            _ => Verdict::Refused,
        }
    }

    fn refuse(&mut self, node: &Node, row: &Row, place: &Place<'_>) {
        let message = match place.around.last() {
            Some(section) => format!("{} not allowed in {}> context", row.name, section.name),
            None => format!("{} not allowed here", row.name),
        };
        let help = match self.permission {
            Some(permission) => permission.help(row),
            None => format!("{} belongs in: {}", row.title(), row.contexts.describe()),
        };
        self.say(node, Severity::Error, message, Some(help));
    }

    /// Reports an unknown name. Returns whether it stays: it may be passed over in `.htaccess`.
    fn unknown(&mut self, node: &Node) -> bool {
        let known = find_row(node.name.as_bytes());
        if self
            .permission
            .is_some_and(|permission| permission.ignores_unknown)
        {
            let name = shown(node.name.to_ascii_lowercase().as_bytes());
            let message = format!(
                "Unknown directive {name} perhaps misspelled or defined by a module not included in the server configuration"
            );
            self.say(node, Severity::Warning, message, None);
            return false;
        }
        let message = format!(
            "Invalid command '{}', perhaps misspelled or defined by a module not included in the server configuration",
            node.name
        );
        let is_svn =
            |row: &&Row| row.name == "DAV" && node.text.trim_ascii().eq_ignore_ascii_case(b"svn");
        let help = known
            .map(|row| match is_svn(&row) {
                true => NO_SUBVERSION.to_owned(),
                false => load_module(row),
            })
            .or_else(|| self.suggestion(&node.name));
        self.say(node, Severity::Error, message, help);
        true
    }

    fn suggestion(&mut self, name: &str) -> Option<String> {
        self.suggestions_left = self.suggestions_left.checked_sub(1)?;
        suggestion(name)
    }

    /// The mistake for which Apache would refuse a directive, in its words.
    fn fault(
        &self,
        node: &Node,
        row: &'static Row,
        place: &Place<'_>,
        scope: &mut IfScope,
    ) -> Option<String> {
        alias_fault(node, row, place.around)
            .or_else(|| refused_around(row, place.around))
            .or_else(|| shape::arguments(row, &node.text).err())
            .or_else(|| section_fault(node, row, place.methods, self.permission.is_some(), scope))
            .or_else(|| self.value_fault(node, row))
    }

    fn value_fault(&self, node: &Node, row: &Row) -> Option<String> {
        match row.name {
            "Error" if node.text.is_empty() => {
                Some("The Error directive was used with no message.".into())
            }
            "Error" => Some(shown(&node.text)),
            "Options" => {
                let permitted = self
                    .permission
                    .map_or(ANY_OPTION, |permission| permission.options);
                parse_options(&node.arguments(), permitted).err()
            }
            "AllowOverride" => Permission::parse(&node.arguments()).err(),
            _ => None,
        }
    }

    fn section(&mut self, node: &mut Node, row: &'static Row, place: &Place<'_>) {
        let mut children = std::mem::take(&mut node.children);
        let keeps = self.permission.is_some() && !row.name.starts_with("<Require");
        let overrides = if keeps {
            place.overrides
        } else {
            overrides_in(row, place.overrides)
        };
        let methods = place.methods.within(row, &node.arguments());
        let around: Vec<&Node> = place.around.iter().copied().chain([&*node]).collect();
        self.nodes(
            &mut children,
            &Place {
                overrides,
                around: &around,
                methods,
            },
        );
        node.children = children;
    }

    fn treat(&mut self, node: &Node, row: &'static Row) {
        // Of rows that stand for many, the first of them says its name.
        let title = if row.name.ends_with('*') {
            node.name.to_string()
        } else {
            row.title()
        };
        let (severity, message, help) = match row.treatment {
            Treatment::Honored => return,
            Treatment::Pending => (
                Severity::Note,
                format!("{title} is read and checked, and not honored yet"),
                None,
            ),
            Treatment::NoEffect(reason) => (
                Severity::Note,
                format!("{title} has no effect: {reason}"),
                None,
            ),
            Treatment::Unsupported(instead) => (
                Severity::Warning,
                format!("{title} is not honored"),
                Some(instead),
            ),
            Treatment::Later(part) => (
                Severity::Warning,
                format!("{title} is not honored yet: it comes with {part}"),
                None,
            ),
            Treatment::Denies(instead) => (
                Severity::Warning,
                format!("{title} is not honored: requests that it decides over are denied"),
                Some(instead),
            ),
        };
        let first = || {
            (
                node.sequence,
                node.diagnostic(severity, message, help.map(str::to_owned)),
                0,
            )
        };
        self.treated.entry(row.name).or_insert_with(first).2 += 1;
    }

    fn tell_treatments(&mut self) {
        for (sequence, mut diagnostic, count) in std::mem::take(&mut self.treated).into_values() {
            if count > 1 {
                diagnostic.message.push_str(&format!(
                    " (here and at {} more)",
                    counted(count - 1, "place")
                ));
            }
            self.report.add(sequence, diagnostic);
        }
    }

    fn say(&mut self, node: &Node, severity: Severity, message: String, help: Option<String>) {
        self.report
            .add(node.sequence, node.diagnostic(severity, message, help));
    }
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The overrides inside a section.
fn overrides_in(row: &Row, outside: Overrides) -> Overrides {
    match row.name {
        "<VirtualHost" => IN_SERVER,
        "<Proxy" | "<ProxyMatch" => IN_PROXY,
        "<RequireAll" | "<RequireAny" | "<RequireNone" => AUTH_CONFIG,
        "<AuthnProviderAlias" | "<AuthzProviderAlias" => IN_SECTION,
        _ if kind(row.name).is_some() => IN_SECTION,
        _ => outside,
    }
}

/// Which of the sections that directives may refuse it is.
fn kind(name: &str) -> Option<Refused> {
    Some(match name {
        "<Directory" | "<DirectoryMatch" => DIRECTORY,
        "<Location" | "<LocationMatch" => LOCATION,
        "<Files" | "<FilesMatch" | "<If" | "<ElseIf" | "<Else" => FILES,
        "<Proxy" | "<ProxyMatch" => PROXIES,
        _ => return None,
    })
}

/// Sections around a directive that it refuses, in the order in which Apache asks.
fn refused_around(row: &Row, around: &[&Node]) -> Option<String> {
    let title = row.title();
    let is_in = |names: &[&str]| {
        around
            .iter()
            .any(|section| names.contains(&section.canonical_name()))
    };
    if row.refused.includes(VIRTUAL_HOST) && is_in(&["<VirtualHost"]) {
        return Some(format!("{title} cannot occur within <VirtualHost> section"));
    }
    if row.refused.includes(LIMITS.or(DIRECTORY))
        && is_in(&[
            "<Limit",
            "<LimitExcept",
            "<RequireAll",
            "<RequireAny",
            "<RequireNone",
        ])
    {
        return Some(format!(
            "{title} cannot occur within <Limit> or <LimitExcept> section"
        ));
    }
    let mut found = around.iter().filter(|section| {
        kind(section.canonical_name()).is_some_and(|kind| row.refused.includes(kind))
    });
    let section = found.next()?;
    Some(format!(
        "{title} cannot occur within {}> section",
        section.name
    ))
}

/// `Alias` takes two arguments outside sections, and one in `<Location>`.
fn alias_fault(node: &Node, row: &Row, around: &[&Node]) -> Option<String> {
    if !matches!(row.name, "Alias" | "ScriptAlias") {
        return None;
    }
    let in_section = around
        .iter()
        .any(|section| kind(section.canonical_name()).is_some());
    match (node.arguments().len(), in_section) {
        (1, false) => Some(format!(
            "{} must have two arguments when used globally",
            node.name
        )),
        (2, true) => Some(format!(
            "{} cannot occur within directory context",
            row.name
        )),
        _ => None,
    }
}

/// True for directives that only modules that Saker has nothing for define.
fn is_foreign(row: &Row) -> bool {
    let mut modules = row.modules.iter().filter_map(|name| find_module(name));
    modules.all(|module| {
        matches!(
            module.provision,
            Provision::Foreign | Provision::ForeignGuard
        )
    })
}

/// For a directive whose module is not loaded.
fn load_module(row: &'static Row) -> String {
    // Loading it would not help: the way out does.
    if let (Treatment::Unsupported(help) | Treatment::Denies(help), true) =
        (row.treatment, is_foreign(row))
    {
        return help.to_owned();
    }
    match row
        .modules
        .iter()
        .find_map(|identifier| find_module(identifier))
    {
        Some(module) => format!(
            "it belongs to {}: add LoadModule {} modules/{}",
            module.source_file.trim_end_matches(".c"),
            module.identifier,
            module.shared_object
        ),
        None => "it is for systems that Saker does not run on".to_owned(),
    }
}

fn suggestion(name: &str) -> Option<String> {
    if name.starts_with('\u{feff}') {
        return Some("the file begins with a byte order mark: remove it".to_owned());
    }
    let bare = name.trim_start_matches('<');
    let other = if bare == name {
        format!("<{name}")
    } else {
        bare.to_owned()
    };
    let near = find_row(other.as_bytes()).or_else(|| {
        let names = rows()
            .map(|row| row.name.trim_start_matches('<'))
            .filter(|known| is_similar(bare, known));
        let near = nearest(bare, names)?;
        let section = find_row(format!("<{near}").as_bytes()).filter(|_| bare != name);
        section
            .or_else(|| find_row(near.as_bytes()))
            .or_else(|| find_row(format!("<{near}").as_bytes()))
    });
    near.map(|row| format!("did you mean `{}`?", row.title()))
}

/// A cheap test that spares most of the comparisons: few misspellings change both the first and the
/// last letter.
fn is_similar(name: &str, known: &str) -> bool {
    let (a, b) = (name.as_bytes(), known.as_bytes());
    let same = |a: Option<&u8>, b: Option<&u8>| {
        a.map(u8::to_ascii_lowercase) == b.map(u8::to_ascii_lowercase)
    };
    a.len().abs_diff(b.len()) <= 1 + a.len() / 4
        && (same(a.first(), b.first()) || same(a.last(), b.last()))
}
