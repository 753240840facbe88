//! Connections to one backend, of one worker: idle ones, how many there are, and who waits for one.
//!
//! Difficulty: a kept connection may end at any moment. It is looked at before it is used (which
//! costs no system call), and what fails on one before a byte came back says so
//! ([`Connection::is_reused`]), so that the request can be tried on a fresh one where that is safe.
//!
//! Programs that serve one connection per process (php-fpm) have another: an idle connection keeps
//! a process from all others. So one makes room for each request that waits on a fresh one that no
//! process may have taken yet (`unanswered.rs`), be it in another worker (`process_room.rs`).
//!
//! Absent on purpose: a common pool of all workers, which would need locks and wake-ups across
//! cores. Limits are each worker's share.

use crate::{
    connect::{connect, connect_now, probe_connect},
    failure::Failure,
    http2::Links,
    process_room::ProcessRoom,
    queue::Queue,
    transport::Transport,
    unanswered::{UNANSWERED_MS_MAX, UnansweredConnections},
};
use saker_config::model::{
    Backend, BackendAddress, BackendTls, Epoch, Member, MemberState, Protocol, Tuning,
};
use saker_net::clock;
use saker_telemetry::{error_log, message};
use saker_tls::ClientTls;
use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// Number of times a backend's certificates and lists may be looked at.
const FILES_LOOK_MS: u64 = 1000;

struct Idle {
    transport: Transport,
    tls_name: Option<Rc<str>>,
    since_ms: u64,
    /// Epoch of the backend at connection time.
    epoch: u32,
    use_so_far: ConnectionUse,
}

/// Requests on a connection, and when it began.
#[derive(Clone, Copy, Debug)]
struct ConnectionUse {
    requests: u64,
    since_ms: u64,
}

impl ConnectionUse {
    fn begin() -> ConnectionUse {
        ConnectionUse {
            requests: 0,
            since_ms: clock::monotonic_ms(),
        }
    }
}

/// Limits on connections that are kept for another request.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeptLimits {
    /// Idle ones.
    pub idle_max: usize,
    /// Requests on each; 0: no limit.
    pub requests_max: u64,
    /// 0: no limit.
    pub age_ms_max: u64,
}

impl KeptLimits {
    pub fn of(tuning: &Tuning) -> KeptLimits {
        KeptLimits {
            idle_max: tuning.kept_max,
            requests_max: tuning.requests_per_connection_max,
            age_ms_max: tuning.connection_age_ms_max,
        }
    }

    /// Returns true if a connection that has served these requests may serve another.
    fn allow(&self, used: ConnectionUse, now_ms: u64) -> bool {
        let is_young =
            self.age_ms_max == 0 || now_ms.saturating_sub(used.since_ms) < self.age_ms_max;
        is_young && (self.requests_max == 0 || used.requests < self.requests_max)
    }
}

pub struct Pool {
    pub backend: Arc<Backend>,
    /// Name used in logs.
    pub name: Rc<str>,
    /// Made when it is first needed, and when its files were last looked at.
    tls: RefCell<Option<(ClientTls, u64)>>,
    /// HTTP/2 connections, which requests share.
    pub links: Links,
    /// Idle limit of the last request, because idle connections are checked without one.
    kept_ms: Cell<u64>,
    forks_on_demand: Cell<bool>,
    epoch: RefCell<Epoch>,
    idle: RefCell<Vec<Idle>>,
    /// Busy and idle ones.
    open: Cell<usize>,
    unanswered: RefCell<UnansweredConnections>,
    /// A task is watching over waiting requests.
    is_watched: Cell<bool>,
    /// The last request may have left its connection for another one.
    keeps: Cell<bool>,
    /// Asked for room by all workers; `None`: one process takes any number of connections.
    room: Option<Arc<ProcessRoom>>,
    /// A task closes idle connections for other workers.
    gives_room: Cell<bool>,
    queue: Rc<Queue>,
    /// Requests under way, and bytes so far, for the choice among members.
    pub busy: Cell<u32>,
    pub bytes: Cell<u64>,
}

