//! State of a page, and the questions that elements put to the driver.
//!
//! Called by: `page` and `elements`.
//! Out of scope: the order of elements and text.

use crate::{
    context::{Matched, SsiContext},
    substitution::{Missing, Values},
};

/// Settings in effect for a page. The Apache manual, mod_include, describes the directives of the
/// same names.
#[derive(Clone, Debug)]
pub struct Settings {
    pub start_tag: Box<[u8]>,
    pub end_tag: Box<[u8]>,
    pub error_message: Box<[u8]>,
    pub time_format: Box<[u8]>,
    pub undefined_echo: Box<[u8]>,
    pub legacy_expressions: bool,
    /// True if `exec` may be used (Options Includes, not IncludesNOEXEC).
    pub may_run: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            start_tag: b"<!--#".as_slice().into(),
            end_tag: b"-->".as_slice().into(),
            error_message: b"[an error occurred while processing this directive]"
                .as_slice()
                .into(),
            time_format: b"%A, %d-%b-%Y %H:%M:%S %Z".as_slice().into(),
            undefined_echo: b"(none)".as_slice().into(),
            legacy_expressions: false,
            may_run: false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Path relative to the page's directory; never absolute, and never above it.
    File(Vec<u8>),
    /// A path of the site, maybe relative, maybe with a query.
    Virtual(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Emits the response of the target.
    Include(Target),
    /// Size and time of the target.
    Look(Target),
    /// Emits the output of this shell command.
    Command(Vec<u8>),
    /// Emits the output of this program.
    Program(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has gone out.
    Done,
    Found {
        bytes: u64,
        modified_s: i64,
    },
    Failed,
}

/// Current state of a page.
pub(crate) struct State {
    pub settings: Settings,
    pub out: Vec<u8>,
    pub matched: Matched,
    pub size_in_bytes: bool,
    /// Text is shown: no enclosing condition failed.
    pub shows: bool,
    /// A branch of the enclosing condition has been taken.
    pub is_taken: bool,
    /// An enclosing condition could not be evaluated: text is hidden until one can be. `else` then
    /// follows Apache 2.4's behavior, not its manual.
    pub is_doubtful: bool,
    /// Nesting depth of conditions in hidden text.
    pub hidden_depth: usize,
    pub is_finished: bool,
}

impl State {
    pub fn new(settings: Settings) -> State {
        State {
            settings,
            out: Vec::new(),
            matched: Matched::default(),
            size_in_bytes: false,
            shows: true,
            is_taken: true,
            is_doubtful: false,
            hidden_depth: 0,
            is_finished: false,
        }
    }

    /// Appends the error message.
    pub fn fail(&mut self) {
        self.out.extend_from_slice(&self.settings.error_message);
    }

    pub fn put_in(
        &mut self,
        text: &[u8],
        missing: Missing,
        context: &mut dyn SsiContext,
    ) -> Vec<u8> {
        let text = Values {
            context,
            matched: &self.matched,
            time_format: &self.settings.time_format,
        }
        .put_in(text, missing);
        context.make(text.len());
        text
    }

    pub fn value(&mut self, name: &[u8], context: &mut dyn SsiContext) -> Option<Vec<u8>> {
        let value = Values {
            context,
            matched: &self.matched,
            time_format: &self.settings.time_format,
        }
        .value(name);
        context.make(value.as_ref().map_or(0, Vec::len));
        value
    }
}
