//! Listening sockets of the process, bound by the main thread, one descriptor per worker.
//!
//! Called by: the start and each reload.
//! Caveat: TCP sockets share an address by SO_REUSEPORT, so that the kernel distributes
//! connections; Unix sockets and sockets passed by systemd exist once, and each worker gets a
//! duplicate.

use super::{
    inheritance::Inherited,
    listener_sockets::{
        beside, duplicates, failure, has_ipv4_twin, is_spare, patiently, tcp_sockets,
    },
    succession::Predecessor,
};
use saker_config::model::{Address, DatagramListener, Listener};
use saker_net::{
    Bind, BindOptions, BoundSocket, BoundUdp, LocalAddress, UdpOptions,
    steering::{self, Share},
};
use saker_telemetry::{error_log, message};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

#[derive(Default)]
pub struct Listeners {
    /// Sockets from systemd. Kept even if the configuration does not name them: a later one may.
    activated: HashMap<Address, BoundSocket>,
    bound: Vec<Bound>,
    quic: Vec<BoundQuic>,
    datagrams: Vec<BoundQuic>,
    /// Set at the start: the predecessor whose addresses are shared.
    predecessor: Option<Predecessor>,
    /// The running server that this one takes over from, until it has ended.
    inherited: Option<Inherited>,
}

/// UDP sockets of a listener with HTTP/3, or of a stream's address.
struct BoundQuic {
    address: Arc<Address>,
    /// Sockets, one per worker, until handed out.
    sockets: Vec<BoundUdp>,
    /// Duplicates of all of them, for a successor.
    kept: Vec<BoundUdp>,
    /// Place of the first worker's socket in the kernel's group ([`Share`]).
    turned: usize,
}

struct Bound {
    /// The configured address, by which sites and drivers know the listener.
    address: Arc<Address>,
    /// Differs where the configuration left the port to the kernel.
    actual: Address,
    /// Sockets, one per worker, until handed out.
    sockets: Vec<BoundSocket>,
    /// Duplicates of all different ones, for a successor.
    kept: Vec<BoundSocket>,
    /// Kept for its file, which is removed at the end.
    unix: Option<BoundSocket>,
    /// The same while the file is still another server's.
    lent_unix: Option<BoundSocket>,
    /// The configuration has an address in its place that covers this one: its connections are that
    /// listener's. Closing the socket would cut those that are on their way.
    is_part: bool,
}

/// Duplicates of the sockets, and the sockets.
fn kept(sockets: Vec<BoundUdp>) -> io::Result<(Vec<BoundUdp>, Vec<BoundUdp>)> {
    let kept = sockets.iter().map(BoundUdp::try_clone);
    Ok((kept.collect::<io::Result<_>>()?, sockets))
}

impl Listeners {
    /// Called at the start: takes over the sockets of systemd and of a predecessor, and binds the
    /// rest.
    pub fn open(
        (listeners, datagrams): (&[Listener], &[DatagramListener]),
        workers: usize,
        predecessor: Option<Predecessor>,
        inherited: Option<Inherited>,
    ) -> Result<Listeners, String> {
        let mut all = Listeners {
            predecessor,
            inherited,
            ..Listeners::default()
        };
        all.adopt_activated();
        all.bind_all(listeners, workers)?;
        all.bind_quic(listeners, workers);
        all.bind_datagrams(datagrams, workers)?;
        all.report_unclaimed();
        Ok(all)
    }

    pub fn has_predecessor(&self) -> bool {
        self.predecessor.is_some()
    }

    /// Ends sharing: from now on addresses are this server's alone.
    pub fn take_predecessor(&mut self) -> Option<Predecessor> {
        self.predecessor.take()
    }

    pub fn has_inherited(&self) -> bool {
        self.inherited.is_some()
    }

    /// The running server that this one takes over from.
    pub fn inherited(&self) -> Option<&Inherited> {
        self.inherited.as_ref()
    }

    pub fn inherited_mut(&mut self) -> Option<&mut Inherited> {
        self.inherited.as_mut()
    }