impl Pool {
    pub fn new(backend: Arc<Backend>) -> Pool {
        Pool {
            name: backend.to_string().into(),
            room: has_processes(&backend).then(|| ProcessRoom::of(&backend)),
            backend,
            tls: RefCell::default(),
            links: Links::default(),
            kept_ms: Cell::new(0),
            forks_on_demand: Cell::new(false),
            epoch: RefCell::default(),
            idle: RefCell::default(),
            open: Cell::new(0),
            unanswered: RefCell::default(),
            is_watched: Cell::new(false),
            keeps: Cell::new(false),
            gives_room: Cell::new(false),
            queue: Rc::default(),
            busy: Cell::new(0),
            bytes: Cell::new(0),
        }
    }

    /// Takes an idle connection, makes one, or waits for one where there may be no more.
    /// `is_fresh`: no kept one will do, as for upstreams that keep none: upstreams share the pool
    /// of a server. `tls_name`: the server's name in the handshake, if it is not the backend's;
    /// connections are kept for the same name.
    pub async fn acquire(
        self: &Rc<Self>,
        tuning: &Tuning,
        workers: usize,
        is_fresh: bool,
        tls_name: Option<&Rc<str>>,
    ) -> Result<Connection, Failure> {
        self.note(tuning);
        let (most, queue_max) = (
            share(tuning.connections_max, workers),
            share(tuning.queue_max, workers),
        );
        let mut until = None;
        let reuses = !is_fresh && tuning.kept_max > 0;
        if is_fresh && self.has_processes() {
            // Its process is free for the fresh one.
            self.drop_idle();
        }
        loop {
            if reuses && let Some(connection) = self.kept(tls_name) {
                return Ok(connection);
            }
            if most == 0 || self.open.get() < most || self.drop_idle() {
                return self.connect_with(tuning, b"", tls_name).await;
            }
            let has_been_called = until.is_some();
            let until = *until.get_or_insert_with(|| {
                Instant::now() + Duration::from_millis(tuning.queue_timeout_ms)
            });
            Box::pin(self.queue.wait(queue_max, until, has_been_called))
                .await?
                .take();
        }
    }

    pub fn note(&self, tuning: &Tuning) {
        self.kept_ms.set(tuning.kept_ms);
        self.keeps.set(tuning.kept_max > 0);
        self.forks_on_demand.set(tuning.forks_on_demand);
        if *self.epoch.borrow() != tuning.epoch {
            *self.epoch.borrow_mut() = tuning.epoch.clone();
        }
    }

    /// Returns the epoch of the backend now at this address.
    pub fn epoch(&self) -> u32 {
        self.epoch.borrow().now()
    }

    /// True if one more connection may be made.
    pub fn has_room(&self, tuning: &Tuning, workers: usize) -> bool {
        tuning.connections_max == 0 || self.open.get() < share(tuning.connections_max, workers)
    }

    fn kept(self: &Rc<Self>, tls_name: Option<&Rc<str>>) -> Option<Connection> {
        let (mut idle, epoch) = (self.idle.borrow_mut(), self.epoch.borrow().now());
        while let Some(at) = idle
            .iter()
            .rposition(|one| one.tls_name.as_ref() == tls_name)
        {
            let mut last = idle.remove(at);
            if last.epoch == epoch && !last.transport.is_stale() {
                let transport = Some(last.transport);
                return Some(Connection {
                    transport,
                    pool: Some(Rc::clone(self)),
                    tls_name: last.tls_name,
                    epoch,
                    counted_for: None,
                    is_reused: true,
                    is_given_back: false,
                    unanswered: None,
                    use_so_far: last.use_so_far,
                });
            }
            self.open.set(self.open.get() - 1);
        }
        None
    }

    /// Makes room for a fresh one.
    fn drop_idle(&self) -> bool {
        let dropped = self.idle.borrow_mut().pop().is_some();
        self.open.set(self.open.get() - usize::from(dropped));
        dropped
    }

