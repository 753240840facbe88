//! Relaying of bytes in both directions between a client and an upstream.
//!
//! Called by: `tcp`, and the tunnels of HTTP/1 and of multiplexed connections after 101; all show
//! their client as a [`Tunnel`].
//! Caveat: each direction ends on its own, and the end of one must not lose bytes of the other.
//! Nothing is held while both are silent; what one side does not accept is kept, one read at most,
//! and nothing is read behind it.

use saker_pipeline::Tunnel;
use std::{
    io,
    task::{Context, Poll, ready},
};

/// Bytes after which other connections get their turn.
const TURN_BYTES_MAX: usize = 1 << 20;

/// The way a relay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayEnd {
    /// Both directions have ended.
    Whole,
    /// The connection to the client broke.
    ClientGone,
    /// The other connection broke.
    Cut,
    /// Nothing has moved for too long.
    Idle,
}

#[derive(Default)]
pub struct Relay {
    up: Way,
    down: Way,
    /// The end of one direction is the end of both, once its bytes are passed on.
    ends_at_first: bool,
    /// The program takes nothing more.
    is_up_cut: bool,
    /// The direction from the program was the one whose end ended all.
    was_down_last: bool,
    /// The reason why a read failed.
    failure: Option<io::Error>,
}

impl Relay {
    /// A relay that is over when one direction has ended and its bytes are passed on.
    pub fn until_first_end() -> Relay {
        Relay {
            ends_at_first: true,
            ..Relay::default()
        }
    }

    /// Begins with bytes that were read from the client.
    pub fn begin_with(&mut self, bytes: Vec<u8>) {
        self.up.held = bytes;
    }

