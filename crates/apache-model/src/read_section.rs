//! From the content of a section to its settings.
//!
//! Called by: `load`, for sections of the configuration; `htaccess` of `saker_apache`, for files.
//! Caveat: a directive without a setter changes nothing; if it decides over access, its section
//! denies everything.

use crate::{
    arguments::texts,
    dir_config::{self, Condition, ConditionKind, DirConfig, Section},
    matcher::Matcher,
    paths::without_dots,
    reading::{Place, Reading},
};
use saker_ap_expr::{Expression, Pattern, PatternOptions};
use saker_apache_syntax::{Node, Row, Treatment};
use saker_auth::{
    AuthSettings, Methods,
    settings::{Group, Logic},
};
use std::{path::PathBuf, sync::Arc};

/// The settings that a section's content makes.
/// Not on the stack: sections are read inside of each other.
pub fn read_all(nodes: &[Node], reading: &mut Reading<'_>) -> Box<DirConfig> {
    let mut local = Box::<DirConfig>::default();
    nodes
        .iter()
        .for_each(|node| read_one(node, &mut local, reading));
    if let Some(first) = nodes.first() {
        check_access(first, &local, reading);
    }
    local
}

/// Rules about access that can't be met.
pub fn check_access(node: &Node, local: &DirConfig, reading: &mut Reading<'_>) {
    if let Some(complaint) = crate::modules::access::authz::check(&local.auth, reading) {
        reading.diagnostics.push(node.error(complaint, None));
    }
}

pub fn read_one(node: &Node, local: &mut DirConfig, reading: &mut Reading<'_>) {
    let outcome = match node.canonical_name() {
        "<Files" | "<FilesMatch" => {
            inner_section(node, reading).map(|section| local.files.push(section))
        }
        "<If" | "<ElseIf" | "<Else" => {
            condition(node, reading).map(|condition| local.conditions.push(condition))
        }
        "<Limit" | "<LimitExcept" => {
            limited(node, local, reading);
            Ok(())
        }
        "<RequireAll" => container(node, local, reading, Group::new(Logic::All)),
        "<RequireAny" => container(node, local, reading, Group::new(Logic::Any)),
        "<RequireNone" => container(node, local, reading, Group::none()),
        "<AuthnProviderAlias" => crate::modules::access::authn::add_provider_alias(
            node,
            &mut local.auth,
            reading,
            &alias,
        ),
        "<AuthzProviderAlias" => crate::modules::access::authz::add_requirement_alias(
            node,
            &mut local.auth,
            reading,
            &alias,
        ),
        _ => dir_config::set(node, local, reading).unwrap_or_else(|| {
            say_what_follows(node, local, reading);
            Ok(())
        }),
    };
    if let Err(message) = outcome {
        reading.diagnostics.push(node.error(message, None));
    }
    if local.dav.is_foreign && local.denied.is_none() {
        // Files must not be shown in the place of a repository.
        local.denied = Some(node.origin.clone());
    }
}

/// `<RequireAll>` and its kin.
fn container(
    node: &Node,
    local: &mut DirConfig,
    reading: &mut Reading<'_>,
    group: Group,
) -> Result<(), String> {
    crate::modules::access::authz::open_group(node, &mut local.auth, group)?;
    node.children
        .iter()
        .for_each(|child| read_one(child, local, reading));
    crate::modules::access::authz::close_group(&mut local.auth)
}

/// The settings in a provider's alias.
fn alias(node: &Node, reading: &mut Reading<'_>) -> AuthSettings {
    read_all(&node.children, reading).auth.settings
}

/// Reports a directive without a setter, which has no effect. One that decides over access denies.
fn say_what_follows(node: &Node, local: &mut DirConfig, reading: &mut Reading<'_>) {
    let Some(row) = node.row else { return };
    match row.treatment {
        Treatment::Honored
        | Treatment::NoEffect(_)
        | Treatment::Unsupported(_)
        | Treatment::Later(_) => {}
        Treatment::Pending if decides_over_access(row) => {
            local.denied = Some(node.origin.clone());
            let message = format!(
                "{} is not honored yet: what it is about is refused to everybody",
                row.title()
            );
            reading.diagnostics.push(node.warning(message, None));
        }
        Treatment::Pending => {
            let message = format!("{} is not honored yet", row.title());
            reading.diagnostics.push(node.warning(message, None));
        }
        Treatment::Denies(_) => {
            local.denied = Some(node.origin.clone());
        }
    }
}

/// Returns whether operators rely on a directive for access control.
fn decides_over_access(row: &Row) -> bool {
    row.modules
        .iter()
        .any(|module| module.starts_with("auth") || *module == "access_compat_module")
        || row.name.starts_with("SSLRequire")
}

fn inner_section(node: &Node, reading: &mut Reading<'_>) -> Result<Arc<Section>, String> {
    let matcher = matcher(node, None)?;
    Ok(Arc::new(Section {
        matcher,
        local: Arc::from(inner(node, reading)),
        origin: node.origin.clone(),
    }))
}

/// Rules in it stand where it stands; of the rest a name or a condition decides.
pub fn inner(node: &Node, reading: &mut Reading<'_>) -> Box<DirConfig> {
    let place = match &reading.place {
        Place::Server => Place::Inner,
        place => place.clone(),
    };
    let mut inner = Reading {
        server_root: reading.server_root,
        place,
        inner: Some(section_name(node)),
        section: reading.section.clone(),
        methods: reading.methods.clone(),
        aliases: reading.aliases,
        diagnostics: reading.diagnostics,
    };
    read_all(&node.children, &mut inner)
}

