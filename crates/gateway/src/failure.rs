//! Failures of upstream requests: the client's status, the log message, and whether another member
//! may be tried.

use saker_cgi::{Broken, Refused};
use saker_http::Status;
use saker_http2::ErrorCode;
use saker_pipeline::BodyError;
use saker_tls::TlsError;
use std::{fmt, io};

#[derive(Debug)]
pub enum Failure {
    /// No connection: refused, no such socket, no such host.
    Unreachable(io::Error),
    ConnectTimeout,
    /// No TLS with it: its certificate, or its manners.
    Tls(TlsError),
    /// Our own TLS settings for it can't be used.
    Unusable(String),
    /// It does not speak the protocol that it is to be spoken to in.
    Unspoken,
    /// A program of our own could not be started.
    NotStarted(io::Error),
    /// All connections are busy, and as many requests as may wait do.
    QueueFull,
    QueueTimeout,
    /// No member may be asked.
    NoMember,
    /// The session's own member can't be asked, and no other is to be.
    MemberGone,
    /// The protocol has no words for the request.
    Refused(Refused),
    /// The response is malformed.
    Broken(Broken),
    /// It says that it has not begun with the request (RFC 9113 section 8.7), none of whose content
    /// is gone.
    Unprocessed,
    /// It did not say in time that it is ready for the request, none of whose content has gone.
    Unready,
    /// It ended the request's stream (RFC 9113 section 5.4.2).
    Reset(ErrorCode),
    /// The connection broke while it was used.
    Io(io::Error),
    /// Nothing moved for too long.
    Timeout,
    /// More or less content than the head promised.
    Length,
    /// The client's side failed.
    Client(BodyError),
    /// The content's length is not known, and there is no room now for reading it ahead.
    NoRoom,
    /// The same, and it is longer than there ever is room for.
    LengthRequired,
}

impl Failure {
    /// 503 if no member was reachable, 504 if there was no response in time, 502 for malformed
    /// responses.
    pub fn status(&self) -> Status {
        match self {
            Failure::Unprocessed
            | Failure::Unready
            | Failure::Unreachable(_)
            | Failure::QueueFull
            | Failure::QueueTimeout
            | Failure::NoMember
            | Failure::NoRoom
            | Failure::MemberGone => Status::SERVICE_UNAVAILABLE,
            Failure::ConnectTimeout | Failure::Timeout => Status::GATEWAY_TIMEOUT,
            Failure::Refused(refused) => refused.status(),
            // No program can be started now.
            Failure::NotStarted(error) if is_shortage(error) => Status::SERVICE_UNAVAILABLE,
            Failure::NotStarted(_) => Status::INTERNAL_SERVER_ERROR,
            Failure::Broken(broken) => broken.fault.status(),
            Failure::Io(_)
            | Failure::Reset(_)
            | Failure::Length
            | Failure::Tls(_)
            | Failure::Unspoken => Status::BAD_GATEWAY,
            Failure::Unusable(_) => Status::INTERNAL_SERVER_ERROR,
            Failure::Client(BodyError::TooLarge) => Status::CONTENT_TOO_LARGE,
            Failure::Client(BodyError::TrailersTooLarge) => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Failure::Client(BodyError::TimedOut) => Status::REQUEST_TIMEOUT,
            Failure::Client(_) => Status::BAD_REQUEST,
            Failure::LengthRequired => Status(411),
        }
    }

    /// Apache's choices where a server answers over HTTP (mod_proxy_http).
    pub fn status_by_apache(&self) -> Status {
        match self {
            Failure::ConnectTimeout => Status::SERVICE_UNAVAILABLE,
            Failure::Timeout => Status::BAD_GATEWAY,
            Failure::Unreachable(error) if is_of_resolver(error) => Status::INTERNAL_SERVER_ERROR,
            other => other.status(),
        }
    }