    /// Adds what a successor takes over to an answer: addresses with the numbers of their sockets,
    /// and the sockets in the same order.
    pub fn offer(&self, answer: &mut Value, descriptors: &mut Vec<OwnedFd>) -> io::Result<()> {
        let mut add = |socket: &dyn AsFd| -> io::Result<()> {
            descriptors.push(socket.as_fd().try_clone_to_owned()?);
            Ok(())
        };
        let (mut listeners, mut quic, mut datagrams) = (Vec::new(), Vec::new(), Vec::new());
        for bound in self.whole() {
            // With those of its parts, so that none is closed.
            let all: Vec<&Bound> = std::iter::once(bound)
                .chain(
                    self.bound
                        .iter()
                        .filter(|one| one.is_part && bound.address.covers(&one.address)),
                )
                .collect();
            let mut sockets = all.iter().flat_map(|one| &one.kept);
            sockets.try_for_each(|socket| add(socket))?;
            let count: usize = all.iter().map(|one| one.kept.len()).sum();
            listeners.push(json!({ "address": bound.address.to_string(), "sockets": count }));
        }
        self.activated.values().try_for_each(|socket| add(socket))?;
        for bound in &self.quic {
            bound.kept.iter().try_for_each(|socket| add(socket))?;
            quic.push(json!({
                "address": bound.address.to_string(), "sockets": bound.kept.len(), "turned": bound.turned,
            }));
        }
        for bound in &self.datagrams {
            bound.kept.iter().try_for_each(|socket| add(socket))?;
            datagrams
                .push(json!({ "address": bound.address.to_string(), "sockets": bound.kept.len() }));
        }
        answer["datagrams"] = Value::Array(datagrams);
        answer["listeners"] = Value::Array(listeners);
        answer["activated"] = json!(self.activated.len());
        answer["quic"] = Value::Array(quic);
        Ok(())
    }

    /// The files of Unix sockets are a successor's.
    pub fn give_files(&mut self) {
        self.bound.iter_mut().for_each(|bound| bound.unix = None);
    }

    /// The files of Unix sockets that another server had are this one's.
    pub fn take_files(&mut self) {
        for bound in &mut self.bound {
            let lent = bound.lent_unix.take();
            bound.unix = lent.or(bound.unix.take());
        }
    }

    /// Has the kernel lead packets of new connections here, and those of the running server's
    /// connections to it.
    pub fn lead_beside(&self, workers: usize) {
        let Some((inherited, tag)) = self
            .inherited
            .as_ref()
            .and_then(|inherited| Some((inherited, inherited.tag?)))
        else {
            return;
        };
        for bound in &self.quic {
            if let (Some(earlier), Some(socket)) =
                (inherited.quic_of(&bound.address), bound.kept.first())
            {
                // Where the kernel can't, packets of new connections go to the other server, which
                // answers none: clients come by TCP.
                let _ = steering::lead_beside(socket, earlier.share, tag, workers);
            }
        }
    }

    /// The server before this one has ended: UDP ports are this one's alone. Returns what could not
    /// be shared, and has been bound now.
    pub fn end_inheritance(&mut self, listeners: &[Listener], workers: usize) -> Vec<Arc<Address>> {
        let Some(inherited) = self.inherited.take() else {
            return Vec::new();
        };
        for mut earlier in inherited.quic {
            steering::close_in_order(&mut earlier.sockets, earlier.share);
            let bound = self
                .quic
                .iter_mut()
                .find(|bound| bound.address.to_string() == earlier.address);
            if let Some(bound) = bound {
                bound.turned = steering::first_number(earlier.share.sockets, bound.kept.len());
                let share = Share {
                    sockets: bound.kept.len(),
                    turned: bound.turned,
                };
                if let Some(socket) = bound.kept.first() {
                    let _ = steering::lead_alone(socket, share);
                }
            }
        }
        self.bind_quic(listeners, workers)
    }

