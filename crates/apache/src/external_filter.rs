//! Content through programs (mod_ext_filter): what comes is written to a program's input, what it
//! says goes on.
//!
//! Difficulty: both at once, or a program that answers while it reads would wait for us and we for
//! it. Whoever goes away takes the program along.

use crate::{
    content_filters::{ContentFilter, Passage, Stage, as_stream},
    host::Host,
    local::Local,
    made::{Made, Out, beginning, next},
    meta_variables::{self, shell_escaped, variable_name},
    modules::ext_filter::Definition,
    program::{IDLE, Output, Program, write},
    state::peek,
};
use saker_files::Watcher;
use saker_http::{Method, Status};
use saker_pipeline::{Body, BodyError, BodyStream, Chunk, Exchange, LocalFuture, RequestBody};
use saker_telemetry::{error_log, message};
use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    pin::pin,
    process::{Command, Stdio},
    task::{Context, Poll},
};

/// Of an answer, before its head goes out.
const GATHERED_BYTES_MAX: usize = 64 << 10;
/// Of one line of complaints, at most.
const COMPLAINT_BYTES_MAX: usize = 4096;

impl ContentFilter for Definition {
    fn name(&self) -> &str {
        &self.name
    }

    fn stage(&self) -> Stage {
        match self.kind {
            ..=10 => Stage::Resource,
            11..=20 => Stage::ContentSet,
            21..=49 => Stage::Protocol,
            _ => Stage::Connection,
        }
    }

    fn output<'f>(&'f self, passage: &'f mut Passage<'_>) -> LocalFuture<'f, Result<(), Status>> {
        Box::pin(self.filter(passage))
    }

    fn input(
        &self,
        exchange: &mut Exchange,
        host: &Host,
        watcher: &Watcher,
        local: &Local,
        body: Box<dyn RequestBody>,
    ) -> Box<dyn RequestBody> {
        let media_type = exchange
            .head
            .view()
            .first("content-type")
            .map(<[u8]>::to_vec);
        if !self.is_input || !self.is_for(exchange, media_type.as_deref()) {
            return body;
        }
        let command = self.command(exchange, host, watcher, local);
        let (name, passes) = (
            self.name.clone(),
            local.ext_filter.passes_on_failure == Some(true),
        );
        Box::new(Made::by(|out| async move {
            let mut source = FromClient(body);
            match Program::start(command).await {
                Ok(program) => pump(&name, &mut source, program, &out).await,
                Err(error) => {
                    say(&name, format_args!("can't be started: {error}"));
                    if passes {
                        out.pass_on(&mut source).await
                    } else {
                        Err(BodyError::Source)
                    }
                }
            }
        }))
    }
}

impl Definition {
    async fn filter(&self, passage: &mut Passage<'_>) -> Result<(), Status> {
        let media_type = passage
            .response
            .fields()
            .first("Content-Type")
            .map(<[u8]>::to_vec);
        if self.is_input || !self.is_for(passage.exchange, media_type.as_deref()) {
            return Ok(());
        }
        let is_head = passage.exchange.head.view().method() == Method::Head;
        let program = match is_head {
            true => None,
            false => {
                let command = self.command(
                    passage.exchange,
                    passage.host,
                    passage.watcher,
                    passage.local,
                );
                match Program::start(command).await {
                    Ok(program) => Some(program),
                    Err(error) => {
                        say(&self.name, format_args!("can't be started: {error}"));
                        let passes = passage.local.ext_filter.passes_on_failure == Some(true);
                        return if passes {
                            Ok(())
                        } else {
                            Err(Status::INTERNAL_SERVER_ERROR)
                        };
                    }
                }
            }
        };
        let fields = passage.response.fields_mut();
        if let Some(makes) = &self.makes {
            fields.set("Content-Type", makes.as_bytes().to_vec());
        }
        if !self.keeps_length {
            fields.remove("Content-Length");
        }
        passage.response.body = self
            .body(std::mem::take(&mut passage.response.body), program)
            .await?;
        Ok(())
    }

    /// What is stored already is answered as Apache does: with its length, if it is not long.
    async fn body(&self, body: Body, program: Option<Program>) -> Result<Body, Status> {
        let is_stored = !matches!(body, Body::Stream(_));
        let (mut source, name) = (as_stream(body), self.name.clone());
        let is_head = program.is_none();
        let made = Made::by(|out| async move {
            match program {
                Some(program) => pump(&name, source.as_mut(), program, &out).await,
                // How long it would be nobody knows.
                None => std::future::pending().await,
            }
        });
        if is_stored && !is_head {
            return beginning(made, GATHERED_BYTES_MAX)
                .await
                .map_err(|_| Status::INTERNAL_SERVER_ERROR);
        }
        Ok(Body::Stream(Box::new(made)))
    }

