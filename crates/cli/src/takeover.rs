//! `saker takeover apache|nginx`: Saker in the place of a running server, or that server again.
//!
//! Called by: `lib`.
//! Caveat: answers are recorded from the running server first, twice: what differs between the two
//! (a time, a token) is not compared later. If one answer of Saker is another, or none comes, Saker
//! is stopped and the other server started again.
//! Out of scope: how services are started and stopped (`service`); requests (`answers`).

mod answers;
mod service;

use crate::{
    arguments::{Check, Input, Takeover, TakeoverFrom},
    check,
    exit_status::{CANNOT, CONFIGURATION_ERRORS},
    output,
    source::{ApacheInput, NginxInput, load_apache, load_nginx},
};
use answers::{Answer, Target};
use saker_config::{
    Model,
    model::{Address, Listener, SiteName},
};
use service::Service;
use std::{
    fs,
    path::Path,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

/// Answers that are compared, without a list; a host with many names is compared by its first.
const TARGETS_MAX: usize = 500;
/// Time for a server to answer after its start.
const START_PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

pub fn takeover(asked: &Takeover) -> ExitCode {
    let check = check_of(asked);
    let checked = check::check(&check);
    if checked != ExitCode::SUCCESS {
        return checked;
    }
    let model = match asked.from {
        TakeoverFrom::Apache => {
            load_apache(&ApacheInput {
                file: asked.file(),
                ..ApacheInput::default()
            })
            .model
        }
        TakeoverFrom::Nginx => {
            load_nginx(&NginxInput {
                file: asked.file(),
                ..NginxInput::default()
            })
            .model
        }
    };
    let targets = match targets(asked, &model) {
        Ok(targets) => targets,
        Err(why) => return output::cannot(why),
    };
    carry_out(asked, targets)
}

fn check_of(asked: &Takeover) -> Check {
    let file = Some(asked.file());
    let (apache, nginx) = match asked.from {
        TakeoverFrom::Apache => (file, None),
        TakeoverFrom::Nginx => (None, file),
    };
    Check {
        file: None,
        input: Input {
            config: None,
            apache,
            nginx,
            define: Vec::new(),
        },
        vcl: None,
        json: false,
        cost: false,
    }
}

/// The URLs that are compared: those of the list, or the first page of each host on each address.
fn targets(asked: &Takeover, model: &Model) -> Result<Vec<Target>, String> {
    let mut urls = asked.urls.clone();
    if let Some(path) = &asked.list {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let lines = text.lines().map(str::trim);
        urls.extend(
            lines
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .map(str::to_owned),
        );
    }
    if urls.is_empty() {
        urls = urls_of(model);
    }
    if urls.is_empty() {
        return Err("the configuration names no host to compare; name URLs".into());
    }
    urls.iter()
        .take(TARGETS_MAX)
        .map(|url| Target::parse(url, &model.listeners))
        .collect()
}

fn urls_of(model: &Model) -> Vec<String> {
    let names = model.sites.iter().map(|site| {
        let plain = site.names.iter().find_map(|name| match name {
            SiteName::Exact(name) => Some(name.clone()),
            _ => None,
        });
        (site, plain.unwrap_or_else(|| "localhost".into()))
    });
    let mut urls: Vec<String> = names
        .flat_map(|(site, name)| {
            let serves = |listener: &&Listener| {
                site.listeners.is_empty() || site.listeners.contains(&listener.address)
            };
            let listeners = model.listeners.iter().filter(serves);
            listeners.filter_map(move |listener| {
                let Address::Tcp(address) = &listener.address else {
                    return None;
                };
                let scheme = if listener.tls.is_some() {
                    "https"
                } else {
                    "http"
                };
                Some(format!("{scheme}://{name}:{}/", address.port()))
            })
        })
        .collect();
    urls.sort_unstable();
    urls.dedup();
    urls
}

fn carry_out(asked: &Takeover, targets: Vec<Target>) -> ExitCode {
    let (old, new) = (Service::of_other(asked), Service::of_saker(asked));
    let recorded = match record(targets) {
        Ok(recorded) => recorded,
        Err(why) => {
            return output::cannot(format_args!(
                "nothing was changed: {} does not answer: {why}",
                asked.from.name()
            ));
        }
    };
    if asked.dry_run {
        return output::print(format!(
            "{} answers recorded; nothing was changed\n",
            recorded.len()
        ));
    }
    let began = Instant::now();
    if let Err(why) = old.stop() {
        return output::cannot(format_args!("nothing was changed: {why}"));
    }
    let outcome = new.start().and_then(|()| {
        let gap = first_answer(&recorded, began)?;
        compare(&recorded).map(|()| gap)
    });
    match outcome {
        Ok(gap) => {
            // A boot later the same server is there.
            let kept = old.disable().and_then(|()| new.enable());
            kept.err()
                .into_iter()
                .for_each(|why| output::error(format_args!("saker: {why}\n")));
            output::print(format!(
                "Saker serves in the place of {}: {} answers are the same; {} ms without an answer\n",
                asked.from.name(),
                recorded.len(),
                gap.as_millis()
            ))
        }
        Err(why) => roll_back(asked, (&old, &new), &recorded, &why),
    }
}

fn roll_back(
    asked: &Takeover,
    (old, new): (&Service, &Service),
    recorded: &[(Target, Answer)],
    why: &str,
) -> ExitCode {
    output::error(format_args!("{}\n", why.trim_end()));
    // One that has not started has nothing to stop.
    let stopped = new.stop();
    let back = old
        .start()
        .and_then(|()| first_answer(recorded, Instant::now()).map(drop));
    match back {
        Ok(()) => {
            output::error(format_args!(
                "saker: not taken over; {} serves again\n",
                asked.from.name()
            ));
            ExitCode::from(CONFIGURATION_ERRORS)
        }
        Err(error) => {
            stopped
                .err()
                .into_iter()
                .for_each(|why| output::error(format_args!("saker: {why}\n")));
            output::error(format_args!(
                "saker: {} does not serve again: {error}\n",
                asked.from.name()
            ));
            ExitCode::from(CANNOT)
        }
    }
}

/// The running server's answers, as far as they are the same the second time.
///
/// # Errors
/// A target is not served, or none gets a response: then nothing shows that the server works.
fn record(targets: Vec<Target>) -> Result<Vec<(Target, Answer)>, String> {
    let recorded = targets
        .into_iter()
        .map(|target| {
            let first = target.ask()?;
            let second = target.ask()?;
            Ok((target, first.common_with(&second)))
        })
        .collect::<Result<Vec<_>, String>>()?;
    match recorded.iter().any(|(_, answer)| answer.is_response()) || recorded.is_empty() {
        true => Ok(recorded),
        false => Err("no URL gets a response in HTTP; name one that does".into()),
    }
}

/// Waits until the first target with a response answers; the time since `began`.
fn first_answer(recorded: &[(Target, Answer)], began: Instant) -> Result<Duration, String> {
    let Some((target, _)) = recorded.iter().find(|(_, answer)| answer.is_response()) else {
        return Ok(Duration::ZERO);
    };
    let until = Instant::now() + START_PATIENCE;
    loop {
        match target.ask() {
            Ok(answer) if answer.is_response() => return Ok(began.elapsed()),
            outcome if Instant::now() >= until => {
                return Err(outcome.err().unwrap_or_else(|| "no response".into()));
            }
            _ => thread::sleep(POLL),
        }
    }
}

/// # Errors
/// A line for each answer that is another.
fn compare(recorded: &[(Target, Answer)]) -> Result<(), String> {
    let differences: Vec<String> = recorded
        .iter()
        .filter_map(|(target, answer)| {
            let difference = match target.ask() {
                Ok(now) => answer.difference(&now)?,
                Err(why) => why,
            };
            Some(format!("{}: {difference}\n", target.url()))
        })
        .collect();
    match differences.is_empty() {
        true => Ok(()),
        false => Err(differences.concat()),
    }
}

impl TakeoverFrom {
    fn name(self) -> &'static str {
        match self {
            TakeoverFrom::Apache => "Apache",
            TakeoverFrom::Nginx => "nginx",
        }
    }
}

impl Takeover {
    fn file(&self) -> std::path::PathBuf {
        let default = match self.from {
            TakeoverFrom::Apache => "/etc/apache2/apache2.conf",
            TakeoverFrom::Nginx => "/etc/nginx/nginx.conf",
        };
        self.configuration
            .clone()
            .unwrap_or_else(|| Path::new(default).into())
    }
}
