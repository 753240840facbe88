//! Questions of log-in rules to their databases (`database` in `[site.auth]`).
//!
//! Called by: `auth`, whose decisions ask by and by.
//! Caveat: a decision that has to wait is made again from its beginning, so each question and its
//! answer belong to the request. No answer is another request's: a user who was removed is out with
//! the next request.
//! Out of scope: the queries (`saker_auth`), and connections (`saker_database`).

use saker_auth::QueryOutcome;
use saker_config::model::DatabaseUrl;
use saker_database::{DbThread, Failure, QueryResult, Terms};
use saker_ipset::ClientNetwork;
use saker_net::{blocking::Answer, shares::Shares};
use std::{cell::RefCell, collections::HashMap, rc::Rc};
use tokio::sync::oneshot;

/// Questions of a worker under way to one database.
const ASKING_MAX: usize = 256;
/// Questions of one client among them.
const ASKING_OF_CLIENT_MAX: usize = 32;

/// Rows that are read of one result.
const ROWS_MAX: usize = 10_000;

/// A database; its thread is started with the first question. The error: why there is none.
struct Database {
    thread: Result<DbThread, Rc<str>>,
    under_way: Shares,
}

/// The databases of a worker, by their URLs.
#[derive(Default)]
pub struct Databases(RefCell<HashMap<Box<str>, Rc<Database>>>);

/// Questions of one request with their answers; `None` as long as there is none.
#[derive(Default)]
pub struct Asked(Vec<(Question, Slot)>);

type Question = (String, Vec<String>);

type Receiver = oneshot::Receiver<Result<QueryResult, Failure>>;

type Slot = Rc<RefCell<Option<QueryOutcome>>>;

impl Databases {
    fn get(&self, url: &DatabaseUrl) -> Rc<Database> {
        let mut all = self.0.borrow_mut();
        let known = all.entry(url.0.clone()).or_insert_with(|| {
            let terms = Terms {
                url: url.0.to_string(),
                ..Terms::default()
            };
            let thread = DbThread::start("log-in", terms);
            Rc::new(Database {
                thread: thread.map_err(|failure| failure.to_string().into()),
                under_way: Shares::new(ASKING_MAX, ASKING_OF_CLIENT_MAX),
            })
        });
        Rc::clone(known)
    }

    /// Asks once per request. A query may have more placeholders than there are values: the last
    /// one stands in them, too.
    pub fn ask(
        &self,
        (asked, client): (&mut Asked, ClientNetwork),
        url: &DatabaseUrl,
        query: &str,
        values: &[&str],
    ) -> Answer<QueryOutcome> {
        let last = values.last().copied().unwrap_or_default();
        let count = query.matches('?').count();
        let parameters = (0..count).map(|at| values.get(at).copied().unwrap_or(last).to_owned());
        let question = (query.to_owned(), parameters.collect::<Vec<String>>());
        if let Some((_, slot)) = asked.0.iter().find(|(known, _)| *known == question) {
            return match &*slot.borrow() {
                Some(outcome) => Answer::Known(outcome.clone()),
                None => Answer::Busy,
            };
        }
        let receiver = match self.get(url).begin(client, question.clone()) {
            Ok(Some(receiver)) => receiver,
            Ok(None) => return Answer::Busy,
            Err(why) => return Answer::Known(Err(why)),
        };
        let slot = Slot::default();
        asked.0.push((question, Rc::clone(&slot)));
        Answer::Wait(Box::pin(async move {
            let outcome = match receiver.await {
                Ok(Ok(found)) => Ok(Rc::new(found)),
                Ok(Err(failure)) => Err(failure.to_string().into()),
                Err(_) => Err("its thread has ended".into()),
            };
            *slot.borrow_mut() = Some(outcome);
        }))
    }
}

impl Database {
    /// Sends a question to the thread. `None`: too many are under way.
    fn begin(
        &self,
        client: ClientNetwork,
        (query, parameters): Question,
    ) -> Result<Option<Receiver>, Rc<str>> {
        let thread = self.thread.as_ref().map_err(Rc::clone)?;
        let Some(under_way) = self.under_way.take(client.number()) else {
            return Ok(None);
        };
        let (sender, receiver) = oneshot::channel();
        let is_running = thread.run(Box::new(move |database| {
            Box::pin(async move {
                let _under_way = under_way;
                let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
                let found = database.rows(&query, &parameters, ROWS_MAX).await;
                let found = found.map(|rows| QueryResult {
                    rows,
                    ..QueryResult::default()
                });
                // No receiver is left where the client has gone.
                let _ = sender.send(found);
            })
        }));
        match is_running {
            true => Ok(Some(receiver)),
            false => Err("its thread has ended".into()),
        }
    }
}