    /// Adopts the sockets of a socket unit; they are used for listeners with the same addresses.
    fn adopt_activated(&mut self) {
        let inherited = self
            .inherited
            .as_mut()
            .map(Inherited::take_activated)
            .unwrap_or_default();
        let inherited = inherited
            .into_iter()
            .filter_map(|socket| BoundSocket::adopt(socket, None).ok());
        for socket in saker_net::systemd::activated_sockets()
            .into_iter()
            .chain(inherited)
        {
            match socket.local_address() {
                Ok(LocalAddress::Ip(address)) => {
                    drop(self.activated.insert(Address::Tcp(address), socket))
                }
                Ok(LocalAddress::Unix(path)) => {
                    drop(self.activated.insert(Address::Unix(path), socket))
                }
                Err(error) => error_log::log(
                    &message::LISTENER_FAILED,
                    format_args!("socket activation: {error}"),
                ),
            }
        }
    }

    /// Binds new addresses, all or none: the error names every address that failed.
    pub fn bind_all(
        &mut self,
        listeners: &[Listener],
        workers: usize,
    ) -> Result<Vec<Arc<Address>>, String> {
        let new: Vec<&Listener> = listeners
            .iter()
            .filter(|listener| !self.has(&listener.address))
            .collect();
        let mut bound = Vec::new();
        let mut failures = Vec::new();
        for listener in new {
            let shares = self.has_part_of(&listener.address, &bound);
            match patiently(|| self.bind(listener, listeners, shares, workers)) {
                Ok(one) => bound.push(one),
                Err(error) if is_spare(listener, listeners, &error) => {
                    error_log::log(
                        &message::CONFIG_WARNING,
                        format_args!("{}: left out, this machine has no IPv6", listener.address),
                    );
                }
                Err(error) => failures.push(failure(listener, &error)),
            }
        }
        if !failures.is_empty() {
            if error_log::speaks_nginx() {
                failures.push("still could not bind()\n".to_owned());
            }
            return Err(failures.concat());
        }
        let added = bound.iter().map(|one| Arc::clone(&one.address)).collect();
        self.bound.extend(bound);
        Ok(added)
    }

    /// Binds what HTTP/3 needs and is not there: on the ports that TCP's sockets really have. A
    /// failure is said and costs HTTP/3 alone, because everything is served over TCP, too, and
    /// other programs may have good reasons to sit on a UDP port.
    pub fn bind_quic(&mut self, listeners: &[Listener], workers: usize) -> Vec<Arc<Address>> {
        let mut added = Vec::new();
        // Packets of connections that a predecessor still has would come here.
        if self.predecessor.is_some() {
            return added;
        }
        for listener in listeners.iter().filter(|listener| listener.http3.is_some()) {
            let Some(bound) = self
                .bound
                .iter()
                .find(|one| *one.address == listener.address && !self.has_quic(&one.address))
            else {
                continue;
            };
            let Address::Tcp(actual) = bound.actual else {
                continue;
            };
            let actual_address = Address::Tcp(actual);
            let options = UdpOptions {
                v6_only: has_ipv4_twin(&actual, listeners),
                shares: self.quic.iter().any(|one| {
                    one.address.covers(&actual_address) || actual_address.covers(&one.address)
                }),
                ..UdpOptions::default()
            };
            let is_shared = self
                .inherited
                .as_ref()
                .is_some_and(|inherited| inherited.quic_of(&bound.address).is_some());
            let sockets = match is_shared {
                true => saker_net::bind_udp_beside(actual, workers, options),
                false => saker_net::bind_udp(actual, workers, options),
            };
            match sockets.and_then(kept) {
                Ok((kept, sockets)) => {
                    added.push(Arc::clone(&bound.address));
                    self.quic.push(BoundQuic {
                        address: Arc::clone(&bound.address),
                        sockets,
                        kept,
                        turned: 0,
                    });
                }
                // Another user's: when that server has ended.
                Err(_) if is_shared => {}
                Err(error) => {
                    let what = format!(
                        "{}: no HTTP/3 on {actual}: {error}; http3 = false says that this is meant",
                        listener.origin
                    );
                    error_log::log(&message::CONFIG_WARNING, format_args!("{what}"));
                }
            }
        }
        added
    }

