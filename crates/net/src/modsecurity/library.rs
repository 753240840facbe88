//! The functions of libmodsecurity.so.3, looked up when rules are first needed.
//!
//! Nothing is linked: without rules, the library is not required.
//! Caveat: dlsym returns an address without a type. The types here are those of
//! `modsecurity/{modsecurity,rules_set,transaction,intervention}.h`, which have been the same since
//! 3.0.0 and go with the library's soname. A loaded library is never unloaded: rule sets and
//! transactions of all threads use its code.
#![allow(unsafe_code)]

use super::lines::on_line;
use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    ptr::NonNull,
    sync::Mutex,
};

const SONAME: &CStr = c"libmodsecurity.so.3";
const MISSING: &str = "libmodsecurity.so.3 can't be loaded; install the package libmodsecurity3";

/// `ModSecurity`, `RulesSet`, `Transaction`: only ever held by their addresses.
pub(super) type Opaque = *mut c_void;
type LogCallback = extern "C" fn(*mut c_void, *const c_void);

/// `ModSecurityIntervention` (intervention.h).
#[repr(C)]
pub(super) struct RawIntervention {
    pub status: c_int,
    pub pause: c_int,
    pub url: *mut c_char,
    pub log: *mut c_char,
    pub disruptive: c_int,
}

macro_rules! functions {
    ($($field:ident $name:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        pub(super) struct Library {
            engine: NonNull<c_void>,
            $(pub $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Library {
            fn find(handle: NonNull<c_void>) -> Result<Library, String> {
                $(
                    let address = symbol(handle, $name)?;
                    // SAFETY: the address is that of the function of this name in
                    // libmodsecurity.so.3, whose C declaration this is the transcription of, and an
                    // object and a function pointer are of one size on Linux (dlsym(3)). Test:
                    // rules_refuse_and_let_pass.
                    let $field = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(address) };
                )*
                let engine = engine(handle)?;
                Ok(Library { engine, $($field,)* })
            }
        }
    };
}

functions! {
    set_connector_info c"msc_set_connector_info" (Opaque, *const c_char);
    set_log_callback c"msc_set_log_cb" (Opaque, LogCallback);
    create_rules c"msc_create_rules_set" () -> Opaque;
    add_file c"msc_rules_add_file" (Opaque, *const c_char, *mut *const c_char) -> c_int;
    add_text c"msc_rules_add" (Opaque, *const c_char, *mut *const c_char) -> c_int;
    free_rules c"msc_rules_cleanup" (Opaque) -> c_int;
    new_transaction c"msc_new_transaction_with_id" (Opaque, Opaque, *const c_char, *mut c_void) -> Opaque;
    connection c"msc_process_connection" (Opaque, *const c_char, c_int, *const c_char, c_int) -> c_int;
    uri c"msc_process_uri" (Opaque, *const c_char, *const c_char, *const c_char) -> c_int;
    add_request_field c"msc_add_n_request_header" (Opaque, *const u8, usize, *const u8, usize) -> c_int;
    request_head c"msc_process_request_headers" (Opaque) -> c_int;
    append_request_content c"msc_append_request_body" (Opaque, *const u8, usize) -> c_int;
    request_content c"msc_process_request_body" (Opaque) -> c_int;
    add_response_field c"msc_add_n_response_header" (Opaque, *const u8, usize, *const u8, usize) -> c_int;
    response_head c"msc_process_response_headers" (Opaque, c_int, *const c_char) -> c_int;
    append_response_content c"msc_append_response_body" (Opaque, *const u8, usize) -> c_int;
    response_content c"msc_process_response_body" (Opaque) -> c_int;
    update_status c"msc_update_status_code" (Opaque, c_int) -> c_int;
    logging c"msc_process_logging" (Opaque) -> c_int;
    intervention c"msc_intervention" (Opaque, *mut RawIntervention) -> c_int;
    free_transaction c"msc_transaction_cleanup" (Opaque);
}

// SAFETY: addresses of functions, and of the one `ModSecurity`, which the library reads only, but
// for its persistent collections, and those have locks
// (collection/backend/in_memory-per_process.cc). Test: threads_share_a_rule_set.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// The one of this process. A machine that has none may come to have one.
    pub fn loaded() -> Result<&'static Library, String> {
        static LOADED: Mutex<Option<&'static Library>> = Mutex::new(None);
        let mut loaded = LOADED
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match *loaded {
            Some(library) => Ok(library),
            None => Ok(*loaded.insert(Box::leak(Box::new(Library::load()?)))),
        }
    }

    pub fn engine(&self) -> Opaque {
        self.engine.as_ptr()
    }

    fn load() -> Result<Library, String> {
        // SAFETY: the name ends with a zero. Loading runs the initializers of the library that the
        // administrator has installed, which is what he asks for by naming rules. Test:
        // rules_refuse_and_let_pass.
        let handle = unsafe { libc::dlopen(SONAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let handle = NonNull::new(handle).ok_or_else(|| format!("{MISSING} ({})", last_fault()))?;
        let library = Library::find(handle)?;
        let connector =
            CString::new(concat!("Saker v", env!("CARGO_PKG_VERSION"))).unwrap_or_default();
        // SAFETY: the engine is alive and not shared yet; the text is copied, the callback is a
        // function of ours. Test: lines_of_rules_are_told.
        unsafe {
            (library.set_connector_info)(library.engine(), connector.as_ptr());
            (library.set_log_callback)(library.engine(), on_line);
        }
        Ok(library)
    }
}

fn engine(handle: NonNull<c_void>) -> Result<NonNull<c_void>, String> {
    let address = symbol(handle, c"msc_init")?;
    // SAFETY: as in `Library::find`: `ModSecurity *msc_init(void)`, which has no conditions. Test:
    // rules_refuse_and_let_pass.
    let made =
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> Opaque>(address)() };
    NonNull::new(made).ok_or_else(|| "libmodsecurity can't be initialized".into())
}

fn symbol(handle: NonNull<c_void>, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the handle is one of dlopen's that is never closed, and the name ends with a zero.
    // Test: rules_refuse_and_let_pass.
    let address = unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) };
    match address.is_null() {
        true => Err(format!(
            "{} has no {}: another version is wanted (3.0)",
            SONAME.to_string_lossy(),
            name.to_string_lossy()
        )),
        false => Ok(address),
    }
}

fn last_fault() -> String {
    // SAFETY: answers a text that this thread may read until its next call of dlopen's family, or
    // null. It is copied at once. Test: none can do without the library.
    let fault = unsafe { libc::dlerror() };
    match fault.is_null() {
        true => "no reason is given".into(),
        // SAFETY: as above.
        false => unsafe { CStr::from_ptr(fault) }
            .to_string_lossy()
            .into_owned(),
    }
}
