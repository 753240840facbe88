//! The Host field of a request before rules edited it.
//!
//! Called by: edits of heads; outcomes and made requests, which belong to the host that was asked.

use super::{HeadView, KnownField, RequestHead};

impl RequestHead {
    /// Returns the Host field that the request had before edits by rules. Outcomes are kept by it.
    pub fn host_before_edits(&self) -> Option<&[u8]> {
        match &self.host_before {
            Some(host) => Some(host),
            None => self.view().known(KnownField::Host),
        }
    }

    /// The same request with the Host field that it had before edits by rules. A request that is made
    /// from another one selects its site by this: by the edited field it would select another one.
    pub fn with_host_before_edits(&self) -> RequestHead {
        let Some(host) = self.host_before.as_deref() else {
            return self.clone();
        };
        let received = (!host.is_empty()).then_some((&b"Host"[..], host));
        let fields = self.view().fields();
        let mut head = self.with_fields(
            received
                .into_iter()
                .chain(fields.filter(|(name, _)| !name.eq_ignore_ascii_case(b"host"))),
        );
        head.host_before = None;
        head
    }

    /// The Host field before an edit, if it or an earlier one changes it.
    pub(super) fn host_before_edit(&self, edited: HeadView<'_>) -> Option<Box<[u8]>> {
        if self.host_before.is_some() || self.is_draft {
            return self.host_before.clone();
        }
        let own = self.view().known(KnownField::Host);
        let is_kept = own == edited.known(KnownField::Host);
        (!is_kept).then(|| own.unwrap_or_default().into())
    }
}
