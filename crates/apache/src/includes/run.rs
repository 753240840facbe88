//! Drives a page: gives it its content, meets what it demands, sends on what it says.

use crate::{
    content_filters::inside::Inside,
    includes::{inside, origin::Origin, world::PageWorld},
    meta_variables::variable_name,
    state::{snapshot, state},
    walk::link_policy,
};
use saker_content_filters::{
    as_stream,
    made::{Out, next},
    program::{IDLE, Program},
};
use saker_files::{Kind, resolve};
use saker_http::{Status, escape};
use saker_net::program::Errors;
use saker_pipeline::{Body, BodyError, BodyStream, Chunk, Exchange, Response, phases, respond};
use saker_ssi::{Answer, Demand, Page, SsiContext, Step, Target, Value};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path, process::Command};

/// Bytes of output that a program may put on a page.
const PROGRAM_BYTES_MAX: usize = 64 << 20;

pub async fn run(
    mut page: Page,
    mut source: Box<dyn BodyStream>,
    origin: Origin,
    inside: Inside,
    out: Out,
) -> Result<(), BodyError> {
    loop {
        let mut world = PageWorld::enter(&origin, &inside);
        let step = page.step(&mut world);
        world.leave();
        if origin.exchange.is_over_budget() {
            // Its head is on its way: what breaks off is no whole page.
            return Err(BodyError::Source);
        }
        match step {
            Step::Text(text) => out.send(Chunk::from(text)).await,
            Step::Hungry => match next(source.as_mut()).await {
                Some(chunk) => {
                    let chunk = chunk?;
                    origin.exchange.budget().work().grant_for(chunk.len());
                    page.push(chunk.bytes());
                }
                None => page.end(),
            },
            Step::End => return Ok(()),
            Step::Demand(demand) => {
                let met = meet(&origin, &inside, &demand, &out).await;
                let mut world = PageWorld::enter(&origin, &inside);
                let answer = met.unwrap_or_else(|fault| {
                    world.complain(fault);
                    Answer::Failed
                });
                page.answer(answer, &mut world);
                world.leave();
            }
        }
    }
}

async fn meet(
    origin: &Origin,
    inside: &Inside,
    demand: &Demand,
    out: &Out,
) -> Result<Answer, String> {
    // Many small ones must not hold the worker.
    tokio::task::yield_now().await;
    match demand {
        Demand::Include(target) => {
            let response = answered(origin, inside, target, false).await?;
            if leads_elsewhere(&response).is_some() {
                return Err(shown(target));
            }
            pass_on(response, out)
                .await
                .map_err(|_| format!("{} broke off", shown(target)))?;
        }
        Demand::Program(path) => {
            let target = Target::Virtual(path.clone());
            let response = answered(origin, inside, &target, true).await?;
            pass_on(response, out)
                .await
                .map_err(|_| format!("{} broke off", shown(&target)))?;
        }
        Demand::Look(target) => return look(origin, inside, target).await,
        // A shell would run as the server's user, who may not run what is in this folder.
        Demand::Command(_) if origin.local.cgi.user.is_some() || origin.state.home_of.is_some() => {
            return Err(
                "exec cmd is refused where programs run as another user: use exec cgi".into(),
            );
        }
        Demand::Command(command) => shell(origin, command, out)
            .await
            .map_err(|error| format!("a command failed: {error}"))?,
    }
    Ok(Answer::Done)
}

fn shown(target: &Target) -> String {
    let (Target::File(name) | Target::Virtual(name)) = target;
    format!("unable to include \"{}\"", String::from_utf8_lossy(name))
}

