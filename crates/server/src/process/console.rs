//! The console's view of the server: its capabilities, its socket, and its samples.
//!
//! Called by: the supervisor, which owns it; the control socket, for links; the console.
//! Caveat: nothing is sampled, and no request is watched, while there is no console.
//! Out of scope: pages, sessions, and rights (`saker_console`).

use super::{control_answers::certificate_report, supervisor::Supervisor};
use saker_acme::Client;
use saker_cli::{examine, source::Source};
use saker_config::{
    completion::Completion,
    model::{AccessLogTarget, Console, MemberTest},
};
use saker_console::{
    Backend, CheckedConfiguration, ConsoleState, Fetch, Finding, Language, LiveChange, LiveChanges,
    LogFile, Question, TraceLine, find_member,
};
use saker_control::{CertificateReport, Control, EndpointSocket};
use saker_live::{
    history::{Field, History, Range},
    process::ProcessFacts,
    sampler::{Reading, Sampler},
    tail::Tail,
};
use saker_page_cache::path_stats::{self, PathStats};
use saker_pipeline::LocalFuture;
use saker_serving::worker_thread::Command;
use saker_telemetry::{Metric, error_log, error_log::ErrorLogTarget, message};
use saker_tls::Acceptor;
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval, sleep},
};

/// Time for which samples are taken after `saker top` has asked for them, in seconds.
const TOP_TIME_S: i64 = 15;
/// Above that rate, latencies are measured during a part of each second only.
const BUSY_REQUESTS_PER_S: f32 = 2_000.0;
const MEASURED_TIME: Duration = Duration::from_millis(50);
/// Requests measured in that part; with more, the part is shorter. At 50,000 requests a second, one in
/// a hundred is measured.
const MEASURED_REQUESTS: f32 = 500.0;
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
const USER_AGENT: &str = concat!("saker/", env!("CARGO_PKG_VERSION"), " (console)");

impl Supervisor {
    /// Makes a link for logging in, and opens the console if there is none.
    pub(super) fn make_console_link(&self) -> Result<Value, String> {
        if self.is_stopping() {
            return Err("the server is stopping".into());
        }
        let settings = self.settings();
        let is_new = self.console.socket.address().is_none();
        if is_new {
            self.console.open(&settings)?;
        }
        let address = self
            .console
            .socket
            .local_address()
            .ok_or("the console has no address")?;
        if is_new {
            error_log::log(&message::LISTENING, format_args!("{address} (console)"));
        }
        let token = self.console.state.make_link(saker_net::clock::realtime_s());
        let token = token.ok_or("the system gives no random bytes")?;
        let scheme = if self.acceptor().is_some() {
            "https"
        } else {
            "http"
        };
        let authority = match settings.names.first() {
            Some(name) => format!("{name}:{}", address.port()),
            None if address.ip().is_unspecified() => format!("localhost:{}", address.port()),
            None => address.to_string(),
        };
        Ok(json!({
            "ok": true,
            "url": format!("{scheme}://{authority}/link?token={token}"),
            "address": address.to_string(),
            "is_new": is_new,
        }))
    }

    /// Figures of the last seconds for `saker top`, which keeps samples coming.
    pub(super) fn live_seconds(&self, seconds: usize) -> Value {
        let until_s = saker_net::clock::realtime_s() + TOP_TIME_S;
        let mut top = self.console.top.borrow_mut();
        let interest = match top.take() {
            Some((_, interest)) => interest,
            None => self.shared.tail.interest(),
        };
        *top = Some((until_s, interest));
        drop(top);
        self.tell_watched();
        let history = self.console.history.borrow();
        let mut live = history.last_to_json(Range::Minutes15, seconds);
        live["ok"] = true.into();
        live
    }

    fn path_stats(&self) -> impl Iterator<Item = &PathStats> {
        self.shared.site_stats.iter().map(|worker| &worker.paths)
    }

