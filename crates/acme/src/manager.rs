//! The loop on the main thread: due jobs, requests by handshakes, and the current plan.
//!
//! Called by: the server. A few sets of names are processed at once, each by a task of its own.
//! Dropping [`Manager::run`] stops it at any point: everything an order needs to continue is on
//! disk.

use crate::{
    challenges::{Challenges, Installer},
    client::Client,
    event::Event,
    on_demand::{Denied, Refusals},
    plan::Plan,
    present::Places,
    schedule::{self, Pace},
    shared_values::SharedValues,
    store::{self, Store},
    tend::{Context, Events, Tended},
    together,
};
use saker_cluster::SharedState;
use std::{
    collections::{HashMap, HashSet},
    io,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::{Id, JoinError, JoinSet},
};

/// Sets of names that are tended at once.
const JOBS_MAX: usize = 4;
/// The same for names on demand without a certificate: clients choose them, and must not keep
/// renewals and configured names from being tended.
const NEWCOMER_JOBS_MAX: usize = 2;
/// Handshakes that wait for the loop, and names on demand that wait for a job.
const QUEUE_MAX: usize = 64;
/// Clocks are set; no sleep is longer.
const SLEEP_MAX: Duration = Duration::from_secs(600);
/// Time in which a renewal that an operator has asked for is not put off by the authority.
const RENEWAL_S: u64 = 3_600;
/// Pause after a job that panicked.
const GRIEF_S: u64 = 600;

/// The workers' access to the manager.
#[derive(Clone)]
pub struct Handle {
    plans: watch::Sender<Arc<Plan>>,
    questions: mpsc::Sender<Question>,
    renewals: mpsc::Sender<String>,
}

struct Question {
    name: String,
    answer: oneshot::Sender<Result<(), Denied>>,
}

impl Handle {
    /// Replaces the plan after a reload.
    pub fn set_plan(&self, plan: Plan) {
        self.plans.send_replace(Arc::new(plan));
    }

    /// True if some site has such a name on demand.
    pub fn is_on_demand(&self, name: &str) -> bool {
        self.plans.borrow().on_demand_name(name).is_some()
    }

    /// Renews the certificate of a name soon, whatever its age. Returns `false` if no automatic
    /// certificate has the name, or too many renewals wait.
    pub fn renew(&self, name: &str) -> bool {
        let plan = self.plans.borrow();
        let mut sets = plan.certificates.iter();
        let is_known = sets.any(|names| names.iter().any(|own| own == name))
            || plan.on_demand_name(name).is_some();
        is_known && self.renewals.try_send(name.to_owned()).is_ok()
    }

    /// Waits until a certificate for the name is installed, or refused. Called by handshakes, which
    /// should set a timeout.
    pub async fn obtain(&self, name: &str) -> Result<(), Denied> {
        let Some(name) = self.plans.borrow().on_demand_name(name) else {
            return Err(Denied::NotMeant);
        };
        let (answer, answered) = oneshot::channel();
        match self.questions.try_send(Question { name, answer }) {
            Ok(()) => answered.await.unwrap_or(Err(Denied::Stopping)),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Denied::Busy),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Denied::Stopping),
        }
    }
}

pub struct Manager {
    context: Arc<Context>,
    plans: watch::Receiver<Arc<Plan>>,
    questions: mpsc::Receiver<Question>,
    renewals: mpsc::Receiver<String>,
    entries: HashMap<String, Entry>,
    refusals: Refusals,
    jobs: JoinSet<Tended>,
    /// Whose job is whose.
    running: HashMap<Id, String>,
}

/// State of one set of names.
struct Entry {
    names: Vec<String>,
    on_demand: bool,
    /// Else it goes when its job ends.
    is_wanted: bool,
    /// `None`: on request only.
    due: Option<u64>,
    is_running: bool,
    /// A name that handshakes ask for, and that has had no certificate.
    is_newcomer: bool,
    waiting: Vec<oneshot::Sender<Result<(), Denied>>>,
}