/// The path that Apache hands to modules for directives in a section of conditions, or of a name or
/// pattern (core.c, `ifsection`, `filesection`, and `dirsection`).
pub fn section_name(node: &Node) -> Box<str> {
    if matches!(node.canonical_name(), "<If" | "<ElseIf" | "<Else") {
        return "*If".into();
    }
    let words = texts(node).into_iter();
    let mut names = words.skip_while(|word| word == "~");
    names.next().unwrap_or_default().into()
}

fn condition(node: &Node, reading: &mut Reading<'_>) -> Result<Arc<Condition>, String> {
    let (text, options) = (node.arguments().concat(), reading.expression_options());
    let expression = || {
        let text = if text.is_empty() {
            node.argument_text()
        } else {
            &text
        };
        let compiled = Expression::compile(text, options);
        compiled
            .map(Arc::new)
            .map_err(|error| format!("Cannot parse condition clause: {}", error.message))
    };
    let kind = match node.canonical_name() {
        "<If" => ConditionKind::If(expression()?),
        "<ElseIf" => ConditionKind::ElseIf(expression()?),
        _ => ConditionKind::Else,
    };
    let mut local = inner(node, reading);
    local.is_made_anew = true;
    Ok(Arc::new(Condition {
        kind,
        local: Arc::from(local),
        origin: node.origin.clone(),
    }))
}

fn limited(node: &Node, local: &mut DirConfig, reading: &mut Reading<'_>) {
    let names = node
        .arguments()
        .into_iter()
        .map(|name| name.to_ascii_uppercase().into())
        .collect();
    let methods = if node.is("<Limit") {
        Methods::Only(names)
    } else {
        Methods::AllBut(names)
    };
    let outer = std::mem::replace(&mut reading.methods, methods);
    node.children
        .iter()
        .for_each(|child| read_one(child, local, reading));
    reading.methods = outer;
}

const NO_TEXT: Vec<u8> = Vec::new();

/// `~` before the argument, or `…Match`: a pattern. Folders are absolute or below ServerRoot.
pub fn matcher(node: &Node, server_root: Option<&PathBuf>) -> Result<Matcher, String> {
    use std::os::unix::ffi::OsStrExt;
    let words = node.arguments();
    let is_match = node.canonical_name().ends_with("Match");
    let (is_pattern, text) = match words.as_slice() {
        [tilde, text, ..] if tilde == b"~" => (true, text),
        // The pattern is empty, and matches every name.
        [tilde] if tilde == b"~" && !is_match => (true, &NO_TEXT),
        [text, ..] => (is_match, text),
        [] => {
            return Err(format!(
                "{} directive requires an argument",
                node.row.map_or(node.name.to_string(), |row| row.title())
            ));
        }
    };
    if is_pattern {
        let pattern = Pattern::compile(text, PatternOptions::default());
        return pattern
            .map(|pattern| Matcher::Pattern(Arc::new(pattern)))
            .map_err(|_| "Regex could not be compiled".to_owned());
    }
    let text = match server_root {
        Some(root) if !text.starts_with(b"*") => without_dots(
            root.join(std::ffi::OsStr::from_bytes(text))
                .as_os_str()
                .as_bytes(),
        ),
        _ if node.is("<Files") => without_detours(text)?,
        _ => text.clone(),
    };
    let is_root = text.iter().all(|byte| *byte == b'/');
    let bare = if server_root.is_some() && !is_root {
        text.strip_suffix(b"/").unwrap_or(&text)
    } else {
        &text
    };
    Ok(Matcher::of_text(bare))
}

/// The name of a `<Files>` without `.` and empty segments, and without those that `..` takes back, as
/// in Apache.
///
/// # Errors
/// It leads out of the folder, so that no file has it.
fn without_detours(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut ends_with_slash = false;
    for segment in text.split_inclusive(|byte| *byte == b'/') {
        let name = segment.strip_suffix(b"/").unwrap_or(segment);
        match name {
            b"" | b"." => continue,
            b".." => {
                if kept.pop().is_none() {
                    return Err(format!(
                        "'{}' is outside of every folder",
                        String::from_utf8_lossy(text)
                    ));
                }
                ends_with_slash = !kept.is_empty();
            }
            name => {
                kept.push(name);
                ends_with_slash = segment.len() > name.len();
            }
        }
    }
    let start: &[u8] = if text.starts_with(b"/") { b"/" } else { b"" };
    let end: &[u8] = if ends_with_slash { b"/" } else { b"" };
    Ok([start, &kept.join(&b'/'), end].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_have_one_spelling() {
        for (written, name) in [
            ("a.txt", "a.txt"),
            ("./a.txt", "a.txt"),
            (".//./a.txt", "a.txt"),
            ("x/../a.txt", "a.txt"),
            ("x/y/../../a.txt", "a.txt"),
            ("./*.txt", "*.txt"),
            ("*", "*"),
            (".", ""),
            (".htaccess", ".htaccess"),
            ("..a", "..a"),
            // As in Apache, these are the names of no files.
            ("a.txt/", "a.txt/"),
            ("a.txt/.", "a.txt/"),
            ("//a.txt", "/a.txt"),
            ("s/./a.txt", "s/a.txt"),
        ] {
            let found = without_detours(written.as_bytes()).unwrap();
            assert_eq!(String::from_utf8_lossy(&found), name, "{written}");
        }
        for written in ["..", "../a.txt", "./../a.txt", "x/../../a.txt", "/../a.txt"] {
            assert!(without_detours(written.as_bytes()).is_err(), "{written}");
        }
    }
}
