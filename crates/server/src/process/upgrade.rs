//! Upgrades: a running server offers what it has to a successor, and a successor takes it over.
//!
//! Called by: the control socket (the running server's side), the start (the successor's side).
//! Caveat: both accept connections from the same queues for a moment, so none is refused or lost.
//! The page cache has one writer: the running server lets go of it when the successor is ready,
//! and has it back if the successor ends before it listens.
//! Out of scope: starting the successor, which is the command line's; a server that is stopping
//! (`succession`).

use super::{
    bans::BanFile,
    inheritance::Inherited,
    page_cache,
    succession::Forwarding,
    supervisor::Supervisor,
    systemd::{OF_ONE_PROCESS, notify},
};
use saker_cache_store::Reading;
use saker_control::{Forwarded, Lock, Offer, start_record, upgrade, upgrade_state};
use saker_serving::worker_thread::Command;
use saker_telemetry::{error_log, message};
use serde_json::{Value, json};
use std::{
    env,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};
use tokio::io::{AsyncBufReadExt, BufReader};

/// Interval of checks for the end of a process whose connection has ended.
const END_POLL: Duration = Duration::from_millis(5);

/// Time in which pages are still read for connections from before; the successor's wait in the
/// queues meanwhile.
const FIRST_REQUESTS_MAX: Duration = Duration::from_millis(50);

static PROGRAM: OnceLock<Option<Program>> = OnceLock::new();
/// The user that started the server.
static STARTED_BY: OnceLock<u32> = OnceLock::new();

/// The program file as it was at the start.
struct Program {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// Notes the program file; called first, while its name is still known.
pub fn note_program() {
    STARTED_BY.get_or_init(|| rustix::process::geteuid().as_raw());
    PROGRAM.get_or_init(|| {
        let path = env::current_exe().ok()?;
        let found = std::fs::metadata("/proc/self/exe").ok()?;
        Some(Program {
            path,
            device: found.dev(),
            inode: found.ino(),
        })
    });
}

/// Returns true if the variable is not for successors.
fn is_of_one_process(name: &str) -> bool {
    [upgrade::VARIABLE, upgrade::FROM].contains(&name) || OF_ONE_PROCESS.contains(&name)
}

/// The command line and the environment of this process. Only those who may control the server get
/// to see it.
pub fn origin() -> Value {
    let text = |text: std::ffi::OsString| text.into_string().ok();
    let Some(Some(program)) = PROGRAM.get() else {
        return json!({ "ok": false, "error": "the program file is unknown" });
    };
    let arguments: Option<Vec<String>> = env::args_os().map(text).collect();
    let environment = env::vars_os().filter_map(|(name, value)| {
        let name = text(name)?;
        (!is_of_one_process(&name)).then_some((name, text(value)?))
    });
    let environment: serde_json::Map<String, Value> = environment
        .map(|(name, value)| (name, Value::String(value)))
        .collect();
    let (Some(arguments), Some(path)) = (arguments, program.path.to_str()) else {
        return json!({ "ok": false, "error": "the command line is not UTF-8" });
    };
    json!({
        "ok": true,
        "pid": std::process::id(),
        "uid": STARTED_BY.get(),
        "program": path,
        "device": program.device,
        "inode": program.inode,
        "is_replaced": start_record::is_replaced(&program.path, program.device, program.inode),
        "arguments": arguments,
        "directory": env::current_dir().ok().and_then(|path| path.to_str().map(str::to_owned)),
        "environment": environment,
    })
}

/// Called as root, before the server gives up its rights: notes for root's commands how the next
/// server is to be started.
pub fn record_start(lock: &Lock) {
    let origin = origin();
    // Without the record they refuse, and say why.
    if origin["ok"] == true {
        let _ = start_record::write(&start_record::folder(), lock.directory(), &origin);
    }
}

impl Supervisor {
    /// Descriptors: the control socket comes first, and is added by its owner; then the lock,
    /// the standard streams, the PidFile, listeners, systemd's sockets, UDP sockets of
    /// HTTP/3, those of streams, and the file that will hold the state.
    pub(super) fn make_offer(&self) -> Result<Offer, String> {
        if self.is_stopping() {
            return Err("the server is stopping".into());
        }
        if self.successor.is_offered() {
            return Err("another server is taking over".into());
        }
        let listeners = self.listeners.borrow();
        if listeners.has_predecessor() || listeners.has_inherited() {
            return Err("the server before this one still finishes its requests".into());
        }
        let failed = |error: std::io::Error| error.to_string();
        let lock = self.lock.borrow();
        let (lock, created) = lock
            .as_ref()
            .ok_or("another server has taken over")?
            .share()
            .map_err(failed)?;
        let duplicate = |stream: &dyn AsFd| stream.as_fd().try_clone_to_owned().map_err(failed);
        let mut descriptors = vec![
            lock,
            duplicate(&std::io::stdout())?,
            duplicate(&std::io::stderr())?,
        ];
        let mut answer = json!({
            "ok": true,
            "pid": std::process::id(),
            "created": created,
            "console": self.console.state.hand_over(),
            "leaves": true,
            "tag": self.shared.quic.get().and_then(Option::as_ref).map(|quic| quic.secrets.tag),
        });
        if let Some(pid_file) = &*self.pid_file.borrow() {
            answer["pid_file"] = json!(pid_file.path());
            descriptors.push(pid_file.share().map_err(failed)?);
        }
        listeners
            .offer(&mut answer, &mut descriptors)
            .map_err(failed)?;
        let state = upgrade_state::create().map_err(failed)?;
        descriptors.push(duplicate(&state)?);
        answer["state"] = json!(1);
        self.successor.set_offered_state(Some(state));
        self.successor.set_offered(true);
        Ok(Offer {
            answer,
            descriptors,
        })
    }

