//! Responses to clients that a hotlink or trigger rule refuses: 403, a redirect or another file.
//!
//! Called by: `hotlink` and `trigger`.
//! Caveat: `redirect` and `instead` exclude each other.

use crate::{
    kind::Word,
    model::Refusal,
    report::Report,
    source::Location,
    value::{Value, ValueError},
};
use saker_http::Status;

pub static LOCAL_PATH: Word = Word {
    expects: "a path of this site, such as \"/img/no.png\"",
    pattern: "^/",
    read: |text| {
        if text.starts_with('/') {
            Ok(Value::Text(text.to_owned()))
        } else {
            Err(ValueError::plain(None))
        }
    },
};

pub static REDIRECT_TARGET: Word = Word {
    expects: "a path (\"/sorry\") or a URL (\"https://...\")",
    pattern: "^(/|https?://)",
    read: |text| {
        let is_goal =
            text.starts_with('/') || text.starts_with("http://") || text.starts_with("https://");
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_goal && is_plain {
            Ok(Value::Text(text.to_owned()))
        } else {
            Err(ValueError::plain(None))
        }
    },
};

#[derive(Debug, Default)]
pub struct RefusalDraft {
    pub redirect: Option<(String, Location)>,
    pub instead: Option<(String, Location)>,
}

pub fn refusal(report: &mut Report<'_>, draft: RefusalDraft) -> Refusal {
    match (draft.redirect, draft.instead) {
        (Some(_), Some((_, at))) => {
            report.error(
                &at,
                "`instead` and `redirect` exclude each other",
                Some("keep one of them".into()),
            );
            Refusal::Status(Status::FORBIDDEN)
        }
        (Some((to, _)), None) => Refusal::Redirect(to),
        (None, Some((path, _))) => Refusal::Instead(path),
        (None, None) => Refusal::Status(Status::FORBIDDEN),
    }
}
