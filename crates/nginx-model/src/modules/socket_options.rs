//! Options of sockets, as `listen` has them in `http` and in `stream`.
//!
//! Called by: the readers of both.
//! Caveat: the options of an address stand in one of its servers.
//! Out of scope: addresses (`listen`), and words of one of the two only.

use crate::values::{size, time_ms};

/// Options of the socket of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    pub backlog: Option<u32>,
    pub send_buffer_bytes: Option<u32>,
    pub receive_buffer_bytes: Option<u32>,
    pub keeps_alive: bool,
    /// IPv4 clients come through this IPv6 socket, too.
    pub is_dual: bool,
    /// There is one, be it one that changes nothing here.
    pub are_set: bool,
}

impl SocketOptions {
    /// Reads a word. False: it is no option of a socket.
    ///
    /// # Errors
    /// nginx's message.
    pub fn read(&mut self, word: &str) -> Result<bool, String> {
        let invalid = |kind: &str| format!("invalid {kind} \"{word}\"");
        let number = |text: &str| text.parse::<u32>().ok();
        match word.split_once('=') {
            Some(("backlog", text)) => {
                let backlog = number(text).filter(|backlog| *backlog > 0);
                self.backlog = Some(backlog.ok_or_else(|| invalid("backlog"))?);
            }
            Some((name @ ("sndbuf" | "rcvbuf"), text)) => {
                let bytes = size(text).and_then(|bytes| u32::try_from(bytes).ok());
                let bytes = Some(bytes.ok_or_else(|| invalid(name))?).filter(|bytes| *bytes > 0);
                match name {
                    "sndbuf" => self.send_buffer_bytes = bytes,
                    _ => self.receive_buffer_bytes = bytes,
                }
            }
            Some(("fastopen", text)) => drop(number(text).ok_or_else(|| invalid("fastopen"))?),
            Some(("so_keepalive", text)) => {
                let wrong = || format!("invalid so_keepalive value: \"{text}\"");
                self.keeps_alive = keeps_alive(text).ok_or_else(wrong)?;
            }
            Some(("ipv6only", "off")) => self.is_dual = true,
            Some(("ipv6only", "on")) => {}
            None if matches!(word, "bind" | "reuseport" | "multipath") => {}
            _ => return Ok(false),
        }
        self.are_set = true;
        Ok(true)
    }
}

/// `on`, `off`, or times and a number with colons between them, of which one is there.
fn keeps_alive(text: &str) -> Option<bool> {
    let parts: Vec<&str> = text.split(':').collect();
    match *parts {
        ["on"] => Some(true),
        ["off"] => Some(false),
        [idle, between, count] => {
            let is_time = |text: &str| text.is_empty() || time_ms(text).is_some();
            let is_count = count.is_empty() || count.parse::<u32>().is_ok();
            let is_there = parts.iter().any(|part| !part.is_empty());
            (is_time(idle) && is_time(between) && is_count && is_there).then_some(true)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let rows = [
            ("backlog=5", Ok(true)),
            ("backlog=0", Err("invalid backlog \"backlog=0\"")),
            ("backlog=-1", Err("invalid backlog \"backlog=-1\"")),
            ("rcvbuf=4k", Ok(true)),
            ("rcvbuf=x", Err("invalid rcvbuf \"rcvbuf=x\"")),
            ("sndbuf=", Err("invalid sndbuf \"sndbuf=\"")),
            ("fastopen=12", Ok(true)),
            ("fastopen=x", Err("invalid fastopen \"fastopen=x\"")),
            ("so_keepalive=on", Ok(true)),
            ("so_keepalive=30m::10", Ok(true)),
            ("so_keepalive=::", Err("invalid so_keepalive value: \"::\"")),
            ("so_keepalive=x", Err("invalid so_keepalive value: \"x\"")),
            ("ipv6only=x", Ok(false)),
            ("setfib=1", Ok(false)),
            ("bind", Ok(true)),
            ("ssl", Ok(false)),
        ];
        for (word, expected) in rows {
            let mut options = SocketOptions::default();
            let read = options.read(word);
            assert_eq!(read, expected.map_err(str::to_owned), "{word}");
            assert_eq!(options.are_set, read == Ok(true), "{word}");
        }
    }
}
