//! The thread between the two devices: it moves packets into the directions and out of them when
//! they are due.
//!
//! The one difficulty is its own cost. A wake-up costs more than a packet, so after packets came it
//! rests for [`GRAIN`] before it looks again, and takes all that came meanwhile in one turn; that
//! is the error of its delays, and they are milliseconds.

use crate::{
    LinkSettings,
    direction::{Counts, Direction},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    time::{ClockId, clock_gettime},
};
use saker_net::tunnel_device::TunnelDevice;
use std::{
    io::{self, PipeReader, PipeWriter},
    num::NonZeroU64,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

const GRAIN: Duration = Duration::from_micros(100);
/// Packets taken from a device in one turn, so that neither waits for long.
const PACKETS_PER_TURN: usize = 512;
const PACKET_BYTES_MAX: usize = 65_536;
/// The kernel's usual 50 µs would be half a grain.
const TIMER_SLACK_NS: Option<NonZeroU64> = NonZeroU64::new(1000);
/// Before whatever else runs on a machine with few cores: it needs little, but at once.
const NICENESS: i32 = -10;

/// Counts of what passed over a link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    pub to_client: Counts,
    pub to_server: Counts,
    /// CPU time of the emulator, which includes the receiving kernel's work on packets.
    pub cpu: Duration,
}

pub(crate) struct Pump {
    /// The thread ends when this is closed.
    alive: PipeWriter,
    thread: JoinHandle<Report>,
}

impl Pump {
    pub(crate) fn start(
        server: TunnelDevice,
        client: TunnelDevice,
        settings: LinkSettings,
    ) -> io::Result<Pump> {
        let (ends, alive) = io::pipe()?;
        let (server, client) = (Arc::new(server), Arc::new(client));
        let to_client = Way {
            from: Arc::clone(&server),
            to: Arc::clone(&client),
            // Each direction has a chance of its own, or acknowledgements would decide which data
            // is lost.
            direction: Direction::new(settings.to_client, settings.seed),
        };
        let to_server = Way {
            from: client,
            to: server,
            direction: Direction::new(settings.to_server, !settings.seed),
        };
        let thread = thread::Builder::new()
            .name("link-pump".into())
            .spawn(move || run([to_client, to_server], &ends))?;
        Ok(Pump { alive, thread })
    }

    pub(crate) fn stop(self) -> Report {
        drop(self.alive);
        self.thread.join().unwrap_or_default()
    }
}

struct Way {
    from: Arc<TunnelDevice>,
    to: Arc<TunnelDevice>,
    direction: Direction,
}

fn run(mut ways: [Way; 2], ends: &PipeReader) -> Report {
    // Both make it more exact, and it works without.
    let _ = rustix::thread::set_current_timer_slack(TIMER_SLACK_NS);
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
    let start = Instant::now();
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    loop {
        let now_ns = start.elapsed().as_nanos() as u64;
        let mut came = 0;
        for way in &mut ways {
            came += way.take(&mut buffer, start);
            way.deliver(now_ns);
        }
        let next_ns = ways
            .iter()
            .filter_map(|way| way.direction.next_arrival_ns())
            .min();
        if !wait(
            &ways,
            ends,
            came > 0,
            next_ns.map(|next_ns| Duration::from_nanos(next_ns.saturating_sub(now_ns))),
        ) {
            return report(&ways);
        }
    }
}

/// False when it is over.
fn wait(ways: &[Way; 2], ends: &PipeReader, has_come: bool, until_next: Option<Duration>) -> bool {
    if has_come {
        thread::sleep(GRAIN);
    }
    let time = if has_come {
        Some(Duration::ZERO)
    } else {
        until_next
    };
    let time = time.and_then(|time| Timespec::try_from(time).ok());
    let watched = |descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN);
    let [to_client, to_server] = ways
        .each_ref()
        .map(|way| std::os::fd::AsFd::as_fd(&*way.from));
    let mut list = [
        PollFd::new(ends, PollFlags::empty()),
        watched(to_client),
        watched(to_server),
    ];
    match poll(&mut list, time.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => !list[0].revents().contains(PollFlags::HUP),
        Err(_) => false,
    }
}

fn report([to_client, to_server]: &[Way; 2]) -> Report {
    let cpu = Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    Report {
        to_client: to_client.direction.counts(),
        to_server: to_server.direction.counts(),
        cpu,
    }
}

impl Way {
    /// Number of packets came.
    fn take(&mut self, buffer: &mut [u8], start: Instant) -> usize {
        for count in 0..PACKETS_PER_TURN {
            match self.from.receive(buffer) {
                // By the clock behind the receipt: a thread that was held up since its turn began
                // would let it go too early.
                Ok(length) if is_ipv4(&buffer[..length]) => self
                    .direction
                    .receive(&buffer[..length], start.elapsed().as_nanos() as u64),
                Ok(_) => {}
                // Nothing more, or a device that is down.
                Err(_) => return count,
            }
        }
        PACKETS_PER_TURN
    }

    fn deliver(&mut self, now_ns: u64) {
        while let Some(packet) = self.direction.poll_arrived(now_ns) {
            // A kernel without memory drops it, as it may drop any.
            let _ = self.to.send(&packet);
            self.direction.give_back(packet);
        }
    }
}

/// The kernel sends IPv6 neighbor discovery unasked; it would use up losses and rate that are meant
/// for the test's packets.
fn is_ipv4(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 4)
}
