//! Facts of a request for tests.
//!
//! Called by: tests of modules whose settings depend on variables.
//! Out of scope: everything about a request but its environment.

use saker_ap_expr::{Facts, FileTest, LocalTime, Variable};
use saker_pipeline::Environment;
use std::{borrow::Cow, net::IpAddr};

/// Facts of a request of which nothing is known but its environment.
pub struct OfEnvironment<'e>(pub &'e Environment);

impl Facts for OfEnvironment<'_> {
    fn variable(&self, _: Variable) -> Option<Cow<'_, [u8]>> {
        None
    }

    fn request_field(&self, _: &[u8]) -> Option<Cow<'_, [u8]>> {
        None
    }

    fn environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.0.first(name).map(Cow::Borrowed)
    }

    fn client_address(&self) -> Option<IpAddr> {
        None
    }

    fn local_time(&self) -> LocalTime {
        LocalTime {
            year: 1970,
            month: 1,
            day: 1,
            hour: 0,
            minute: 0,
            second: 0,
            weekday: 4,
        }
    }

    fn file_test(&self, _: &[u8], _: FileTest) -> bool {
        false
    }
}
