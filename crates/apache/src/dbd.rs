//! Database queries of one request: each is asked once, however often the rules that ask it begin
//! anew.
//!
//! Difficulty: rules don't wait; they are run again when the answer is there. So questions and
//! answers belong to the request, and no answer is ever another request's: who is struck off in the
//! database is out with the next request.

use saker_apache_model::dbd::Dbd;
use saker_database::{Failure, QueryResult};
use saker_net::blocking::Answer;
use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};
use tokio::sync::oneshot;

/// Questions of one request; rules in an endless circle reach it.
const QUESTIONS_MAX: usize = 200;

/// Rows that are read of one result.
const ROWS_MAX: usize = 10_000;

/// A query with `?` for each parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub query: String,
    pub parameters: Vec<String>,
    /// It is asked for what it does, not for rows.
    pub is_change: bool,
}

impl Question {
    /// `query` as Apache has it. A query may have more placeholders than there are values: the last
    /// one stands in them, too.
    pub fn of(query: &str, values: &[&str], is_change: bool) -> Question {
        let (query, count) = saker_database::from_printf(query);
        let last = values.last().copied().unwrap_or_default();
        let parameters = (0..count)
            .map(|number| values.get(number).copied().unwrap_or(last).to_owned())
            .collect();
        Question {
            query,
            parameters,
            is_change,
        }
    }
}

/// The error: why nothing did.
pub type QueryAnswer = Result<Rc<QueryResult>, Rc<str>>;

enum Place {
    Waiting(oneshot::Receiver<Result<QueryResult, Failure>>),
    Known(QueryAnswer),
}

/// In the order in which they were asked.
#[derive(Default)]
pub struct Asked(RefCell<Vec<(Question, Place)>>);

impl Asked {
    pub fn ask(self: &Rc<Self>, dbd: &Dbd, question: Question) -> Answer<QueryAnswer> {
        let at = self
            .0
            .borrow()
            .iter()
            .position(|(known, _)| *known == question);
        let at = match at {
            Some(at) => at,
            None => match self.begin(dbd, question) {
                Ok(at) => at,
                Err(answer) => return answer,
            },
        };
        if let Some((_, Place::Known(said))) = self.0.borrow().get(at) {
            return Answer::Known(said.clone());
        }
        let own = Rc::clone(self);
        Answer::Wait(Box::pin(poll_fn(move |context| own.poll(at, context))))
    }

    fn begin(&self, dbd: &Dbd, question: Question) -> Result<usize, Answer<QueryAnswer>> {
        let mut all = self.0.borrow_mut();
        if all.len() >= QUESTIONS_MAX {
            let why = "this request has asked too much already";
            return Err(Answer::Known(Err(Rc::from(why))));
        }
        let receiver = send(dbd, question.clone())?;
        all.push((question, Place::Waiting(receiver)));
        Ok(all.len() - 1)
    }

    fn poll(&self, at: usize, context: &mut Context<'_>) -> Poll<()> {
        let mut all = self.0.borrow_mut();
        let Some((_, place)) = all.get_mut(at) else {
            return Poll::Ready(());
        };
        let Place::Waiting(receiver) = place else {
            return Poll::Ready(());
        };
        let heard = match Pin::new(receiver).poll(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(heard) => heard,
        };
        *place = Place::Known(match heard {
            Ok(Ok(found)) => Ok(Rc::new(found)),
            Ok(Err(failure)) => Err(failure.to_string().into()),
            Err(_) => Err("its thread has ended".into()),
        });
        Poll::Ready(())
    }
}

/// Sends a question to the thread of the database.
fn send(
    dbd: &Dbd,
    question: Question,
) -> Result<oneshot::Receiver<Result<QueryResult, Failure>>, Answer<QueryAnswer>> {
    let under_way = dbd.begin().ok_or(Answer::Busy)?;
    let (sender, receiver) = oneshot::channel();
    dbd.run(Box::new(move |database| {
        Box::pin(async move {
            let _under_way = under_way;
            let parameters: Vec<&str> = question.parameters.iter().map(String::as_str).collect();
            let found = match question.is_change {
                true => database
                    .change(&question.query, &parameters)
                    .await
                    .map(|changed| QueryResult {
                        changed,
                        ..QueryResult::default()
                    }),
                false => database
                    .rows(&question.query, &parameters, ROWS_MAX)
                    .await
                    .map(|rows| QueryResult {
                        rows,
                        ..QueryResult::default()
                    }),
            };
            // No receiver is left where the client has gone.
            let _ = sender.send(found);
        })
    }))
    .map_err(|why| Answer::Known(Err(Rc::from(why))))?;
    Ok(receiver)
}

/// Changes the database, and waits for it. The number of rows that were changed.
pub async fn change(dbd: &Dbd, query: &str, values: &[&str]) -> Result<u64, Rc<str>> {
    let receiver = match send(dbd, Question::of(query, values, true)) {
        Ok(receiver) => receiver,
        Err(Answer::Known(Err(why))) => return Err(why),
        Err(_) => return Err("too many questions wait for it".into()),
    };
    match receiver.await {
        Ok(Ok(found)) => Ok(found.changed),
        Ok(Err(failure)) => Err(failure.to_string().into()),
        Err(_) => Err("its thread has ended".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_for_placeholders() {
        let of =
            |query: &str, values: &[&str]| Question::of(query, values, false).parameters.join("|");
        assert_eq!(of("a = %s", &["u"]), "u");
        assert_eq!(of("a = %s AND b = %s", &["u", "r"]), "u|r");
        assert_eq!(of("a = %s OR b = %s", &["u"]), "u|u");
        assert_eq!(of("a", &["u"]), "");
    }
}
