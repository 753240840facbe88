//! `saker-link`: a server and a client with a link between them that is as slow, far and bad as one
//! wants.
//!
//! The one difficulty is the end: whatever ends first, or is told to end, takes the others along.
//! The programs lead groups of their own, which are ended as a whole, and they are told by the
//! kernel when this program dies without a word.

mod arguments;
#[cfg(test)]
mod program_tests;

use arguments::{Arguments, Wanted};
use saker_link::{Counts, Link, Report, SERVER, Side};
use saker_net::{ChildManner, ChildSignal, Group};
use std::{
    io,
    net::{SocketAddr, TcpStream},
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};
use tokio::signal::unix::{Signal, SignalKind, signal};

const POLL_EVERY: Duration = Duration::from_millis(5);
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// From TERM to KILL.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    ExitCode::from(status(std::env::args().skip(1)))
}

/// Runs with these arguments and returns the exit status.
fn status(words: impl Iterator<Item = String>) -> u8 {
    let outcome = match arguments::parse(words) {
        Ok(Wanted::Help) => {
            print!("{}", arguments::HELP);
            return 0;
        }
        Ok(Wanted::Run(arguments)) => run(*arguments),
        Err(complaint) => Err(io::Error::other(complaint)),
    };
    outcome.unwrap_or_else(|complaint| {
        eprintln!("saker-link: {complaint}");
        1
    })
}

fn run(arguments: Arguments) -> io::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let Arguments {
        link,
        wait_for_port,
        server,
        client,
    } = arguments;
    let link = Link::open(link)?;
    let status = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let mut server = Program::start(link.server(), &server)?;
        if let Some(port) = wait_for_port
            && !wait_for_server(link.server(), &mut server, &mut signals, port).await?
        {
            return Ok(None);
        }
        let mut client = Program::start(link.client(), &client)?;
        signals.end_of(&mut client).await
    });
    print(&link.close());
    Ok(match status? {
        Some(status) => status
            .code()
            .or(status.signal().map(|signal| 128 + signal))
            .unwrap_or(1) as u8,
        None => 1,
    })
}

/// False where a signal came first.
async fn wait_for_server(
    side: &Side,
    server: &mut Program,
    signals: &mut Signals,
    port: u16,
) -> io::Result<bool> {
    let until = Instant::now() + START_TIMEOUT;
    let accepts =
        move || TcpStream::connect_timeout(&SocketAddr::from((SERVER, port)), POLL_EVERY).is_ok();
    loop {
        if side.run(accepts)? {
            return Ok(true);
        }
        if let Some(status) = server.child.try_wait()? {
            return Err(io::Error::other(format!(
                "the server ended ({status}) before it accepted on {port}"
            )));
        }
        if Instant::now() > until {
            return Err(io::Error::other(format!(
                "the server did not accept on {port} within {START_TIMEOUT:?}"
            )));
        }
        if signals.within(POLL_EVERY).await {
            return Ok(false);
        }
    }
}

/// Those that ask a program to end.
struct Signals([Signal; 3]);

impl Signals {
    fn new() -> io::Result<Signals> {
        let [interrupt, terminate, hangup] = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ]
        .map(signal);
        Ok(Signals([interrupt?, terminate?, hangup?]))
    }

    /// True if one came in this time.
    async fn within(&mut self, time: Duration) -> bool {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => true,
            _ = terminate.recv() => true,
            _ = hangup.recv() => true,
            () = tokio::time::sleep(time) => false,
        }
    }

    /// `None` where a signal came first.
    async fn end_of(&mut self, program: &mut Program) -> io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = program.child.try_wait()? {
                return Ok(Some(status));
            }
            if self.within(POLL_EVERY).await {
                return Ok(None);
            }
        }
    }
}

/// Ends, with all that it has started, when this is dropped.
struct Program {
    child: Child,
    group: Option<Group>,
}

impl Program {
    fn start(side: &Side, words: &[String]) -> io::Result<Program> {
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        // In a group of its own it could not read from a terminal.
        command.args(arguments).stdin(Stdio::null());
        saker_net::child::prepare(&mut command, ChildManner::default());
        let child = side
            .run(move || command.spawn())?
            .map_err(|error| io::Error::other(format!("{program}: {error}")))?;
        let group = Group::of(child.id());
        Ok(Program { child, group })
    }

    fn signal(&self, signal: ChildSignal) {
        if let Some(group) = self.group {
            group.signal_all(signal);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.signal(ChildSignal::Term);
        let until = Instant::now() + STOP_TIMEOUT;
        // One that can't be asked is gone.
        while self.child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < until {
            thread::sleep(POLL_EVERY);
        }
        // All that is left of the group, with its leader or without.
        self.signal(ChildSignal::Kill);
        let _ = self.child.wait();
    }
}

fn print(report: &Report) {
    for (name, counts) in [
        ("to client", report.to_client),
        ("to server", report.to_server),
    ] {
        let Counts {
            packets,
            bytes,
            dropped,
            lost,
            held_back,
            queue_packets_peak,
        } = counts;
        eprintln!(
            "link {name}: {packets} packets, {bytes} bytes; {dropped} dropped, {lost} lost, {held_back} held back; \
             at most {queue_packets_peak} in the queue"
        );
    }
    eprintln!("link: {:.3} s of CPU", report.cpu.as_secs_f64());
}
