//! The outcome of a step of Apache's rules, which may be that it can't be told yet.
//!
//! Called by: every step of the rules; [`settle`] turns it into the pipeline's answer.
//! Caveat: expressions are evaluated without waiting. Where one needs what is not known yet (a name
//! server, a password hash, a map program), the step ends with [`Verdict::Wait`], and is run again
//! when that is known. So a step must not change what it depends on before it can finish.
//! Out of scope: look-aheads, which end where they would have to wait.

use saker_http::Status;
use saker_net::blocking::Pause;
use saker_pipeline::{Exchange, Response, Step, Verdict as Settled};

/// The outcome of a step.
pub enum Verdict {
    /// On to the next step.
    Pass,
    Answer(Response),
    /// The path (or query) of the exchange has changed: begin again behind the choice of the host.
    Restart,
    /// It can't be told before this is done.
    Wait(Pause),
}

impl From<Option<Response>> for Verdict {
    fn from(answer: Option<Response>) -> Verdict {
        answer.map_or(Verdict::Pass, Verdict::Answer)
    }
}

/// Runs a step until its outcome is known. Allocates only where it has to wait.
pub fn settle<'a>(
    exchange: &'a mut Exchange,
    mut step: impl FnMut(&mut Exchange) -> Verdict + 'a,
) -> Step<'a> {
    let pause = match settled(step(exchange)) {
        Ok(verdict) => return Step::Ready(verdict),
        Err(pause) => pause,
    };
    Step::Pending(Box::pin(async move {
        let mut pause = pause;
        loop {
            if exchange.is_over_budget() {
                return Settled::Answer(Response::new(Status::INTERNAL_SERVER_ERROR));
            }
            pause.await;
            match settled(step(exchange)) {
                Ok(verdict) => return verdict,
                Err(next) => pause = next,
            }
        }
    }))
}

fn settled(verdict: Verdict) -> Result<Settled, Pause> {
    match verdict {
        Verdict::Pass => Ok(Settled::Pass),
        Verdict::Answer(response) => Ok(Settled::Answer(response)),
        Verdict::Restart => Ok(Settled::Restart),
        Verdict::Wait(pause) => Err(pause),
    }
}
