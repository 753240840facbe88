//! The life of one pool: it sleeps until a connection waits in its socket, starts PHP, and looks
//! after it.
//!
//! PHP accepts the connections itself; the server's own end of the socket is only looked at while
//! no PHP runs. What dies is started again with the next connection, at once the first time and
//! then after a pause that doubles, during which those who wait are turned away instead of being
//! left to wait. What is to be replaced gets its successor first, and is then asked to finish.
//! Difficulty: PHP's workers are not our children, so a whole process group has to go; and a
//! connection that is kept would keep an old worker, so workers of ours learn by the epoch that
//! there is a new PHP. Absent on purpose: how many workers PHP has at a time. Each kind grows and
//! shrinks by itself, within the bounds it was given.

use crate::{
    command::{Borrowed, Spec, Whom},
    ini::{Fingerprint, Places},
    output,
    process::{self, Process},
    settings::Script,
};
use rustix::net::SocketFlags;
use saker_config::model::Epoch;
use saker_net::{ChildSignal, child, clock};
use saker_telemetry::{error_log, message};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    process::ExitStatus,
    sync::Arc,
    time::Duration,
};
use tokio::{
    process::Command,
    sync::watch,
    task::JoinSet,
    time::{Instant, interval, sleep, timeout},
};

/// One that lives longer than this has not failed to start.
const SETTLED: Duration = Duration::from_secs(10);
/// The successor has to be there for this long before its predecessor is asked to leave.
const PROVED: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Number of times PHP's configuration is looked at, while it runs.
const LOOK: Duration = Duration::from_secs(1);
/// Between being told to end and being ended.
const END_TIME: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);
const QUESTION_TIME_MAX: Duration = Duration::from_secs(10);

/// Pool state requested by the manager.
#[derive(Clone, Debug)]
pub enum Order {
    Run(Arc<Spec>),
    /// As `Run`, but PHP that runs gets a successor.
    Restart(Arc<Spec>),
    /// Requests that run may end; then it is over.
    Finish,
    Stop,
}

pub struct Pool {
    listener: OwnedFd,
    orders: watch::Receiver<Order>,
    /// One after the other, without one that settled.
    failures: u32,
    /// Those that have a successor.
    leaving: JoinSet<()>,
    /// Configuration locations of the program at this path.
    places: Option<(PathBuf, Places)>,
}

struct Running {
    process: Process,
    since: Instant,
    configured_by: Fingerprint,
    signal: ChildSignal,
    drain: Duration,
    /// Goes with it.
    _script: Option<Script>,
}

enum Asked {
    Connection,
    Order,
}

impl Pool {
    pub fn new(listener: OwnedFd, orders: watch::Receiver<Order>) -> Pool {
        Pool {
            listener,
            orders,
            failures: 0,
            leaving: JoinSet::new(),
            places: None,
        }
    }

    pub async fn run(mut self) {
        while let Some(spec) = self.spec() {
            match self.until_asked().await {
                Ok(Asked::Connection) => self.serve(spec).await,
                Ok(Asked::Order) => {}
                Err(error) => {
                    error_log::log(
                        &message::PHP_FAILED,
                        format_args!("{}: {error}", spec.pool.socket.display()),
                    );
                    self.pause(PAUSE_MAX).await;
                }
            }
        }
        while self.leaving.join_next().await.is_some() {}
    }

    /// `None`: it is over.
    fn spec(&mut self) -> Option<Arc<Spec>> {
        match &*self.orders.borrow_and_update() {
            Order::Run(spec) | Order::Restart(spec) => Some(Arc::clone(spec)),
            Order::Finish | Order::Stop => None,
        }
    }

    async fn until_asked(&mut self) -> io::Result<Asked> {
        tokio::select! {
            waits = child::connection_waits(&self.listener) => waits.map(|()| Asked::Connection),
            _ = self.orders.changed() => Ok(Asked::Order),
        }
    }

