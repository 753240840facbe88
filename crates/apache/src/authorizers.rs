//! FastCGI authorizers of mod_authnz_fcgi: asked once per request, on a connection of its own.
//!
//! Called by: `modules::access::request`, for rules that are run again when the answer is there.
//! Caveat: an authorizer gets the request's variables and the password, and none of its content. What
//! it writes for the error log is logged; its own page is not the client's.
//! Out of scope: what its word means (`saker_auth::fcgi`).

use saker_auth::{DirectoryAsked, FcgiAnswer, FcgiQuestion, FcgiWord, settings::FcgiDuty};
use saker_cgi::{
    Dialogue, Event, ProgramRequest, ResponseHead, Variables,
    fastcgi::{Authorization, FastCgi, Role, authorization},
};
use saker_http::{RequestHead, Status};
use saker_ipset::ClientNetwork;
use saker_net::{
    blocking::Answer,
    shares::{Share, Shares},
};
use saker_pipeline::Exchange;
use saker_telemetry::{error_log, message};
use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
    time::timeout,
};

/// Questions of one request; rules in an endless circle reach it.
const QUESTIONS_MAX: usize = 20;
/// Questions of a worker under way.
const ASKING_MAX: usize = 256;
/// Questions of one client among them.
const ASKING_OF_CLIENT_MAX: usize = 32;
/// Time for a whole answer.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// Bytes of an answer, most of which are dropped.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Bytes that are kept for the error log.
const LOG_BYTES_MAX: usize = 8 << 10;

thread_local! {
    static ASKING: Shares = Shares::new(ASKING_MAX, ASKING_OF_CLIENT_MAX);
}

enum Place {
    Waiting(oneshot::Receiver<Heard>),
    Known(FcgiAnswer),
}

/// An answer, and text for the error log.
type Heard = Result<(FcgiWord, Vec<u8>), String>;

/// Questions of the request to others about its user, with their answers.
#[derive(Default)]
pub struct Questions {
    pub directories: RefCell<DirectoryAsked>,
    pub authorizers: RefCell<AuthorizersAsked>,
}

/// Questions of one request to FastCGI authorizers, with their answers.
#[derive(Default)]
pub struct AuthorizersAsked(Vec<(FcgiQuestion, Place)>);

/// Asks, or looks whether the answer is there.
pub fn ask(
    questions: &Rc<Questions>,
    exchange: &Exchange,
    question: &FcgiQuestion,
    variables: impl FnOnce() -> Variables,
) -> Answer<FcgiAnswer> {
    let asked = &questions.authorizers;
    let known = asked.borrow().0.iter().position(|(own, _)| own == question);
    let at = match known {
        Some(at) => at,
        None => {
            let count = asked.borrow().0.len();
            if count >= QUESTIONS_MAX {
                return Answer::Known(Err("this request has asked too much already".into()));
            }
            let client = ClientNetwork::of(exchange.client.ip()).number();
            let Some(under_way) = ASKING.with(|asking| asking.take(client)) else {
                return Answer::Busy;
            };
            let told = told(question, variables());
            let receiver = begin(exchange, question, told, under_way);
            let mut asked = asked.borrow_mut();
            asked.0.push((question.clone(), Place::Waiting(receiver)));
            count
        }
    };
    asked.borrow_mut().look(at, exchange);
    if let Some((_, Place::Known(answer))) = asked.borrow().0.get(at) {
        return Answer::Known(answer.clone());
    }
    let questions = Rc::clone(questions);
    Answer::Wait(Box::pin(poll_fn(move |cx| {
        questions.authorizers.borrow_mut().poll(at, cx)
    })))
}

impl AuthorizersAsked {
    /// Without waiting.
    fn look(&mut self, at: usize, exchange: &Exchange) {
        let Some((question, place)) = self.0.get_mut(at) else {
            return;
        };
        let Place::Waiting(receiver) = place else {
            return;
        };
        let answer = match receiver.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => return,
            Err(oneshot::error::TryRecvError::Closed) => Err("its task has ended".into()),
            Ok(Err(why)) => Err(why.as_str().into()),
            Ok(Ok((word, log))) => {
                let name = &question.authorizer.name;
                for line in log
                    .split(|byte| *byte == b'\n')
                    .filter(|line| !line.is_empty())
                {
                    let line = String::from_utf8_lossy(line);
                    error_log::log_about(
                        &message::PROGRAM_SAID,
                        exchange,
                        format_args!("{name}: {line}"),
                    );
                }
                Ok(Rc::new(word))
            }
        };
        *place = Place::Known(answer);
    }

    /// Ready when something has come, which stays where it is.
    fn poll(&mut self, at: usize, cx: &mut Context<'_>) -> Poll<()> {
        let Some((_, Place::Waiting(receiver))) = self.0.get_mut(at) else {
            return Poll::Ready(());
        };
        let heard = match Pin::new(&mut *receiver).poll(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(heard) => heard.unwrap_or_else(|_| Err("its task has ended".to_owned())),
        };
        let (sender, again) = oneshot::channel();
        let _ = sender.send(heard);
        *receiver = again;
        Poll::Ready(())
    }
}