    /// Binds new UDP addresses of streams, all or none: the error names every one that failed.
    pub fn bind_datagrams(
        &mut self,
        listeners: &[DatagramListener],
        workers: usize,
    ) -> Result<Vec<Arc<Address>>, String> {
        // A predecessor has the sessions of its clients.
        if self.predecessor.is_some() {
            return Ok(Vec::new());
        }
        let (mut bound, mut failures) = (Vec::new(), Vec::new());
        for listener in listeners {
            let address = Address::Tcp(listener.address);
            if self.datagrams.iter().any(|one| *one.address == address) {
                continue;
            }
            let options = UdpOptions {
                v6_only: true,
                steers: false,
                ..UdpOptions::default()
            };
            let inherited = self
                .inherited
                .as_mut()
                .and_then(|inherited| inherited.take_datagrams(&address));
            let sockets = match inherited {
                // The same sockets: each datagram is received by one of the two servers.
                Some(sockets) => Ok(sockets),
                None => saker_net::bind_udp(listener.address, workers, options),
            };
            match sockets.and_then(kept) {
                Ok((kept, sockets)) => bound.push(BoundQuic {
                    address: Arc::new(address),
                    sockets,
                    kept,
                    turned: 0,
                }),
                Err(error) => failures.push(format!(
                    "{}: cannot listen on {} (UDP): {error}\n",
                    listener.origin, listener.address
                )),
            }
        }
        if !failures.is_empty() {
            return Err(failures.concat());
        }
        let added = bound.iter().map(|one| Arc::clone(&one.address)).collect();
        self.datagrams.extend(bound);
        Ok(added)
    }

    /// The UDP sockets of a stream's address, one per worker, to be handed out.
    pub fn take_datagrams(&mut self, address: &Address) -> Vec<BoundUdp> {
        let found = self
            .datagrams
            .iter_mut()
            .find(|one| *one.address == *address);
        found
            .map(|one| std::mem::take(&mut one.sockets))
            .unwrap_or_default()
    }

    /// Forgets the UDP addresses that are not in `keep`, and returns them.
    pub fn remove_all_datagrams_but(&mut self, keep: &[DatagramListener]) -> Vec<Arc<Address>> {
        let stays = |one: &BoundQuic| {
            keep.iter()
                .any(|listener| Address::Tcp(listener.address) == *one.address)
        };
        let (kept, gone): (Vec<BoundQuic>, Vec<BoundQuic>) = std::mem::take(&mut self.datagrams)
            .into_iter()
            .partition(stays);
        self.datagrams = kept;
        gone.into_iter().map(|one| one.address).collect()
    }

    /// The UDP addresses of streams.
    pub fn datagram_addresses(&self) -> Vec<Arc<Address>> {
        let all = self.datagrams.iter();
        all.map(|one| Arc::clone(&one.address)).collect()
    }

    /// The UDP sockets of a listener, one per worker, to be handed out.
    pub fn take_quic(&mut self, address: &Address) -> Vec<BoundUdp> {
        let found = self.quic.iter_mut().find(|one| *one.address == *address);
        found
            .map(|one| std::mem::take(&mut one.sockets))
            .unwrap_or_default()
    }

    /// Removes the listeners that no longer have HTTP/3, and returns them.
    pub fn remove_all_quic_but(&mut self, keep: &[Listener]) -> Vec<Arc<Address>> {
        let stays = |one: &BoundQuic| {
            keep.iter().any(|listener| {
                listener.http3.is_some()
                    && (listener.address == *one.address || listener.address.covers(&one.address))
            })
        };
        let (kept, gone): (Vec<BoundQuic>, Vec<BoundQuic>) =
            std::mem::take(&mut self.quic).into_iter().partition(stays);
        self.quic = kept;
        gone.into_iter().map(|one| one.address).collect()
    }

    pub fn quic_addresses(&self) -> Vec<Arc<Address>> {
        self.quic
            .iter()
            .map(|one| Arc::clone(&one.address))
            .collect()
    }

    /// Returns true if HTTP/3 is served on the address `shown`.
    pub fn has_quic_at(&self, actual: &Address) -> bool {
        self.bound
            .iter()
            .any(|one| one.actual == *actual && self.has_quic(&one.address))
    }

    fn has_quic(&self, address: &Address) -> bool {
        self.quic.iter().any(|one| *one.address == *address)
    }

