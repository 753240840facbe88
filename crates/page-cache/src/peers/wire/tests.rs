//! Questions and answers as bytes: what comes back, and what is refused.

use super::*;
use crate::page::PageParts;
use saker_cache_rules::lscache::vary::VaryRules;
use saker_content::Content;
use saker_http::{Fields, Status};
use saker_pipeline::Chunk;
use std::rc::Rc;

fn ask() -> Ask {
    let mut place = Vec::new();
    let push = |numbers: &[u64], place: &mut Vec<u8>| {
        numbers
            .iter()
            .for_each(|number| place.extend_from_slice(&number.to_le_bytes()));
    };
    push(&[1, 2, 3], &mut place);
    place.push(1);
    push(&[4, 5], &mut place);
    Ask {
        required: RequiredPlace::decode_from(&mut &place[..]).unwrap(),
        address: ([192, 0, 2, 7], 5000).into(),
        ports: [443, 8443],
        secure: true,
        tls: false,
        forwarding: Forwarding::Proxied,
        target: b"/a?b".to_vec(),
        fields: vec![(b"Host".to_vec(), b"shop.example".to_vec())],
    }
}

fn page(is_private: bool) -> Page {
    let mut fields = Fields::new();
    fields.append("Content-Type", b"text/html".to_vec());
    Page::new(PageParts {
        key: b"http://shop.example:80/a\0app /a\0_lscache_vary;"
            .as_slice()
            .into(),
        id: 7,
        status: Status(200),
        fields,
        by: By::Lscache,
        is_private,
        is_template: true,
        life: Life {
            born_ms: 5,
            ..Life::default()
        },
        marks: Box::default(),
        tags: vec![b"Ta".to_vec(), b"Tb".to_vec()].into(),
        site: b"shop.example".as_slice().into(),
        purge_seq: 3,
        content: Content::Memory(Chunk::from(b"unused".to_vec())),
        boundaries: Rc::default(),
    })
}

fn vary_record() -> VaryRecord {
    VaryRecord {
        fields: vec!["accept-language".into()],
        rules: Some(VaryRules {
            cookies: vec![b"currency".to_vec()],
            value: None,
        }),
        is_one: false,
        since: 99,
    }
}

#[test]
fn questions_come_back_and_cut_ones_do_not() {
    let bytes = ask().encode();
    assert_eq!(Ask::decode(&bytes), Some(ask()));
    for end in 0..bytes.len() {
        assert_eq!(Ask::decode(&bytes[..end]), None, "cut at {end}");
    }
    assert_eq!(Ask::decode(&[&bytes[..], b"x"].concat()), None);
    let mut newer = bytes;
    newer[0] = VERSION + 1;
    assert_eq!(Ask::decode(&newer), None, "a version that is not known");
}

/// A question becomes the head of a request.
#[test]
fn what_no_client_may_send_is_refused() {
    let with_target = |target: &[u8]| Ask {
        target: target.to_vec(),
        ..ask()
    };
    let with_field = |name: &[u8], value: &[u8]| Ask {
        fields: vec![(name.to_vec(), value.to_vec())],
        ..ask()
    };
    for wrong in [
        with_target(b""),
        with_target(b"http://169.254.169.254/"),
        with_target(b"*"),
        with_target(b"/a HTTP/1.1\r\nX: y"),
        with_target(b"/a b"),
        with_field(b"", b"x"),
        with_field(b"X y", b"x"),
        with_field(b"X:", b"x"),
        with_field(b"X", b"x\r\nY: z"),
        with_field(b"X", b"x\0"),
    ] {
        assert_eq!(Ask::decode(&wrong.encode()), None, "{wrong:?}");
    }
}

#[test]
fn pages_come_back() {
    let rule = SearchRule::parse(b"params".to_vec());
    let known = vary_record();
    for (vary, rule) in [(None, None), (Some(&known), rule.as_ref())] {
        let bytes = encode_page(&page(false), (vary, rule), 1234, b"<p>text");
        let shared = decode_answer(&bytes).unwrap().unwrap();
        assert_eq!((shared.now_ms, shared.status), (1234, 200));
        assert_eq!((shared.by, shared.is_template), (By::Lscache, true));
        assert_eq!(shared.tags, [b"Ta", b"Tb"]);
        assert_eq!(shared.content, b"<p>text");
        assert_eq!(shared.life.born_ms, 5);
        assert_eq!(shared.search_rule.as_ref(), rule);
        // Numbers of fetches mean nothing elsewhere.
        let expected = vary.map(|vary| VaryRecord {
            since: 0,
            ..vary.clone()
        });
        assert_eq!(shared.vary_record, expected);
        for end in 0..bytes.len() {
            assert_eq!(decode_answer(&bytes[..end]), None, "cut at {end}");
        }
        assert_eq!(decode_answer(&[&bytes[..], b"x"].concat()), None);
    }
}

#[test]
fn private_pages_and_odd_answers_are_refused() {
    let private = encode_page(&page(true), (None, None), 1, b"x");
    assert_eq!(decode_answer(&private), None);
    for why in [NoPage::Now, NoPage::Ever] {
        assert_eq!(decode_answer(&encode_none(why)), Some(Err(why)));
    }
    for wrong in [
        &b""[..],
        &[VERSION],
        &[VERSION, 9],
        &[VERSION, NO_PAGE_NOW, 0],
        &[0, 0],
    ] {
        assert_eq!(decode_answer(wrong), None);
    }
    // A response that is no final one, and a field that ends its line.
    let bytes = encode_page(&page(false), (None, None), 1, b"x");
    let mut informational = bytes.clone();
    informational[10..12].copy_from_slice(&101u16.to_le_bytes());
    assert_eq!(decode_answer(&informational), None);
    let at = memchr::memmem::find(&bytes, b"text/html").unwrap();
    let mut split = bytes;
    split[at] = b'\n';
    assert_eq!(decode_answer(&split), None);
}
