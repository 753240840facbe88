//! Server-side includes as nginx has them: `include`, `echo`, `set`, `if`, `block`, and `config`.
//!
//! A [`Page`] runs while its content is sent: the scanner of `saker-ssi` finds the commands, and each
//! is executed when it is met. `include` asks another location, whose filters apply.
//!
//! Called by: `body_filters`.
//! Caveat: includes are asked for one after the other, so `wait` has no effect; an `include` with
//! `set` keeps at most the configured number of bytes, as any value. Depth and number of includes are
//! bounded by the budget of the request.
//! Out of scope: Apache's commands (`saker-ssi`).

mod text;

use crate::{
    request::Request,
    state::{SharedVariables, State},
    subrequest::Filters,
};
use saker_ap_expr::{Pattern, PatternOptions};
use saker_content_filters::{
    as_stream,
    made::{Out, next},
};
use saker_http::escape;
use saker_pipeline::{Body, BodyError, BodyStream, Chunk, Exchange, LocalFuture, Response};
use saker_ssi::{Element, Found, Scanner, formatted};
use saker_telemetry::{
    error_log,
    message::{self, Level},
};
use std::{collections::HashMap, rc::Rc};
use text::Values;

const ERROR: &[u8] = b"[an error occurred while processing the directive]";
const TIME: &[u8] = b"%A, %d-%b-%Y %H:%M:%S %Z";
/// Conditions inside of each other.
const DEPTH_MAX: usize = 16;
/// Bytes of all blocks of a page.
const BLOCK_BYTES_MAX: usize = 1 << 20;
/// Variables that a page sets.
const VARIABLES_MAX: usize = 1000;

/// Settings of a page.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub silent: bool,
    pub value_bytes_max: u64,
    /// `subrequest_output_buffer_size`
    pub subrequest_bytes_max: u64,
}

/// An `if` that is open.
#[derive(Clone, Copy, Debug)]
struct Condition {
    /// The text of the current branch is sent.
    is_sent: bool,
    /// A branch has been chosen.
    is_chosen: bool,
    is_behind_else: bool,
}

/// The form that `echo` gives values; it stays until another is named.
#[derive(Clone, Copy, Debug)]
enum Encoding {
    None,
    Url,
    Entity,
}

/// A page that is being sent.
pub struct Page {
    filters: Filters,
    origin: Exchange,
    terms: Terms,
    include: Include,
    conditions: Vec<Condition>,
    /// Conditions that are deeper than allowed; nothing of them is sent.
    ignored: usize,
    variables: SharedVariables,
    blocks: HashMap<Vec<u8>, Vec<u8>>,
    /// The block that is open.
    block: Option<(Vec<u8>, Vec<u8>)>,
    block_bytes: usize,
    error: Vec<u8>,
    time_format: Vec<u8>,
    encoding: Encoding,
}

/// Asks another location for a part of a page.
pub type Include =
    for<'a> fn(&'a Filters, &'a Exchange, &'a [u8]) -> LocalFuture<'a, Option<Response>>;

/// The command cannot be executed.
struct Fault;

type Outcome = Result<(), Fault>;

impl Page {
    pub fn new(filters: Filters, origin: Exchange, terms: Terms, include: Include) -> Page {
        let mut origin = origin;
        let state = origin.extensions.get_mut::<State>();
        // Pages that this one includes share them, as those that it is included in.
        let variables = state.map(|state| Rc::clone(state.ssi_variables.get_or_insert_default()));
        Page {
            filters,
            origin,
            terms,
            include,
            conditions: Vec::new(),
            ignored: 0,
            variables: variables.unwrap_or_default(),
            blocks: HashMap::new(),
            block: None,
            block_bytes: 0,
            error: ERROR.to_vec(),
            time_format: TIME.to_vec(),
            encoding: Encoding::Entity,
        }
    }

    /// Sends the page.
    ///
    /// # Errors
    /// Its source, or an include, broke off.
    pub async fn run(mut self, mut source: Box<dyn BodyStream>, out: Out) -> Result<(), BodyError> {
        let mut scanner = Scanner::new(b"<!--#", b"-->");
        let mut is_over = false;
        loop {
            match scanner.scan() {
                Some(Found::Text(text)) => self.send(text, &out).await,
                Some(Found::Element(element)) => self.execute(element, &out).await?,
                Some(Found::TooLong) => self.complain(&out).await,
                // Nothing comes of a command that does not end.
                Some(Found::Unfinished) => {}
                None if is_over => return Ok(()),
                None => match next(source.as_mut()).await {
                    Some(chunk) => {
                        let chunk = chunk?;
                        self.origin.budget().work().grant_for(chunk.len());
                        scanner.push(chunk.bytes());
                    }
                    None => {
                        scanner.end();
                        is_over = true;
                    }
                },
            }
            if self.origin.is_over_budget() {
                return Err(BodyError::Source);
            }
        }
    }

