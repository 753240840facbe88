//! The order of a listing's entries: the folder above first, folders before files where that is
//! wanted, then by a column, then by name.

use crate::listing::{entry::Entry, page::Form};
use saker_apache_model::modules::autoindex::{IGNORE_CASE, VERSION_SORT};
use std::cmp::Ordering;

pub fn compare(one: &Entry, other: &Entry, form: &Form<'_>) -> Ordering {
    let by_text = |one: &[u8], other: &[u8]| match (
        form.options & VERSION_SORT != 0,
        form.options & IGNORE_CASE != 0,
    ) {
        (true, true) => natural(&one.to_ascii_lowercase(), &other.to_ascii_lowercase()),
        (true, false) => natural(one, other),
        (false, true) => one.to_ascii_lowercase().cmp(&other.to_ascii_lowercase()),
        (false, false) => one.cmp(other),
    };
    let by_key = match form.key {
        b'M' => one.modified_s.cmp(&other.modified_s),
        b'S' => one.bytes.cmp(&other.bytes),
        b'D' => by_text(
            one.description.as_deref().unwrap_or_default().as_bytes(),
            other.description.as_deref().unwrap_or_default().as_bytes(),
        ),
        _ => Ordering::Equal,
    };
    let order = by_key.then_with(|| by_text(&one.name, &other.name));
    let order = if form.descends {
        order.reverse()
    } else {
        order
    };
    other
        .is_parent
        .cmp(&one.is_parent)
        .then(other.first.cmp(&one.first))
        .then(order)
}

/// Numbers in names as numbers.
fn natural(one: &[u8], other: &[u8]) -> Ordering {
    let (mut left, mut right) = (one, other);
    while let (Some((a, rest_a)), Some((b, rest_b))) = (left.split_first(), right.split_first()) {
        let order = if a.is_ascii_digit() && b.is_ascii_digit() {
            let (x, y) = (digits(&mut left), digits(&mut right));
            x.len().cmp(&y.len()).then_with(|| x.cmp(y))
        } else {
            (left, right) = (rest_a, rest_b);
            a.cmp(b)
        };
        if order.is_ne() {
            return order;
        }
    }
    left.len().cmp(&right.len())
}

/// Splits digits off, without zeros before them.
fn digits<'t>(text: &mut &'t [u8]) -> &'t [u8] {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at(count);
    *text = rest;
    let zeros = number.iter().take_while(|byte| **byte == b'0').count();
    number.get(zeros..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names() {
        let mut names = ["img10", "img2", "img02a", "a"];
        names.sort_by(|one, other| natural(one.as_bytes(), other.as_bytes()));
        assert_eq!(names, ["a", "img2", "img02a", "img10"]);
    }
}
