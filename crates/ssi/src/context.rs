//! Immediate queries of a page, answered by the code that drives it.

use crate::variables::{Lazy, Variables};
use saker_ap_expr::Backreferences;

/// Groups of the last match, `$0` to `$9`.
#[derive(Clone, Debug, Default)]
pub struct Matched(pub Backreferences);

impl Matched {
    /// `None` where nothing matched, or the group took no part.
    pub fn group(&self, digit: u8) -> Option<&[u8]> {
        self.0.group(usize::from(digit.wrapping_sub(b'0')))
    }
}

pub trait SsiContext {
    /// The variables of the page, shared with included pages.
    fn variables(&mut self) -> &mut Variables;

    /// The value of a variable that is made when it is wanted, with the page's format of times.
    fn lazy(&self, lazy: Lazy, time_format: &[u8]) -> Vec<u8>;

    /// A time in the format, local.
    fn time(&self, format: &[u8], unix_s: i64) -> Vec<u8>;

    /// A size as in listings: `1.5K`.
    fn short_size(&self, bytes: u64) -> Vec<u8>;

    /// True if an expression of the server's own language holds. The error is the reason why it
    /// can't be told.
    fn holds(
        &mut self,
        expression: &[u8],
        matched: &mut Matched,
        time_format: &[u8],
    ) -> Result<bool, String>;

    /// `-A` of the old language: whether a request for the path would not be refused.
    fn is_accessible(&mut self, path: &[u8]) -> bool;

    /// Charges generated text to the page's budget.
    fn make(&mut self, _bytes: usize) {}

    /// Charges work to the page's budget, as much as examining this many bytes.
    fn look_at(&mut self, _bytes: usize) {}

    /// Uses the page's budget up.
    fn give_up(&mut self) {}

    /// Returns true if the page's budget is used up: it is abandoned.
    fn is_exhausted(&self) -> bool {
        false
    }

    /// Reports an error in the page, which continues all the same.
    fn complain(&mut self, fault: String);
}
