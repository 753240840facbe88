//! mod_sed: its directives. The filter is `saker_content_filters::sed`.

use crate::reading::{Reading, Set};
use saker_apache_syntax::Node;
use saker_content_filters::sed::script::Script;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub struct Sed {
    /// An inner section that says anything about it says everything.
    scripts: Option<Scripts>,
}

#[derive(Clone, Debug, Default)]
struct Scripts {
    output: Option<Arc<Script>>,
    input: Option<Arc<Script>>,
}

impl Sed {
    pub const DIRECTIVES: &'static [(&'static str, Set<Sed>)] = &[
        ("OutputSed", |node, sed, reading| {
            add(node, reading, sed, |scripts| &mut scripts.output)
        }),
        ("InputSed", |node, sed, reading| {
            add(node, reading, sed, |scripts| &mut scripts.input)
        }),
    ];

    pub fn merge(&self, over: &Sed) -> Sed {
        Sed {
            scripts: over.scripts.as_ref().or(self.scripts.as_ref()).cloned(),
        }
    }

    /// A script that lacks something fails where it runs, as in Apache.
    pub fn output(&self) -> Option<Arc<Script>> {
        self.scripts
            .as_ref()
            .and_then(|scripts| scripts.output.clone())
    }

    pub fn input(&self) -> Option<Arc<Script>> {
        self.scripts
            .as_ref()
            .and_then(|scripts| scripts.input.clone())
    }
}

fn add(
    node: &Node,
    _: &mut Reading<'_>,
    sed: &mut Sed,
    slot: fn(&mut Scripts) -> &mut Option<Arc<Script>>,
) -> Result<(), String> {
    let words = node.arguments();
    let text = words.first().map(Vec::as_slice).unwrap_or_default();
    let script = slot(sed.scripts.get_or_insert_default()).get_or_insert_default();
    Arc::make_mut(script)
        .add(text)
        .map_err(|error| format!("Failed to compile sed expression. {error}"))
}