    /// The sockets of a listener, one per worker, to be handed out. Empty if they were handed out
    /// before.
    pub fn take(&mut self, address: &Address) -> Vec<BoundSocket> {
        let found = self.bound.iter_mut().find(|one| *one.address == *address);
        found
            .map(|one| std::mem::take(&mut one.sockets))
            .unwrap_or_default()
    }

    /// Forgets listeners that are not in `keep`, and returns them. Those of which another listener
    /// has the address now stay as parts of it.
    pub fn remove_all_but(&mut self, keep: &[Listener]) -> Vec<Arc<Address>> {
        for one in &mut self.bound {
            let has = |is: fn(&Address, &Address) -> bool| {
                keep.iter()
                    .any(|listener| is(&listener.address, &one.address))
            };
            one.is_part = !has(|kept, one| kept == one) && has(Address::covers);
        }
        let stays = |one: &Bound| {
            one.is_part || keep.iter().any(|listener| listener.address == *one.address)
        };
        let (kept, gone): (Vec<Bound>, Vec<Bound>) =
            std::mem::take(&mut self.bound).into_iter().partition(stays);
        self.bound = kept;
        gone.iter().map(|one| Arc::clone(&one.address)).collect()
    }

    /// Configured and actual addresses.
    pub fn ways(&self) -> impl Iterator<Item = (Arc<Address>, &Address)> {
        self.whole()
            .map(|one| (Arc::clone(&one.address), &one.actual))
    }

    pub fn addresses(&self) -> Vec<Arc<Address>> {
        self.bound
            .iter()
            .map(|one| Arc::clone(&one.address))
            .collect()
    }

    /// Duplicates of the first socket of each TCP address that is shared with the predecessor. To
    /// be called before the sockets are handed out.
    pub fn shared(&self) -> Vec<BoundSocket> {
        let Some(predecessor) = &self.predecessor else {
            return Vec::new();
        };
        let shared = self
            .bound
            .iter()
            .filter(|one| one.unix.is_none() && predecessor.has(&one.address));
        shared
            .filter_map(|one| one.sockets.first()?.try_clone().ok())
            .collect()
    }

    /// The actual addresses of the listeners, for display.
    pub fn shown(&self) -> Vec<&Address> {
        self.whole().map(|one| &one.actual).collect()
    }

    /// Those that the configuration has.
    fn whole(&self) -> impl Iterator<Item = &Bound> {
        self.bound.iter().filter(|one| !one.is_part)
    }

    /// Reports sockets from systemd that no listener uses; their clients would wait forever.
    fn report_unclaimed(&self) {
        for address in self.activated.keys().filter(|address| !self.has(address)) {
            error_log::log(
                &message::CONFIG_WARNING,
                format_args!(
                    "systemd passed the socket {address}, but no listener of the configuration has this address"
                ),
            );
        }
    }

    fn has(&self, address: &Address) -> bool {
        self.bound.iter().any(|one| *one.address == *address)
    }

    /// Returns true if another listener has a part of the address, or all of it; `new`: bound in
    /// the same reload.
    fn has_part_of(&self, address: &Address, new: &[Bound]) -> bool {
        self.bound
            .iter()
            .chain(new)
            .any(|one| one.actual.covers(address) || address.covers(&one.actual))
    }