    /// [`Pool::acquire`], where that needs no wait: most requests find a kept connection, or a Unix
    /// socket that takes one. `None`: nothing has been done yet.
    pub fn acquire_now(
        self: &Rc<Self>,
        tuning: &Tuning,
        workers: usize,
        is_fresh: bool,
        tls_name: Option<&Rc<str>>,
    ) -> Option<Result<Connection, Failure>> {
        self.note(tuning);
        if !is_fresh
            && tuning.kept_max > 0
            && let Some(connection) = self.kept(tls_name)
        {
            return Some(Ok(connection));
        }
        let makes_room = is_fresh && self.has_processes() && self.idle_count() > 0;
        match !makes_room && self.has_room(tuning, workers) {
            true => self.connect_now(),
            false => None,
        }
    }

    pub async fn connect(self: &Rc<Self>, tuning: &Tuning) -> Result<Connection, Failure> {
        self.connect_with(tuning, b"", None).await
    }

    /// The same; `preface` goes before everything else, TLS included.
    pub async fn connect_with(
        self: &Rc<Self>,
        tuning: &Tuning,
        preface: &[u8],
        tls_name: Option<&Rc<str>>,
    ) -> Result<Connection, Failure> {
        if preface.is_empty()
            && let Some(connected) = self.connect_now()
        {
            return connected;
        }
        let mut connection = self.counted();
        connection.tls_name = tls_name.cloned();
        // Most requests find a kept one, and shall not carry the room for this.
        let connecting = self.connect_in_time(tuning, preface, tls_name);
        connection.transport = Some(Box::pin(connecting).await?);
        Ok(connection)
    }

    fn connect_now(self: &Rc<Self>) -> Option<Result<Connection, Failure>> {
        let connected = connect_now(&self.backend)?;
        let mut connection = self.counted();
        Some(connected.map(|transport| {
            connection.transport = Some(transport);
            connection
        }))
    }

    /// One that is about to be made: counted from here on, and no longer when dropped, whatever
    /// happens.
    fn counted(self: &Rc<Self>) -> Connection {
        self.open.set(self.open.get() + 1);
        // Where none is kept, nor in other workers, none is in the way.
        if self.keeps.get() && self.has_processes() {
            self.start_watch();
        }
        Connection {
            transport: None,
            pool: Some(Rc::clone(self)),
            tls_name: None,
            epoch: self.epoch.borrow().now(),
            is_reused: false,
            is_given_back: false,
            unanswered: Some(self.unanswered.borrow_mut().add(clock::monotonic_ms())),
            counted_for: None,
            use_so_far: ConnectionUse::begin(),
        }
    }

    async fn connect_in_time(
        &self,
        tuning: &Tuning,
        preface: &[u8],
        tls_name: Option<&Rc<str>>,
    ) -> Result<Transport, Failure> {
        let tls = match (self.tls()?, tls_name) {
            (Some(tls), Some(name)) => Some(tls.named(name).map_err(Failure::Unusable)?),
            (tls, _) => tls,
        };
        connect(&self.backend, tls.as_ref(), tuning, preface).await
    }

    /// With what its files say, changes of the last second apart.
    fn tls(&self) -> Result<Option<ClientTls>, Failure> {
        let Some(settings) = &self.backend.tls else {
            return Ok(None);
        };
        let mut kept = self.tls.borrow_mut();
        let now_ms = clock::monotonic_ms();
        if let Some((tls, looked_ms)) = &mut *kept {
            if now_ms.saturating_sub(*looked_ms) < FILES_LOOK_MS {
                return Ok(Some(tls.clone()));
            }
            if tls.is_current(settings) {
                *looked_ms = now_ms;
                return Ok(Some(tls.clone()));
            }
        }
        let made = match (self.load(settings), kept.take()) {
            (Ok(made), _) => made,
            (Err(error), Some((mut tls, _))) => {
                let backend = &self.backend;
                error_log::log(
                    &message::CERTIFICATE_BAD,
                    format_args!("{backend}: {error}; what was read before stays in force"),
                );
                tls.stay(settings);
                tls
            }
            (Err(error), None) => return Err(Failure::Unusable(error)),
        };
        *kept = Some((made.clone(), now_ms));
        Ok(Some(made))
    }

