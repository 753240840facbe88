//! State that a page shares with everything that it includes.
//!
//! Called by: `includes`; kept in the state of the page's requests.

use saker_ssi::Variables;
use std::cell::RefCell;

/// State that a page shares with everything that it includes.
pub struct Shared {
    pub variables: RefCell<Variables>,
    /// Modification time of the page that the client asked for.
    pub modified_s: i64,
    pub owner: u32,
}
