//! A request and its response, evaluated against a rule set.
//!
//! Order of calls: connection, URI and head; content; the response's head and content; the log.
//! After each the caller checks for an [`Intervention`].
//! Caveat: the library reports matched rules through a callback with an address we gave it, so the
//! value at that address must not move and lives as long as the transaction.
#![allow(unsafe_code)]

use super::{
    library::{Library, Opaque, RawIntervention},
    lines::Lines,
    rules::{RuleSet, owned_text},
};
use std::{
    ffi::{CString, c_int, c_void},
    fmt,
    net::SocketAddr,
    ptr::NonNull,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// Number of there are in this process.
pub fn transactions_alive() -> usize {
    ALIVE.load(Ordering::Relaxed)
}

/// Action requested by the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intervention {
    pub status: u16,
    pub redirect: Option<String>,
    /// The line for the log.
    pub line: Option<String>,
}

pub struct Transaction {
    rules: Arc<RuleSet>,
    raw: NonNull<c_void>,
    lines: Box<Lines>,
}

// SAFETY: a transaction knows no thread: it is memory that its calls work on, and all of them that
// change it take `&mut self`. It is not `Sync`. Test: threads_share_a_rule_set.
unsafe impl Send for Transaction {}

impl Transaction {
    /// `id` is how the logs of the library call it.
    pub fn new(rules: &Arc<RuleSet>, id: &str) -> Option<Transaction> {
        let library = rules.library();
        let lines = Box::<Lines>::default();
        let id = text(id.as_bytes());
        // SAFETY: engine and set are alive, the latter as long as the `Arc` in the transaction; the
        // id is copied. The address of the lines is one of a box, which stays where it is, and is
        // dropped after the transaction has been freed. Test: lines_of_rules_are_told.
        let raw = unsafe {
            (library.new_transaction)(
                library.engine(),
                rules.raw(),
                id.as_ptr(),
                (&raw const *lines).cast_mut().cast(),
            )
        };
        let raw = NonNull::new(raw)?;
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Some(Transaction {
            rules: Arc::clone(rules),
            raw,
            lines,
        })
    }

    pub fn connection(&mut self, client: SocketAddr, server: SocketAddr) {
        let (client_ip, server_ip) = (
            text(client.ip().to_string().as_bytes()),
            text(server.ip().to_string().as_bytes()),
        );
        let (from, to) = (c_int::from(client.port()), c_int::from(server.port()));
        // SAFETY: see `call`; the texts end with zeros and are copied. Test:
        // rules_refuse_and_let_pass.
        unsafe {
            (self.library().connection)(
                self.raw.as_ptr(),
                client_ip.as_ptr(),
                from,
                server_ip.as_ptr(),
                to,
            )
        };
    }

    /// `version` as `1.1`.
    pub fn uri(&mut self, target: &[u8], method: &[u8], version: &str) {
        let (target, method, version) = (text(target), text(method), text(version.as_bytes()));
        // SAFETY: see `call`; the texts end with zeros and are copied. Test:
        // rules_refuse_and_let_pass.
        unsafe {
            (self.library().uri)(
                self.raw.as_ptr(),
                target.as_ptr(),
                method.as_ptr(),
                version.as_ptr(),
            )
        };
    }

    pub fn request_field(&mut self, name: &[u8], value: &[u8]) {
        // SAFETY: see `call`; bytes are passed with their numbers and copied. Test:
        // rules_refuse_and_let_pass.
        unsafe {
            (self.library().add_request_field)(
                self.raw.as_ptr(),
                name.as_ptr(),
                name.len(),
                value.as_ptr(),
                value.len(),
            )
        };
    }

    pub fn request_head(&mut self) {
        self.call(self.library().request_head);
    }

    /// True if more is wanted.
    pub fn append_request_content(&mut self, bytes: &[u8]) -> bool {
        // SAFETY: see `call`; bytes are passed with their number and copied. Test:
        // content_is_looked_at.
        unsafe {
            (self.library().append_request_content)(self.raw.as_ptr(), bytes.as_ptr(), bytes.len())
                != 0
        }
    }

    pub fn request_content(&mut self) {
        self.call(self.library().request_content);
    }

    pub fn response_field(&mut self, name: &[u8], value: &[u8]) {
        // SAFETY: see `call`; bytes are passed with their numbers and copied. Test:
        // content_is_looked_at.
        unsafe {
            (self.library().add_response_field)(
                self.raw.as_ptr(),
                name.as_ptr(),
                name.len(),
                value.as_ptr(),
                value.len(),
            )
        };
    }

    pub fn response_head(&mut self, status: u16, protocol: &str) {
        let protocol = text(protocol.as_bytes());
        // SAFETY: see `call`; the text ends with a zero and is copied. Test: content_is_looked_at.
        unsafe {
            (self.library().response_head)(
                self.raw.as_ptr(),
                c_int::from(status),
                protocol.as_ptr(),
            )
        };
    }

    /// True if more is wanted.
    pub fn append_response_content(&mut self, bytes: &[u8]) -> bool {
        // SAFETY: see `call`; bytes are passed with their number and copied. Test:
        // content_is_looked_at.
        unsafe {
            (self.library().append_response_content)(self.raw.as_ptr(), bytes.as_ptr(), bytes.len())
                != 0
        }
    }

    pub fn response_content(&mut self) {
        self.call(self.library().response_content);
    }

    /// Records the final status sent to the client, for logs.
    pub fn answered(&mut self, status: u16) {
        // SAFETY: see `call`. Test: lines_of_rules_are_told.
        unsafe { (self.library().update_status)(self.raw.as_ptr(), c_int::from(status)) };
    }

    /// The last phase: the audit log is written.
    pub fn logging(&mut self) {
        self.call(self.library().logging);
    }

    /// Returns the action requested by the rules of the last phase; each is returned once.
    pub fn intervention(&mut self) -> Option<Intervention> {
        let mut raw = RawIntervention {
            status: 200,
            pause: 0,
            url: std::ptr::null_mut(),
            log: std::ptr::null_mut(),
            disruptive: 0,
        };
        // SAFETY: see `call`; the struct is ours and of the header's layout, and texts in it are
        // left to us. Test: a_redirect_has_its_place.
        let is_disruptive =
            unsafe { (self.library().intervention)(self.raw.as_ptr(), &raw mut raw) } != 0;
        let (redirect, line) = (owned_text(raw.url), owned_text(raw.log));
        is_disruptive.then(|| Intervention {
            status: u16::try_from(raw.status).unwrap_or(403),
            redirect,
            line,
        })
    }

    /// Takes the log lines that rules have written since the last call.
    pub fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn library(&self) -> &'static Library {
        self.rules.library()
    }

    /// Calls that take a transaction and nothing else.
    fn call(&mut self, function: unsafe extern "C" fn(Opaque) -> c_int) {
        // SAFETY: the transaction is alive until it is dropped, and `&mut self` makes the access
        // exclusive. Test: rules_refuse_and_let_pass.
        unsafe { function(self.raw.as_ptr()) };
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // SAFETY: made by `new`, freed once, and no other reference exists; rules and lines are
        // dropped after it. Test: what_is_made_is_freed.
        unsafe { (self.library().free_transaction)(self.raw.as_ptr()) };
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transaction")
    }
}

/// For the library; what is behind a NUL would be lost, and no part of a request that passes our
/// parser has one.
fn text(bytes: &[u8]) -> CString {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    CString::new(bytes.get(..end).unwrap_or_default()).unwrap_or_default()
}
