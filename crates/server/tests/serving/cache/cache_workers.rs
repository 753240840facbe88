//! All workers answer the same: random sequences of everything that makes, replaces or takes away a
//! page, on connections of which each worker has some, against a model that is one map.
//!
//! Each worker has pages in memory of its own; what another one has replaced must not live on
//! there. The seed of a run that fails is in its message; `SAKER_SEED` runs that one, and
//! `SAKER_SOAK` as many steps.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // The whole file is tests.

mod origin;
mod pins;

use crate::operate;
use origin::VersionedOrigin;
use pins::{Answer, Pin};
use saker_testkit::{
    Dice, ServerProcess, TempDir, poll,
    saker::Builder,
    saker::{adjustable_clock, advance_clock},
};
use std::{
    collections::{BTreeMap, HashMap},
    env,
    process::Command,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

/// Steps of every sequence.
const STEPS: usize = 60;
const PATIENCE: Duration = Duration::from_secs(60);
const VISITORS: [&str; 3] = [
    "",
    "PHPSESSID=0123456789abcdef0001",
    "PHPSESSID=0123456789abcdef0002",
];

/// The protocol that controls the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Http,
    Lscache,
    /// mod_cache's, in Apache's configuration.
    Apache,
}

/// Parts of a request that select a page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    target: &'static str,
    kind: &'static str,
    visitor: usize,
}

/// Expected state of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Every worker answers with it.
    Version(u64),
    /// The next one who asks makes it.
    Nothing,
    /// At least that version, the same of all workers once nothing is under way.
    AtLeast(u64),
}

struct Server {
    process: ServerProcess,
    dir: TempDir,
    world: Arc<VersionedOrigin>,
    saker: Builder,
    mode: Mode,
    workers: usize,
    /// There is not room for all pages at a time.
    is_small: bool,
}

impl Server {
    /// With this in `[cache]`, where the mode has such a table.
    fn start(mode: Mode, workers: usize, cache: &str) -> Server {
        let dir = TempDir::new("cache-workers").unwrap();
        adjustable_clock(&dir).unwrap();
        let world = VersionedOrigin::listen(&dir.join("origin.sock"), mode);
        let socket = dir.join("origin.sock").display().to_string();
        let saker = match mode {
            Mode::Apache => operate::apache(&apache(&dir, &socket)).workers(workers),
            Mode::Http | Mode::Lscache => {
                operate::native(&native(mode, workers, &dir, &socket, cache))
            }
        };
        let process = saker.start_in(&dir);
        Server {
            process,
            dir,
            world,
            saker,
            mode,
            workers,
            is_small: cache.contains("entries"),
        }
    }

    /// The same folder, the same port (of which keys are made), the same origin, and nothing in
    /// memory.
    fn restart(self) -> Server {
        let Server {
            process,
            dir,
            saker,
            ..
        } = self;
        let saker = saker.at(process.address());
        assert!(process.stop().unwrap().success());
        let process = saker.start_in(&dir);
        Server {
            process,
            dir,
            saker,
            ..self
        }
    }

