//! One end of a link: a thread in a network namespace of its own, and what it is asked to do there.
//!
//! Sockets that are made there, and programs and threads that are started there, stay there.

use saker_net::tunnel_device::{TunnelDevice, enter_new_network};
use std::{
    io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::mpsc::{self, Sender},
    thread,
};

/// Both ends, and nothing else, are in it.
const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 252);
/// A burst must not be lost before the emulator has seen it: what it drops is its own queue's
/// affair.
const WAITING_PACKETS: u32 = 16_384;

type Job = Box<dyn FnOnce() + Send>;

/// Its thread ends when this is dropped.
#[derive(Debug)]
pub struct Side {
    jobs: Sender<Job>,
    namespace: PathBuf,
}

impl Side {
    pub(crate) fn open(
        name: &str,
        address: Ipv4Addr,
        mtu_bytes: u16,
    ) -> io::Result<(Side, TunnelDevice)> {
        let (jobs, to_do) = mpsc::channel::<Job>();
        thread::Builder::new()
            .name(format!("link-{name}"))
            .spawn(move || to_do.into_iter().for_each(|job| job()))?;
        let mut side = Side {
            jobs,
            namespace: PathBuf::new(),
        };
        let device = side.run(move || -> io::Result<TunnelDevice> {
            enter_new_network()?;
            let device = TunnelDevice::create("link")?;
            device.bring_up(address, MASK, mtu_bytes, WAITING_PACKETS)?;
            Ok(device)
        });
        let device = device??;
        let thread = side.run(rustix::thread::gettid)?;
        side.namespace = format!("/proc/{}/task/{thread}/ns/net", std::process::id()).into();
        Ok((side, device))
    }

    /// For programs that have to be started elsewhere, as `nsenter --net=FILE` does it; as long as
    /// this is there.
    pub fn namespace(&self) -> &Path {
        &self.namespace
    }

    /// Does something on the thread of this end, and waits for it. An error where `body` panics,
    /// and after that.
    pub fn run<T: Send + 'static>(
        &self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (give, take) = mpsc::channel();
        let job = move || drop(give.send(body()));
        let gone = || io::Error::other("the thread of this end of the link is gone");
        self.jobs.send(Box::new(job)).map_err(|_| gone())?;
        take.recv().map_err(|_| gone())
    }
}