    /// Takes a sample each second while there is a console.
    pub async fn sample(&self) {
        let mut ticks = interval(SAMPLE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sampler = Sampler::default();
        loop {
            ticks.tick().await;
            let now_s = saker_net::clock::realtime_s();
            self.console
                .top
                .borrow_mut()
                .take_if(|(until_s, _)| *until_s <= now_s);
            let ended = self
                .console
                .tops
                .borrow_mut()
                .take_if(|(until_s, _)| *until_s <= now_s);
            if ended.is_some() {
                self.shared.tail.count_tops(false);
                path_stats::watch(self.path_stats(), false);
            }
            drop(ended);
            let is_asked = self.console.top.borrow().is_some();
            if self.console.socket.address().is_none() && !is_asked {
                continue;
            }
            self.tell_watched();
            let sample = sampler.sample(Reading {
                monotonic_ms: self.shared.started.elapsed().as_millis() as u64,
                at_s: saker_net::clock::realtime_s(),
                counters: self.snapshot(),
                latencies: self.shared.tail.latencies(),
                process: ProcessFacts::read(),
            });
            let Some(sample) = sample else {
                continue;
            };
            let requests_per_s = sample.value(Field::Requests);
            let is_busy = requests_per_s > BUSY_REQUESTS_PER_S;
            self.console.history.borrow_mut().add(sample);
            // Of many requests a part is measured: enough for percentiles.
            if is_busy {
                self.console.is_busy.set(false);
                self.tell_watched();
                sleep(measured_time(requests_per_s)).await;
            }
            self.console.is_busy.set(is_busy);
            self.console.is_sampled.set(is_busy);
            self.tell_watched();
        }
    }
}

/// The part of a second in which requests are measured.
fn measured_time(requests_per_s: f32) -> Duration {
    Duration::from_secs_f32(MEASURED_REQUESTS / requests_per_s.max(1.0)).min(MEASURED_TIME)
}

impl Supervisor {
    /// Runs work that reads files on another thread.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let _permit = self.console.state.look().await;
        let done = spawn_blocking(work).await;
        done.map_err(|error| error.to_string())?
    }
}

impl Backend for Supervisor {
    fn control(&self) -> &dyn Control {
        self
    }

    fn state(&self) -> &ConsoleState {
        &self.console.state
    }

    fn socket(&self) -> &EndpointSocket {
        &self.console.socket
    }

    fn settings(&self) -> Console {
        self.generation.borrow().model.console.clone()
    }

    fn state_dir(&self) -> PathBuf {
        self.generation.borrow().model.server.state_dir.clone()
    }

    fn acceptor(&self) -> Option<Acceptor> {
        let address = self.settings().address?;
        let address = saker_config::model::Address::Tcp(address);
        self.tls.borrow().acceptor(&address).cloned()
    }

    fn tail(&self) -> &Arc<Tail> {
        &self.shared.tail
    }

    fn tell_watched(&self) {
        let tail = &self.shared.tail;
        let is_busy = self.console.is_busy.get();
        let is_watched = tail.is_watched() && (tail.has_watchers() || !is_busy);
        if self.console.is_watched.replace(is_watched) != is_watched {
            self.workers.tell_all(|| Command::Watch(is_watched));
        }
    }

    fn history(&self) -> &RefCell<History> {
        &self.console.history
    }

    fn certificates(&self) -> Vec<CertificateReport> {
        let all = self.tls.borrow().identities.all().into_iter();
        all.map(certificate_report).collect()
    }

    fn change_live(&self, change: &LiveChange) -> Result<usize, String> {
        let generation = Arc::clone(&self.generation.borrow());
        let state_dir = self.state_dir();
        let mut live = self.console.live.borrow_mut();
        let count = live.change(&generation.model, &state_dir, change)?;
        drop(live);
        self.look_after(&generation);
        if matches!(
            change,
            LiveChange::AddRedirect(_) | LiveChange::RemoveRedirect { .. }
        ) {
            self.workers.tell_all(|| Command::ForgetRoutes);
        }
        Ok(count)
    }

