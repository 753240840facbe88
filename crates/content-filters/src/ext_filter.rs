//! `ExtFilterDefine` (mod_ext_filter): content through programs. A program reads the content on its
//! standard input and writes the filtered content to its standard output.
//!
//! Called by: the front ends, which build the environment of the command
//! ([`ExternalFilter::command`]).
//! Caveat: input and output are served at the same time, or a program that answers while it reads
//! would wait for the server and the server for it. If the client goes away, the program ends.

use crate::{
    catalog::Stage,
    made::{Made, Out, beginning, next},
    program::{IDLE, Output, Program, write},
    transform::as_stream,
};
use saker_http::Status;
use saker_net::program::Errors;
use saker_pipeline::{Body, BodyError, BodyStream, Chunk, RequestBody, Response};
use saker_telemetry::{error_log, message};
use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    pin::pin,
    process::Command,
    task::{Context, Poll},
};

/// Output of a program gathered before the response head is sent.
const GATHERED_BYTES_MAX: usize = 64 << 10;
/// Longest line of standard error in one log message.
const STDERR_LINE_BYTES_MAX: usize = 4096;

/// One filter program (`ExtFilterDefine`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalFilter {
    pub name: Box<str>,
    pub is_input: bool,
    /// The program and its arguments.
    pub command: Vec<Box<[u8]>>,
    /// The only media type that is filtered; `None`: all.
    pub media_type: Option<Box<str>>,
    /// The media type of the output.
    pub makes: Option<Box<str>>,
    pub keeps_length: bool,
    /// The filter is used only if this variable is set, or if that one is not.
    pub enabled_by: Option<Box<str>>,
    pub disabled_by: Option<Box<str>>,
    /// Apache's number of the filter type; smaller ones are nearer to the content.
    pub kind: i32,
}

/// Options shared by all programs of a location (`ExtFilterOptions`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExternalFilterOptions {
    /// Standard error goes to the error log.
    pub logs_stderr: bool,
    /// Content passes unfiltered if the program can't be started.
    pub passes_on_failure: bool,
}

impl ExternalFilterOptions {
    fn errors(self) -> Errors {
        if self.logs_stderr {
            Errors::Piped
        } else {
            Errors::Dropped
        }
    }
}

impl ExternalFilter {
    pub fn stage(&self) -> Stage {
        match self.kind {
            ..=10 => Stage::Resource,
            11..=20 => Stage::ContentSet,
            21..=49 => Stage::Protocol,
            _ => Stage::Connection,
        }
    }

    /// Returns whether content of this type is filtered. `is_set`: whether a variable of the
    /// request's environment is set.
    pub fn applies_to(&self, media_type: Option<&[u8]>, is_set: impl Fn(&str) -> bool) -> bool {
        let essence =
            media_type.map(|text| text.split(|byte| *byte == b';').next().unwrap_or_default());
        self.media_type.as_ref().is_none_or(|wanted| {
            essence.is_some_and(|essence| essence.eq_ignore_ascii_case(wanted.as_bytes()))
        }) && self.enabled_by.as_deref().is_none_or(&is_set)
            && !self.disabled_by.as_deref().is_some_and(is_set)
    }

    /// Returns the command, with an empty environment.
    pub fn command(&self) -> Command {
        let mut words = self.command.iter().map(|word| OsStr::from_bytes(word));
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command
    }

    /// Sends a response through the program. `command`: `None` for HEAD, whose response gets the
    /// fields but no program.
    ///
    /// # Errors
    /// 500 if the program can't be started and its failure is not passed over.
    pub async fn filter_response(
        &self,
        response: &mut Response,
        command: Option<Command>,
        options: ExternalFilterOptions,
    ) -> Result<(), Status> {
        let program = match command {
            None => None,
            Some(command) => match Program::start(command, true, options.errors()).await {
                Ok(program) => Some(program),
                Err(error) => {
                    say(&self.name, format_args!("can't be started: {error}"));
                    return if options.passes_on_failure {
                        Ok(())
                    } else {
                        Err(Status::INTERNAL_SERVER_ERROR)
                    };
                }
            },
        };
        let fields = response.fields_mut();
        if let Some(makes) = &self.makes {
            fields.set("Content-Type", makes.as_bytes().to_vec());
        }
        if !self.keeps_length {
            fields.remove("Content-Length");
        }
        response.body = self
            .body(std::mem::take(&mut response.body), program)
            .await?;
        Ok(())
    }