    fn load(&self, settings: &BackendTls) -> Result<ClientTls, String> {
        let host = match &self.backend.address {
            BackendAddress::Tcp { host, .. } => host,
            BackendAddress::Unix(_) => "localhost",
        };
        let protocols: &[&[u8]] = match self.backend.protocol {
            Protocol::Http2 => &[b"h2"],
            Protocol::Bytes => &[],
            _ => &[b"http/1.1"],
        };
        ClientTls::load(settings, host, protocols)
    }

    fn put_back(self: &Rc<Self>, idle: Idle) {
        self.idle.borrow_mut().push(idle);
        self.queue.call();
        let Some(room) = &self.room else {
            return;
        };
        if self.unanswered.borrow().wants_room() {
            self.start_watch();
        }
        if !self.gives_room.replace(true) {
            tokio::task::spawn_local(give_room(Rc::downgrade(self), Arc::clone(room)));
        }
    }

    fn start_watch(self: &Rc<Self>) {
        if !self.is_watched.replace(true) {
            tokio::task::spawn_local(Rc::clone(self).watch());
        }
    }

    /// A process that has to do with one connection at a time goes on to one that waits only when
    /// its own has ended.
    fn has_processes(&self) -> bool {
        self.room.is_some()
    }

    fn may_keep(&self, epoch: u32) -> bool {
        let is_wanted = |room: &Arc<ProcessRoom>| self.makes_room() || room.make();
        epoch == self.epoch() && !self.room.as_ref().is_some_and(is_wanted)
    }

    fn makes_room(&self) -> bool {
        let mut unanswered = self.unanswered.borrow_mut();
        !unanswered.is_empty() && unanswered.makes_room(clock::monotonic_ms())
    }

    /// Closes an idle connection for each fresh one that has waited too long for a process. Where
    /// there is none here, other workers are asked to.
    async fn watch(self: Rc<Self>) {
        while self.unanswered.borrow().wants_room() {
            tokio::time::sleep(Duration::from_millis(UNANSWERED_MS_MAX)).await;
            while self.idle_count() > 0 && self.makes_room() {
                self.drop_idle();
                self.queue.call();
            }
            while self.wants_room_of_others() {}
        }
        self.is_watched.set(false);
    }

    fn wants_room_of_others(&self) -> bool {
        let now_ms = clock::monotonic_ms();
        let mut unanswered = self.unanswered.borrow_mut();
        let room = self.room.as_ref();
        room.is_some_and(|room| unanswered.wants(now_ms, || room.want()))
    }

    /// Closes idle connections for those that wait in other workers.
    fn give_room(&self, room: &ProcessRoom) {
        while self.idle_count() > 0 && room.make() {
            self.drop_idle();
            self.queue.call();
        }
    }

    /// Opens an unused connection to wake the server: if processes are started per connection,
    /// several that arrive at once may be seen as one.
    fn probe_connect(&self) {
        if let BackendAddress::Unix(path) = &self.backend.address
            && self.forks_on_demand.get()
            && !self.unanswered.borrow().is_empty()
        {
            let _ = probe_connect(path);
        }
    }

    /// Closes what has been idle too long, or has ended.
    pub fn sweep(&self, now_ms: u64) {
        let (kept_ms, epoch) = (self.kept_ms.get(), self.epoch());
        self.links.sweep(now_ms, kept_ms, epoch);
        self.probe_connect();
        if let Some(room) = &self.room {
            self.give_room(room);
        }
        let mut idle = self.idle.borrow_mut();
        let before = idle.len();
        idle.retain_mut(|one| {
            one.epoch == epoch
                && now_ms.saturating_sub(one.since_ms) < kept_ms
                && !one.transport.is_stale()
        });
        self.open.set(self.open.get() - (before - idle.len()));
    }

    /// Nothing would be lost with it.
    pub fn is_unused(&self) -> bool {
        self.open.get() == 0 && self.busy.get() == 0
    }

    pub fn idle_count(&self) -> usize {
        self.idle.borrow().len()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // The task that gives room ends.
        if let Some(room) = self.room.as_ref().filter(|_| self.gives_room.get()) {
            room.wake();
        }
    }
}

