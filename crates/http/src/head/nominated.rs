//! Fields that `Connection` nominates (RFC 9110 section 7.6.1), and those that no client may.
//!
//! Called by: [`super::HeadIndex::remove_nominated`].

/// Members of a Connection field.
pub fn options(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',').map(crate::chars::trim_ows)
}

/// Order of names, without regard to case.
pub fn compare(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    let a = a.iter().map(u8::to_ascii_lowercase);
    a.cmp(b.iter().map(u8::to_ascii_lowercase))
}

/// Options that are no fields, or fields which this server itself reads as the recipient that they
/// are for.
pub fn is_about_connection(option: &[u8]) -> bool {
    const KNOWN: [&str; 8] = [
        "",
        "keep-alive",
        "close",
        "upgrade",
        "te",
        "http2-settings",
        "proxy-connection",
        "trailer",
    ];
    KNOWN
        .iter()
        .any(|known| option.eq_ignore_ascii_case(known.as_bytes()))
}

/// Fields that no client may nominate: "a sender MUST NOT send a connection option corresponding to
/// a field that is intended for all recipients of the content" (RFC 9110 section 7.6.1). They are
/// about framing, routing and credentials; a nomination is ignored for all purposes.
pub const END_TO_END: [&str; 19] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "content-type",
    "content-encoding",
    "content-range",
    "cookie",
    "authorization",
    "cache-control",
    "expect",
    "origin",
    "range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
    "via",
];

/// Parts of names by which proxies before this server tell of clients. By nominating such a field a
/// client could make this server disbelieve a proxy that forwards Connection as it came.
const BY_PROXIES: [&str; 10] = [
    "forwarded",
    "-ip",
    "ip-",
    "addr",
    "remote",
    "x-client-",
    "x-original-",
    "cf-",
    "x-ssl-",
    "cert",
];

/// Returns true for fields that are for all recipients.
pub fn is_end_to_end(name: &[u8]) -> bool {
    let has = |part: &str| {
        name.windows(part.len())
            .any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
    };
    END_TO_END
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
        || BY_PROXIES.iter().any(|part| has(part))
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn names_are_found_in_any_case() {
        let mut listed: Vec<Vec<u8>> = (0..7000)
            .map(|at| format!("X-{}{at}", if at % 2 == 0 { "Odd" } else { "odd" }).into_bytes())
            .collect();
        listed.sort_unstable_by(|a, b| compare(a, b));
        for (name, is_there) in [("x-ODD6999", true), ("X-odd0", true), ("x-odd7000", false)] {
            let mut steps = 0;
            let found = listed.binary_search_by(|option| {
                steps += 1;
                compare(option, name.as_bytes())
            });
            assert_eq!(found.is_ok(), is_there, "{name}");
            assert!(steps < 20, "{steps}");
        }
    }
}
