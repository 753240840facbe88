//! Reverse DNS with forward confirmation, for clients that claim to be a search engine's robot.
//!
//! Called by: bot verification, through [`NameServer`].
//! Caveat: any client can trigger lookups by its User-Agent, so few queries run at a time, each
//! has a time limit, and only the first names of an address are checked. Truncated answers are
//! queried again over TCP.

use saker_abuse::{Confirmed, NameServer, bot_names};
use saker_dns::{Question, ask, server_of};
use saker_pipeline::LocalFuture;
use std::{
    cell::Cell,
    fs,
    net::{IpAddr, SocketAddr},
    rc::Rc,
};

/// Maximum number of concurrent look-ups per worker.
const UNDER_WAY_MAX: u32 = 32;
const NAMES_MAX: usize = 4;

/// Queries over a fresh socket each, so that the source port is unpredictable.
#[derive(Clone, Debug, Default)]
pub struct ReverseDns {
    under_way: Rc<Cell<u32>>,
}

impl NameServer for ReverseDns {
    fn confirmed_names(
        &self,
        address: IpAddr,
        domains: Vec<String>,
        server: Option<SocketAddr>,
    ) -> LocalFuture<'static, Confirmed> {
        let under_way = Rc::clone(&self.under_way);
        Box::pin(async move {
            if under_way.get() >= UNDER_WAY_MAX {
                return Confirmed::Unknown;
            }
            let _place = QueryPermit::take(&under_way);
            confirmed(address, &domains, server)
                .await
                .map_or(Confirmed::Unknown, Confirmed::Names)
        })
    }
}

/// Released even if the client disconnects.
struct QueryPermit(Rc<Cell<u32>>);

impl QueryPermit {
    fn take(under_way: &Rc<Cell<u32>>) -> QueryPermit {
        under_way.set(under_way.get() + 1);
        QueryPermit(Rc::clone(under_way))
    }
}

impl Drop for QueryPermit {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Returns the confirmed names; `None`: the lookup failed.
async fn confirmed(
    address: IpAddr,
    domains: &[String],
    server: Option<SocketAddr>,
) -> Option<Vec<String>> {
    let server = match server {
        Some(server) => server,
        None => SocketAddr::new(
            server_of(&fs::read_to_string("/etc/resolv.conf").ok()?)?,
            53,
        ),
    };
    let names = ask(server, &Question::NamesOf(address)).await?.names;
    let mut confirmed = Vec::new();
    for name in names
        .into_iter()
        .filter(|name| bot_names::is_below(name, domains))
        .take(NAMES_MAX)
    {
        let back = ask(server, &Question::AddressesOf(name.clone(), address)).await?;
        if back.addresses.contains(&address) {
            confirmed.push(name);
        }
    }
    Some(confirmed)
}
