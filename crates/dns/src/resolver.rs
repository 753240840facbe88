//! Names of a worker with their addresses, which hold as long as the answers say.
//!
//! Called by: front ends, for each request or session whose upstream has a name.
//! Caveat: all that need a name at once wait for one lookup. Answers that a name does not exist are
//! not kept, so a name that appears is found at once.
//! Out of scope: which request needs a name, and what follows if it has no address.

use crate::{
    exchange::ask_server,
    message::{Answer, NAME_ERROR, Question, ServiceServer},
};
use foldhash::fast::RandomState;
use saker_net::clock;
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, time};

/// Names that a worker knows; beyond that those that are over are forgotten, or all.
const NAMES_MAX: usize = 1024;
/// Lookups of a worker at once.
const LOOKUPS_MAX: u32 = 256;
/// Names that are asked for because the last one is another's alias.
const ALIASES_MAX: usize = 8;
/// Addresses of a name, and servers of a service, that are used.
const ADDRESSES_MAX: usize = 64;
/// Time for one query, after which the next server is asked.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause when no server could be reached.
const PAUSE: Duration = Duration::from_millis(500);
/// Time after which a lookup ends.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(30);

/// Name servers, and the way they are asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NameServers {
    /// Asked in turn. Never empty.
    pub servers: Vec<SocketAddr>,
    /// Replaces the lifetimes of answers.
    pub valid_ms: Option<u64>,
    pub ipv4: bool,
    pub ipv6: bool,
}

/// A name to be looked up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Lookup {
    Addresses(Box<str>),
    /// Servers of a service, by its full name.
    Service(Box<str>),
}

/// An address of a name. `port`, `priority`, and `weight` are those of a service's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resolved {
    pub ip: IpAddr,
    pub port: Option<u16>,
    pub priority: u16,
    pub weight: u16,
}

/// The reason why a name has no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// The response code of a server (RFC 1035 section 4.1.1); 3: there is no such name.
    Code(u8),
    Timeout,
    /// Too many lookups are under way.
    Busy,
}

/// Number and text, as nginx's log has them.
impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (code, text) = match self {
            LookupError::Code(1) => (1, "Format error"),
            LookupError::Code(2) => (2, "Server failure"),
            LookupError::Code(3) => (3, "Host not found"),
            LookupError::Code(4) => (4, "Unimplemented"),
            LookupError::Code(5) => (5, "Operation refused"),
            LookupError::Code(code) => (*code, "Unknown error"),
            LookupError::Timeout => (110, "Operation timed out"),
            LookupError::Busy => (2, "Too many lookups"),
        };
        write!(f, "{code}: {text}")
    }
}

type Outcome = Result<Rc<[Resolved]>, LookupError>;
type Key = (Arc<NameServers>, Lookup);

struct Known {
    addresses: Rc<[Resolved]>,
    until_ms: u64,
}

/// The names of a worker.
#[derive(Default)]
pub struct Resolver {
    known: RefCell<HashMap<Key, Known, RandomState>>,
    asking: RefCell<HashMap<Key, watch::Receiver<Option<Shared>>, RandomState>>,
    under_way: Cell<u32>,
    /// The server that is asked first next time.
    turn: Cell<usize>,
}

/// An outcome that threads could share, as the channel demands.
type Shared = Result<Arc<[Resolved]>, LookupError>;

impl Resolver {
    /// Returns the addresses that are known and hold still.
    pub fn fresh(&self, servers: &Arc<NameServers>, lookup: &Lookup) -> Option<Rc<[Resolved]>> {
        let known = self.known.borrow();
        let found = known.get(&(Arc::clone(servers), lookup.clone()))?;
        (clock::monotonic_ms() < found.until_ms).then(|| Rc::clone(&found.addresses))
    }

    /// Returns the time for which the addresses that are known hold still, in milliseconds.
    pub fn fresh_for_ms(&self, servers: &Arc<NameServers>, lookup: &Lookup) -> Option<u64> {
        let known = self.known.borrow();
        let found = known.get(&(Arc::clone(servers), lookup.clone()))?;
        found.until_ms.checked_sub(clock::monotonic_ms())
    }

    /// Forgets a name, so that it is asked for again.
    pub fn forget(&self, servers: &Arc<NameServers>, lookup: &Lookup) {
        let key = (Arc::clone(servers), lookup.clone());
        self.known.borrow_mut().remove(&key);
    }

