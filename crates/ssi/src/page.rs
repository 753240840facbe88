//! A page on its way through: text that shows, elements that are carried out one by one.
//!
//! The driver calls [`Page::push`] (or [`Page::end`]) after [`Step::Hungry`], and [`Page::answer`]
//! after [`Step::Demand`]; then [`Page::step`] again.
//! Caveat: an element may issue several demands, and its use of an answer depends on the earlier
//! ones.

use crate::{
    elements::Running,
    legacy,
    scanner::{Element, Found, Scanner},
    substitution::{Missing, Values},
    world::{Matched, World},
};

/// Text is handed out from that size on.
const TEXT_BYTES: usize = 16 << 10;

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
    /// Beside the page, or below; never absolute, and never above.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Text(Vec<u8>),
    Demand(Demand),
    /// Wants more of the page.
    Hungry,
    End,
}

pub struct Page {
    scanner: Scanner,
    is_over: bool,
    running: Option<Running>,
    demand: Option<Demand>,
    is_waiting: bool,
    pub(crate) state: State,
}

impl Page {
    pub fn new(settings: Settings) -> Page {
        Page {
            scanner: Scanner::new(&settings.start_tag, &settings.end_tag),
            is_over: false,
            running: None,
            demand: None,
            is_waiting: false,
            state: State::new(settings),
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.scanner.push(bytes);
    }

    /// Nothing more of the page will come.
    pub fn end(&mut self) {
        self.scanner.end();
        self.is_over = true;
    }

    /// Goes on as far as it can.
    pub fn step(&mut self, world: &mut dyn World) -> Step {
        debug_assert!(!self.is_waiting, "a demand is not answered yet");
        loop {
            if world.is_exhausted() {
                return Step::End;
            }
            if self.demand.is_some() || self.state.out.len() >= TEXT_BYTES {
                if !self.state.out.is_empty() {
                    return Step::Text(std::mem::take(&mut self.state.out));
                }
                if let Some(demand) = self.demand.take() {
                    self.is_waiting = true;
                    return Step::Demand(demand);
                }
            }
            match &mut self.running {
                Some(running) => match running.go_on(&mut self.state, world) {
                    Some(demand) => self.demand = Some(demand),
                    None => self.running = None,
                },
                None => match self.scanner.scan() {
                    Some(found) => self.running = self.state.take(found, world),
                    None if !self.state.out.is_empty() => {
                        return Step::Text(std::mem::take(&mut self.state.out));
                    }
                    None if self.is_over => return self.state.finish(world),
                    None => return Step::Hungry,
                },
            }
        }
    }

    /// Passes in the result of the demand.
    pub fn answer(&mut self, answer: Answer, world: &mut dyn World) {
        debug_assert!(self.is_waiting, "nothing was demanded");
        self.is_waiting = false;
        if let Some(running) = &mut self.running {
            running.answered(answer, &mut self.state, world);
        }
    }
}

/// Bytes of text that take as long to put together as an expression, or one byte of it, takes to
/// compile.
const EXPRESSION_COST_BYTES: usize = 4096;
const EXPRESSION_BYTE_COST: usize = 64;

/// Current state of a page.
pub(crate) struct State {
    pub settings: Settings,
    pub out: Vec<u8>,
    pub matched: Matched,
    pub size_in_bytes: bool,
    /// Text shows: no condition around it failed.
    shows: bool,
    /// A branch of the condition around has been taken.
    is_taken: bool,
    /// A condition around could not be judged: nothing shows, until one can be. What `else` does
    /// then is Apache 2.4's behaviour, not its manual's.
    is_doubtful: bool,
    /// Conditions inside of what does not show.
    hidden_depth: usize,
    is_finished: bool,
}

impl State {
    fn new(settings: Settings) -> State {
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

    /// The page says that something is wrong with it.
    pub fn fail(&mut self) {
        self.out.extend_from_slice(&self.settings.error_message);
    }

    pub fn put_in(&mut self, text: &[u8], missing: Missing, world: &mut dyn World) -> Vec<u8> {
        let text = Values {
            world,
            matched: &self.matched,
            time_format: &self.settings.time_format,
        }
        .put_in(text, missing);
        world.make(text.len());
        text
    }

    pub fn value(&mut self, name: &[u8], world: &mut dyn World) -> Option<Vec<u8>> {
        let value = Values {
            world,
            matched: &self.matched,
            time_format: &self.settings.time_format,
        }
        .value(name);
        world.make(value.as_ref().map_or(0, Vec::len));
        value
    }

    fn take(&mut self, found: Found, world: &mut dyn World) -> Option<Running> {
        let fault = match found {
            Found::Text(text) => {
                if self.shows {
                    self.out.extend_from_slice(&text);
                }
                return None;
            }
            Found::Element(element) => return self.element(element, world),
            Found::TooLong => "an element is too long",
            Found::Unfinished => {
                "SSI directive was not properly finished at the end of parsed document"
            }
        };
        world.complain(fault.to_owned());
        if self.shows {
            self.fail();
        }
        None
    }

    fn element(&mut self, element: Element, world: &mut dyn World) -> Option<Running> {
        let is_condition = matches!(
            element.name.as_slice(),
            b"if" | b"elif" | b"else" | b"endif"
        );
        if !self.shows && !is_condition {
            return None;
        }
        if element.is_faulty {
            world.complain(format!(
                "a name is missing in element \"{}\"",
                String::from_utf8_lossy(&element.name)
            ));
            match (self.shows, element.name.as_slice()) {
                (true, _) => self.fail(),
                (false, b"if") => self.hidden_depth += 1,
                (false, _) => {}
            }
            return None;
        }
        match element.name.as_slice() {
            b"if" => self.begin(&element, world),
            b"elif" => self.go_on_if(&element, world),
            b"else" => self.otherwise(&element, world),
            b"endif" => self.end(&element, world),
            _ => match Running::new(element) {
                Ok(running) => return self.started(running, world),
                Err(name) => {
                    world.complain(format!("unknown directive \"{name}\""));
                    self.fail();
                }
            },
        }
        None
    }

    fn started(&mut self, running: Running, world: &mut dyn World) -> Option<Running> {
        match running.refusal(self.settings.may_run) {
            Some(fault) => {
                world.complain(fault);
                self.fail();
                None
            }
            None => Some(running),
        }
    }

    fn begin(&mut self, element: &Element, world: &mut dyn World) {
        if !self.shows {
            self.hidden_depth += 1;
            return;
        }
        self.judge(element, world);
    }

    fn go_on_if(&mut self, element: &Element, world: &mut dyn World) {
        if self.hidden_depth > 0 {
            return;
        }
        if self.is_taken && condition(element).is_ok() {
            (self.shows, self.is_doubtful) = (false, false);
            return;
        }
        self.judge(element, world);
    }

    /// Takes the branch, or does not. What can't be judged says so, and is not shown.
    fn judge(&mut self, element: &Element, world: &mut dyn World) {
        let holds = condition(element)
            .map_err(str::to_owned)
            .and_then(|expression| {
                // It is compiled anew each time.
                world.look_at(EXPRESSION_COST_BYTES + expression.len() * EXPRESSION_BYTE_COST);
                let time_format = self.settings.time_format.clone();
                match self.settings.legacy_expressions {
                    true => legacy::holds(expression, world, &mut self.matched, &time_format),
                    false => world.holds(expression, &mut self.matched, &time_format),
                }
            });
        match holds {
            Ok(holds) => (self.shows, self.is_taken) = (holds, holds),
            Err(fault) => {
                world.complain(fault);
                self.fail();
                (self.shows, self.is_taken, self.is_doubtful) = (false, false, true);
            }
        }
    }

    fn otherwise(&mut self, element: &Element, world: &mut dyn World) {
        if self.hidden_depth > 0 {
            return;
        }
        if !element.arguments.is_empty() {
            world.complain("else directive does not take tags".to_owned());
            if self.shows {
                self.fail();
            }
            return;
        }
        self.shows = self.is_taken == self.is_doubtful;
        self.is_taken |= self.shows;
    }

    fn end(&mut self, element: &Element, world: &mut dyn World) {
        if self.hidden_depth > 0 {
            self.hidden_depth -= 1;
            return;
        }
        if !element.arguments.is_empty() {
            world.complain("endif directive does not take tags".to_owned());
            self.fail();
            return;
        }
        (self.shows, self.is_taken, self.is_doubtful) = (true, true, false);
    }

    fn finish(&mut self, world: &mut dyn World) -> Step {
        if !self.shows && !self.is_finished {
            world.complain("missing closing endif directive".to_owned());
        }
        self.is_finished = true;
        Step::End
    }
}

/// The expression of `if` and `elif`, which have one argument.
fn condition(element: &Element) -> Result<&[u8], &'static str> {
    match element.arguments.len() {
        0 => return Err("missing expr argument for if element"),
        1 => {}
        _ => return Err("too many arguments for if element"),
    }
    let argument = element
        .arguments
        .front()
        .filter(|argument| argument.name == b"expr")
        .ok_or("unknown parameter to tag if")?;
    argument
        .value
        .as_deref()
        .ok_or("missing expr value for if element")
}