    fn command(&self, words: &[&str]) {
        let output = Command::new(operate::SAKER)
            .args(words)
            .arg("--state-dir")
            .arg(self.dir.join("state"))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

fn native(mode: Mode, workers: usize, dir: &TempDir, socket: &str, cache: &str) -> String {
    let obeys = if mode == Mode::Lscache {
        "[\"lscache\"]"
    } else {
        "[\"http\", \"lscache\"]"
    };
    format!(
        "[server]\nworkers = {workers}\nstate_dir = \"{}/state\"\n[limits]\nkeep_alive_timeout = \"600s\"\n\
         [cache]\nreserve = 0\n{cache}\n[[listener]]\naddress = \"{{address}}\"\nhttp2 = true\n\
         [[upstream]]\nname = \"app\"\nservers = [\"http+unix:{socket}\"]\n\
         [[site]]\nnames = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = \"app\"\npreserve_host = true\n\
         [site.cache]\nenabled = true\nobey = {obeys}\nobey_client = true\ngrace = \"0s\"\nkey_headers = [\"X-Kind\"]\n",
        dir.display()
    )
}

fn apache(dir: &TempDir, socket: &str) -> String {
    let modules = [
        "mpm_event",
        "authz_core",
        "cache",
        "cache_disk",
        "http2",
        "proxy",
        "proxy_http",
    ];
    let modules: String = modules
        .iter()
        .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
        .collect();
    format!(
        "ServerRoot {0}\n{modules}Listen {{address}}\nServerName localhost\nProtocols h2c http/1.1\nMaxKeepAliveRequests 0\nKeepAliveTimeout 600\nDocumentRoot {0}\n\
         ProxyPreserveHost On\nProxyPass / unix:{socket}|http://localhost/\nCacheEnable disk /\n<Location />\nRequire all granted\n</Location>\n",
        dir.display()
    )
}

struct Run {
    server: Server,
    pins: Vec<Pin>,
    dice: Dice,
    model: BTreeMap<Key, Known>,
    /// Newest version seen of each part of a page, by its origin.
    seen: HashMap<String, u64>,
    log: Vec<String>,
    seed: u64,
}

impl Run {
    fn new(server: Server, seed: u64) -> Run {
        let known = |key: Key| {
            let known = if server.is_small || is_loose(key.target) {
                Known::AtLeast(0)
            } else {
                Known::Nothing
            };
            (key, known)
        };
        Run {
            pins: Pin::all(&server.process, server.workers),
            dice: Dice::new(seed),
            model: keys(server.mode).into_iter().map(known).collect(),
            seen: HashMap::new(),
            log: Vec::new(),
            seed,
            server,
        }
    }

    /// True for pages of which the model only knows that versions never go back.
    fn is_loose(&self, target: &str) -> bool {
        self.server.is_small || is_loose(target)
    }

    /// With connections to the new process.
    fn restart(mut self) -> Run {
        self.log.push("restart".into());
        self.pins.clear();
        let server = self.server.restart();
        Run {
            pins: Pin::all(&server.process, server.workers),
            server,
            ..self
        }
    }

    fn fail(&self, why: &str) -> ! {
        let (mode, workers) = (self.server.mode, self.pins.len());
        panic!(
            "SAKER_SEED={} ({mode:?}, {workers} workers): {why}\nafter:\n{}",
            self.seed,
            self.log.join("\n")
        );
    }

    fn pick(&mut self) -> Key {
        let at = self.dice.below(self.model.len() as u64) as usize;
        self.model.keys().nth(at).unwrap().clone()
    }

    fn send(
        &mut self,
        pin: usize,
        is_http2: bool,
        method: &str,
        key: &Key,
        more: &[(&str, &str)],
    ) -> Answer {
        let mut fields = fields_of(key);
        fields.extend_from_slice(more);
        self.pins[pin].ask(is_http2, method, key.target, &fields)
    }

    /// By a worker of chance.
    fn any(&mut self, method: &str, key: &Key, more: &[(&str, &str)]) -> Answer {
        let (pin, is_http2) = (
            self.dice.below(self.pins.len() as u64) as usize,
            self.dice.below(2) == 0,
        );
        let answer = self.send(pin, is_http2, method, key, more);
        let shown = answer.text.lines().next().unwrap_or_default().to_owned();
        self.log.push(format!(
            "{method} {key:?} {more:?} by worker {pin} (h2: {is_http2}): {} {shown}",
            answer.status
        ));
        answer
    }

    /// All workers, over both protocols, in an order of chance.
    fn everybody(&mut self, key: &Key) -> Vec<Answer> {
        let mut order: Vec<usize> = (0..self.pins.len() * 2).collect();
        (1..order.len())
            .rev()
            .for_each(|at| order.swap(at, self.dice.below(at as u64 + 1) as usize));
        let mut answers = Vec::new();
        for at in order {
            let answer = self.send(at / 2, at % 2 == 0, "GET", key, &[]);
            if answer.status != 200 {
                self.fail(&format!("{key:?}: worker {} answered {answer:?}", at / 2));
            }
            self.judge(key, at / 2, &answer);
            answers.push(answer);
        }
        answers
    }

    /// A replaced version does not come back, on any worker.
    fn judge(&mut self, key: &Key, worker: usize, answer: &Answer) {
        if !answer.text.starts_with("v=") || !answer.text.contains(key.target) {
            self.fail(&format!("{key:?}: worker {worker} answered {answer:?}"));
        }
        for (version, part) in parts(&answer.text) {
            // Of two that are made at a time without being kept, the older one may come last.
            if part.contains("/sometimes/") || part.contains("/no-store/") {
                continue;
            }
            let id = format!(
                "{part} for {}",
                if part.contains("/own/") {
                    VISITORS[key.visitor]
                } else {
                    "all"
                }
            );
            let newest = self.seen.get(&id).copied().unwrap_or(0);
            if version < newest {
                self.fail(&format!("{key:?}: worker {worker} answered with version {version} of `{id}` after {newest} had been seen"));
            }
            self.seen.insert(id, version);
        }
        if key.target.starts_with("/own/") && !answer.text.contains(VISITORS[key.visitor]) {
            self.fail(&format!("{key:?} is somebody else's: {answer:?}"));
        }
    }

    /// Everybody has the same, and what the model says.
    fn check(&mut self, key: &Key) {
        let known = self.model.get(key).copied().unwrap_or(Known::AtLeast(0));
        let (before, asked) = (self.server.world.now(), self.server.world.asked(key.target));
        match known {
            Known::Version(version) => {
                for answer in self.everybody(key) {
                    self.must(
                        version_of(&answer) == version,
                        &format!("{key:?} is {version}, and was answered with {answer:?}"),
                    );
                }
                self.must(
                    self.server.world.asked(key.target) == asked,
                    &format!("{key:?} is there, and the origin was asked"),
                );
            }
            Known::Nothing => {
                let answers = self.everybody(key);
                let version = version_of(&answers[0]);
                self.must(
                    version > before,
                    &format!(
                        "{key:?} is not there, and version {version} was answered after {before}"
                    ),
                );
                self.must(
                    self.server.world.asked(key.target) == asked + 1,
                    &format!("{key:?}: the origin was asked more than once"),
                );
                self.must(
                    answers.iter().all(|answer| *answer == answers[0]),
                    &format!("{key:?}: {}", shown(&answers)),
                );
                self.model.insert(key.clone(), Known::Version(version));
            }
            Known::AtLeast(least) => self.settle(key, least),
        }
        if key.target.starts_with("/esi/") {
            // Its parts are there now, if they were not before.
            for (key, known) in self.model.iter_mut().filter(|(key, _)| is_part(key.target)) {
                if *known == Known::Nothing && (key.visitor == 0 || key.target.starts_with("/own/"))
                {
                    *known = Known::AtLeast(0);
                }
            }
        }
    }

    /// Until all have the same that is new enough.
    fn settle(&mut self, key: &Key, least: u64) {
        let mut last = Vec::new();
        let settled = poll(PATIENCE, || {
            let answers = self.everybody(key);
            let version = version_of(&answers[0]);
            let is_settled = answers
                .iter()
                .all(|answer| *answer == answers[0] && version_of(answer) >= least);
            last = answers;
            is_settled.then_some(version)
        });
        let Some(version) = settled else {
            self.fail(&format!(
                "{key:?}: at least {least} is expected of all: {}",
                shown(&last)
            ));
        };
        let known = if self.is_loose(key.target) {
            Known::AtLeast(version)
        } else {
            Known::Version(version)
        };
        self.model.insert(key.clone(), known);
    }

    fn must(&self, holds: bool, why: &str) {
        if !holds {
            self.fail(why);
        }
    }

    /// Forgets pages that `is_gone` is true of.
    fn forget(&mut self, is_gone: impl Fn(&Key) -> bool) {
        let (next, is_small) = (self.server.world.now() + 1, self.server.is_small);
        for (key, known) in self.model.iter_mut().filter(|(key, _)| is_gone(key)) {
            *known = match is_small || is_loose(key.target) {
                true => Known::AtLeast(if has_order(key.target) { next } else { 0 }),
                false => Known::Nothing,
            };
        }
    }

    fn step(&mut self) {
        let key = self.pick();
        match self.dice.below(20) {
            0..=3 => {}
            4..=8 => self.reload(&key),
            9 => self.only_if_cached(&key),
            10 | 11 => {
                let method = ["POST", "PUT", "DELETE"][self.dice.below(3) as usize];
                self.change(&key, method);
            }
            12 | 13 => self.purge(&key),
            14 => self.purge_by_tag(),
            15 => self.ban(),
            16 => self.refresh(&key),
            17 => self.purge_everything(),
            18 => self.expire(),
            _ => self.together(&key),
        }
        self.check(&key);
        let other = self.pick();
        self.check(&other);
    }

    fn reload(&mut self, key: &Key) {
        if self.server.mode == Mode::Lscache {
            return;
        }
        let is_frozen = self.dice.below(4) == 0;
        self.server
            .world
            .is_frozen
            .store(is_frozen, Ordering::SeqCst);
        let (before, known) = (self.server.world.now(), self.model.get(key).copied());
        let more = [
            ("Cache-Control", "no-cache"),
            ("Cache-Control", "max-age=0"),
            ("Pragma", "no-cache"),
        ];
        let more = more[self.dice.below(more.len() as u64) as usize];
        let answer = self.any("GET", key, &[more]);
        self.server.world.is_frozen.store(false, Ordering::SeqCst);
        let version = version_of(&answer);
        match known {
            Some(Known::Version(there)) if is_frozen => {
                self.must(
                    version == there,
                    &format!("{key:?}: {there} holds, and was answered with {answer:?}"),
                );
            }
            // What is stale may have been said to hold.
            Some(Known::AtLeast(_)) if is_frozen || self.is_loose(key.target) => {
                let least = if has_order(key.target) { version } else { 0 };
                self.model.insert(key.clone(), Known::AtLeast(least));
                return;
            }
            _ => self.must(
                version > before,
                &format!("{key:?}: reloaded after {before}, and answered with {answer:?}"),
            ),
        }
        self.model.insert(key.clone(), Known::Version(version));
    }

    fn only_if_cached(&mut self, key: &Key) {
        if self.server.mode == Mode::Lscache || self.is_loose(key.target) {
            return;
        }
        let known = self.model.get(key).copied();
        let answer = self.any("GET", key, &[("Cache-Control", "only-if-cached")]);
        match known {
            Some(Known::Version(version)) => self.must(
                version_of(&answer) == version,
                &format!("{key:?} is {version}: {answer:?}"),
            ),
            Some(Known::Nothing) => self.must(
                answer.text.contains("504 Gateway Timeout"),
                &format!("{key:?} is not there: {answer:?}"),
            ),
            // It may be there, and stale.
            Some(Known::AtLeast(_)) | None => {}
        }
    }

    /// RFC 9111 section 4.4; with LSCache's fields a POST purges the client's own pages.
    fn change(&mut self, key: &Key, method: &str) {
        let answer = self.any(method, key, &[]);
        self.must(
            answer.status == 200,
            &format!("{method} {key:?}: {answer:?}"),
        );
        let (target, mode, visitor) = (key.target, self.server.mode, key.visitor);
        if mode != Mode::Lscache {
            self.forget(|key| key.target == target);
        } else if method == "POST" {
            self.forget(|key| key.visitor == visitor && key.target.starts_with("/own/"));
        }
        self.esi_may_have_changed();
    }

    fn purge(&mut self, key: &Key) {
        let (target, mode) = (key.target, self.server.mode);
        // A URL's page that is one visitor's is not everybody's to purge.
        if target.starts_with("/own/") {
            return self.purge_by_response(key);
        }
        let answer = match self.dice.below(3) {
            0 if mode == Mode::Lscache => return self.purge_by_response(key),
            _ => self.any("PURGE", key, &[]),
        };
        self.must(answer.status == 200, &format!("{answer:?}"));
        self.forget(|key| key.target == target);
        self.esi_may_have_changed();
    }

    /// An answer says what it purges.
    fn purge_by_response(&mut self, key: &Key) {
        if self.server.mode != Mode::Lscache {
            return;
        }
        let visitor = key.visitor;
        let asking = |target| Key {
            target,
            ..key.clone()
        };
        match self.dice.below(4) {
            0 => {
                self.any("PUT", &asking("/do?purge=tag~red"), &[]);
                self.forget(|key| key.target.starts_with("/tag/"));
            }
            1 => {
                self.any("PUT", &asking("/do?purge=*"), &[]);
                self.forget(|key| !key.target.starts_with("/own/"));
            }
            2 => {
                self.any("PUT", &asking("/do?purge=private,*"), &[]);
                self.forget(|key| key.target.starts_with("/own/") && key.visitor == visitor);
            }
            _ => {
                self.any("PUT", &asking("/do?purge=/plain/0"), &[]);
                self.forget(|key| key.target == "/plain/0");
            }
        }
        self.esi_may_have_changed();
    }

    fn purge_by_tag(&mut self) {
        let key = self.pick();
        let answer = self.any(
            "PURGE",
            &Key { target: "/", ..key },
            &[("Surrogate-Key", "blue red")],
        );
        self.must(answer.status == 200, &format!("{answer:?}"));
        self.forget(|key| key.target.starts_with("/tag/"));
        self.esi_may_have_changed();
    }

    fn ban(&mut self) {
        let key = self.pick();
        let answer = self.any(
            "BAN",
            &Key { target: "/", ..key },
            &[("X-Ban", "req.url ~ ^/(plain|vary)/")],
        );
        self.must(answer.status == 200, &format!("{answer:?}"));
        self.forget(|key| key.target.starts_with("/plain/") || key.target.starts_with("/vary/"));
    }

    /// Stale from now on, and regenerated for the first request.
    fn refresh(&mut self, key: &Key) {
        if is_loose(key.target) || key.target.starts_with("/own/") {
            return;
        }
        let next = self.server.world.now() + 1;
        let answer = self.any("REFRESH", key, &[]);
        self.must(answer.status == 200, &format!("{answer:?}"));
        let target = key.target;
        for (_, known) in self
            .model
            .iter_mut()
            .filter(|(key, _)| key.target == target)
        {
            *known = Known::AtLeast(next);
        }
        self.esi_may_have_changed();
    }

    fn purge_everything(&mut self) {
        self.log.push("saker purge --all".into());
        self.server.command(&["purge", "--all"]);
        // Private pages are everything, too.
        self.forget(|key| !key.target.starts_with("/own/"));
        let next = self.server.world.now() + 1;
        for (key, known) in &mut self.model {
            if key.target.starts_with("/own/") || key.target.starts_with("/esi/") {
                *known = Known::AtLeast(if key.target.starts_with("/own/") {
                    0
                } else {
                    next
                });
            }
        }
    }

    /// Short lives end.
    fn expire(&mut self) {
        if self.server.mode == Mode::Lscache
            || self.log.iter().filter(|line| *line == "expired").count() > 1
        {
            return;
        }
        self.log.push("expired".into());
        let next = self.server.world.now() + 1;
        advance_clock(&self.server.dir, 3).unwrap();
        for (key, known) in &mut self.model {
            if key.target.starts_with("/short/") || key.target.starts_with("/swr/") {
                *known = Known::AtLeast(next);
            }
        }
    }

    /// Its content follows from its parts.
    fn esi_may_have_changed(&mut self) {
        for (key, known) in &mut self.model {
            if let (true, Known::Version(version)) = (key.target.starts_with("/esi/"), *known) {
                *known = Known::AtLeast(version);
            }
        }
    }

    /// All workers at once, with an origin that is slow, so that what began first ends last.
    fn together(&mut self, key: &Key) {
        self.log.push(format!("together: {key:?}"));
        let (world, mode) = (Arc::clone(&self.server.world), self.server.mode);
        world.is_slow.store(true, Ordering::SeqCst);
        let orders: Vec<Vec<u64>> = self
            .pins
            .iter()
            .map(|_| (0..4).map(|_| self.dice.below(8)).collect())
            .collect();
        // What was asked of the origin before a purge was sent is not served after it.
        let floors: Vec<u64> = thread::scope(|scope| {
            let work = self.pins.iter_mut().zip(orders).map(|(pin, order)| {
                let world = Arc::clone(&world);
                scope.spawn(move || {
                    order
                        .into_iter()
                        .map(|what| one_of_many(pin, key, mode, what, &world))
                        .max()
                        .unwrap_or(0)
                })
            });
            let work: Vec<_> = work.collect();
            work.into_iter().map(|one| one.join().unwrap()).collect()
        });
        world.is_slow.store(false, Ordering::SeqCst);
        let least = if has_order(key.target) {
            floors.into_iter().max().unwrap_or(0)
        } else {
            0
        };
        // Who saw what while it went on is not known.
        let newest = std::mem::take(&mut self.seen);
        let target = key.target;
        for (key, known) in self
            .model
            .iter_mut()
            .filter(|(key, _)| key.target == target || key.target.starts_with("/esi/"))
        {
            *known = Known::AtLeast(if key.target == target { least } else { 0 });
        }
        self.seen = newest
            .into_iter()
            .filter(|(part, _)| !part.contains(target))
            .collect();
        if target.starts_with("/esi/") {
            self.model
                .iter_mut()
                .filter(|(key, _)| is_part(key.target))
                .for_each(|(_, known)| *known = Known::AtLeast(0));
        }
        self.esi_may_have_changed();
    }
}

/// Included by others.
fn is_part(target: &str) -> bool {
    target == "/tag/0" || target == "/own/0"
}

/// The version that has to be exceeded afterwards, or 0.
fn one_of_many(pin: &mut Pin, key: &Key, mode: Mode, what: u64, world: &VersionedOrigin) -> u64 {
    let is_http2 = what.is_multiple_of(2);
    let (method, more): (&str, &[(&str, &str)]) = match what {
        0..=2 => ("GET", &[]),
        3..=5 => ("GET", &[("Cache-Control", "no-cache")]),
        6 if mode != Mode::Lscache => ("POST", &[]),
        _ if key.target.starts_with("/own/") => ("GET", &[]),
        _ => ("PURGE", &[]),
    };
    let before = world.now();
    let fields: Vec<(&str, &str)> = fields_of(key)
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    let answer = pin.ask(is_http2, method, key.target, &fields);
    assert_eq!(answer.status, 200, "{method} {key:?} {more:?}: {answer:?}");
    if method == "GET" { 0 } else { before + 1 }
}

fn fields_of(key: &Key) -> Vec<(&'static str, &'static str)> {
    let mut fields = Vec::new();
    fields.extend((!key.kind.is_empty()).then_some(("X-Kind", key.kind)));
    fields.extend((key.visitor > 0).then_some(("Cookie", VISITORS[key.visitor])));
    fields
}

/// Pages of which the model knows no more than that they get newer.
fn is_loose(target: &str) -> bool {
    ["/turn/", "/short/", "/swr/", "/sometimes/", "/esi/"]
        .iter()
        .any(|word| target.starts_with(word))
}

/// Answers that are not kept leave older ones in their places.
fn has_order(target: &str) -> bool {
    !target.starts_with("/sometimes/")
}

fn keys(mode: Mode) -> Vec<Key> {
    let key = |target| Key {
        target,
        kind: "",
        visitor: 0,
    };
    let kinds = |target| {
        ["", "a", "b"].map(|kind| Key {
            kind,
            ..key(target)
        })
    };
    let mut keys = [
        "/plain/0",
        "/plain/1?q=1",
        "/large/0",
        "/large/chunked",
        "/tag/0",
        "/tag/1",
    ]
    .map(key)
    .to_vec();
    keys.extend(kinds("/vary/0"));
    match mode {
        Mode::Http | Mode::Apache => {
            keys.extend(["/short/0", "/sometimes/0"].map(key));
            keys.extend((mode == Mode::Http).then(|| key("/swr/0")));
            keys.extend(kinds("/turn/0"));
        }
        Mode::Lscache => {
            keys.extend([1, 2].map(|visitor| Key {
                visitor,
                ..key("/own/0")
            }));
            keys.extend([1, 2].map(|visitor| Key {
                visitor,
                ..key("/esi/0")
            }));
        }
    }
    keys
}

fn version_of(answer: &Answer) -> u64 {
    parts(&answer.text)
        .first()
        .map_or(0, |(version, _)| *version)
}

/// Versions with what they are of.
fn parts(text: &str) -> Vec<(u64, String)> {
    let part = |rest: &str| {
        let (version, rest) = rest.split_once(' ')?;
        Some((
            version.parse().ok()?,
            rest.lines().next().unwrap_or_default().to_owned(),
        ))
    };
    text.split("v=").skip(1).filter_map(part).collect()
}

fn shown(answers: &[Answer]) -> String {
    answers
        .iter()
        .map(|answer| answer.text.lines().next().unwrap_or_default().to_owned() + "; ")
        .collect()
}

fn steps() -> usize {
    env::var("SAKER_SOAK")
        .ok()
        .and_then(|text| text.parse::<usize>().ok())
        .map_or(STEPS, |requests| requests / 200)
}

fn run(mode: Mode, workers: usize, cache: &str, seed: u64) {
    let seed = env::var("SAKER_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(seed);
    let mut run = Run::new(Server::start(mode, workers, cache), seed);
    (0..steps()).for_each(|_| run.step());
    // What lies on the disk is what everybody has, by another process, too.
    let mut run = run.restart();
    let keys: Vec<Key> = run.model.keys().cloned().collect();
    keys.iter().for_each(|key| run.check(key));
    (0..steps() / 4).for_each(|_| run.step());
}

#[test]
fn two_workers_by_http() {
    let _turn = saker_testkit::heavy();
    run(Mode::Http, 2, "", 11);
}

#[test]
fn eight_workers_by_http() {
    let _turn = saker_testkit::heavy();
    run(Mode::Http, 8, "", 12);
}

/// No worker has room for more than a page or two.
#[test]
fn eight_workers_with_hardly_any_memory() {
    let _turn = saker_testkit::heavy();
    run(Mode::Http, 8, "memory = \"64KiB\"", 13);
}

/// Nor is there room on the disk.
#[test]
fn two_workers_with_few_entries() {
    let _turn = saker_testkit::heavy();
    run(Mode::Http, 2, "entries = 5", 16);
}

#[test]
fn three_workers_by_lscache() {
    let _turn = saker_testkit::heavy();
    run(Mode::Lscache, 3, "", 14);
}

#[test]
fn four_workers_by_mod_cache() {
    let _turn = saker_testkit::heavy();
    run(Mode::Apache, 4, "", 15);
}