/// The variables, with what mod_authnz_fcgi adds.
fn told(question: &FcgiQuestion, mut variables: Variables) -> Variables {
    variables.set(b"FCGI_ROLE", b"AUTHORIZER");
    match question.about {
        FcgiDuty::Users => variables.set(b"FCGI_APACHE_ROLE", b"AUTHENTICATOR"),
        FcgiDuty::Requirements => variables.set(b"FCGI_APACHE_ROLE", b"AUTHORIZER"),
        FcgiDuty::Both => {}
    }
    if let Some(user) = &question.user {
        variables.set(b"REMOTE_USER", user.as_bytes());
    }
    if let Some(password) = &question.password {
        variables.set(b"AUTH_TYPE", b"Basic");
        variables.set(b"REMOTE_PASSWD", password);
    }
    variables
}

fn begin(
    exchange: &Exchange,
    question: &FcgiQuestion,
    variables: Variables,
    under_way: Share,
) -> oneshot::Receiver<Heard> {
    let (sender, receiver) = oneshot::channel();
    let (head, authorizer) = (
        exchange.head.clone(),
        std::sync::Arc::clone(&question.authorizer),
    );
    tokio::task::spawn_local(async move {
        let _under_way = under_way;
        let address = (&*authorizer.host, authorizer.port);
        let heard = match timeout(ANSWER_TIME, converse(address, &head, &variables)).await {
            Ok(heard) => heard,
            Err(_) => Err("it says nothing in time".to_owned()),
        };
        // No receiver is left where the client has gone.
        let _ = sender.send(heard);
    });
    receiver
}

async fn converse(address: (&str, u16), head: &RequestHead, variables: &Variables) -> Heard {
    let mut dialogue = FastCgi::new(Role::Authorizer, false);
    let mut out = Vec::new();
    let request = ProgramRequest {
        variables,
        content_length: None,
        head: head.view(),
        path: head.view().target(),
        settings: &[],
    };
    dialogue
        .begin(&request, &mut out)
        .map_err(|_| "the request has too many variables".to_owned())?;
    // FastCGI 1.0 section 6.3: no content, not even its end, which a program that has answered
    // already would refuse.
    let broken = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(address).await.map_err(broken)?;
    stream.write_all(&out).await.map_err(broken)?;
    let (mut input, mut seen, mut listener) = (Vec::new(), 0, Listener::default());
    loop {
        let count = stream.read_buf(&mut input).await.map_err(broken)?;
        seen += count;
        if seen > ANSWER_BYTES_MAX {
            return Err("it says too much".to_owned());
        }
        if listener.hear(&mut dialogue, &mut input)? {
            return listener.word();
        }
        if count == 0 {
            return Err("it has ended the connection".to_owned());
        }
    }
}

/// The part of an answer that has come so far.
#[derive(Default)]
struct Listener {
    head: Option<ResponseHead>,
    log: Vec<u8>,
}

impl Listener {
    /// Reads what there is; true if the answer is whole.
    fn hear(&mut self, dialogue: &mut FastCgi, input: &mut Vec<u8>) -> Result<bool, String> {
        let mut used = 0;
        let is_whole = loop {
            let rest = input.get(used..).unwrap_or_default();
            let (count, event) = dialogue
                .receive(rest)
                .map_err(|_| "its answer can't be read".to_owned())?;
            match event {
                Some(Event::Head(head)) => self.head = Some(head),
                Some(Event::Log(range)) => {
                    let room = LOG_BYTES_MAX.saturating_sub(self.log.len());
                    let text = rest.get(range).unwrap_or_default();
                    self.log.extend(text.iter().take(room));
                }
                Some(Event::End { .. }) => break true,
                None if count == 0 => break false,
                _ => {}
            }
            used += count;
        };
        input.drain(..used.min(input.len()));
        Ok(is_whole)
    }

    fn word(self) -> Heard {
        let mut head = self.head.ok_or_else(|| "it says nothing".to_owned())?;
        // A Location alone is no redirect here, as in Apache.
        if !head.is_status_said {
            head.status = Status::OK;
        }
        let field = |name: &str| head.fields.first(name).map(<[u8]>::to_vec);
        let mut word = FcgiWord {
            status: head.status.0,
            location: field("Location"),
            challenge: field("WWW-Authenticate").and_then(|text| String::from_utf8(text).ok()),
            ..FcgiWord::default()
        };
        if let Authorization::Allowed(variables) = authorization(head) {
            let pairs = variables.iter();
            word.variables = pairs
                .map(|(name, value)| (name.to_vec(), value.to_vec()))
                .collect();
        }
        Ok((word, self.log))
    }
}