    /// Runs PHP until it dies or is told to end.
    async fn serve(&mut self, mut spec: Arc<Spec>) {
        let mut running = match self.start(&spec).await {
            Ok(running) => running,
            Err(error) => return self.failed(&spec, &error.to_string()).await,
        };
        let mut look = interval(LOOK);
        loop {
            tokio::select! {
                status = running.process.wait() => return self.ended(&spec, running, status).await,
                _ = self.orders.changed() => match self.spec() {
                    None => return self.take_leave(running),
                    Some(wanted) => {
                        let is_restart = matches!(&*self.orders.borrow(), Order::Restart(_));
                        let is_same = !is_restart && wanted.is_same(&spec);
                        spec = wanted;
                        if !is_same {
                            running = self.replace(&spec, running).await;
                        }
                    }
                },
                _ = look.tick() => {
                    if is_idle(&spec, &running) {
                        error_log::log(&message::PHP_IDLE, format_args!("{}, process {}", spec.pool.name, running.process.id()));
                        return self.take_leave(running);
                    }
                    if self.fingerprint() != running.configured_by {
                        running = self.replace(&spec, running).await;
                    }
                }
            }
        }
    }

    async fn start(&mut self, spec: &Spec) -> io::Result<Running> {
        self.find_places(spec).await;
        let configured_by = self.fingerprint();
        let (process, errors, script) = self.begin(spec)?;
        if let Some(errors) = errors {
            tokio::spawn(output::log(errors, spec.pool.name.as_ref().into()));
        }
        error_log::log(
            &message::PHP_STARTED,
            format_args!(
                "{} ({}), process {}",
                spec.pool.name,
                spec.pool.program.display(),
                process.id()
            ),
        );
        let (signal, drain) = (
            spec.graceful_signal(),
            Duration::from_millis(spec.drain_ms()),
        );
        Ok(Running {
            process,
            since: Instant::now(),
            configured_by,
            signal,
            drain,
            _script: script,
        })
    }

    fn begin(&self, spec: &Spec) -> io::Result<(Process, Option<process::Errors>, Option<Script>)> {
        if let Whom::Broker(broker, user) = &spec.whom {
            let Borrowed {
                request,
                is_listener_input,
                inherited,
                script,
            } = spec.borrowed(user, self.listener.as_fd())?;
            let inherited: Vec<_> = inherited.iter().map(AsFd::as_fd).collect();
            let (process, errors) = Process::borrow(
                broker,
                &request,
                is_listener_input.then(|| self.listener.as_fd()),
                &inherited,
            )?;
            return Ok((process, errors, script));
        }
        // The thread that this runs on is the process's first, so that PHP hears of its end and of
        // no other.
        let (command, script) = spec.command(self.listener.as_fd())?;
        let (process, errors) = Process::start(Command::from(command))?;
        Ok((process, errors, script))
    }

    /// The successor, or the one that is there where there can be none.
    async fn replace(&mut self, spec: &Arc<Spec>, mut old: Running) -> Running {
        let name = &spec.pool.name;
        let mut successor = match self.start(spec).await {
            Ok(successor) => successor,
            Err(error) => {
                error_log::log(
                    &message::PHP_FAILED,
                    format_args!("{name}: {error}; the one that runs goes on"),
                );
                old.configured_by = self.fingerprint();
                return old;
            }
        };
        if let Ok(status) = timeout(PROVED, successor.process.wait()).await {
            error_log::log(
                &message::PHP_FAILED,
                format_args!("{name}: {}; the one that runs goes on", said(&status)),
            );
            old.configured_by = successor.configured_by;
            return old;
        }
        error_log::log(
            &message::PHP_REPLACED,
            format_args!("{name}, process {} makes room", old.process.id()),
        );
        let epochs = spec
            .pool
            .upstream
            .members
            .iter()
            .map(|member| member.tuning.epoch.clone())
            .collect();
        self.leaving.spawn(leave(old, epochs, self.orders.clone()));
        successor
    }

    fn take_leave(&mut self, running: Running) {
        self.leaving
            .spawn(leave(running, Vec::new(), self.orders.clone()));
    }

    /// The process exited on its own; the rest of its process group is no longer supervised.
    async fn ended(&mut self, spec: &Spec, running: Running, status: io::Result<ExitStatus>) {
        if running.since.elapsed() >= SETTLED {
            self.failures = 0;
        }
        self.leaving.spawn(clear(running.process));
        self.failed(spec, &said(&status)).await;
    }