    /// Apache's choices where the program is of our own making (mod_cgi): what it does wrong is
    /// this server's error.
    pub fn status_of_program(&self) -> Status {
        match self {
            Failure::Broken(_) | Failure::Io(_) | Failure::Length => Status::INTERNAL_SERVER_ERROR,
            other => other.status(),
        }
    }

    /// The member could not be reached at all: whatever the request is, another may have it.
    pub fn is_before_request(&self) -> bool {
        matches!(
            self,
            Failure::Unreachable(_)
                | Failure::ConnectTimeout
                | Failure::Tls(_)
                | Failure::Unspoken
                | Failure::Unprocessed
                | Failure::Unready
                | Failure::QueueFull
        ) || matches!(self, Failure::Broken(broken) if broken.is_untouched)
    }

    /// The member is to blame.
    pub fn counts_against_member(&self) -> bool {
        !matches!(
            self,
            Failure::Refused(_)
                | Failure::Client(_)
                | Failure::NoMember
                | Failure::MemberGone
                | Failure::QueueFull
                | Failure::NoRoom
                | Failure::LengthRequired
        )
    }

    /// Seconds after which a client may try again.
    pub fn retry_after_s(&self) -> Option<u32> {
        matches!(
            self,
            Failure::QueueFull
                | Failure::QueueTimeout
                | Failure::Unreachable(_)
                | Failure::Unprocessed
                | Failure::NoMember
                | Failure::NoRoom
        )
        .then_some(5)
        .or_else(|| matches!(self, Failure::NotStarted(error) if is_shortage(error)).then_some(5))
    }
}

/// True if a name has no address: what the resolver says is no error of a system call, nor one of the
/// kinds that this crate makes of others.
fn is_of_resolver(error: &io::Error) -> bool {
    use io::ErrorKind::{NotConnected, Other, UnexpectedEof, WriteZero};
    error.raw_os_error().is_none()
        && !matches!(
            error.kind(),
            NotConnected | Other | UnexpectedEof | WriteZero
        )
}

/// True for a shortage of processes, memory or descriptors, which may be temporary.
fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let shortages = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE]
        .map(|errno| Some(errno.raw_os_error()));
    shortages.contains(&error.raw_os_error())
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unreachable(error) => write!(f, "can't be reached: {error}"),
            Failure::ConnectTimeout => f.write_str("takes no connection in time"),
            Failure::Tls(fault) => write!(f, "no TLS: {fault}"),
            Failure::Unusable(reason) => write!(f, "TLS can't be set up: {reason}"),
            Failure::Unspoken => f.write_str("does not agree to the protocol"),
            Failure::NotStarted(error) => write!(f, "can't be started: {error}"),
            Failure::QueueFull => f.write_str("all connections are busy and too many requests wait"),
            Failure::QueueTimeout => f.write_str("no connection came free in time"),
            Failure::NoMember => f.write_str("no member can be asked"),
            Failure::MemberGone => f.write_str("the session's member can't be asked"),
            Failure::Refused(refused) => f.write_str(refused.as_str()),
            Failure::Broken(broken) if broken.excerpt.is_empty() => f.write_str(broken.fault.as_str()),
            Failure::Broken(broken) => write!(f, "{}: {}", broken.fault.as_str(), broken.excerpt.escape_ascii()),
            Failure::Unprocessed => f.write_str("does not take the request now"),
            Failure::Unready => f.write_str("does not say that it is ready"),
            Failure::Reset(code) => write!(f, "ended the request's stream: {}", code.as_str()),
            Failure::Io(error) => write!(f, "connection broke: {error}"),
            Failure::Timeout => f.write_str("nothing came in time"),
            Failure::Length => f.write_str("the content is not as long as was said"),
            Failure::NoRoom => f.write_str("no room to read content of unknown length ahead (see buffer_files in [limits])"),
            Failure::LengthRequired => {
                f.write_str("content of unknown length is longer than there is room to read ahead (see buffer_files in [limits])")
            }
            Failure::Client(error) => write!(f, "the client's content ended early ({error:?})"),
        }
    }
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Failure {
        Failure::Broken(broken)
    }
}