    /// Lets go of what only one server can write.
    pub(super) fn let_go(&self) -> bool {
        if self.is_stopping() {
            return false;
        }
        // Write errors have been reported.
        let _ = self
            .ban_file
            .borrow_mut()
            .keep(&self.shared.abuse.bans, saker_net::clock::realtime_s());
        self.hand_over_state();
        let (forward, forwarding) = Forwarding::new();
        self.successor.set_forwarding(Some(forwarding));
        match self.shared.cluster() {
            None => {
                if let Some(store) = self.shared.release_page_cache() {
                    store.hand_over(forward, Reading::GoesOn);
                }
            }
            // Without the purges of the other servers, no page may be used.
            Some(node) => {
                // First: the successor sends what waits, from the same queue.
                node.stop();
                if let Some(cache) = self.shared.replace_page_cache(None) {
                    cache.store.hand_over(forward, Reading::Ends);
                }
                self.renew_services();
            }
        }
        true
    }

    /// Workers use what is shared now.
    fn renew_services(&self) {
        let (generation, tls) = (
            Arc::clone(&self.generation.borrow()),
            Arc::clone(&self.tls.borrow()),
        );
        self.workers
            .tell_all(|| Command::Generation(Arc::clone(&generation), Arc::clone(&tls)));
    }

    /// The successor serves.
    pub(super) fn be_succeeded_by(&self, pid: u32) {
        error_log::log(&message::HANDED_OVER, format_args!("pid {pid}"));
        // Said by this process, because systemd listens to no other yet.
        notify(&format!("MAINPID={pid}"));
        self.lock.borrow().iter().for_each(|lock| lock.give());
        self.listeners.borrow_mut().give_files();
        self.successor.set_asked();
        self.successor.set_upgraded();
        // Sessions are the successor's now: what ends there must not live on here.
        self.console.socket.close();
        self.end_reading();
        // For a moment this server still takes connections whose first packets are on their way.
        self.successor.set_listening();
        self.workers.tell_all(|| Command::LeaveDatagrams);
        self.ask_stop(true);
    }