impl Manager {
    /// Opens the state folder and installs the certificates in it that the plan wants. Answers to
    /// HTTP-01 are put into `challenges`.
    pub fn new(
        plan: Plan,
        challenges: Arc<Challenges>,
        installer: Arc<dyn Installer>,
        events: impl Fn(Event) + Send + Sync + 'static,
    ) -> io::Result<(Manager, Handle)> {
        let store = Arc::new(Store::open(&plan.state_dir)?);
        let client = Client::new(plan.acme.directory_ca.as_deref()).map_err(io::Error::other)?;
        let places = Places {
            challenges,
            installer,
            dns_command: plan.acme.dns_command.clone(),
            dns_words: plan.acme.dns_words,
            together: None,
        };
        let pace = Arc::new(Mutex::new(Pace(store.order_times().into())));
        let events: Events = Arc::new(events);
        let context = Arc::new(Context {
            plan: plan.clone(),
            store,
            client,
            accounts: Arc::default(),
            places,
            pace,
            events,
            together: None,
        });
        let (to_plans, plans) = watch::channel(Arc::new(plan));
        let (to_questions, questions) = mpsc::channel(QUEUE_MAX);
        let (to_renewals, renewals) = mpsc::channel(QUEUE_MAX);
        let handle = Handle {
            plans: to_plans,
            questions: to_questions,
            renewals: to_renewals,
        };
        let (entries, running, refusals, jobs) = (
            HashMap::new(),
            HashMap::new(),
            Refusals::default(),
            JoinSet::new(),
        );
        let mut manager = Manager {
            context,
            plans,
            questions,
            renewals,
            entries,
            refusals,
            jobs,
            running,
        };
        manager.enter();
        Ok((manager, handle))
    }

    /// Orders together with the other servers of a cluster; to be called before [`Manager::run`].
    pub fn sharing(mut self, state: SharedState) -> Manager {
        // It is not shared before the first job.
        if let Some(context) = Arc::get_mut(&mut self.context) {
            let together = SharedValues(state);
            context.places.together = Some(together.clone());
            context.together = Some(together);
        }
        self
    }

    /// Runs until all handles are dropped, or the future is.
    pub async fn run(mut self) {
        loop {
            let next = self.start_what_is_due();
            tokio::select! {
                changed = self.plans.changed() => match changed {
                    Ok(()) => self.change_plan(),
                    Err(_) => return,
                },
                Some(question) = self.questions.recv() => self.ask(question),
                Some(name) = self.renewals.recv() => self.renew(&name),
                Some(done) = self.jobs.join_next_with_id() => self.done(done),
                () = tokio::time::sleep(next) => {}
            }
        }
    }

    fn change_plan(&mut self) {
        let plan = Plan::clone(&self.plans.borrow_and_update());
        let old = &self.context;
        let client = Client::new(plan.acme.directory_ca.as_deref()).unwrap_or_else(|reason| {
            (old.events)(Event::State { reason });
            old.client.fresh()
        });
        let places = Places {
            dns_command: plan.acme.dns_command.clone(),
            dns_words: plan.acme.dns_words,
            ..old.places.clone()
        };
        let (store, accounts, pace, events) = (
            old.store.clone(),
            old.accounts.clone(),
            old.pace.clone(),
            old.events.clone(),
        );
        self.context = Arc::new(Context {
            plan,
            store,
            client,
            accounts,
            places,
            pace,
            events,
            together: old.together.clone(),
        });
        self.enter();
    }