    /// Returns a request body behind the program.
    pub fn filter_request(
        &self,
        body: Box<dyn RequestBody>,
        command: Command,
        options: ExternalFilterOptions,
    ) -> Box<dyn RequestBody> {
        let name = self.name.clone();
        Box::new(Made::by(|out| async move {
            let mut source = FromClient(body);
            match Program::start(command, true, options.errors()).await {
                Ok(program) => pump(&name, &mut source, program, &out).await,
                Err(error) => {
                    say(&name, format_args!("can't be started: {error}"));
                    if options.passes_on_failure {
                        out.pass_on(&mut source).await
                    } else {
                        Err(BodyError::Source)
                    }
                }
            }
        }))
    }

    /// Short output for stored content comes with its length, as in Apache.
    async fn body(&self, body: Body, program: Option<Program>) -> Result<Body, Status> {
        let is_stored = !matches!(body, Body::Stream(_));
        let (mut source, name) = (as_stream(body), self.name.clone());
        let is_head = program.is_none();
        let made = Made::by(|out| async move {
            match program {
                Some(program) => pump(&name, source.as_mut(), program, &out).await,
                // The length of the output is unknown.
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
}

fn say(name: &str, facts: std::fmt::Arguments<'_>) {
    error_log::log(&message::EXTERNAL_FILTER, format_args!("{name}: {facts}"));
}

/// A request body as a stream.
struct FromClient(Box<dyn RequestBody>);

impl BodyStream for FromClient {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        self.0.poll_chunk(cx)
    }
}

/// Feeds the program and passes its output on.
async fn pump(
    name: &str,
    source: &mut dyn BodyStream,
    program: Program,
    out: &Out,
) -> Result<(), BodyError> {
    let mut program = program;
    let (input, stderr) = (program.input.take(), program.stderr.take());
    let mut feeding = pin!(feed(source, input));
    let mut logging = pin!(log_stderr(name, stderr));
    let (mut is_fed, mut is_logged) = (false, false);
    loop {
        tokio::select! {
            biased;
            fed = &mut feeding, if !is_fed => {
                fed?;
                is_fed = true;
            }
            () = &mut logging, if !is_logged => is_logged = true,
            piece = tokio::time::timeout(IDLE, program.output.read()) => match piece {
                Ok(Ok(Some(piece))) => out.send(Chunk::from(piece)).await,
                Ok(Ok(None)) => break,
                Ok(Err(error)) => return broken(name, &error),
                Err(elapsed) => return broken(name, &elapsed.into()),
            },
        }
    }
    if !is_logged {
        // Whatever it wrote to standard error before it ended is there by now.
        let _ = tokio::time::timeout(std::time::Duration::from_millis(100), logging).await;
    }
    program.finish();
    Ok(())
}

fn broken(name: &str, error: &io::Error) -> Result<(), BodyError> {
    say(name, format_args!("{error}"));
    Err(BodyError::Source)
}

/// Writes the content to the program. One that stops reading may still produce output.
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

/// Logs standard error line by line.
async fn log_stderr(name: &str, stderr: Option<Output>) {
    let Some(mut stderr) = stderr else {
        return;
    };
    let mut line = Vec::new();
    while let Ok(Some(piece)) = stderr.read().await {
        for byte in piece {
            if byte != b'\n' {
                line.push(byte);
            }
            if byte == b'\n' || line.len() >= STDERR_LINE_BYTES_MAX {
                say(name, format_args!("{}", String::from_utf8_lossy(&line)));
                line.clear();
            }
        }
    }
    if !line.is_empty() {
        say(name, format_args!("{}", String::from_utf8_lossy(&line)));
    }
}
