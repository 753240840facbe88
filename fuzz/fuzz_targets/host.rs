//! A host that passes is put together from its parts, has one canonical form, and holds nothing
//! that could end a line, a link or a file name.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_http::host::{canonical_host, canonical_host_into, parse_authority};

fuzz_target!(|text: &[u8]| {
    let canonical = canonical_host(text);
    let mut reused = b"left over".to_vec();
    canonical_host_into(text, &mut reused);
    assert_eq!(canonical, reused);
    let Some(authority) = parse_authority(text) else {
        return;
    };
    let rest = text
        .strip_prefix(authority.host)
        .expect("the host comes first");
    match (rest, authority.port) {
        (b"" | b":", None) => {}
        ([b':', digits @ ..], Some(port)) => {
            assert_eq!(
                std::str::from_utf8(digits).expect("digits").parse(),
                Ok(port)
            );
            assert!(digits.iter().all(u8::is_ascii_digit));
        }
        _ => panic!("{rest:?} is not {:?}", authority.port),
    }
    one_form(authority.host);
});

fn one_form(host: &[u8]) {
    let canonical = canonical_host(host);
    assert!(
        !canonical.is_empty()
            && canonical
                .iter()
                .all(|byte| byte.is_ascii_graphic() && !b"/\\@?#%\"'<>,;".contains(byte))
    );
    assert_eq!(canonical, canonical.to_ascii_lowercase());
    assert_eq!(canonical_host(&canonical), canonical);
    assert_eq!(canonical_host(&host.to_ascii_uppercase()), canonical);
    assert_eq!(
        parse_authority(&canonical).map(|again| again.host),
        Some(canonical.as_slice())
    );
    if !host.starts_with(b"[") {
        assert_eq!(
            canonical_host(&[host, b"."].concat()) == canonical,
            !host.ends_with(b"."),
            "one dot at the end does not count"
        );
    }
}