    async fn failed(&mut self, spec: &Spec, why: &str) {
        let pause = match self.failures {
            0 => Duration::ZERO,
            failures => Duration::from_secs(1 << failures.saturating_sub(1).min(5)).min(PAUSE_MAX),
        };
        self.failures = self.failures.saturating_add(1);
        error_log::log(
            &message::PHP_ENDED,
            format_args!(
                "{}: {why}; it is started again in {} s",
                spec.pool.name,
                pause.as_secs()
            ),
        );
        self.pause(pause).await;
    }

    /// Turns away who comes meanwhile: the gateway says so to its clients at once.
    async fn pause(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        while let Some(left) = until
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            match timeout(left, self.until_asked()).await {
                Ok(Ok(Asked::Connection)) => drop(rustix::net::accept_with(
                    &self.listener,
                    SocketFlags::CLOEXEC,
                )),
                Ok(Ok(Asked::Order)) | Err(_) => return,
                Ok(Err(_)) => sleep(left.min(POLL)).await,
            }
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        self.places
            .as_ref()
            .map(|(_, places)| places.look())
            .unwrap_or_default()
    }

    /// Asks the program, where that was not done yet. One that does not say is not watched.
    async fn find_places(&mut self, spec: &Spec) {
        if self
            .places
            .as_ref()
            .is_some_and(|(program, _)| *program == spec.pool.program)
        {
            return;
        }
        let answer = timeout(
            QUESTION_TIME_MAX,
            Command::from(spec.question()).kill_on_drop(true).output(),
        )
        .await;
        let text = answer
            .ok()
            .and_then(Result::ok)
            .map(|output| output.stdout)
            .unwrap_or_default();
        self.places = Some((
            spec.pool.program.clone(),
            Places::parse(&String::from_utf8_lossy(&text)),
        ));
    }
}

fn said(status: &io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => format!("it ended ({status})"),
        Err(error) => error.to_string(),
    }
}

/// Lets requests finish, unless all has to stop, and sees that nothing of it is left.
async fn leave(mut old: Running, epochs: Vec<Epoch>, mut orders: watch::Receiver<Order>) {
    let is_stop = |order: &Order| matches!(order, Order::Stop);
    old.process.signal_leader(if is_stop(&orders.borrow()) {
        ChildSignal::Term
    } else {
        old.signal
    });
    epochs.iter().for_each(Epoch::advance);
    let finished = async {
        // Who connected before the signal was heard may have come to the old one.
        sleep(PROVED).await;
        epochs.iter().for_each(Epoch::advance);
        let _ = old.process.wait().await;
        while old.process.is_there() {
            sleep(POLL).await;
        }
    };
    let ended = async {
        if orders.wait_for(is_stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = finished => return,
        () = sleep(old.drain) => {}
        () = ended => {}
    }
    old.process.signal_leader(ChildSignal::Term);
    let _ = timeout(END_TIME, old.process.wait()).await;
    clear(old.process).await;
}

/// Asks the remaining processes of a group to exit, then kills them.
async fn clear(mut process: Process) {
    process.signal_all(ChildSignal::Term);
    let until = Instant::now() + END_TIME / 2;
    while process.is_there() && Instant::now() < until {
        sleep(POLL).await;
    }
    process.signal_all(ChildSignal::Kill);
    let _ = timeout(END_TIME, process.wait()).await;
}

/// True if the pool has had no requests for its idle timeout.
fn is_idle(spec: &Spec, running: &Running) -> bool {
    let limit_ms = spec.php.pool_idle_timeout_ms;
    let now_ms = clock::monotonic_ms();
    let mut activities = spec
        .pool
        .upstream
        .members
        .iter()
        .filter_map(|member| member.tuning.activity.as_ref());
    let is_quiet = |since_ms: u64| now_ms.saturating_sub(since_ms) >= limit_ms;
    limit_ms > 0
        && running.since.elapsed().as_millis() >= u128::from(limit_ms)
        && activities.all(|activity| activity.idle_since_ms().is_some_and(is_quiet))
}