    fn is_sent(&self) -> bool {
        self.ignored == 0 && self.conditions.iter().all(|condition| condition.is_sent)
    }

    /// Sends a text, or keeps it for the block that is open.
    async fn send(&mut self, text: Vec<u8>, out: &Out) {
        if !self.is_sent() {
            return;
        }
        match &mut self.block {
            Some((_, content)) => {
                self.block_bytes += text.len();
                if self.block_bytes <= BLOCK_BYTES_MAX {
                    content.extend_from_slice(&text);
                }
            }
            None => out.send(Chunk::from(text)).await,
        }
    }

    async fn complain(&mut self, out: &Out) {
        if !self.terms.silent {
            let error = self.error.clone();
            self.send(error, out).await;
        }
    }

    async fn execute(&mut self, mut element: Element, out: &Out) -> Result<(), BodyError> {
        if element.name.is_empty()
            && let Some(first) = element.arguments.pop_front()
        {
            // Blanks may stand before the name.
            element.name = first.name;
        }
        let parameters: Vec<(Vec<u8>, Vec<u8>)> = element
            .arguments
            .into_iter()
            .map(|argument| (argument.name, argument.value.unwrap_or_default()))
            .collect();
        let bytes_max = usize::try_from(self.terms.value_bytes_max).unwrap_or(usize::MAX);
        if parameters.iter().any(|(_, value)| value.len() > bytes_max) {
            // Such a command is not carried out, not even as a part of a condition.
            if self.is_sent() {
                self.complain(out).await;
            }
            return Ok(());
        }
        let parameters = Parameters(parameters);
        let outcome = match &*element.name {
            b"if" => self.begin_if(&parameters),
            b"elif" => self.elif(&parameters),
            b"else" => self.otherwise(),
            b"endif" => self.end_if(),
            _ if !self.is_sent() => Ok(()),
            b"endblock" => self.end_block(),
            b"block" => self.begin_block(&parameters),
            b"set" => self.set(&parameters),
            b"config" => self.config(&parameters),
            b"echo" => match self.echo(&parameters) {
                Ok(text) => {
                    self.send(text, out).await;
                    Ok(())
                }
                Err(fault) => Err(fault),
            },
            b"include" => self.include(&parameters, out).await?,
            _ => Err(Fault),
        };
        if outcome.is_err() {
            // The error stands in front of the branches that are not sent.
            let is_open = &*element.name == b"if" && self.ignored == 0;
            let condition = is_open.then(|| self.conditions.pop()).flatten();
            self.complain(out).await;
            self.conditions.extend(condition);
        }
        Ok(())
    }

    fn begin_if(&mut self, parameters: &Parameters) -> Outcome {
        if self.conditions.len() >= DEPTH_MAX {
            self.ignored += 1;
            return Err(Fault);
        }
        let outcome = match parameters.get(b"expr") {
            _ if !self.is_sent() => Ok(false),
            Some(expression) => self.holds(expression),
            None => Err(Fault),
        };
        // Of a condition that can't be evaluated, no branch is sent.
        let is_doubtful = outcome.is_err();
        let holds = matches!(outcome, Ok(true));
        self.conditions.push(Condition {
            is_sent: holds,
            is_chosen: holds || is_doubtful,
            is_behind_else: false,
        });
        outcome.map(drop)
    }

    fn elif(&mut self, parameters: &Parameters) -> Outcome {
        if self.ignored > 0 {
            return Ok(());
        }
        let mut condition = self.conditions.pop().ok_or(Fault)?;
        if condition.is_behind_else {
            self.conditions.push(condition);
            return Err(Fault);
        }
        condition.is_sent = false;
        if !condition.is_chosen && self.is_sent() {
            let expression = parameters.get(b"expr");
            let holds = expression.map(|expression| self.holds(expression));
            condition.is_sent = matches!(holds, Some(Ok(true)));
            condition.is_chosen = condition.is_sent;
        }
        self.conditions.push(condition);
        Ok(())
    }

    fn otherwise(&mut self) -> Outcome {
        if self.ignored > 0 {
            return Ok(());
        }
        let condition = self.conditions.last_mut().ok_or(Fault)?;
        if condition.is_behind_else {
            return Err(Fault);
        }
        condition.is_sent = !condition.is_chosen;
        condition.is_behind_else = true;
        Ok(())
    }

