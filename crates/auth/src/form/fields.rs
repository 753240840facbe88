//! Fields of the form of a log-in.
//!
//! Called by: `form`.
//! Caveat: of fields with one name the first one counts, as in Apache. A value that could not stand
//! in a response's head is not a location.
//! Out of scope: multipart forms, which Apache does not read either.

use crate::settings::FormFields;
use saker_http::query::{form_decoded, parameters};

/// Fields of a form; further ones are not read.
const FIELDS_MAX: usize = 1000;

/// Fields of a form that a log-in reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormContent {
    pub user: Option<Vec<u8>>,
    pub password: Option<Vec<u8>>,
    pub location: Option<Vec<u8>>,
    pub method: Option<Vec<u8>>,
    pub media_type: Option<Vec<u8>>,
    pub content: Option<Vec<u8>>,
}

impl FormContent {
    /// Reads a form-encoded text.
    pub fn read(text: &[u8], names: &FormFields) -> FormContent {
        let fields: Vec<_> = parameters(text)
            .take(FIELDS_MAX)
            .map(|field| {
                let value = form_decoded(field.value.unwrap_or_default());
                (form_decoded(field.name), value)
            })
            .collect();
        let value = |own: &Option<Box<str>>, default: &str| {
            let name = own.as_deref().unwrap_or(default);
            let found = fields.iter().find(|(known, _)| **known == *name.as_bytes());
            found.map(|(_, value)| value.to_vec())
        };
        // A zero byte ends a text, as in C.
        let text = |own: &Option<Box<str>>, default: &str| {
            let value = value(own, default)?;
            let end = value.iter().position(|byte| *byte == 0);
            let text = value.get(..end.unwrap_or(value.len()))?;
            (!text.is_empty()).then(|| text.to_vec())
        };
        FormContent {
            user: text(&names.user, "httpd_username"),
            password: text(&names.password, "httpd_password"),
            location: text(&names.location, "httpd_location").filter(|text| is_location(text)),
            method: text(&names.method, "httpd_method"),
            media_type: text(&names.media_type, "httpd_mimetype")
                .filter(|text| !text.iter().any(u8::is_ascii_control)),
            content: value(&names.content, "httpd_body"),
        }
    }
}

/// Returns true if the text can stand in a `Location` field.
pub fn is_location(text: &[u8]) -> bool {
    !text.is_empty() && !text.iter().any(u8::is_ascii_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> FormContent {
        FormContent::read(text.as_bytes(), &FormFields::default())
    }

    #[test]
    fn the_first_field_of_a_name_counts() {
        let form = read("httpd_username=a+b&httpd%5Fpassword=p%26&httpd_username=c&x");
        assert_eq!(form.user.as_deref(), Some(&b"a b"[..]));
        assert_eq!(form.password.as_deref(), Some(&b"p&"[..]));
        let names = FormFields {
            user: Some("u".into()),
            ..FormFields::default()
        };
        let form = FormContent::read(b"u=x&httpd_username=y&httpd_password=", &names);
        assert_eq!(form.user.as_deref(), Some(&b"x"[..]));
        assert_eq!(form.password, None);
    }

    #[test]
    fn nothing_breaks_out_of_a_field() {
        let form = read(
            "httpd_location=/a%0d%0aSet-Cookie:+x&httpd_mimetype=a%0d%0ab&httpd_username=a%00b",
        );
        assert_eq!((form.location, form.media_type), (None, None));
        assert_eq!(form.user.as_deref(), Some(&b"a"[..]));
        assert_eq!(read("httpd_body=%00%0a").content, Some(vec![0, 10]));
    }

    #[test]
    fn the_number_of_fields_is_limited() {
        let with = |before: usize| read(&format!("{}httpd_username=u", "x&".repeat(before)));
        assert!(with(FIELDS_MAX - 1).user.is_some());
        assert!(with(FIELDS_MAX).user.is_none());
    }
}
