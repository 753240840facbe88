//! One entry of a listing.
//!
//! Called by: `listing`, which makes them; the jobs that sort and write them.

#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// Folders with a slash at their end; the folder above by its path.
    pub name: Vec<u8>,
    pub is_parent: bool,
    /// Sorted before files.
    pub first: bool,
    pub bytes: Option<u64>,
    pub modified_s: Option<i64>,
    pub icon: Option<Box<str>>,
    pub alternative: Option<Box<str>>,
    pub description: Option<String>,
}

impl Entry {
    pub fn shown(&self) -> &[u8] {
        if self.is_parent {
            b"Parent Directory"
        } else {
            &self.name
        }
    }
}