    /// Returns the addresses that were found last, whether they hold or not.
    pub fn last(&self, servers: &Arc<NameServers>, lookup: &Lookup) -> Option<Rc<[Resolved]>> {
        let known = self.known.borrow();
        let found = known.get(&(Arc::clone(servers), lookup.clone()))?;
        Some(Rc::clone(&found.addresses))
    }

    /// Returns the addresses of a name, or of the servers of a service. `limit`: the longest wait.
    ///
    /// # Errors
    /// There are none, or no server says so in time.
    pub async fn look_up(
        self: &Rc<Self>,
        servers: &Arc<NameServers>,
        lookup: &Lookup,
        limit: Duration,
    ) -> Outcome {
        if let Some(found) = self.fresh(servers, lookup) {
            return Ok(found);
        }
        let mut outcome = self.outcome(servers, lookup)?;
        let settled = time::timeout(limit, outcome.wait_for(Option::is_some)).await;
        match settled {
            Ok(Ok(settled)) => match &*settled {
                Some(Ok(found)) => Ok(found.iter().copied().collect()),
                Some(Err(error)) => Err(*error),
                None => Err(LookupError::Timeout),
            },
            Ok(Err(_)) | Err(_) => Err(LookupError::Timeout),
        }
    }

    /// Returns the outcome of a lookup that is under way, or of a new one.
    fn outcome(
        self: &Rc<Self>,
        servers: &Arc<NameServers>,
        lookup: &Lookup,
    ) -> Result<watch::Receiver<Option<Shared>>, LookupError> {
        let key = (Arc::clone(servers), lookup.clone());
        if let Some(outcome) = self.asking.borrow().get(&key) {
            return Ok(outcome.clone());
        }
        if self.under_way.get() >= LOOKUPS_MAX {
            return Err(LookupError::Busy);
        }
        let (sender, outcome) = watch::channel(None);
        self.asking
            .borrow_mut()
            .insert(key.clone(), outcome.clone());
        self.under_way.set(self.under_way.get() + 1);
        let resolver = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let (servers, lookup) = &key;
            let asked = time::timeout(LOOKUP_TIMEOUT, resolver.run(servers, lookup)).await;
            let found = asked.unwrap_or(Err(LookupError::Timeout));
            let shared = match found {
                Ok((addresses, ttl_s)) => {
                    let ttl_ms = u64::from(ttl_s).saturating_mul(1000);
                    let ttl_ms = servers.valid_ms.unwrap_or(ttl_ms);
                    let until_ms = clock::monotonic_ms().saturating_add(ttl_ms);
                    resolver.keep(key.clone(), addresses[..].into(), until_ms);
                    Ok(addresses.into())
                }
                Err(error) => Err(error),
            };
            resolver.asking.borrow_mut().remove(&key);
            resolver.under_way.set(resolver.under_way.get() - 1);
            sender.send_replace(Some(shared));
        });
        Ok(outcome)
    }

    fn keep(&self, key: Key, addresses: Rc<[Resolved]>, until_ms: u64) {
        let mut known = self.known.borrow_mut();
        if known.len() >= NAMES_MAX && !known.contains_key(&key) {
            let now_ms = clock::monotonic_ms();
            known.retain(|_, known| known.until_ms > now_ms);
            if known.len() >= NAMES_MAX {
                known.clear();
            }
        }
        let found = Known {
            addresses,
            until_ms,
        };
        known.insert(key, found);
    }

    /// Asks for what a lookup needs; with the seconds for which it holds.
    async fn run(
        &self,
        servers: &NameServers,
        lookup: &Lookup,
    ) -> Result<(Vec<Resolved>, u32), LookupError> {
        match lookup {
            Lookup::Addresses(name) => {
                let (found, ttl_s) = self.addresses(servers, name).await?;
                let plain = |ip| Resolved {
                    ip,
                    port: None,
                    priority: 0,
                    weight: 1,
                };
                Ok((found.into_iter().map(plain).collect(), ttl_s))
            }
            Lookup::Service(name) => self.service(servers, name).await,
        }
    }

    /// The addresses of the servers of a service. Those without an address are left out; if that
    /// leaves none, and a lookup of an address failed, so does this one.
    async fn service(
        &self,
        servers: &NameServers,
        name: &str,
    ) -> Result<(Vec<Resolved>, u32), LookupError> {
        let question = Question::ServersOf(name.to_owned());
        let answer = self.ask(servers, question, Question::ServersOf).await?;
        let mut ttl_s = answer.ttl_s.unwrap_or(0);
        let (mut all, mut error) = (Vec::new(), LookupError::Code(NAME_ERROR));
        for server in answer.servers.into_iter().take(ADDRESSES_MAX) {
            let ServiceServer {
                priority,
                weight,
                port,
                host,
            } = server;
            let (found, own_ttl_s) = match self.addresses(servers, &host).await {
                Ok(found) => found,
                Err(LookupError::Code(NAME_ERROR)) => continue,
                Err(failed) => {
                    error = failed;
                    continue;
                }
            };
            ttl_s = ttl_s.min(own_ttl_s);
            all.extend(found.into_iter().map(|ip| Resolved {
                ip,
                port: Some(port),
                priority,
                weight: weight.max(1),
            }));
        }
        match all.is_empty() {
            true => Err(error),
            false => Ok((all, ttl_s)),
        }
    }

    /// The addresses of a name, of both kinds; with the seconds for which they hold.
    async fn addresses(
        &self,
        servers: &NameServers,
        name: &str,
    ) -> Result<(Vec<IpAddr>, u32), LookupError> {
        let of_kind = async |is_wanted: bool, kind: IpAddr| match is_wanted {
            false => Ok(None),
            true => {
                let with = |name| Question::AddressesOf(name, kind);
                self.ask(servers, with(name.to_owned()), with)
                    .await
                    .map(Some)
            }
        };
        let (four, six) = tokio::join!(
            of_kind(servers.ipv4, Ipv4Addr::UNSPECIFIED.into()),
            of_kind(servers.ipv6, Ipv6Addr::UNSPECIFIED.into()),
        );
        let mut error = LookupError::Code(NAME_ERROR);
        let (mut all, mut ttl_s) = (Vec::new(), u32::MAX);
        for answer in [four, six] {
            match answer {
                Ok(None) => {}
                Ok(Some(answer)) => {
                    ttl_s = ttl_s.min(answer.ttl_s.unwrap_or(u32::MAX));
                    all.extend(answer.addresses);
                }
                Err(LookupError::Code(NAME_ERROR)) => {}
                Err(failed) => error = failed,
            }
        }
        all.truncate(ADDRESSES_MAX);
        match all.is_empty() {
            true => Err(error),
            false => Ok((all, ttl_s)),
        }
    }

    /// Asks a question, and again for the names that aliases lead to.
    async fn ask(
        &self,
        servers: &NameServers,
        mut question: Question,
        with: impl Fn(String) -> Question,
    ) -> Result<Answer, LookupError> {
        let mut ttl_s = u32::MAX;
        for _ in 0..ALIASES_MAX {
            let answer = self.ask_in_turn(servers, &question).await?;
            ttl_s = ttl_s.min(answer.ttl_s.unwrap_or(u32::MAX));
            match answer {
                Answer {
                    alias: Some(alias), ..
                } => question = with(alias),
                answer if answer.ttl_s.is_none() => break,
                answer => {
                    return Ok(Answer {
                        ttl_s: Some(ttl_s),
                        ..answer
                    });
                }
            }
        }
        Err(LookupError::Code(NAME_ERROR))
    }

    /// Asks one server after the other, until one knows. One that could not find out is believed only
    /// if all others can't either. The caller limits the time.
    async fn ask_in_turn(
        &self,
        servers: &NameServers,
        question: &Question,
    ) -> Result<Answer, LookupError> {
        let first = self.turn.get();
        self.turn.set(first.wrapping_add(1));
        loop {
            let (mut code, mut is_refused) = (None, true);
            for at in 0..servers.servers.len() {
                let number = first.wrapping_add(at) % servers.servers.len().max(1);
                let Some(server) = servers.servers.get(number) else {
                    continue;
                };
                match ask_server(*server, question, QUERY_TIMEOUT).await {
                    Ok(answer) if answer.failed() => code = Some(answer.code),
                    Ok(answer) if answer.code == NAME_ERROR && answer.alias.is_none() => {
                        return Err(LookupError::Code(NAME_ERROR));
                    }
                    Ok(answer) => return Ok(answer),
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                        return Err(LookupError::Code(NAME_ERROR));
                    }
                    Err(error) => is_refused &= error.kind() != io::ErrorKind::TimedOut,
                }
            }
            match code {
                Some(code) => return Err(LookupError::Code(code)),
                None if is_refused => time::sleep(PAUSE).await,
                None => {}
            }
        }
    }
}
