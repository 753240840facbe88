//! Configured edits of response fields (`[[header]]` rows of the settings).
//!
//! Called by: handlers that build ready heads (static files, fixed answers), and a filter for built
//! heads.
//! Caveat: an edit of framing fields could make two messages run together (response splitting), so
//! those fields are never edited, whatever the configuration says.
//! Out of scope: edits by rules (`head_edits`).

use saker_config::model::{FieldEdit, FieldEditAction};
use saker_http::{Fields, Status};

/// Framing and connection fields (RFC 9110 section 7.6.1, RFC 9112 section 6), which only drivers
/// set.
const FRAMING: [&str; 5] = [
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
];

/// Applies `edits` in order. Error responses get only those marked `always`. Edits whose variables
/// have not been replaced are skipped: the response was made before the route was selected.
pub fn apply<'e>(
    edits: impl IntoIterator<Item = &'e FieldEdit>,
    status: Status,
    fields: &mut Fields,
) {
    for edit in edits
        .into_iter()
        .filter(|edit| edit.template.is_none() && (edit.always || !status.is_error()))
    {
        if !FRAMING
            .iter()
            .any(|name| name.eq_ignore_ascii_case(&edit.name))
        {
            apply_one(edit, fields);
        }
    }
}

fn apply_one(edit: &FieldEdit, fields: &mut Fields) {
    let name = || edit.name.clone();
    let bytes = |text: &str| text.as_bytes().to_vec();
    match &edit.action {
        FieldEditAction::Set(value) => fields.set(name(), bytes(value)),
        FieldEditAction::Append(value) => fields.append(name(), bytes(value)),
        FieldEditAction::SetIfAbsent(value) if !fields.has(&edit.name) => {
            fields.append(name(), bytes(value))
        }
        FieldEditAction::SetIfAbsent(_) => {}
        FieldEditAction::Remove => {
            fields.remove(&edit.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::Origin;

    fn edit(name: &str, action: FieldEditAction, always: bool) -> FieldEdit {
        FieldEdit {
            name: name.into(),
            action,
            always,
            template: None,
            is_per_request: false,
            origin: Origin::built_in(),
        }
    }

    fn run(edits: &[FieldEdit], status: Status) -> String {
        let mut fields = Fields::new();
        fields.append("ETag", &b"\"a\""[..]);
        fields.append("Content-Length", &b"5"[..]);
        apply(edits, status, &mut fields);
        fields
            .iter()
            .map(|(name, value)| format!("{name}={} ", String::from_utf8_lossy(value)))
            .collect()
    }

    #[test]
    fn each_action_does_what_it_says() {
        use FieldEditAction::*;
        let cases = [
            (
                edit("etag", Set("\"b\"".into()), false),
                "ETag=\"b\" Content-Length=5 ",
            ),
            (
                edit("ETag", Append("\"b\"".into()), false),
                "ETag=\"a\" Content-Length=5 ETag=\"b\" ",
            ),
            (
                edit("ETAG", SetIfAbsent("\"b\"".into()), false),
                "ETag=\"a\" Content-Length=5 ",
            ),
            (
                edit("X-New", SetIfAbsent("1".into()), false),
                "ETag=\"a\" Content-Length=5 X-New=1 ",
            ),
            (edit("etag", Remove, false), "Content-Length=5 "),
        ];
        for (edit, expected) in cases {
            assert_eq!(
                run(std::slice::from_ref(&edit), Status::OK).to_lowercase(),
                expected.to_lowercase(),
                "{edit:?}"
            );
        }
    }

    #[test]
    fn errors_take_only_edits_marked_always() {
        let edits = [
            edit("A", FieldEditAction::Set("1".into()), false),
            edit("B", FieldEditAction::Set("2".into()), true),
        ];
        assert_eq!(
            run(&edits, Status::NOT_FOUND),
            "ETag=\"a\" Content-Length=5 B=2 "
        );
        assert_eq!(
            run(&edits, Status::NOT_MODIFIED),
            "ETag=\"a\" Content-Length=5 A=1 B=2 "
        );
    }

    #[test]
    fn framing_stays_as_it_is() {
        let edits = [
            edit("content-length", FieldEditAction::Remove, true),
            edit(
                "Transfer-Encoding",
                FieldEditAction::Set("chunked".into()),
                true,
            ),
            edit("Connection", FieldEditAction::Append("close".into()), true),
        ];
        assert_eq!(run(&edits, Status::OK), "ETag=\"a\" Content-Length=5 ");
    }
}
