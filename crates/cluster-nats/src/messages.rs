//! Messages of a stream by their numbers.
//!
//! Called by: `nats_log`, `nats_feeds`, `nats_state` and `nodes`.
//! Caveat: single messages may be missing in the middle, since newer ones of their subject replace
//! them, or an operator has deleted them. A part that is shorter than it was asked for always
//! reaches to the end.
//! Out of scope: the content of messages.

use crate::connection::{Connection, failed};
use async_nats::jetstream::{
    message::StreamMessage,
    stream::{RawMessageError, RawMessageErrorKind, Stream},
};
use futures_util::future::join_all;
use saker_cluster::LogError;

/// Messages that are asked for at once.
const AT_ONCE: u64 = 32;

/// The newest message of a subject.
pub async fn newest(
    connection: &Connection,
    stream: &Stream,
    subject: &str,
) -> Result<Option<StreamMessage>, LogError> {
    let asked = stream.raw_message_builder().last_by_subject(subject).send();
    connection.ask(async { found(asked.await) }).await
}

/// Up to `count_max` messages with the numbers `from` to `last`.
pub async fn part(
    connection: &Connection,
    stream: &Stream,
    (from, last): (u64, u64),
    count_max: usize,
) -> Result<Vec<StreamMessage>, LogError> {
    let (mut all, mut next) = (Vec::new(), from.max(1));
    while next <= last && all.len() < count_max {
        let missing = (count_max - all.len()) as u64;
        let end = next
            .saturating_add(missing.min(AT_ONCE))
            .min(last.saturating_add(1));
        let asked = (next..end).map(|number| stream.get_raw_message(number));
        let before = all.len();
        for answer in connection.until_end(join_all(asked)).await? {
            all.extend(found(answer).map_err(failed)?);
        }
        next = end;
        if all.len() == before && next <= last {
            // A gap, perhaps a long one.
            let asked = stream.get_first_raw_message_by_subject(">", next);
            let Some(behind) = connection.ask(async { found(asked.await) }).await? else {
                break;
            };
            next = behind.sequence;
        }
    }
    Ok(all)
}

/// The number of the newest message of a stream; 0 without one.
pub async fn last_number(connection: &Connection, stream: &Stream) -> Result<u64, LogError> {
    let info = connection.ask(stream.get_info()).await?;
    Ok(info.state.last_sequence)
}

fn found(
    answer: Result<StreamMessage, RawMessageError>,
) -> Result<Option<StreamMessage>, RawMessageError> {
    match answer {
        Ok(message) => Ok(Some(message)),
        Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(error),
    }
}