    /// Passes on what can be passed on. `buf` is lent.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut dyn Tunnel,
        program: &mut dyn Tunnel,
        buf: &mut [u8],
    ) -> Poll<RelayEnd> {
        let was_up_over = self.up.step == Step::Over;
        match self.up.poll(cx, client, program, buf) {
            Poll::Ready(Err(Broken::From(error))) => {
                self.failure = Some(error);
                return Poll::Ready(RelayEnd::ClientGone);
            }
            // A program that takes nothing more may still have something to say.
            Poll::Ready(Err(Broken::To)) => {
                self.up.stop();
                self.is_up_cut = true;
            }
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        match self.down.poll(cx, program, client, buf) {
            Poll::Ready(Err(Broken::From(error))) => {
                self.failure = Some(error);
                return Poll::Ready(RelayEnd::Cut);
            }
            Poll::Ready(Err(Broken::To)) => return Poll::Ready(RelayEnd::ClientGone),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        let (up, down) = (self.up.step == Step::Over, self.down.step == Step::Over);
        let is_over = match self.ends_at_first {
            true => down || up && !self.is_up_cut,
            false => up && down,
        };
        if is_over {
            self.was_down_last = down && (self.ends_at_first || was_up_over);
            return Poll::Ready(RelayEnd::Whole);
        }
        program.poll_idle(cx).map(|()| RelayEnd::Idle)
    }

    /// Returns true if the end of the program's direction ended all.
    pub fn was_down_last(&self) -> bool {
        self.was_down_last
    }

    /// Returns the reason why a read failed.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// From the client.
    pub fn bytes_in(&self) -> u64 {
        self.up.bytes
    }

    /// To the client.
    pub fn bytes_out(&self) -> u64 {
        self.down.bytes
    }
}

/// One direction.
#[derive(Default)]
struct Way {
    /// Read, not taken yet; no memory where there is none.
    held: Vec<u8>,
    held_from: usize,
    bytes: u64,
    step: Step,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Open,
    /// The source has ended; the other side has to be told.
    Ending,
    Over,
}

enum Broken {
    From(io::Error),
    To,
}

impl Way {
    /// Ready when the way has come to its end.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut dyn Tunnel,
        to: &mut dyn Tunnel,
        buf: &mut [u8],
    ) -> Poll<Result<(), Broken>> {
        let mut turn = 0;
        loop {
            ready!(self.poll_held(cx, to))?;
            match self.step {
                Step::Open => {}
                Step::Ending => {
                    ready!(to.poll_flush(cx)).map_err(|_| Broken::To)?;
                    self.step = Step::Over;
                    return Poll::Ready(to.shutdown().map_err(|_| Broken::To));
                }
                Step::Over => return Poll::Ready(Ok(())),
            }
            if turn >= TURN_BYTES_MAX {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match from.poll_read(cx, buf) {
                Poll::Ready(Ok(0)) => self.step = Step::Ending,
                Poll::Ready(Ok(bytes)) => {
                    turn += bytes;
                    self.pass(cx, to, buf.get(..bytes).unwrap_or_default())?;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Broken::From(error))),
                Poll::Pending => {
                    // What was taken must not wait for more.
                    if let Poll::Ready(Err(_)) = to.poll_flush(cx) {
                        return Poll::Ready(Err(Broken::To));
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    fn poll_held(&mut self, cx: &mut Context<'_>, to: &mut dyn Tunnel) -> Poll<Result<(), Broken>> {
        while let Some(left) = self
            .held
            .get(self.held_from..)
            .filter(|left| !left.is_empty())
        {
            match ready!(to.poll_write(cx, left)) {
                Ok(bytes) if bytes > 0 => {
                    self.held_from += bytes;
                    self.bytes += bytes as u64;
                }
                _ => return Poll::Ready(Err(Broken::To)),
            }
        }
        if self.held.capacity() > 0 {
            (self.held, self.held_from) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }

    /// Writes what can be written at once and keeps the rest.
    fn pass(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut dyn Tunnel,
        bytes: &[u8],
    ) -> Result<(), Broken> {
        let taken = match to.poll_write(cx, bytes) {
            Poll::Ready(Ok(taken)) if taken > 0 => taken,
            Poll::Ready(_) => return Err(Broken::To),
            Poll::Pending => 0,
        };
        self.bytes += taken as u64;
        self.held = bytes.get(taken..).unwrap_or_default().to_vec();
        Ok(())
    }

    fn stop(&mut self) {
        (self.held, self.held_from, self.step) = (Vec::new(), 0, Step::Over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::VecDeque, io, task::Waker};

    /// Reads what it is told to, and takes as much as it is told to.
    #[derive(Default)]
    struct End {
        to_read: VecDeque<io::Result<&'static [u8]>>,
        takes: usize,
        taken: Vec<u8>,
        is_shut: bool,
        is_idle: bool,
        is_broken: bool,
    }

    impl Tunnel for End {
        fn poll_read(&mut self, _: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
            match self.to_read.pop_front() {
                None => Poll::Pending,
                Some(Err(error)) => Poll::Ready(Err(error)),
                Some(Ok(bytes)) => {
                    buf[..bytes.len()].copy_from_slice(bytes);
                    Poll::Ready(Ok(bytes.len()))
                }
            }
        }

        fn poll_write(&mut self, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            let taken = buf.len().min(self.takes);
            if self.is_broken {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            if taken == 0 {
                return Poll::Pending;
            }
            self.takes -= taken;
            self.taken.extend_from_slice(&buf[..taken]);
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn shutdown(&mut self) -> io::Result<()> {
            assert!(!std::mem::replace(&mut self.is_shut, true), "once");
            Ok(())
        }

        fn poll_idle(&mut self, _: &mut Context<'_>) -> Poll<()> {
            if self.is_idle {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        }
    }

    fn poll(relay: &mut Relay, client: &mut End, program: &mut End) -> Poll<RelayEnd> {
        relay.poll(
            &mut Context::from_waker(Waker::noop()),
            client,
            program,
            &mut [0; 64],
        )
    }

    fn ends() -> (Relay, End, End) {
        (
            Relay::default(),
            End {
                takes: 1000,
                ..End::default()
            },
            End {
                takes: 1000,
                ..End::default()
            },
        )
    }

    #[test]
    fn each_way_ends_on_its_own() {
        let (mut relay, mut client, mut program) = ends();
        client.to_read.extend([Ok(&b"abc"[..]), Ok(b"")]);
        assert_eq!(poll(&mut relay, &mut client, &mut program), Poll::Pending);
        assert!(program.is_shut && !client.is_shut && program.taken == b"abc");
        program.to_read.extend([Ok(&b"late"[..]), Ok(b"")]);
        assert_eq!(
            poll(&mut relay, &mut client, &mut program),
            Poll::Ready(RelayEnd::Whole)
        );
        assert!(client.is_shut && client.taken == b"late");
        assert_eq!((relay.bytes_in(), relay.bytes_out()), (3, 4));
    }

    #[test]
    fn one_end_may_be_that_of_both() {
        let (_, mut client, mut program) = ends();
        let mut relay = Relay::until_first_end();
        relay.begin_with(b"first ".to_vec());
        client.to_read.extend([Ok(&b"abc"[..])]);
        assert_eq!(poll(&mut relay, &mut client, &mut program), Poll::Pending);
        assert_eq!(program.taken, b"first abc");
        program.to_read.extend([Ok(&b"bye"[..]), Ok(b"")]);
        client.takes = 1;
        assert_eq!(poll(&mut relay, &mut client, &mut program), Poll::Pending);
        client.takes = 10;
        let end = poll(&mut relay, &mut client, &mut program);
        assert_eq!(end, Poll::Ready(RelayEnd::Whole));
        assert_eq!(client.taken, b"bye");
        // A program that takes nothing more is heard to its end all the same.
        let (_, mut client, mut program) = ends();
        let mut relay = Relay::until_first_end();
        program.is_broken = true;
        client.to_read.extend([Ok(&b"abc"[..])]);
        assert_eq!(poll(&mut relay, &mut client, &mut program), Poll::Pending);
        program.to_read.extend([Ok(&b"bye"[..]), Ok(b"")]);
        let end = poll(&mut relay, &mut client, &mut program);
        assert_eq!(end, Poll::Ready(RelayEnd::Whole));
        assert_eq!(client.taken, b"bye");
    }

    #[test]
    fn nothing_is_read_behind_what_was_not_taken() {
        let (mut relay, mut client, mut program) = ends();
        program.takes = 2;
        client
            .to_read
            .extend([Ok(&b"abc"[..]), Ok(b"def"), Ok(b"")]);
        assert_eq!(poll(&mut relay, &mut client, &mut program), Poll::Pending);
        assert_eq!(
            (client.to_read.len(), relay.up.held.as_slice()),
            (2, &b"c"[..])
        );
        program.takes = 1000;
        assert_eq!(poll(&mut relay, &mut client, &mut program), Poll::Pending);
        assert!(program.taken == b"abcdef" && program.is_shut);
        assert_eq!(
            relay.up.held.capacity() + relay.down.held.capacity(),
            0,
            "nothing is held in silence"
        );
    }

    #[test]
    fn a_program_that_takes_nothing_more_is_heard() {
        let (mut relay, mut client, mut program) = ends();
        program.is_broken = true;
        client.to_read.extend([Ok(&b"abc"[..])]);
        assert_eq!(poll(&mut relay, &mut client, &mut program), Poll::Pending);
        program.to_read.extend([Ok(&b"bye"[..]), Ok(b"")]);
        assert_eq!(
            poll(&mut relay, &mut client, &mut program),
            Poll::Ready(RelayEnd::Whole)
        );
        assert_eq!(client.taken, b"bye");
    }

    #[test]
    fn what_breaks_and_what_sleeps() {
        let (mut relay, mut client, mut program) = ends();
        client
            .to_read
            .push_back(Err(io::ErrorKind::ConnectionReset.into()));
        assert_eq!(
            poll(&mut relay, &mut client, &mut program),
            Poll::Ready(RelayEnd::ClientGone)
        );
        let (mut relay, mut client, mut program) = ends();
        program
            .to_read
            .push_back(Err(io::ErrorKind::ConnectionReset.into()));
        assert_eq!(
            poll(&mut relay, &mut client, &mut program),
            Poll::Ready(RelayEnd::Cut)
        );
        let (mut relay, mut client, mut program) = ends();
        program.to_read.push_back(Ok(b"x"));
        client.is_broken = true;
        assert_eq!(
            poll(&mut relay, &mut client, &mut program),
            Poll::Ready(RelayEnd::ClientGone)
        );
        let (mut relay, mut client, mut program) = ends();
        program.is_idle = true;
        assert_eq!(
            poll(&mut relay, &mut client, &mut program),
            Poll::Ready(RelayEnd::Idle)
        );
    }
}
