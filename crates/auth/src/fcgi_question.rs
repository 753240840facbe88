//! Questions to FastCGI authorizers, and their answers.
//!
//! Called by: `fcgi`, which asks; the front ends, which carry the questions out.
//! Caveat: a status other than 200 refuses.

use crate::settings::{FcgiAuthorizer, FcgiDuty};
use std::{rc::Rc, sync::Arc};

/// A question to an authorizer.
#[derive(Clone, PartialEq, Eq)]
pub struct FcgiQuestion {
    pub authorizer: Arc<FcgiAuthorizer>,
    /// It is asked about users, about requirements, or about both.
    pub about: FcgiDuty,
    pub user: Option<String>,
    pub password: Option<Vec<u8>>,
}

/// The answer of an authorizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FcgiWord {
    pub status: u16,
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    pub location: Option<Vec<u8>>,
    pub challenge: Option<String>,
}

/// The error says why there is none.
pub type FcgiAnswer = Result<Rc<FcgiWord>, Rc<str>>;