    fn test_member<'t>(
        &'t self,
        upstream: &'t str,
        address: &'t str,
    ) -> LocalFuture<'t, Result<MemberTest, String>> {
        let generation = Arc::clone(&self.generation.borrow());
        Box::pin(async move {
            let member = find_member(&generation.model, upstream, address)?;
            Ok(saker_gateway::test_member(&member).await)
        })
    }

    fn live_changes(&self) -> LiveChanges {
        self.console.live.borrow().clone()
    }

    fn tops(&self) -> Value {
        let until_s = saker_net::clock::realtime_s() + TOP_TIME_S;
        let tail = &self.shared.tail;
        let mut tops = self.console.tops.borrow_mut();
        let interest = tops.take().map(|(_, interest)| interest);
        *tops = Some((until_s, interest.unwrap_or_else(|| tail.interest())));
        drop(tops);
        tail.count_tops(true);
        path_stats::watch(self.path_stats(), true);
        self.tell_watched();
        let mut answer = tail.tops();
        let (prefixes, passes) = path_stats::rows(self.path_stats());
        answer["prefixes"] = prefixes;
        answer["passes"] = passes;
        answer["is_sampled"] = self.console.is_sampled.get().into();
        answer
    }

    fn renew_certificate(&self, name: &str) -> Result<(), String> {
        match self.acme.renew(name) {
            true => Ok(()),
            false => Err("no automatic certificate has this name, or too many wait".to_owned()),
        }
    }

    fn php_pools(&self) -> Vec<String> {
        self.php.borrow().names()
    }

    fn restart_php(&self, pool: &str) -> Result<(), String> {
        match self.php.borrow().restart(pool) {
            0 => Err("there is no such PHP pool".to_owned()),
            _ => Ok(()),
        }
    }

    fn count_log_in(&self, is_ok: bool) {
        self.shared.main_counters.increment(match is_ok {
            true => Metric::ConsoleLogins,
            false => Metric::ConsoleLoginsRefused,
        });
    }

    fn explain(&self, question: Question) -> LocalFuture<'_, Result<Vec<TraceLine>, String>> {
        let (source, make_services) = (self.source.clone(), self.shared.make_services);
        Box::pin(self.aside(move || {
            let (method, url) = (question.method.as_str(), question.url.as_str());
            let steps = examine::explain(&source, make_services, (method, url, &question.headers))?;
            let line = |step: saker_pipeline::TraceStep| TraceLine {
                phase: step.phase.to_owned(),
                text: step.text,
                place: step
                    .origin
                    .map_or_else(String::new, |origin| origin.to_string()),
            };
            Ok(steps.into_iter().map(line).collect())
        }))
    }

    fn fetch(&self, fetch: Fetch) -> LocalFuture<'_, Result<(u16, Vec<u8>), String>> {
        Box::pin(async move {
            let ca_file = fetch.ca_file.clone();
            // Reads the authorities of the system.
            let client = spawn_blocking(move || Client::new(ca_file.as_deref())).await;
            let client = client.map_err(|error| error.to_string())??;
            let client = client.named(USER_AGENT);
            client.fetch(&fetch.url, &fetch.fields, fetch.form).await
        })
    }

    fn language(&self) -> Language {
        match &self.source {
            Source::File { .. } => Language::Native,
            _ => Language::Other,
        }
    }

    fn log_files(&self) -> Vec<LogFile> {
        let generation = self.generation.borrow();
        let model = &generation.model;
        let mut files = Vec::new();
        if let ErrorLogTarget::File(path) = &model.server.error_log.target {
            files.push(LogFile {
                path: path.clone(),
                summary: "error log".to_owned(),
            });
        }
        for site in &model.sites {
            for log in &site.access_logs {
                let AccessLogTarget::File(path) = &log.target else {
                    continue;
                };
                if files.iter().all(|file| file.path != *path) {
                    files.push(LogFile {
                        path: path.clone(),
                        summary: "access log".to_owned(),
                    });
                }
            }
        }
        files
    }

    fn configuration_files(&self) -> Vec<PathBuf> {
        let sources = self.generation.borrow().model.sources.clone();
        match &self.source {
            Source::Directory(_) => Vec::new(),
            Source::Nginx { input, .. } if sources.is_empty() => vec![input.file.clone()],
            _ => sources,
        }
    }

    fn complete(&self, file: &Path, before: &str) -> Completion {
        examine::complete(&self.source, file, before)
    }

    fn check(
        &self,
        changed: Option<(&Path, &str)>,
    ) -> LocalFuture<'_, Result<CheckedConfiguration, String>> {
        let source = self.source.clone();
        let changed = changed.map(|(path, text)| (path.to_owned(), text.to_owned()));
        Box::pin(self.aside(move || {
            let changed = changed
                .as_ref()
                .map(|(path, text)| (path.as_path(), text.as_str()));
            let found = examine::check(&source, changed);
            let findings = found.into_iter().map(|one| Finding {
                severity: examine::severity(&one),
                file: one.origin.file.to_string(),
                line: one.origin.line,
                column: one.origin.column,
                length: one.length,
                message: one.message,
                help: one.help.unwrap_or_default(),
            });
            Ok(CheckedConfiguration {
                findings: findings.collect(),
            })
        }))
    }
}

/// The supervisor as the console's backend.
pub fn backend(supervisor: &Rc<Supervisor>) -> Rc<dyn Backend> {
    Rc::clone(supervisor) as Rc<dyn Backend>
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_of_requests_is_measured() {
        let ms = |requests_per_s| measured_time(requests_per_s).as_secs_f32() * 1e3;
        assert_eq!(ms(2_001.0), 50.0);
        assert_eq!(ms(10_000.0), 50.0);
        assert!((ms(50_000.0) - 10.0).abs() < 0.01);
        assert_eq!(measured_time(0.0), MEASURED_TIME);
    }
}
