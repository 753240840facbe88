//! Entity tags (RFC 9110 section 8.8.3): parsing of lists, strong and weak comparison.

/// `W/"x"` or `"x"`, borrowed from the field value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'a> {
    pub weak: bool,
    /// Without quotes.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// One whole tag, nothing around it.
    pub fn parse(_text: &'a [u8]) -> Option<EntityTag<'a>> {
        unimplemented!()
    }

    /// RFC 9110 section 8.8.3.2.
    pub fn strong_eq(self, _other: EntityTag<'_>) -> bool {
        unimplemented!()
    }

    pub fn weak_eq(self, _other: EntityTag<'_>) -> bool {
        unimplemented!()
    }
}