/// True if each connection has a process of its own.
fn has_processes(backend: &Backend) -> bool {
    backend.protocol.takes_variables()
}

/// Closes idle connections for other workers, as long as there is the pool.
async fn give_room(pool: Weak<Pool>, room: Arc<ProcessRoom>) {
    loop {
        let mut news = std::pin::pin!(room.news());
        // What is told from here on counts.
        news.as_mut().enable();
        match pool.upgrade() {
            Some(pool) => pool.give_room(&room),
            None => return,
        }
        news.await;
    }
}

/// A worker's part of a limit of the process: at least one, unless there is no limit.
pub fn share(all: usize, workers: usize) -> usize {
    all.div_ceil(workers.max(1))
}

/// One that is in use. Dropped, it is closed.
pub struct Connection {
    transport: Option<Transport>,
    /// `None`: the connection isn't pooled.
    pool: Option<Rc<Pool>>,
    tls_name: Option<Rc<str>>,
    epoch: u32,
    /// It has served a request before.
    pub is_reused: bool,
    is_given_back: bool,
    /// Its number among those on which no byte has come back.
    unanswered: Option<u64>,
    /// The member whose bytes are counted.
    counted_for: Option<MemberState>,
    use_so_far: ConnectionUse,
}

impl Connection {
    /// One that is for a single request.
    pub fn alone(transport: Transport) -> Connection {
        Connection {
            transport: Some(transport),
            pool: None,
            tls_name: None,
            epoch: 0,
            is_reused: false,
            is_given_back: false,
            unanswered: None,
            counted_for: None,
            use_so_far: ConnectionUse::begin(),
        }
    }

    /// Counts the bytes of the next request for a member.
    pub fn count_for(&mut self, member: &Member) {
        self.counted_for = member.counts_bytes.then(|| member.state.clone());
    }

    pub fn transport(&mut self) -> Option<&mut Transport> {
        self.transport.as_mut()
    }

    /// Returns the backend at the other end; `None`: a program of its own.
    pub fn backend(&self) -> Option<&Backend> {
        self.pool.as_ref().map(|pool| &*pool.backend)
    }

    /// Bytes have gone out.
    pub fn count_sent(&self, bytes: usize) {
        self.count(bytes);
        if let Some(member) = &self.counted_for {
            member.count_sent(bytes);
        }
    }

    /// Bytes have come.
    pub fn count_received(&self, bytes: usize) {
        self.count(bytes);
        if let Some(member) = &self.counted_for {
            member.count_received(bytes);
        }
    }

    /// Bytes have passed, either way: for the choice among members.
    fn count(&self, bytes: usize) {
        if let Some(pool) = &self.pool {
            pool.bytes.set(pool.bytes.get() + bytes as u64);
        }
    }

    /// A byte has come back.
    pub fn hear(&mut self) {
        if let (Some(id), Some(pool)) = (self.unanswered.take(), &self.pool) {
            let wanted = pool.unanswered.borrow_mut().remove(id);
            if let (Some(wanted), Some(room)) = (wanted, &pool.room) {
                room.withdraw(wanted);
            }
        }
    }

    /// For another request.
    pub fn give_back(mut self, limits: KeptLimits) {
        let mut used = self.use_so_far;
        used.requests = used.requests.saturating_add(1);
        if let Some(pool) = self
            .pool
            .as_ref()
            .filter(|pool| pool.idle_count() < limits.idle_max && pool.may_keep(self.epoch))
            .filter(|_| limits.allow(used, clock::monotonic_ms()))
            && let Some(transport) = self.transport.take()
        {
            self.is_given_back = true;
            pool.put_back(Idle {
                transport,
                tls_name: self.tls_name.take(),
                since_ms: clock::monotonic_ms(),
                epoch: self.epoch,
                use_so_far: used,
            });
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.hear();
        if let Some(pool) = self.pool.as_ref().filter(|_| !self.is_given_back) {
            pool.open.set(pool.open.get() - 1);
            pool.queue.call();
        }
    }
}
