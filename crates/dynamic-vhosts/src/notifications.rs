//! Changes of hosts that the database announces, so that they hold at once.
//!
//! Called by: `Hosts`, as a task of the database's thread.
//! Caveat: announcements may be missed while there is no connection. Each connection therefore
//! begins with forgetting all answers.
//! Out of scope: the time for which answers hold otherwise (`table`).

use crate::table::Table;
use saker_database::Notifications;
use saker_telemetry::{error_log, message};
use std::{sync::Weak, time::Duration};
use tokio::time::sleep;

/// Pause between attempts to listen.
const PAUSE: Duration = Duration::from_secs(1);

/// Forgets answers as the database announces changes; ends with the hosts.
pub async fn follow(table: Weak<Table>, url: String, channel: String) {
    let mut is_away = false;
    loop {
        let Err(failure) = listen(&table, &url, &channel, &mut is_away).await else {
            return;
        };
        if !std::mem::replace(&mut is_away, true) {
            error_log::log(
                &message::HOSTS_NOT_NOTIFIED,
                format_args!("channel {channel}: {failure}"),
            );
        }
        sleep(PAUSE).await;
    }
}

/// Returns when the hosts are gone, or with the reason why the connection has ended.
async fn listen(
    table: &Weak<Table>,
    url: &str,
    channel: &str,
    is_away: &mut bool,
) -> Result<(), saker_database::Failure> {
    let mut notifications = Notifications::of(url, channel).await?;
    let Some(answers) = table.upgrade() else {
        return Ok(());
    };
    answers.purge_all();
    drop(answers);
    if std::mem::take(is_away) {
        error_log::log(&message::HOSTS_NOTIFIED, format_args!("channel {channel}"));
    }
    loop {
        let text = notifications.next().await?;
        let Some(answers) = table.upgrade() else {
            return Ok(());
        };
        match canonical(&text) {
            Some(name) => drop(answers.purge(&name)),
            None => drop(answers.purge_all()),
        }
    }
}

/// The host that has changed; `None`: any may have.
fn canonical(text: &str) -> Option<String> {
    let name = text.trim().trim_end_matches('.').to_ascii_lowercase();
    (!name.is_empty() && !name.contains('*')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts() {
        assert_eq!(
            canonical(" Shop.Example. ").as_deref(),
            Some("shop.example")
        );
        for all in ["", " ", "*", "*.example"] {
            assert_eq!(canonical(all), None);
        }
    }
}