    /// The page cache is the successor's, which learns of purges first.
    fn end_reading(&self) {
        if let Some(cache) = self.shared.replace_page_cache(None) {
            cache.store.end_reading();
            self.renew_services();
        }
    }

    /// Returns once no connection is accepted here that the successor could have, and idle ones are
    /// closed: later requests reach the successor, which has the page cache.
    pub(super) async fn leave_to_successor(&self, addresses: &[String]) {
        self.workers.leave(addresses).await;
        // Connections that were accepted last have their first request on its way.
        let until = Instant::now() + FIRST_REQUESTS_MAX;
        while self.shared.earlier_connections() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// The successor has ended before it served.
    pub(super) async fn take_back(&self) {
        error_log::log(&message::UPGRADE_FAILED, format_args!(""));
        self.take_back_state();
        if let Some(forwarding) = self.successor.take_forwarding() {
            self.end_reading();
            let generation = Arc::clone(&self.generation.borrow());
            page_cache::open_released(&generation.model, &self.shared).await;
            forwarding.keep_to(self.shared.store());
            self.renew_services();
        }
        self.successor.set_offered(false);
    }

    /// Takes over what only one server can write. Called when everything that can fail has been
    /// done.
    ///
    /// # Errors
    /// The running server goes on.
    pub async fn take_from_running(&self) -> Result<(), String> {
        let (state, tag) = match self.listeners.borrow_mut().inherited_mut() {
            Some(inherited) => {
                inherited.request_release()?;
                (inherited.take_state(), inherited.tag)
            }
            None => return Ok(()),
        };
        self.continue_state(state, tag);
        let generation = Arc::clone(&self.generation.borrow());
        *self.ban_file.borrow_mut() = BanFile::open(
            &generation.model.server.state_dir,
            &self.shared.abuse.bans,
            saker_net::clock::realtime_s(),
        );
        page_cache::open_released(&generation.model, &self.shared).await;
        self.renew_services();
        Ok(())
    }

    /// Tells the server before this one that it may go. Called before the workers accept: what they
    /// had accepted would be lost if this process ended first, and waits in the queues instead.
    ///
    /// # Errors
    /// The running server goes on.
    pub fn succeed_running(&self) -> Result<(), String> {
        let mut listeners = self.listeners.borrow_mut();
        let addresses: Vec<String> = listeners
            .addresses()
            .iter()
            .map(|address| address.to_string())
            .collect();
        let Some(inherited) = listeners.inherited() else {
            return Ok(());
        };
        // Before the other server begins to send clients away.
        listeners.lead_beside(self.workers.len());
        inherited.say_listening(&addresses)?;
        inherited.adopt_streams();
        error_log::log(&message::TOOK_OVER, format_args!("pid {}", inherited.pid));
        listeners.take_files();
        self.lock.borrow().iter().for_each(|lock| lock.take());
        Ok(())
    }

    /// Follows what the server before this one still learns, until it ends. `false`: there is none.
    pub(super) async fn follow_running(&self) -> bool {
        let stream = match self.listeners.borrow().inherited() {
            Some(inherited) => inherited.stream(),
            None => return false,
        };
        if let Ok(stream) = stream {
            let mut lines = BufReader::new(stream).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                match (upgrade::forwarded(&line), self.shared.store()) {
                    (Some(Forwarded::Store(message)), Some(store)) => {
                        // A failure has been reported, and the purge holds.
                        let _ = store.apply(&message);
                    }
                    (Some(Forwarded::Figures(figures)), _) => self.add_figures(&figures),
                    _ => {}
                }
            }
        }
        while !self
            .listeners
            .borrow()
            .inherited()
            .is_none_or(Inherited::has_ended)
        {
            tokio::time::sleep(END_POLL).await;
        }
        let generation = Arc::clone(&self.generation.borrow());
        let with_quic = self
            .listeners
            .borrow_mut()
            .end_inheritance(&generation.model.listeners, self.workers.len());
        with_quic
            .iter()
            .for_each(|address| self.listen_quic(address));
        self.succeed_if_asked();
        true
    }
}
