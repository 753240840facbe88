//! Events for the server's log.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Issued {
        names: Vec<String>,
        directory: String,
        /// Seconds since 1970, as all times here.
        not_after: u64,
    },
    Failed {
        names: Vec<String>,
        reason: String,
        retry_at: u64,
    },
    /// One of several directories failed, and the next one is tried.
    DirectoryFailed { directory: String, reason: String },
    /// The ask rule forbids a certificate on demand, or is unavailable.
    Forbidden { name: String, reason: String },
    /// The state folder can't be read or written.
    State { reason: String },
    /// A certificate that another server of the cluster has ordered is in use.
    TakenOver { names: Vec<String> },
    /// The cluster's engine cannot be used; the certificate is looked after later.
    ClusterAway { names: Vec<String>, reason: String },
    /// A record in the zone may be left over.
    RecordLeft { record: String, reason: String },
}

/// The facts; what kind they are of is for the log to say.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Issued {
                names,
                directory,
                not_after,
            } => {
                write!(
                    f,
                    "{}, by {directory}, valid until {}",
                    names.join(", "),
                    date(*not_after)
                )
            }
            Event::Failed {
                names,
                reason,
                retry_at,
            } => {
                write!(
                    f,
                    "{}: {reason}; next attempt {}",
                    names.join(", "),
                    date(*retry_at)
                )
            }
            Event::DirectoryFailed { directory, reason } => write!(f, "{directory}: {reason}"),
            Event::Forbidden { name, reason } => write!(f, "{name}: {reason}"),
            Event::State { reason } => f.write_str(reason),
            Event::TakenOver { names } => f.write_str(&names.join(", ")),
            Event::ClusterAway { names, reason } => write!(f, "{}: {reason}", names.join(", ")),
            Event::RecordLeft { record, reason } => write!(f, "{record}: {reason}"),
        }
    }
}

fn date(seconds: u64) -> String {
    let time = crate::schedule::civil(seconds);
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02} UTC",
        time.year, time.month, time.day, time.hour, time.minute
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_when_and_why() {
        let event = Event::Failed {
            names: vec!["a.example".into(), "b.example".into()],
            reason: "refused".into(),
            retry_at: 951_827_696,
        };
        assert_eq!(
            event.to_string(),
            "a.example, b.example: refused; next attempt 2000-02-29 12:34 UTC"
        );
    }
}
