//! Faults of a head: the causes of malformed messages (RFC 9113 section 8.1.1, RFC 9114 section
//! 4.1.2), with words for the log.

macro_rules! head_faults {
    ($($name:ident $text:literal;)*) => {
        /// One cause for which a head is malformed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum HeadFault { $(#[doc = $text] $name,)* }

        impl HeadFault {
            pub const ALL: &[HeadFault] = &[$(HeadFault::$name,)*];

            /// True if a field by itself is none of HTTP's, whatever the request is.
            pub(crate) fn is_of_field(self) -> bool {
                use HeadFault::*;
                matches!(
                    self,
                    EmptyFieldName | UpperCaseFieldName | BadFieldName | BadFieldValue
                )
            }

            /// For the log.
            pub fn as_str(self) -> &'static str {
                match self { $(HeadFault::$name => $text,)* }
            }
        }
    };
}

head_faults! {
    EmptyFieldName "empty field name";
    UpperCaseFieldName "field name with upper-case letters";
    BadFieldName "bad byte in field name";
    BadFieldValue "control character in field value";
    SpaceAroundFieldValue "white space around a field value";
    ConnectionField "connection-specific field";
    BadTe "TE other than trailers";
    PseudoFieldUnknown "unknown pseudo-field";
    PseudoFieldDoubled "pseudo-field sent twice";
    PseudoFieldLate "pseudo-field after a regular field";
    PseudoFieldInTrailers "pseudo-field in trailers";
    PseudoFieldMissing "pseudo-field missing";
    PseudoFieldForbidden "pseudo-field that this request must not have";
    BadMethod "method is not a token of acceptable length";
    BadScheme "malformed scheme";
    BadPath "malformed path";
    BadAuthority "malformed authority";
    MissingHost "neither authority nor Host";
    SeveralHosts "several Host fields";
    HostDiffers "Host differs from the authority";
    BadStatus "malformed status";
    BadLength "malformed Content-Length";
    SeveralLengths "several Content-Length fields";
    ContentInConnect "CONNECT with a Content-Length";
}