    fn end_if(&mut self) -> Outcome {
        if self.ignored > 0 {
            self.ignored -= 1;
            return Ok(());
        }
        self.conditions.pop().map(drop).ok_or(Fault)
    }

    fn begin_block(&mut self, parameters: &Parameters) -> Outcome {
        let name = parameters.get(b"name").ok_or(Fault)?.to_vec();
        if self.block.is_some() {
            return Err(Fault);
        }
        self.block = Some((name, Vec::new()));
        Ok(())
    }

    fn end_block(&mut self) -> Outcome {
        let (name, content) = self.block.take().ok_or(Fault)?;
        self.blocks.insert(name, content);
        Ok(())
    }

    fn set(&mut self, parameters: &Parameters) -> Outcome {
        let name = parameters.get(b"var").ok_or(Fault)?.to_ascii_lowercase();
        let value = parameters.get(b"value").ok_or(Fault)?;
        let value = self.evaluate(value)?;
        self.set_variable(name, value)
    }

    fn set_variable(&mut self, name: Vec<u8>, value: Vec<u8>) -> Outcome {
        let mut variables = self.variables.borrow_mut();
        if variables.len() >= VARIABLES_MAX && !variables.contains_key(&name) {
            return Err(Fault);
        }
        variables.insert(name, value);
        Ok(())
    }

    fn config(&mut self, parameters: &Parameters) -> Outcome {
        if let Some(format) = parameters.get(b"timefmt") {
            self.time_format = format.to_vec();
        }
        if let Some(error) = parameters.get(b"errmsg") {
            self.error = error.to_vec();
        }
        Ok(())
    }

    fn echo(&mut self, parameters: &Parameters) -> Result<Vec<u8>, Fault> {
        let name = parameters.get(b"var").ok_or(Fault)?;
        let value = self.variable(name);
        let default = || parameters.get(b"default").unwrap_or(b"(none)").to_vec();
        let value = value.unwrap_or_else(default);
        let mut out = Vec::with_capacity(value.len());
        match parameters.get(b"encoding") {
            Some(b"none") => self.encoding = Encoding::None,
            Some(b"url") => self.encoding = Encoding::Url,
            Some(b"entity") => self.encoding = Encoding::Entity,
            // An unknown one changes nothing.
            None | Some(_) => {}
        }
        match self.encoding {
            Encoding::None => out = value,
            Encoding::Url => out = crate::pages::escape_url(&value),
            Encoding::Entity => escape::html(&value, &mut out),
        }
        self.origin.budget().work().make(out.len());
        Ok(out)
    }

    /// Asks another location. Errors of the outer result end the page.
    async fn include(&mut self, parameters: &Parameters, out: &Out) -> Result<Outcome, BodyError> {
        let uri = match (parameters.get(b"virtual"), parameters.get(b"file")) {
            (Some(uri), None) | (None, Some(uri)) => uri,
            _ => return Ok(Err(Fault)),
        };
        let Ok(mut uri) = self.evaluate(uri) else {
            return Ok(Err(Fault));
        };
        if !uri.starts_with(b"/") {
            let path = &self.origin.path;
            let end = path.iter().rposition(|byte| *byte == b'/');
            let folder = path.get(..end.map_or(0, |end| end + 1));
            uri = [folder.unwrap_or_default(), &uri].concat();
        }
        // Many small ones must not hold the worker.
        tokio::task::yield_now().await;
        let stub = parameters.get(b"stub").map(<[u8]>::to_vec);
        let response = (self.include)(&self.filters, &self.origin, &uri).await;
        let Some(response) = response else {
            return Ok(self.stub(stub, out).await);
        };
        if let Some(name) = parameters.get(b"set") {
            let name = name.to_ascii_lowercase();
            let value = self.read_value(response).await?;
            return Ok(self.set_variable(name, value));
        }
        let is_failed = response.status.is_error() || response.body.length() == Some(0);
        if is_failed && stub.is_some() {
            return Ok(self.stub(stub, out).await);
        }
        if self.block.is_some() {
            if let Some(content) = self.read(response, BLOCK_BYTES_MAX).await? {
                self.send(content, out).await;
            }
            return Ok(Ok(()));
        }
        out.pass_on(as_stream(response.body).as_mut()).await?;
        Ok(Ok(()))
    }

    async fn stub(&mut self, name: Option<Vec<u8>>, out: &Out) -> Outcome {
        let name = name.ok_or(Fault)?;
        let content = self.blocks.get(&name).cloned().ok_or(Fault)?;
        self.origin.budget().work().make(content.len());
        self.send(content, out).await;
        Ok(())
    }

