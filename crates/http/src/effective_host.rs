//! The effective host of a request (RFC 9112 sections 3.2.2 and 3.3, RFC 9110 section 7.1), in one
//! spelling.
//!
//! Called by: drivers, when a head becomes a request, and the pipeline's first phase, for requests
//! that the server generates itself. From then on the Host field *is* the effective host and the
//! target has no authority, so routing, rules, variables of programs, upstream fields, cache keys,
//! and logs can't use different ones.
//! Caveat: cached routes are looked up before, by the bytes of Host; they are stored under the
//! effective host, so other spellings miss.
//! Out of scope: names and addresses of sites (the configuration's), schemes (a target with `https`
//! is no proof of TLS, nor is its absence).

use crate::{
    HeadView, KnownField, RequestHead,
    host::parse_authority,
    target::{self, Target, TargetError},
};

/// The reason for which the host of a request can't be told; the answer is 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// The target is malformed, its authority included, or not of a form that the method takes.
    Target(TargetError),
    /// Host is malformed (RFC 9112 section 3.2).
    Malformed,
    /// There are several Host fields.
    Several,
}

impl RequestHead {
    /// Makes the Host field the effective host in its canonical spelling (lower case, no dot at the
    /// end, the port as a number if one was sent) and takes the authority from the target. A head
    /// that is so already stays as it is.
    ///
    /// # Errors
    /// Returns an error if the host cannot be determined; the head is unchanged then.
    pub fn settle_host(&mut self) -> Result<(), HostError> {
        if self.is_settled {
            return Ok(());
        }
        let settled = settled(self.view())?;
        self.is_settled = true;
        let Some(Settled { host, target }) = settled else {
            return Ok(());
        };
        if let Some(host) = host {
            self.replace_host(&host);
        }
        if let Some(target) = target {
            self.replace_target(&target);
        }
        Ok(())
    }
}

impl RequestHead {
    /// The effective host in its canonical spelling, without the port, of a head whose host is
    /// settled; `None` where there is none.
    pub fn settled_host(&self) -> Option<&[u8]> {
        let text = self.view().known(KnownField::Host)?;
        match self.is_settled {
            true => Some(host_of_canonical(text)),
            false => Some(parse_authority(text)?.host),
        }
    }
}

/// The host of a valid authority.
fn host_of_canonical(text: &[u8]) -> &[u8] {
    let length = match text.first() {
        Some(b'[') => memchr::memchr(b']', text).map(|at| at + 1),
        _ => memchr::memchr(b':', text),
    };
    length.map_or(text, |length| &text[..length])
}

impl HeadView<'_> {
    /// An owned copy with its host settled, see [`RequestHead::settle_host`].
    ///
    /// # Errors
    /// Returns an error if the host cannot be determined.
    pub fn to_request(self) -> Result<RequestHead, HostError> {
        let mut head = self.to_owned();
        head.settle_host().map(|()| head)
    }
}

impl HeadView<'_> {
    /// An owned copy of a head whose Host field is known to be the effective host already, because
    /// a cached route has the same one, and whose target has the form of a path. `None`: the target
    /// is malformed behind its path.
    pub fn to_known_request(self) -> Option<RequestHead> {
        let split = target::split(self.method(), self.target());
        let is_origin = matches!(split, Ok(Target::Origin { .. }));
        is_origin.then(|| {
            let mut head = self.to_owned();
            head.is_settled = true;
            head
        })
    }
}

/// Parts of a head that have to change.
struct Settled {
    host: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
}

fn settled(view: HeadView<'_>) -> Result<Option<Settled>, HostError> {
    if view.known_count(KnownField::Host) > 1 {
        return Err(HostError::Several);
    }
    let field = view.known(KnownField::Host);
    // RFC 9112 section 3.2.2: an ignored Host must be valid all the same.
    let named = match field {
        None | Some(b"") => None,
        Some(text) => Some(parse_authority(text).ok_or(HostError::Malformed)?),
    };
    let split = target::split(view.method(), view.target()).map_err(HostError::Target)?;
    let (effective, target) = match split {
        Target::Origin { .. } | Target::Asterisk => (named, None),
        Target::Absolute {
            authority,
            path,
            query,
            ..
        } => (parse_authority(authority), Some(origin_form(path, query))),
        Target::Authority(authority) => (parse_authority(authority), None),
    };
    let is_own = effective.is_some() && effective == named;
    let host = effective.and_then(|authority| {
        if is_own && field.is_some_and(|field| authority.is_canonical(field)) {
            return None;
        }
        let mut host = Vec::with_capacity(authority.host.len() + 6);
        authority.canonical_into(&mut host);
        (field != Some(host.as_slice())).then_some(host)
    });
    Ok((host.is_some() || target.is_some()).then_some(Settled { host, target }))
}

fn origin_form(path: &[u8], query: Option<&[u8]>) -> Vec<u8> {
    match query {
        None => path.to_vec(),
        Some(query) => [path, b"?", query].concat(),
    }
}

#[cfg(test)]
mod tests;
