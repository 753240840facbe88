//! A set of rules: made of files and texts in their order, then only read.
#![allow(unsafe_code)]

use super::library::{Library, Opaque};
use std::{
    ffi::{CStr, CString, c_char, c_int},
    fmt,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    ptr::NonNull,
    sync::{Mutex, PoisonError},
};

/// Source of rules for a set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Names of files in it are relative to its folder.
    File(PathBuf),
    Text(Vec<u8>),
}

/// Why a part was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesFault {
    /// The index of the part; `None`: it is the library itself.
    pub part: Option<usize>,
    /// As the library has it.
    pub message: String,
}

pub struct RuleSet {
    library: &'static Library,
    raw: NonNull<std::ffi::c_void>,
}

// SAFETY: nothing of ours writes to a set once `RuleSet::new` has returned it, and the library only
// reads a set for a transaction (`m_rules` of transaction.h; files that its logs go to have locks).
// Test: threads_share_a_rule_set.
unsafe impl Send for RuleSet {}
// SAFETY: as above.
unsafe impl Sync for RuleSet {}

impl RuleSet {
    pub fn new(parts: &[Part]) -> Result<RuleSet, RulesFault> {
        let of_library = |message: String| RulesFault {
            part: None,
            message,
        };
        let library = Library::loaded().map_err(of_library)?;
        // The library's scanner of rules is one for the process (seclang-scanner.cc has its state
        // in globals).
        static SCANNER: Mutex<()> = Mutex::new(());
        let _alone = SCANNER.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: has no conditions. Test: rules_refuse_and_let_pass.
        let raw = NonNull::new(unsafe { (library.create_rules)() })
            .ok_or_else(|| of_library("no memory for rules".into()))?;
        let mut set = RuleSet { library, raw };
        for (at, part) in parts.iter().enumerate() {
            set.add(part).map_err(|message| RulesFault {
                part: Some(at),
                message,
            })?;
        }
        Ok(set)
    }

    pub(super) fn library(&self) -> &'static Library {
        self.library
    }

    pub(super) fn raw(&self) -> Opaque {
        self.raw.as_ptr()
    }

    fn add(&mut self, part: &Part) -> Result<(), String> {
        let (add, bytes) = match part {
            Part::File(path) => (self.library.add_file, path.as_os_str().as_bytes()),
            Part::Text(text) => (self.library.add_text, text.as_slice()),
        };
        let text = CString::new(bytes).map_err(|_| "a NUL is in it".to_owned())?;
        let mut fault: *const c_char = std::ptr::null();
        // SAFETY: the set is alive and, by `&mut self`, not shared yet; the text ends with a zero
        // and outlives the call, which leaves an allocated text or nothing in `fault`. Tests:
        // rules_refuse_and_let_pass, mistakes_are_told.
        let added: c_int = unsafe { add(self.raw(), text.as_ptr(), &raw mut fault) };
        let fault = owned_text(fault.cast_mut());
        if added < 0 {
            Err(fault.unwrap_or_else(|| "refused without a reason".into()))
        } else {
            Ok(())
        }
    }
}

impl Drop for RuleSet {
    fn drop(&mut self) {
        // SAFETY: every transaction holds an `Arc` of its set, so no reference to this one is left.
        // Test: what_is_made_is_freed.
        unsafe { (self.library.free_rules)(self.raw.as_ptr()) };
    }
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RuleSet")
    }
}

/// Takes over a text that the library has made by strdup(3).
pub(super) fn owned_text(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, so it is a text of strdup's that is left to us (rules_set.cc and
    // transaction.h, `intervention`): it ends with a zero, and is freed once, here. Tests:
    // mistakes_are_told, a_redirect_has_its_place.
    unsafe {
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        libc::free(text.cast());
        Some(copy)
    }
}