    /// Reads a response. `None`: it is longer.
    async fn read(
        &self,
        response: Response,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, BodyError> {
        let mut value = Vec::new();
        if matches!(response.body, Body::Empty) {
            return Ok(Some(value));
        }
        let mut stream = as_stream(response.body);
        while let Some(chunk) = next(stream.as_mut()).await {
            value.extend_from_slice(chunk?.bytes());
            if value.len() > bytes_max {
                return Ok(None);
            }
        }
        Ok(Some(value))
    }

    /// Reads a response as a value. One that is too long has none.
    async fn read_value(&self, response: Response) -> Result<Vec<u8>, BodyError> {
        let bytes_max = usize::try_from(self.terms.subrequest_bytes_max)
            .unwrap_or(BLOCK_BYTES_MAX)
            .min(BLOCK_BYTES_MAX);
        let value = self.read(response, bytes_max).await?;
        if value.is_none() {
            error_log::log_nginx(
                &message::NGINX_SUBREQUEST_TOO_LARGE,
                Level::Error,
                &self.origin,
                format_args!("too big subrequest response, it has more than {bytes_max} bytes"),
            );
        }
        Ok(value.unwrap_or_default())
    }

    /// Evaluates an expression: a text, or two that are compared.
    fn holds(&mut self, expression: &[u8]) -> Result<bool, Fault> {
        let (left, operator) = text::split_expression(expression);
        let left = self.evaluate(left)?;
        let Some((is_equal, right)) = operator else {
            return Ok(!left.is_empty());
        };
        let matches = match right {
            [b'/', pattern @ .., b'/'] => self.matches(&left, pattern)?,
            text => left == self.evaluate(text)?,
        };
        Ok(matches == is_equal)
    }

    fn matches(&mut self, subject: &[u8], pattern: &[u8]) -> Result<bool, Fault> {
        let options = PatternOptions {
            caseless: false,
            multiline: false,
            dotall: false,
            dollar_endonly: false,
            extended: false,
        };
        let pattern = Pattern::compile(pattern, options).map_err(|_| Fault)?;
        self.origin.budget().work().look_at(subject.len());
        let spans = pattern.captures(subject).map_err(|_| Fault)?;
        let Some(spans) = spans else {
            return Ok(false);
        };
        for group in 0..=pattern.groups().min(9) {
            let text = spans.text(group, subject).to_vec();
            self.set_variable(group.to_string().into_bytes(), text)?;
        }
        let names: Vec<(usize, Vec<u8>)> = pattern
            .names()
            .map(|(group, name)| (group, name.to_ascii_lowercase().into_bytes()))
            .collect();
        for (group, name) in names {
            let text = spans.text(group, subject).to_vec();
            self.set_variable(name, text)?;
        }
        Ok(true)
    }

    fn evaluate(&mut self, text: &[u8]) -> Result<Vec<u8>, Fault> {
        let bytes_max = usize::try_from(self.terms.value_bytes_max).unwrap_or(usize::MAX);
        let value = text::evaluate(text, self).ok_or(Fault)?;
        self.origin.budget().work().make(value.len());
        match value.len() <= bytes_max.max(text.len()).saturating_mul(16) {
            true => Ok(value),
            false => Err(Fault),
        }
    }
}

impl Values for Page {
    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        let lower = name.to_ascii_lowercase();
        if let Some(value) = self.variables.borrow().get(&lower) {
            return Some(value.clone());
        }
        let now = self.origin.now;
        match &*lower {
            b"date_local" => return Some(formatted(&self.time_format, now, false)),
            b"date_gmt" => return Some(formatted(&self.time_format, now, true)),
            b"query_string_unescaped" => {
                let query = self.origin.query.clone()?;
                return Some(unescaped(&query));
            }
            _ => {}
        }
        let name = String::from_utf8(lower).ok()?;
        let Filters { nginx, watcher, .. } = &self.filters;
        let variable = nginx.variable(&name)?;
        Request::run(&mut self.origin, nginx, watcher, |request| {
            request.variable(&variable)
        })?
    }
}

/// Decodes `%` and two digits; what is none stays.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, behind)) = rest.split_first() {
        let digit = |at: usize| (*behind.get(at)? as char).to_digit(16);
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                rest = behind.get(2..).unwrap_or_default();
            }
            _ => {
                out.push(*byte);
                rest = behind;
            }
        }
    }
    out
}

struct Parameters(Vec<(Vec<u8>, Vec<u8>)>);

impl Parameters {
    fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let found = self.0.iter().find(|(known, _)| known == name)?;
        Some(&found.1)
    }
}