    /// Adopts the plan: installs stored certificates, and forgets names that are no longer
    /// configured.
    fn enter(&mut self) {
        let plan = &self.context.plan;
        let wanted = plan.certificates.iter().map(|names| (names.clone(), false));
        let is_meant = |names: &[String]| matches!(names, [name] if plan.on_demand_name(name).as_ref() == Some(name));
        let made = self
            .context
            .store
            .records()
            .into_iter()
            .filter(|record| record.on_demand && is_meant(&record.names));
        let all: Vec<_> = made
            .map(|record| (record.names, true))
            .chain(wanted)
            .collect();
        let mut old = std::mem::take(&mut self.entries);
        for (names, on_demand) in all {
            let key = store::key(&names);
            let due = self.install(&names, on_demand);
            let entry = old
                .remove(&key)
                .unwrap_or_else(|| Entry::new(names, on_demand));
            self.entries.insert(
                key,
                Entry {
                    on_demand,
                    due,
                    is_wanted: true,
                    is_newcomer: on_demand && due.is_none(),
                    ..entry
                },
            );
        }
        self.uninstall(old.values().flat_map(|entry| &entry.names));
        // Running jobs still have callers to answer.
        self.entries
            .extend(
                old.into_iter()
                    .filter(|(_, entry)| entry.is_running)
                    .map(|(key, entry)| {
                        (
                            key,
                            Entry {
                                is_wanted: false,
                                ..entry
                            },
                        )
                    }),
            );
    }

