//! Limits on a configuration, by name: every loop over text from outside ends at one of these.

/// Bytes of a logical line, continuation lines included; Apache's own bound.
pub const LINE_BYTES_MAX: usize = 16 << 20;
/// Bytes of one file.
pub const FILE_BYTES_MAX: usize = 64 << 20;
/// Bytes of an `.htaccess` file.
pub const HTACCESS_BYTES_MAX: usize = 4 << 20;
/// Files that include files; Apache's own bound.
pub const INCLUDE_DEPTH_MAX: usize = 128;
/// Directories below an included directory; Apache's own bound.
pub const INCLUDE_DIRECTORY_DEPTH_MAX: usize = 20;
/// Files read for one configuration.
pub const FILES_MAX: usize = 200_000;
/// Sections, conditions and included files within each other.
pub const NESTING_MAX: usize = 200;
/// The same of an `.htaccess` file, which is read on the stack of a worker.
pub const HTACCESS_NESTING_MAX: usize = 32;
/// Directives and sections of one configuration.
pub const NODES_MAX: usize = 20_000_000;
/// Uses of macros in one configuration.
pub const MACRO_USES_MAX: usize = 1_000_000;
/// Macros that use macros.
pub const MACRO_NESTING_MAX: usize = 64;
/// Parameters of one macro.
pub const MACRO_PARAMETERS_MAX: usize = 64;
/// Bytes that one use of a macro expands to.
pub const MACRO_BYTES_MAX: usize = 16 << 20;
/// Bytes of all text that was read or expanded.
pub const TEXT_BYTES_MAX: usize = 1 << 30;
/// Bytes of a line after its variables were put in.
pub const EXPANDED_BYTES_MAX: usize = 16 << 20;
/// Diagnostics that are kept; what comes after is counted.
pub const DIAGNOSTICS_MAX: usize = 10_000;

/// Bytes of a line that a diagnostic keeps to be shown.
pub const SHOWN_LINE_BYTES_MAX: usize = 4096;
/// Bytes of a word of the configuration inside a message.
pub const SHOWN_WORD_BYTES_MAX: usize = 200;
/// Undefined variables that are told of one line.
pub const UNDEFINED_PER_LINE_MAX: usize = 8;

/// The bounds of one reading that a caller may draw tighter.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub nodes_max: usize,
    pub files_max: usize,
    pub macro_uses_max: usize,
    pub text_bytes_max: usize,
    /// Sections within each other.
    pub nesting_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            nodes_max: NODES_MAX,
            files_max: FILES_MAX,
            macro_uses_max: MACRO_USES_MAX,
            text_bytes_max: TEXT_BYTES_MAX,
            nesting_max: NESTING_MAX,
        }
    }
}
