//! Lines that the library writes about matched rules, one list per transaction.
//!
//! Called by: the library, through the callback that is set when it is loaded; the transaction,
//! which takes the lines.
//! Caveat: the callback gets the address of the list, so the list must not move and must live as
//! long as the transaction.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, c_char, c_void},
    sync::{Mutex, PoisonError},
};

/// Lines kept of one transaction until they are taken.
const LINES_MAX: usize = 100;
const LINE_BYTES_MAX: usize = 4 << 10;

pub(super) type Lines = Mutex<Vec<String>>;

/// Callback of the library for a matched rule: `data` is the pointer that the transaction was created
/// with, `line` a C string.
pub(super) extern "C" fn on_line(data: *mut c_void, line: *const c_void) {
    if data.is_null() || line.is_null() {
        return;
    }
    // SAFETY: `data` is the address of the lines that `Transaction::new` gave, and the library
    // calls from within calls for that transaction, which is alive then; they are behind a lock.
    // `line` is a text that ends with a zero and is there until we return (the library's default,
    // TextLogProperty). Test: lines_of_rules_are_told.
    let (lines, line) = unsafe {
        (
            &*data.cast::<Lines>(),
            CStr::from_ptr(line.cast::<c_char>()),
        )
    };
    let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
    if lines.len() < LINES_MAX {
        let bytes = line.to_bytes();
        lines.push(
            String::from_utf8_lossy(bytes.get(..LINE_BYTES_MAX).unwrap_or(bytes)).into_owned(),
        );
    }
}
