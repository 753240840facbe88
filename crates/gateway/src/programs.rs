//! Programs that are started for one request (CGI): a concurrency slot, the start, and a task that
//! attends to the program until it ends.
//!
//! The exchange reads and writes the program's pipes like any connection ([`Pipes`]); an
//! attendant, a task of its own, reads the program's standard error, waits for its end, and kills
//! it if the exchange is aborted.
//! Caveat: a program may end long before its output has been read, or long after; its process id
//! must stay reserved until no more signals are sent to it, and only then is its slot free.
//!
//! Absent on purpose: what follows from the request (rules, `variables`), and what its output means
//! (`saker_cgi::PlainCgi`).

use crate::{
    failure::Failure,
    log_lines::{LogLines, Source},
};
use saker_net::{
    jobs::{self, JobKind},
    program::{Program, ProgramPlan, Spawner, start},
};
use saker_pipeline::RequestLogContext;
use std::{
    io,
    os::fd::OwnedFd,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::unix::pipe,
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{sleep, timeout},
};

/// Programs of the whole process at a time, and requests that wait for one to end.
const RUNNING_MAX: usize = 256;
const WAITING_MAX: usize = 1024;
const WAITING_TIME: Duration = Duration::from_secs(30);
/// Between being asked to end and being ended, as in Apache.
const GRACE: Duration = Duration::from_secs(3);
const ERROR_READ_BYTES: usize = 4096;

/// A worker's share of the places.
pub struct Programs {
    places: Arc<Semaphore>,
    waiting: Rc<()>,
    waiting_max: usize,
    /// Spawner for programs that run as other users.
    spawner: Option<Arc<dyn Spawner>>,
}

/// For whom a program runs, for the log.
#[derive(Clone)]
pub struct Whose {
    pub client: RequestLogContext,
    /// The script's file name, without its folder.
    pub name: Rc<str>,
    /// A program that has said all may go on for so long.
    pub timeout_ms: u64,
}

impl Programs {
    pub fn new(workers: usize, spawner: Option<Arc<dyn Spawner>>) -> Programs {
        let workers = workers.max(1);
        Programs {
            places: Arc::new(Semaphore::new(RUNNING_MAX.div_ceil(workers))),
            waiting: Rc::new(()),
            waiting_max: WAITING_MAX.div_ceil(workers),
            spawner,
        }
    }

    /// Waits for a place and starts the program.
    pub async fn run(&self, plan: ProgramPlan, whose: Whose) -> Result<Pipes, Failure> {
        let place = self.place().await?;
        let spawner = self.spawner.clone();
        let mut started = jobs::run(JobKind::Program, None, move |_| {
            start(&plan, spawner.as_deref())
        })
        .await
        .map_err(io::Error::from)
        .flatten()
        .map_err(Failure::NotStarted)?;
        let (input, output, errors) = (
            started.input.take(),
            started.output.take(),
            started.errors.take(),
        );
        let on_the_loop = || -> io::Result<_> {
            started.program.watch()?;
            Ok((
                input.map(pipe::Sender::from_owned_fd).transpose()?,
                receiver(output)?,
                receiver(errors)?,
            ))
        };
        let (input, output, errors) = on_the_loop().map_err(Failure::NotStarted)?;
        let (order, orders) = oneshot::channel();
        let errors = Errors {
            pipe: Some(errors),
            lines: LogLines::new(whose.client.clone(), Source::Program((*whose.name).into())),
        };
        tokio::task::spawn_local(attend(
            started.program,
            errors,
            orders,
            place,
            Duration::from_millis(whose.timeout_ms),
        ));
        Ok(Pipes {
            input,
            output,
            order: Some(order),
        })
    }

    async fn place(&self) -> Result<OwnedSemaphorePermit, Failure> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        if Rc::strong_count(&self.waiting) > self.waiting_max {
            return Err(Failure::QueueFull);
        }
        let _waiting = Rc::clone(&self.waiting);
        match timeout(WAITING_TIME, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(Failure::QueueTimeout),
        }
    }
}

fn receiver(pipe: Option<OwnedFd>) -> io::Result<pipe::Receiver> {
    pipe::Receiver::from_owned_fd(pipe.ok_or(io::ErrorKind::NotFound)?)
}

/// A program's standard input and output. Dropped before its end was heard, the program is ended.
pub struct Pipes {
    input: Option<pipe::Sender>,
    output: pipe::Receiver,
    order: Option<oneshot::Sender<Finished>>,
}

/// All that the program had to say was heard.
struct Finished;

impl Pipes {
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        Pin::new(&mut self.output)
            .poll_read(cx, &mut buf)
            .map_ok(|()| buf.filled().len())
    }

    /// Writes content; fails with a broken pipe once the input is closed.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.input {
            Some(input) => Pin::new(input).poll_write(cx, buf),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// The end of the request's content is the end of its pipe.
    pub fn end_input(&mut self) {
        self.input = None;
    }

    pub fn finish(&mut self) {
        if let Some(order) = self.order.take() {
            let _ = order.send(Finished);
        }
    }
}

/// Standard error.
struct Errors {
    pipe: Option<pipe::Receiver>,
    lines: LogLines,
}

impl Errors {
    /// Listens for ever.
    async fn listen(&mut self) {
        loop {
            match &self.pipe {
                Some(pipe) if pipe.readable().await.is_ok() => self.take(),
                _ => std::future::pending().await,
            }
        }
    }

    /// Reads what is available.
    fn take(&mut self) {
        let mut piece = [0; ERROR_READ_BYTES];
        while let Some(pipe) = &self.pipe {
            match pipe.try_read(&mut piece) {
                Ok(bytes @ 1..) => self.lines.push(piece.get(..bytes).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                _ => self.pipe = None,
            }
        }
    }
}

async fn attend(
    mut program: Program,
    mut errors: Errors,
    orders: oneshot::Receiver<Finished>,
    place: OwnedSemaphorePermit,
    patience: Duration,
) {
    let is_finished = tokio::select! {
        order = orders => order.is_ok(),
        () = errors.listen() => false,
    };
    if !(is_finished && ends(&mut program, &mut errors, patience).await) {
        program.terminate();
        ends(&mut program, &mut errors, GRACE).await;
        // Also kills survivors of its process group: their output is no longer read.
        program.kill();
        ends(&mut program, &mut errors, GRACE).await;
    }
    errors.take();
    program.reap();
    drop(place);
}

/// True if the program ends in time.
async fn ends(program: &mut Program, errors: &mut Errors, time: Duration) -> bool {
    tokio::select! {
        () = program.ended() => true,
        () = errors.listen() => false,
        () = sleep(time) => false,
    }
}
