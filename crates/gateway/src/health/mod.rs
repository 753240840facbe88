//! Health checks: a thread of its own asks members again and again, and notes in their standing
//! whether they are well.
//!
//! One thread for the whole process, so that a server is asked once and not by every worker, and so
//! that workers never wait for it; it is started when a configuration first wants checks. Members
//! that are the same (of several hosts) are asked once. Difficulty: a reload makes new members, of
//! which what was known of the old ones holds on.

mod member_test;
mod probe;

pub use member_test::test_member;
pub(crate) use probe::over_http1;

use crate::pool::Pool;
use saker_config::model::{Backend, HealthCheck, Member, MemberState, Upstream};
use saker_net::clock;
use saker_telemetry::{error_log, message};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io,
    rc::Rc,
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::{sync::mpsc, task::JoinHandle, time::sleep};

/// Checks do not all begin at the same moment.
const STAGGER_MS: u64 = 7;

/// The main thread's end.
#[derive(Default)]
pub struct HealthChecks {
    plans: Option<mpsc::UnboundedSender<Vec<Member>>>,
}

impl HealthChecks {
    /// From here on those are looked after.
    pub fn apply(&mut self, upstreams: &[Arc<Upstream>]) -> io::Result<()> {
        let members = upstreams.iter().flat_map(|upstream| &upstream.members);
        let plan: Vec<Member> = members
            .filter(|member| member.health.is_some() && !member.is_out())
            .cloned()
            .collect();
        if self.plans.is_none() && !plan.is_empty() {
            let (sender, receiver) = mpsc::unbounded_channel();
            thread::Builder::new()
                .name("health".into())
                .spawn(move || run(receiver))?;
            self.plans = Some(sender);
        }
        if let Some(plans) = &self.plans {
            // It ends with the process only.
            let _ = plans.send(plan);
        }
        Ok(())
    }
}

fn run(mut plans: mpsc::UnboundedReceiver<Vec<Member>>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
    else {
        return;
    };
    runtime.block_on(async {
        let mut patients: HashMap<Key, Rc<Patient>> = HashMap::new();
        while let Some(plan) = plans.recv().await {
            patients = begin(plan, &patients);
        }
    });
}

/// Key under which members share one health check.
type Key = (Arc<Backend>, Box<str>, Arc<HealthCheck>);

/// A server that is asked, and who wants to know.
struct Patient {
    member: Member,
    pool: Rc<Pool>,
    check: Arc<HealthCheck>,
    standings: RefCell<Vec<MemberState>>,
    is_down: Cell<bool>,
    /// In a row, of the kind that would change that.
    others: Cell<u32>,
    task: RefCell<Option<JoinHandle<()>>>,
}

impl Drop for Patient {
    fn drop(&mut self) {
        self.task
            .borrow_mut()
            .take()
            .into_iter()
            .for_each(|task| task.abort());
    }
}

/// Those that are asked already go on with what is known of them.
fn begin(plan: Vec<Member>, before: &HashMap<Key, Rc<Patient>>) -> HashMap<Key, Rc<Patient>> {
    let mut patients: HashMap<Key, Rc<Patient>> = HashMap::new();
    for member in plan {
        let Some(check) = member.health.clone() else {
            continue;
        };
        let key = (
            Arc::clone(&member.backend),
            member.authority.clone(),
            Arc::clone(&check),
        );
        let standing = member.state.clone();
        let count = patients.len() as u64;
        // Of a server before this one, at most.
        let was_down = standing.is_down();
        let known = before.get(&key);
        let patient = patients.entry(key).or_insert_with(|| {
            let (is_down, others) = known.map_or((was_down, 0), |known| {
                (known.is_down.get(), known.others.get())
            });
            let patient = Rc::new(Patient {
                pool: Rc::new(Pool::new(Arc::clone(&member.backend))),
                member,
                check,
                standings: RefCell::default(),
                is_down: Cell::new(is_down),
                others: Cell::new(others),
                task: RefCell::default(),
            });
            let weak = Rc::downgrade(&patient);
            let visits = async move {
                sleep(Duration::from_millis(count * STAGGER_MS)).await;
                while let Some(patient) = weak.upgrade() {
                    let outcome = probe::ask(&patient.pool, &patient.member, &patient.check).await;
                    patient.note(outcome);
                    let interval = Duration::from_millis(patient.check.interval_ms);
                    drop(patient);
                    sleep(interval).await;
                }
            };
            *patient.task.borrow_mut() = Some(tokio::task::spawn_local(visits));
            patient
        });
        standing.set_down(patient.is_down.get(), clock::monotonic_ms());
        patient.standings.borrow_mut().push(standing);
    }
    patients
}

impl Patient {
    /// The error is why it is not well.
    fn note(&self, outcome: Result<(), String>) {
        let is_well = outcome.is_ok();
        if is_well == self.is_down.get() {
            self.change(outcome);
        } else {
            self.others.set(0);
        }
        if is_well && !self.is_down.get() {
            let now_ms = clock::monotonic_ms();
            self.standings
                .borrow()
                .iter()
                .for_each(|standing| standing.pass_check(now_ms));
        }
    }

    /// Another outcome than those before; enough in a row are believed.
    fn change(&self, outcome: Result<(), String>) {
        self.others.set(self.others.get().saturating_add(1));
        let needed = if self.is_down.get() {
            self.check.passes
        } else {
            self.check.fails
        };
        if self.others.get() < needed {
            return;
        }
        self.others.set(0);
        self.is_down.set(outcome.is_err());
        let now_ms = clock::monotonic_ms();
        self.standings
            .borrow()
            .iter()
            .for_each(|standing| standing.set_down(outcome.is_err(), now_ms));
        match outcome {
            Ok(()) => error_log::log(&message::MEMBER_UP, format_args!("{}", self.member.backend)),
            Err(reason) => error_log::log(
                &message::MEMBER_DOWN,
                format_args!("{}: {reason}", self.member.backend),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::{BackendAddress, Protocol, Tuning};

    fn patient(passes: u32, fails: u32) -> Patient {
        let member = Member::new(
            Backend::new(Protocol::Http1, BackendAddress::Unix("/nowhere".into())),
            Tuning::default(),
        );
        let check = Arc::new(HealthCheck {
            passes,
            fails,
            ..HealthCheck::default()
        });
        let standings = RefCell::new(vec![member.state.clone()]);
        let pool = Rc::new(Pool::new(Arc::clone(&member.backend)));
        Patient {
            member,
            pool,
            check,
            standings,
            is_down: Cell::new(false),
            others: Cell::new(0),
            task: RefCell::default(),
        }
    }

    #[test]
    fn so_many_in_a_row() {
        let patient = patient(2, 3);
        let rows = [
            (false, false),
            (false, false),
            (true, false),
            (false, false),
            (false, false),
            (false, true),
            (true, true),
            (false, true),
            (true, true),
            (true, false),
        ];
        for (at, (is_well, is_down)) in rows.into_iter().enumerate() {
            patient.note(if is_well { Ok(()) } else { Err("no".into()) });
            assert_eq!(patient.member.state.is_down(), is_down, "row {at}");
        }
    }
}
