//! A page on its way through: text that shows, elements that are carried out one by one.
//!
//! The driver calls [`Page::push`] (or [`Page::end`]) after [`Step::Hungry`], and [`Page::answer`]
//! after [`Step::Demand`]; then [`Page::step`] again.
//! Caveat: an element may issue several demands, and its use of an answer depends on the earlier
//! ones.

use crate::{
    context::SsiContext,
    elements::Running,
    legacy,
    scanner::{Element, Found, Scanner},
    state::{Answer, Demand, Settings, State},
};

/// Text is handed out from that size on.
const TEXT_BYTES: usize = 16 << 10;

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
    pub fn step(&mut self, context: &mut dyn SsiContext) -> Step {
        debug_assert!(!self.is_waiting, "a demand is not answered yet");
        loop {
            if context.is_exhausted() {
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
                Some(running) => match running.go_on(&mut self.state, context) {
                    Some(demand) => self.demand = Some(demand),
                    None => self.running = None,
                },
                None => match self.scanner.scan() {
                    Some(found) => self.running = self.state.take(found, context),
                    None if !self.state.out.is_empty() => {
                        return Step::Text(std::mem::take(&mut self.state.out));
                    }
                    None if self.is_over => return self.state.finish(context),
                    None => return Step::Hungry,
                },
            }
        }
    }

    /// Passes in the result of the demand.
    pub fn answer(&mut self, answer: Answer, context: &mut dyn SsiContext) {
        debug_assert!(self.is_waiting, "nothing was demanded");
        self.is_waiting = false;
        if let Some(running) = &mut self.running {
            running.answered(answer, &mut self.state, context);
        }
    }
}

/// Bytes of text that take as long to put together as an expression, or one byte of it, takes to
/// compile.
const EXPRESSION_COST_BYTES: usize = 4096;
const EXPRESSION_BYTE_COST: usize = 64;

impl State {
    fn take(&mut self, found: Found, context: &mut dyn SsiContext) -> Option<Running> {
        let fault = match found {
            Found::Text(text) => {
                if self.shows {
                    self.out.extend_from_slice(&text);
                }
                return None;
            }
            Found::Element(element) => return self.element(element, context),
            Found::TooLong => "an element is too long",
            Found::Unfinished => {
                "SSI directive was not properly finished at the end of parsed document"
            }
        };
        context.complain(fault.to_owned());
        if self.shows {
            self.fail();
        }
        None
    }

    fn element(&mut self, element: Element, context: &mut dyn SsiContext) -> Option<Running> {
        let is_condition = matches!(
            element.name.as_slice(),
            b"if" | b"elif" | b"else" | b"endif"
        );
        if !self.shows && !is_condition {
            return None;
        }
        if element.is_faulty {
            context.complain(format!(
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
            b"if" => self.begin(&element, context),
            b"elif" => self.go_on_if(&element, context),
            b"else" => self.otherwise(&element, context),
            b"endif" => self.end(&element, context),
            b"comment" => {}
            _ => match Running::new(element) {
                Ok(running) => return self.started(running, context),
                Err(name) => {
                    context.complain(format!("unknown directive \"{name}\""));
                    self.fail();
                }
            },
        }
        None
    }

    fn started(&mut self, running: Running, context: &mut dyn SsiContext) -> Option<Running> {
        match running.refusal(self.settings.may_run) {
            Some(fault) => {
                context.complain(fault);
                self.fail();
                None
            }
            None => Some(running),
        }
    }

    fn begin(&mut self, element: &Element, context: &mut dyn SsiContext) {
        if !self.shows {
            self.hidden_depth += 1;
            return;
        }
        self.judge(element, context);
    }

    fn go_on_if(&mut self, element: &Element, context: &mut dyn SsiContext) {
        if self.hidden_depth > 0 {
            return;
        }
        if self.is_taken && condition(element).is_ok() {
            (self.shows, self.is_doubtful) = (false, false);
            return;
        }
        self.judge(element, context);
    }

    /// Evaluates the condition and takes the branch, or does not. If evaluation fails, the error is
    /// shown and the branch is not.
    fn judge(&mut self, element: &Element, context: &mut dyn SsiContext) {
        let holds = condition(element)
            .map_err(str::to_owned)
            .and_then(|expression| {
                // The expression is compiled each time.
                context.look_at(EXPRESSION_COST_BYTES + expression.len() * EXPRESSION_BYTE_COST);
                let time_format = self.settings.time_format.clone();
                match self.settings.legacy_expressions {
                    true => legacy::holds(expression, context, &mut self.matched, &time_format),
                    false => context.holds(expression, &mut self.matched, &time_format),
                }
            });
        match holds {
            Ok(holds) => (self.shows, self.is_taken) = (holds, holds),
            Err(fault) => {
                context.complain(fault);
                self.fail();
                (self.shows, self.is_taken, self.is_doubtful) = (false, false, true);
            }
        }
    }

    fn otherwise(&mut self, element: &Element, context: &mut dyn SsiContext) {
        if self.hidden_depth > 0 {
            return;
        }
        if !element.arguments.is_empty() {
            context.complain("else directive does not take tags".to_owned());
            if self.shows {
                self.fail();
            }
            return;
        }
        self.shows = self.is_taken == self.is_doubtful;
        self.is_taken |= self.shows;
    }

    fn end(&mut self, element: &Element, context: &mut dyn SsiContext) {
        if self.hidden_depth > 0 {
            self.hidden_depth -= 1;
            return;
        }
        if !element.arguments.is_empty() {
            context.complain("endif directive does not take tags".to_owned());
            self.fail();
            return;
        }
        (self.shows, self.is_taken, self.is_doubtful) = (true, true, false);
    }

    fn finish(&mut self, context: &mut dyn SsiContext) -> Step {
        if !self.shows && !self.is_finished {
            context.complain("missing closing endif directive".to_owned());
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