    fn bind(
        &mut self,
        listener: &Listener,
        all: &[Listener],
        shares: bool,
        workers: usize,
    ) -> io::Result<Bound> {
        if let Some(socket) = self.activated.get(&listener.address) {
            return Ok(Bound::new(listener, duplicates(socket, workers)?));
        }
        if self.is_part_of_activated(&listener.address) {
            return Ok(Bound::new(listener, Vec::new()));
        }
        if let Some(bound) = self.inherit(listener, workers)? {
            return Ok(bound);
        }
        let mut options = BindOptions {
            backlog: listener.backlog,
            // The server may be the one that speaks first.
            defer_accept: listener.stream.is_none() && listener.defers_accept,
            reuse_port: true,
            v6_only: false,
            shares,
            send_buffer_bytes: listener.send_buffer_bytes,
            receive_buffer_bytes: listener.receive_buffer_bytes,
        };
        match &listener.address {
            Address::Tcp(tcp) => {
                options.v6_only = has_ipv4_twin(tcp, all);
                let sockets = match self
                    .predecessor
                    .as_ref()
                    .filter(|predecessor| predecessor.has(&listener.address))
                {
                    None => tcp_sockets(*tcp, options, workers)?,
                    Some(predecessor) => beside(predecessor, *tcp, options, workers)?,
                };
                let actual = sockets
                    .first()
                    .and_then(|socket| socket.local_address().ok());
                let mut bound = Bound::new(listener, sockets);
                bound.keep()?;
                if let Some(LocalAddress::Ip(address)) = actual {
                    bound.actual = Address::Tcp(address);
                }
                Ok(bound)
            }
            Address::Unix(path) => {
                if self
                    .predecessor
                    .as_ref()
                    .is_some_and(|predecessor| predecessor.has(&listener.address))
                {
                    let _ = std::fs::remove_file(path);
                }
                let socket = saker_net::bind(
                    Bind::Unix(path, listener.mode),
                    BindOptions {
                        reuse_port: false,
                        defer_accept: false,
                        ..options
                    },
                )?;
                let mut bound = Bound::new(listener, duplicates(&socket, workers)?);
                bound.kept = vec![socket.try_clone()?];
                bound.unix = Some(socket);
                Ok(bound)
            }
        }
    }

    /// The sockets of a running server, where it listens on the address: each worker has one, or
    /// several; where there are fewer, workers share.
    fn inherit(&mut self, listener: &Listener, workers: usize) -> io::Result<Option<Bound>> {
        let inherited = self
            .inherited
            .as_mut()
            .map(|inherited| inherited.take_sockets(&listener.address))
            .unwrap_or_default();
        let path = match &listener.address {
            Address::Unix(path) => Some(path.as_path()),
            Address::Tcp(_) => None,
        };
        let has_own = inherited.len() >= workers && path.is_none();
        let sockets = inherited
            .into_iter()
            .map(|socket| BoundSocket::inherit(socket, path, has_own))
            .collect::<io::Result<Vec<_>>>()?;
        let Some(first) = sockets.first() else {
            return Ok(None);
        };
        let lent_unix = path.map(|_| first.try_clone()).transpose()?;
        let actual = first.local_address().ok();
        let mut bound = Bound::new(listener, sockets);
        bound.keep()?;
        for number in bound.sockets.len()..workers {
            let socket = bound.kept.get(number % bound.kept.len());
            bound
                .sockets
                .extend(socket.map(BoundSocket::try_clone).transpose()?);
        }
        if let Some(LocalAddress::Ip(address)) = actual {
            bound.actual = Address::Tcp(address);
        }
        bound.lent_unix = lent_unix;
        Ok(Some(bound))
    }

    /// `ListenStream=80` in a socket unit is `[::]:80` and takes IPv4 as well, while `:80` in a
    /// configuration is two listeners.
    fn is_part_of_activated(&self, address: &Address) -> bool {
        match address {
            Address::Tcp(tcp) if tcp.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED) => {
                let any = Address::Tcp(SocketAddr::from((Ipv6Addr::UNSPECIFIED, tcp.port())));
                self.activated.contains_key(&any)
                    && saker_net::refuse_if_taken(*tcp, false).is_err()
            }
            _ => false,
        }
    }
}

impl Bound {
    fn new(listener: &Listener, sockets: Vec<BoundSocket>) -> Bound {
        Bound {
            address: Arc::new(listener.address.clone()),
            actual: listener.address.clone(),
            sockets,
            kept: Vec::new(),
            unix: None,
            lent_unix: None,
            is_part: false,
        }
    }

    fn keep(&mut self) -> io::Result<()> {
        self.kept = self
            .sockets
            .iter()
            .map(BoundSocket::try_clone)
            .collect::<io::Result<_>>()?;
        Ok(())
    }

    fn remove_file(&self) {
        if let Some(socket) = &self.unix {
            let _ = socket.unlink();
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.remove_file();
    }
}
