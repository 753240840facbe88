//! mod_rewrite's directives into the settings of their place; what rules do is in the crate
//! `rewrite`.

use crate::{
    arguments::texts,
    reading::{Place, Reading, Set},
};
use saker_apache_syntax::Node;
use saker_rewrite::{Place as RulePlace, Settings, SourceLine};
use std::sync::Arc;

/// Rules of the server or a host, and rules of a section; neither are the other's.
#[derive(Clone, Debug, Default)]
pub struct Rewrite {
    pub server: Option<Arc<Settings>>,
    pub section: Option<Arc<Settings>>,
}

impl Rewrite {
    pub const DIRECTIVES: &'static [(&'static str, Set<Rewrite>)] = &[
        ("RewriteEngine", set_engine),
        ("RewriteOptions", add_options),
        ("RewriteBase", set_base),
        ("RewriteCond", add_condition),
        ("RewriteRule", add_rule),
        ("RewriteMap", add_map),
    ];

    pub fn merge(&self, over: &Rewrite) -> Rewrite {
        Rewrite {
            server: merged(&self.server, &over.server),
            section: merged(&self.section, &over.section),
        }
    }

    /// The settings that lines of the place belong to. Inside of `<Files>` and `<If>` the directory is
    /// the section's name: no file is below it, so patterns see whole file names there.
    fn of_place(&mut self, reading: &Reading<'_>) -> &mut Settings {
        let inner = reading.inner.as_deref();
        let (slot, new) = match &reading.place {
            Place::Server => (&mut self.server, Settings::server()),
            Place::Directory(path) => (
                &mut self.section,
                Settings::directory(
                    RulePlace::Directory,
                    inner.or(path.as_deref()).unwrap_or_default().as_bytes(),
                ),
            ),
            Place::Location | Place::Inner => (
                &mut self.section,
                Settings::directory(
                    RulePlace::Directory,
                    inner
                        .or(reading.section.as_deref())
                        .unwrap_or_default()
                        .as_bytes(),
                ),
            ),
            Place::Htaccess(path) => (
                &mut self.section,
                Settings::directory(RulePlace::Htaccess, inner.unwrap_or(path).as_bytes()),
            ),
        };
        Arc::make_mut(slot.get_or_insert_with(|| Arc::new(new)))
    }
}

fn merged(outside: &Option<Arc<Settings>>, over: &Option<Arc<Settings>>) -> Option<Arc<Settings>> {
    match (outside, over) {
        (Some(outside), Some(over)) => Some(Arc::new(outside.merge(over))),
        (one, other) => other.as_ref().or(one.as_ref()).cloned(),
    }
}

fn set_engine(node: &Node, rewrite: &mut Rewrite, reading: &mut Reading<'_>) -> Result<(), String> {
    let mut on = None;
    crate::arguments::set_flag(node, &mut on)?;
    rewrite.of_place(reading).set_engine(on.unwrap_or_default());
    Ok(())
}

fn add_options(
    node: &Node,
    rewrite: &mut Rewrite,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    for word in texts(node) {
        let notice = rewrite
            .of_place(reading)
            .add_option(&word)
            .map_err(|error| error.to_string())?;
        notice
            .into_iter()
            .for_each(|notice| reading.warn(node, notice));
    }
    Ok(())
}

fn set_base(node: &Node, rewrite: &mut Rewrite, reading: &mut Reading<'_>) -> Result<(), String> {
    let url = node.arguments().into_iter().next().unwrap_or_default();
    rewrite
        .of_place(reading)
        .set_base(&url)
        .map_err(|error| error.to_string())
}

fn add_condition(
    node: &Node,
    rewrite: &mut Rewrite,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let settings = rewrite.of_place(reading);
    settings.set_line(line_of(node));
    let notice = settings
        .add_condition(node.argument_text())
        .map_err(|error| error.to_string())?;
    notice
        .into_iter()
        .for_each(|notice| reading.warn(node, notice));
    Ok(())
}

fn line_of(node: &Node) -> SourceLine {
    SourceLine {
        file: Arc::clone(&node.origin.file),
        line: node.origin.line,
        column: node.origin.column,
    }
}

fn add_rule(node: &Node, rewrite: &mut Rewrite, reading: &mut Reading<'_>) -> Result<(), String> {
    let settings = rewrite.of_place(reading);
    settings.set_line(line_of(node));
    let notice = settings
        .add_rule(node.argument_text())
        .map_err(|error| error.to_string())?;
    notice
        .into_iter()
        .for_each(|notice| reading.warn(node, notice));
    Ok(())
}

fn add_map(node: &Node, rewrite: &mut Rewrite, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let (name, source) = (
        words.first().map(String::as_str).unwrap_or_default(),
        words.get(1).map(String::as_str).unwrap_or_default(),
    );
    let path = |text: &str| Some(reading.server_path(text.as_bytes()));
    let settings = rewrite.of_place(reading);
    settings
        .add_map(name, source, words.get(2).map(String::as_str), path)
        .map(drop)
        .map_err(|error| error.to_string())?;
    let lower = source.to_ascii_lowercase();
    if lower.starts_with("prg:") && words.len() > 2 {
        reading.warn(
            node,
            format!("the program of the map {name} runs as the server's own user"),
        );
    }
    Ok(())
}