    /// By type, and by variables.
    fn is_for(&self, exchange: &Exchange, media_type: Option<&[u8]>) -> bool {
        let essence =
            media_type.map(|text| text.split(|byte| *byte == b';').next().unwrap_or_default());
        let is_set = |name: &str| exchange.environment.first(name.as_bytes()).is_some();
        self.media_type.as_ref().is_none_or(|wanted| {
            essence.is_some_and(|essence| essence.eq_ignore_ascii_case(wanted.as_bytes()))
        }) && self.enabled_by.as_deref().is_none_or(is_set)
            && !self.disabled_by.as_deref().is_some_and(is_set)
    }

    /// With CGI's variables for its environment.
    fn command(
        &self,
        exchange: &Exchange,
        host: &Host,
        watcher: &Watcher,
        local: &Local,
    ) -> Command {
        let mut words = self.command.iter().map(|word| OsStr::from_bytes(word));
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).env_clear().stdin(Stdio::piped());
        command.stderr(if local.ext_filter.logs_complaints == Some(true) {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        let state = peek(exchange).cloned().unwrap_or_default();
        for (name, value) in meta_variables::of(exchange, &state, host, watcher)
            .iter()
            .filter(|(_, value)| !value.contains(&0))
        {
            command.env(
                OsStr::from_bytes(&variable_name(name)),
                OsStr::from_bytes(value),
            );
        }
        command.env("DOCUMENT_URI", OsStr::from_bytes(&exchange.path));
        command.env("DOCUMENT_PATH_INFO", OsStr::from_bytes(&exchange.path_info));
        if let Some(query) = &exchange.query {
            let mut query = saker_ap_expr::unescape(query, false).0;
            query.retain(|byte| *byte != 0);
            command.env(
                "QUERY_STRING_UNESCAPED",
                OsStr::from_bytes(&shell_escaped(&query)),
            );
        }
        command
    }
}

fn say(name: &str, facts: std::fmt::Arguments<'_>) {
    error_log::log(&message::EXTERNAL_FILTER, format_args!("{name}: {facts}"));
}

/// A request's body as a stream.
struct FromClient(Box<dyn RequestBody>);

impl BodyStream for FromClient {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.0.poll_chunk(cx)
    }
}

/// Everything in, everything out.
async fn pump(
    name: &str,
    source: &mut dyn BodyStream,
    program: Program,
    out: &Out,
) -> Result<(), BodyError> {
    let mut program = program;
    let (input, complaints) = (program.input.take(), program.complaints.take());
    let mut feeding = pin!(feed(source, input));
    let mut listening = pin!(listen(name, complaints));
    let (mut is_fed, mut is_silent) = (false, false);
    loop {
        tokio::select! {
            biased;
            fed = &mut feeding, if !is_fed => {
                fed?;
                is_fed = true;
            }
            () = &mut listening, if !is_silent => is_silent = true,
            piece = tokio::time::timeout(IDLE, program.output.read()) => match piece {
                Ok(Ok(Some(piece))) => out.send(Chunk::from(piece)).await,
                Ok(Ok(None)) => break,
                Ok(Err(error)) => return broken(name, &error),
                Err(elapsed) => return broken(name, &elapsed.into()),
            },
        }
    }
    if !is_silent {
        // What it had to say when it ended is there by now.
        let _ = tokio::time::timeout(std::time::Duration::from_millis(100), listening).await;
    }
    program.finish();
    Ok(())
}

fn broken(name: &str, error: &io::Error) -> Result<(), BodyError> {
    say(name, format_args!("{error}"));
    Err(BodyError::Source)
}

/// A program that wants no more of it may have said all the same what it had to.
async fn feed(
    source: &mut dyn BodyStream,
    input: Option<tokio::net::unix::pipe::Sender>,
) -> Result<(), BodyError> {
    let Some(input) = input else { return Ok(()) };
    while let Some(chunk) = next(source).await {
        if write(&input, chunk?.bytes()).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// Its standard error, line by line.
async fn listen(name: &str, complaints: Option<Output>) {
    let Some(mut complaints) = complaints else {
        return;
    };
    let mut line = Vec::new();
    while let Ok(Some(piece)) = complaints.read().await {
        for byte in piece {
            if byte != b'\n' {
                line.push(byte);
            }
            if byte == b'\n' || line.len() >= COMPLAINT_BYTES_MAX {
                say(name, format_args!("{}", String::from_utf8_lossy(&line)));
                line.clear();
            }
        }
    }
    if !line.is_empty() {
        say(name, format_args!("{}", String::from_utf8_lossy(&line)));
    }
}