/// The response of another part of the site to a request of the page's.
async fn answered(
    origin: &Origin,
    inside: &Inside,
    target: &Target,
    is_program: bool,
) -> Result<Response, String> {
    let refused = || shown(target);
    let services = inside.services().ok_or_else(refused)?;
    let mut inner = inside::request(origin, target).ok_or_else(refused)?;
    if is_program {
        as_program(origin, &mut inner).ok_or_else(refused)?;
    }
    let before = phases::run_subrequest(&mut inner, &services).await;
    if before
        .as_ref()
        .is_some_and(|response| response.status != Status::OK)
    {
        return Err(refused());
    }
    // The Apache manual, core, Options: without leave to run programs nothing but text is taken in.
    let media_type = inner
        .routing
        .settings
        .files
        .whole_type
        .as_deref()
        .filter(|media_type| !media_type.is_empty());
    if !crate::includes::origin::options(&origin.local).1
        && media_type.is_some_and(|media_type| !media_type.starts_with("text/"))
    {
        return Err(format!("unable to include potential exec {}", refused()));
    }
    let response = match before {
        Some(response) => response,
        None => respond::subrequest_content(&mut inner, &services).await,
    };
    match response.status.is_error() && matches!(response.body, Body::Empty) {
        true => Err(refused()),
        false => Ok(response),
    }
}

/// `exec cgi`: the program is asked in the page's name, and no path and no query is its own.
fn as_program(origin: &Origin, inner: &mut Exchange) -> Option<()> {
    if inner.query.is_some() {
        return None;
    }
    inner.query.clone_from(&origin.exchange.query);
    state(inner).is_program = true;
    Some(())
}

/// The Location of a redirect.
fn leads_elsewhere(response: &Response) -> Option<&[u8]> {
    let location = response.fields().first("Location");
    location.filter(|_| (300..400).contains(&response.status.0))
}

async fn pass_on(response: Response, out: &Out) -> Result<(), BodyError> {
    if let Some(location) = leads_elsewhere(&response) {
        // As Apache: a program that leads elsewhere leaves a link.
        let mut link = Vec::new();
        escape::html(location, &mut link);
        out.send(Chunk::from(
            [b"<a href=\"", link.as_slice(), b"\">", &link, b"</a>"].concat(),
        ))
        .await;
        return Ok(());
    }
    out.pass_on(as_stream(response.body).as_mut()).await
}

async fn look(origin: &Origin, inside: &Inside, target: &Target) -> Result<Answer, String> {
    let (Target::File(name) | Target::Virtual(name)) = target;
    let missing = || {
        format!(
            "unable to get information about \"{}\"",
            String::from_utf8_lossy(name)
        )
    };
    let services = inside.services().ok_or_else(missing)?;
    let mut inner = inside::request(origin, target).ok_or_else(missing)?;
    state(&mut inner).is_answered = false;
    let before = phases::run_subrequest(&mut inner, &services).await;
    if before.is_some_and(|response| response.status != Status::OK) {
        return Err(missing());
    }
    let own = snapshot(&inner);
    let options = own
        .local
        .as_ref()
        .map(|local| local.core.options.in_force())
        .unwrap_or_default();
    let relative = own.filename.strip_prefix(b"/").unwrap_or(&own.filename);
    let found = resolve(
        &origin.watcher,
        Path::new("/"),
        relative,
        link_policy(options),
        &mut Vec::new(),
    )
    .map_err(|_| missing())?;
    match found.metadata.kind {
        Kind::Other => Err(missing()),
        _ => Ok(Answer::Found {
            bytes: found.metadata.size,
            modified_s: found.metadata.mtime_s,
        }),
    }
}

/// Runs a command by `/bin/sh`, with the page's variables as its environment, in the page's folder.
async fn shell(origin: &Origin, command: &[u8], out: &Out) -> std::io::Result<()> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(OsStr::from_bytes(command));
    shell.current_dir(OsStr::from_bytes(inside::folder(&origin.state.filename)));
    for (name, value) in origin.shared.variables.borrow().iter() {
        let Value::Text(value) = value else { continue };
        if !value.contains(&0) {
            shell.env(
                OsStr::from_bytes(&variable_name(name)),
                OsStr::from_bytes(value),
            );
        }
    }
    let mut program = Program::start(shell, false, Errors::Shared).await?;
    let mut left = PROGRAM_BYTES_MAX;
    loop {
        let piece = tokio::time::timeout(IDLE, program.output.read()).await??;
        let Some(piece) = piece else { break };
        left = left
            .checked_sub(piece.len())
            .ok_or_else(|| std::io::Error::other("it says too much"))?;
        out.send(Chunk::from(piece)).await;
    }
    program.finish();
    Ok(())
}
