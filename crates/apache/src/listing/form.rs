//! The form of a listing's page, as its query wants it.
//!
//! Called by: `listing` and its jobs.

use crate::listing::{matching::special, page::Form};
use saker_apache_model::modules::autoindex::{
    Autoindex, FANCY, IGNORE_CLIENT, NO_SORTING, TABLE, VERSION_SORT,
};
use saker_http::{escape, query::parameters_with_semicolons};

/// Reads the query: `C`, `O`, `F`, `V` and `P`, up to the first part that is none of them. Returns
/// the pattern of `P`, too.
pub fn form<'s>(settings: &'s Autoindex, query: &[u8]) -> (Form<'s>, Option<Vec<u8>>) {
    let (key, descends) = settings.order.unwrap_or((b'N', false));
    let blank_icon = special(&settings.icons, "^^BLANKICON^^");
    let mut form = Form {
        settings,
        options: settings.options(),
        key,
        descends,
        arguments: Vec::new(),
        blank_icon,
    };
    if form.options & IGNORE_CLIENT != 0 {
        form.options |= NO_SORTING;
        return (form, None);
    }
    let (mut fancy, mut version, mut pattern) = (None, None, None);
    for parameter in parameters_with_semicolons(query) {
        match (parameter.name, parameter.value) {
            (b"C", Some([key @ (b'N' | b'M' | b'S' | b'D')])) => form.key = *key,
            (b"O", Some([direction @ (b'A' | b'D')])) => form.descends = *direction == b'D',
            (b"F", Some([digit @ b'0'..=b'2'])) => {
                form.options &= !(FANCY | TABLE);
                form.options |= [0, FANCY, FANCY | TABLE]
                    .get(usize::from(*digit - b'0'))
                    .copied()
                    .unwrap_or_default();
                fancy = Some(*digit);
            }
            (b"V", Some([digit @ (b'0' | b'1')])) => {
                form.options = if *digit == b'1' {
                    form.options | VERSION_SORT
                } else {
                    form.options & !VERSION_SORT
                };
                version = Some(*digit);
            }
            (b"P", Some([])) => {}
            (b"P", Some(text)) => pattern = Some(text.to_vec()),
            _ => break,
        }
    }
    for (name, digit) in [("F", fancy), ("V", version)] {
        form.arguments.extend(
            digit
                .into_iter()
                .flat_map(|digit| format!(";{name}={}", char::from(digit)).into_bytes()),
        );
    }
    if let Some(text) = &pattern {
        form.arguments.extend_from_slice(b";P=");
        escape::html(text, &mut form.arguments);
    }
    (
        form,
        pattern.map(|text| saker_ap_expr::unescape(&text, false).0),
    )
}
