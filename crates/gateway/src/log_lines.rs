//! Messages of a program for the error log, one line per message, however they were cut.
//!
//! Called by: exchanges for the log of their protocol, `programs` for standard error. Caveat:
//! php-fpm puts several messages into one record (`; ` between them), one into several records, and
//! line ends into messages. Out of scope: what php-fpm's processes write to their standard error
//! besides (`saker_php`'s `output`); [`heard`] tells the two apart.

use saker_pipeline::RequestLogContext;
use saker_telemetry::{
    error_log, heard, httpd_message,
    message::{self, Level},
};

/// Longer messages are cut.
const MESSAGE_BYTES_MAX: usize = 7 << 10;
/// Prefix of each message from php-fpm.
const PREFIX: &[u8] = b"PHP message: ";
/// Between two of its messages.
const SEPARATOR: &[u8] = b"; PHP message: ";

/// Source of the messages.
#[derive(Clone, Debug)]
pub enum Source {
    /// A server, by its protocol.
    Server,
    /// A program of CGI, by its name.
    Program(Box<str>),
}

pub struct LogLines {
    pub client: RequestLogContext,
    source: Source,
    messages: Messages,
}

impl LogLines {
    pub fn new(client: RequestLogContext, source: Source) -> LogLines {
        LogLines {
            client,
            source,
            messages: Messages::default(),
        }
    }

    pub fn push(&mut self, text: &[u8]) {
        let (client, source) = (&self.client, &self.source);
        self.messages
            .push(text, |message| write(client, source, message));
    }

    /// The message, even if its end did not come.
    pub fn flush(&mut self) {
        let (client, source) = (&self.client, &self.source);
        self.messages
            .flush(&mut |message| write(client, source, message));
    }
}

fn write(client: &RequestLogContext, source: &Source, message: &[u8]) {
    heard::note(message);
    let shown = String::from_utf8_lossy(message);
    match (source, error_log::speaks_httpd()) {
        (Source::Server, true) => {
            error_log::log_httpd(
                &httpd_message::FCGI_OUTPUT,
                None,
                client,
                format_args!("Got error '{shown}'"),
            );
        }
        // What a shell complains of is looked for at the beginning.
        (Source::Program(_), true) if message.starts_with(b"/bin/") => {
            error_log::log_httpd(
                &httpd_message::CGI_OUTPUT_LINE,
                None,
                client,
                format_args!("{shown}"),
            );
        }
        (Source::Program(name), true) => {
            error_log::log_httpd(
                &httpd_message::CGI_OUTPUT_LINE,
                None,
                client,
                format_args!("stderr from {name}: {shown}"),
            );
        }
        (Source::Server, false) if error_log::speaks_nginx() => error_log::log_nginx(
            &message::PROGRAM_SAID,
            Level::Error,
            client,
            format_args!(
                "FastCGI sent in stderr: \"{shown}\" while reading response header from upstream"
            ),
        ),
        (Source::Server, false) => {
            error_log::log_about(&message::PROGRAM_SAID, client, format_args!("{shown}"))
        }
        (Source::Program(name), false) => error_log::log_about(
            &message::PROGRAM_SAID,
            client,
            format_args!("{name}: {shown}"),
        ),
    }
}

/// Pieces put together to messages.
#[derive(Default)]
struct Messages {
    text: Vec<u8>,
    /// So much of the separator has been seen last, which began at this place in the text.
    matched: usize,
    separator_at: usize,
}

impl Messages {
    fn push(&mut self, text: &[u8], mut said: impl FnMut(&[u8])) {
        text.iter()
            .for_each(|byte| self.push_byte(*byte, &mut said));
    }

    fn push_byte(&mut self, byte: u8, said: &mut impl FnMut(&[u8])) {
        match byte {
            b'\n' if !self.text.starts_with(PREFIX) => return self.flush(said),
            b'\r' => return,
            _ => {}
        }
        if SEPARATOR.get(self.matched) != Some(&byte) {
            self.matched = 0;
        }
        if self.matched == 0 {
            self.separator_at = self.text.len();
        }
        if SEPARATOR.get(self.matched) == Some(&byte) {
            self.matched += 1;
        }
        if self.text.len() < MESSAGE_BYTES_MAX {
            self.text.push(byte);
        }
        if self.matched == SEPARATOR.len() {
            self.text.truncate(self.separator_at);
            self.flush(said);
            self.text.extend_from_slice(PREFIX);
        }
    }

    fn flush(&mut self, said: &mut impl FnMut(&[u8])) {
        self.matched = 0;
        let text = std::mem::take(&mut self.text);
        let message = text.trim_ascii_end();
        if !message.is_empty() {
            said(message);
        }
    }
}

impl Drop for LogLines {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(pieces: &[&[u8]]) -> Vec<String> {
        let (mut messages, mut found) = (Messages::default(), Vec::new());
        let mut said = |message: &[u8]| found.push(String::from_utf8_lossy(message).into_owned());
        pieces
            .iter()
            .for_each(|piece| messages.push(piece, &mut said));
        messages.flush(&mut said);
        found
    }

    #[test]
    fn each_message_once_however_it_is_cut() {
        let text = b"PHP message: a; b; PHP message: PHP Warning:  x\nStack trace:\n#0 {main}\n; PHP message: ; PHP message: c";
        let expected = [
            "PHP message: a; b",
            "PHP message: PHP Warning:  x\nStack trace:\n#0 {main}",
            "PHP message:",
            "PHP message: c",
        ];
        for size in 1..=text.len() {
            assert_eq!(
                messages(&text.chunks(size).collect::<Vec<_>>()),
                expected,
                "{size}"
            );
        }
        assert_eq!(messages(&[b"; PHP message: late"]), ["PHP message: late"]);
        assert_eq!(
            messages(&[b"PHP Warning:  one\r\nplain\n\nlast"]),
            ["PHP Warning:  one", "plain", "last"]
        );
        assert_eq!(
            messages(&[b"Primary script unknown"]),
            ["Primary script unknown"]
        );
    }

    #[test]
    fn a_long_message_hides_none_behind_it() {
        let long = [
            b"PHP message: ",
            vec![b'x'; 3 * MESSAGE_BYTES_MAX].as_slice(),
            b"; PHP message: next",
        ]
        .concat();
        let found = messages(&long.chunks(1000).collect::<Vec<_>>());
        assert_eq!(
            (found.len(), found[0].len(), &*found[1]),
            (2, MESSAGE_BYTES_MAX, "PHP message: next")
        );
    }
}