    /// Stops serving certificates for names that are no longer configured; the files stay.
    fn uninstall<'a>(&self, names: impl Iterator<Item = &'a String>) {
        let wanted: HashSet<&String> = self
            .entries
            .values()
            .filter(|entry| entry.is_wanted)
            .flat_map(|entry| &entry.names)
            .collect();
        let is_wanted = |name: &String| {
            wanted.contains(name) || self.context.plan.on_demand_name(name).is_some()
        };
        let gone: Vec<String> = names.filter(|name| !is_wanted(name)).cloned().collect();
        if !gone.is_empty() {
            self.context.places.installer.uninstall(&gone);
        }
    }

    /// Installs a stored certificate. Returns the time at which its renewal is due to be checked,
    /// if any.
    fn install(&self, names: &[String], on_demand: bool) -> Option<u64> {
        let now = schedule::now();
        let Some(bundle) = self.context.store.certificate(names) else {
            return (!on_demand).then_some(now);
        };
        if let Err(reason) =
            self.context
                .places
                .installer
                .install(names, &bundle.chain, &bundle.key)
        {
            let reason = format!(
                "the certificate for {} is of no use: {reason}",
                names.join(", ")
            );
            (self.context.events)(Event::State { reason });
        }
        Some(now)
    }

    /// Starts jobs as far as there is room; answers how long there is nothing else to do.
    fn start_what_is_due(&mut self) -> Duration {
        let now = schedule::now();
        let idle = self.entries.iter().filter(|(_, entry)| !entry.is_running);
        let mut waiting: Vec<(u64, &String)> = idle
            .filter_map(|(key, entry)| Some((entry.due?, key)))
            .collect();
        waiting.sort();
        let room = JOBS_MAX.saturating_sub(self.jobs.len());
        let is_newcomer = |key: &String| self.entries.get(key).is_some_and(|one| one.is_newcomer);
        let under_way = self.running.values().filter(|key| is_newcomer(key)).count();
        let mut newcomer_room = NEWCOMER_JOBS_MAX.saturating_sub(under_way);
        let mut has_room = |key: &String| {
            let has_room = !is_newcomer(key) || newcomer_room > 0;
            newcomer_room -= usize::from(has_room && is_newcomer(key));
            has_room
        };
        let due: Vec<String> = waiting
            .iter()
            .filter(|(due, key)| *due <= now && has_room(key))
            .take(room)
            .map(|(_, key)| (*key).clone())
            .collect();
        let later = waiting.iter().map(|(due, _)| *due).find(|due| *due > now);
        due.into_iter().for_each(|key| self.start(key));
        later.map_or(SLEEP_MAX, |due| {
            Duration::from_secs(due - now).min(SLEEP_MAX)
        })
    }

    fn start(&mut self, key: String) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        entry.is_running = true;
        entry.due = None;
        let work = together::tend(self.context.clone(), entry.names.clone(), entry.on_demand);
        self.running.insert(self.jobs.spawn(work).id(), key);
    }

    /// Makes the renewal of the certificate with this name due, and its window known: the
    /// authority is not asked whether it is time.
    fn renew(&mut self, name: &str) {
        self.bring_back(name);
        let now = schedule::now();
        let store = &self.context.store;
        for entry in self.entries.values_mut() {
            if !entry.names.iter().any(|own| own == name) || entry.is_running {
                continue;
            }
            if let Some(mut record) = store.record(&entry.names) {
                record.renew_at = Some(now);
                record.check_at = now.saturating_add(RENEWAL_S);
                if let Err(error) = store.save_record(&record) {
                    let reason = format!("the certificate for {name} is not renewed: {error}");
                    (self.context.events)(Event::State { reason });
                    continue;
                }
            }
            entry.due = Some(now);
        }
    }

    /// Brings back the entry of a name on demand that has a certificate and is no longer renewed by
    /// itself.
    fn bring_back(&mut self, name: &str) {
        let Some(name) = self.context.plan.on_demand_name(name) else {
            return;
        };
        let names = vec![name];
        if self.context.store.certificate(&names).is_some() {
            self.entries
                .entry(store::key(&names))
                .or_insert_with(|| Entry {
                    is_newcomer: false,
                    ..Entry::new(names, true)
                });
        }
    }

    fn ask(&mut self, Question { name, answer }: Question) {
        let refused = self.refusals.has(&name, Instant::now());
        let asked = self
            .entries
            .values()
            .filter(|entry| !entry.waiting.is_empty())
            .count();
        let names = vec![name];
        let key = store::key(&names);
        let is_asked = self
            .entries
            .get(&key)
            .is_some_and(|entry| !entry.waiting.is_empty());
        let denied = match (refused, is_asked) {
            (true, _) => Some(Denied::Forbidden),
            (false, false) if asked >= QUEUE_MAX => Some(Denied::Busy),
            _ => None,
        };
        if let Some(denied) = denied {
            tell(answer, Err(denied));
            return;
        }
        let entry = self
            .entries
            .entry(key)
            .or_insert_with(|| Entry::new(names, true));
        entry.waiting.push(answer);
        if !entry.is_running {
            // In the order of arrival: a flood of names is not in front of what is due already.
            let now = schedule::now();
            entry.due = Some(entry.due.map_or(now, |due| due.min(now)));
        }
    }

    fn done(&mut self, done: Result<(Id, Tended), JoinError>) {
        let (id, tended) = match done {
            Ok(done) => done,
            Err(error) => (error.id(), grief()),
        };
        let Some(key) = self.running.remove(&id) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        entry.is_running = false;
        // Without a certificate the next handshake asks again. With one nothing else would.
        entry.is_newcomer &= tended.has_certificate.is_err();
        // A new plan, or a handshake that came meanwhile, may have set it too.
        let due = tended.due.filter(|_| !entry.is_newcomer);
        entry.due = entry.due.into_iter().chain(due).max();
        entry
            .waiting
            .drain(..)
            .for_each(|answer| tell(answer, tended.has_certificate.clone()));
        if let (Err(Denied::Forbidden), [name]) = (&tended.has_certificate, entry.names.as_slice())
        {
            self.refusals.add(name, Instant::now());
        }
        if entry.due.is_none() || !entry.is_wanted {
            let removed = self.entries.remove(&key);
            // Removes a certificate that the job installed after the site was removed.
            self.uninstall(
                removed
                    .iter()
                    .filter(|entry| !entry.is_wanted)
                    .flat_map(|entry| &entry.names),
            );
        }
    }
}

impl Entry {
    fn new(names: Vec<String>, on_demand: bool) -> Entry {
        Entry {
            names,
            on_demand,
            is_wanted: true,
            due: None,
            is_running: false,
            is_newcomer: on_demand,
            waiting: Vec::new(),
        }
    }
}

fn grief() -> Tended {
    debug_assert!(false, "a job panicked");
    Tended {
        due: Some(schedule::now() + GRIEF_S),
        has_certificate: Err(Denied::Failed("an error of our own".into())),
    }
}

/// Answers the caller, which may be gone.
fn tell(answer: oneshot::Sender<Result<(), Denied>>, what: Result<(), Denied>) {
    let _: Result<(), _> = answer.send(what);
}

#[cfg(test)]
mod tests;
