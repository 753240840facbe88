use super::*;
use saker_http::Status;

const NOW: i64 = 1_800_000_000;

fn rule(form: SignForm) -> SignedUrls {
    SignedUrls {
        form,
        secrets: vec![b"new secret".to_vec(), b"old".to_vec()],
        prefix: "/dl/".into(),
        root: None,
        expired: Status(410),
        is_free_elsewhere: false,
    }
}

fn token_form(algorithm: SignAlgorithm) -> TokenForm {
    TokenForm {
        algorithm,
        lifetime_s: 60,
        path_segments: 0,
        query: false,
        address: false,
    }
}

fn expression(text: &str) -> SignForm {
    let parts = SignPart::read(text).unwrap();
    SignForm::Expression {
        parts,
        hash_argument: "md5".into(),
        expires_argument: Some("expires".into()),
    }
}

fn whole() -> SignForm {
    SignForm::Whole {
        hash_argument: "sig".into(),
        expires_argument: "expires".into(),
        address: true,
        host: true,
    }
}

/// All forms that protect the client's address, with the time that is signed.
fn with_address() -> Vec<(SignForm, Option<i64>)> {
    let algorithms = [
        SignAlgorithm::Md5,
        SignAlgorithm::HmacSha1,
        SignAlgorithm::HmacSha256,
    ];
    let tokens = algorithms.map(|algorithm| {
        (
            SignForm::Token(TokenForm {
                address: true,
                ..token_form(algorithm)
            }),
            Some(NOW),
        )
    });
    let expression = (
        expression("$expires$uri$remote_addr $secret"),
        Some(NOW + 60),
    );
    tokens
        .into_iter()
        .chain([expression, (whole(), Some(NOW + 60))])
        .collect()
}

fn asked<'a>(url: &'a str, path: &'a mut Vec<u8>) -> Option<Asked<'a>> {
    let (raw, query) = url
        .split_once('?')
        .map_or((url, None), |(raw, query)| (raw, Some(query.as_bytes())));
    saker_http::path::normalize(raw.as_bytes(), path).ok()?;
    Some(Asked {
        path,
        query,
        host: b"h.test",
        address: [192, 0, 2, 7].into(),
    })
}

fn made(rule: &SignedUrls, time: Option<i64>) -> String {
    let has_token = matches!(rule.form, SignForm::Token(_) | SignForm::PathMd5);
    let path = if has_token {
        "/films/a b.mp4"
    } else {
        "/dl/films/a b.mp4"
    };
    sign(
        rule,
        &Asked {
            path: path.as_bytes(),
            query: None,
            host: b"h.test",
            address: [192, 0, 2, 7].into(),
        },
        time,
    )
    .unwrap()
}

#[test]
fn known_links() {
    // echo -n '2147483647/s/link127.0.0.1 secret' | openssl md5 -binary | openssl base64 | tr +/ -_
    // | tr -d =   (nginx's own example)
    let rule = SignedUrls {
        secrets: vec![b"secret".to_vec()],
        ..rule(expression("$secure_link_expires$uri$remote_addr $secret"))
    };
    let local = Asked {
        path: b"/s/link",
        query: None,
        host: b"",
        address: [127, 0, 0, 1].into(),
    };
    assert_eq!(
        sign(&rule, &local, Some(2_147_483_647)).unwrap(),
        "/s/link?md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647"
    );
    // echo -n 'linksecret' | openssl md5 -hex
    let rule = SignedUrls {
        form: SignForm::PathMd5,
        prefix: "/p/".into(),
        ..rule
    };
    let link = Asked {
        path: b"/link",
        ..local
    };
    assert_eq!(
        sign(&rule, &link, None).unwrap(),
        "/p/5e814704a28d9bc1914ff19fa0c4a00a/link"
    );
}

#[test]
fn what_is_made_is_good_until_its_end() {
    let mut path = Vec::new();
    for (form, time) in with_address() {
        let rule = rule(form);
        let url = made(&rule, time);
        let asked = asked(&url, &mut path).unwrap();
        assert!(
            matches!(check(&rule, &asked, NOW), Finding::Good(_)),
            "{url}"
        );
        assert!(
            matches!(check(&rule, &asked, NOW + 60), Finding::Good(_)),
            "{url}"
        );
        assert_eq!(check(&rule, &asked, NOW + 61), Finding::Expired, "{url}");
        let other = Asked {
            address: [192, 0, 2, 8].into(),
            ..asked
        };
        assert_eq!(check(&rule, &other, NOW), Finding::Wrong, "{url}");
        let old = SignedUrls {
            secrets: vec![b"old".to_vec()],
            ..rule.clone()
        };
        let url = made(&old, time);
        let mut path = Vec::new();
        let asked = super::tests::asked(&url, &mut path).unwrap();
        assert!(
            matches!(check(&rule, &asked, NOW), Finding::Good(_)),
            "the old secret is still good"
        );
        let gone = SignedUrls {
            secrets: vec![b"new secret".to_vec()],
            ..rule
        };
        assert_eq!(
            check(&gone, &asked, NOW),
            Finding::Wrong,
            "and no more when it is gone"
        );
    }
}

/// Every bit of the URL (its time among them) and of the address.
#[test]
fn every_bit_counts() {
    let mut forms = with_address();
    forms.push((SignForm::PathMd5, None));
    for (form, time) in forms {
        let rule = rule(form);
        let url = made(&rule, time);
        let mut path = Vec::new();
        assert!(
            matches!(
                check(&rule, &asked(&url, &mut path).unwrap(), NOW),
                Finding::Good(_)
            ),
            "{url}"
        );
        for bit in 0..url.len() * 8 {
            let mut bytes = url.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let Ok(other) = String::from_utf8(bytes) else {
                continue;
            };
            // The same path in another spelling is the same path.
            let mut path = Vec::new();
            let Some(other_asked) = asked(&other, &mut path) else {
                continue;
            };
            assert!(
                !matches!(check(&rule, &other_asked, NOW), Finding::Good(_)),
                "{other}"
            );
        }
        if rule.form == SignForm::PathMd5 {
            continue;
        }
        for (bits, base) in [
            (32u32, u128::from(u32::from_be_bytes([192, 0, 2, 7]))),
            (128, 0x2001_0db8 << 96 | 1),
        ] {
            let address = |bits_of: u128| -> IpAddr {
                if bits == 32 {
                    std::net::Ipv4Addr::from_bits(bits_of as u32).into()
                } else {
                    std::net::Ipv6Addr::from_bits(bits_of).into()
                }
            };
            let here = |address| Asked {
                path: b"/x",
                query: None,
                host: b"",
                address,
            };
            let url = sign(&rule, &here(address(base)), time).unwrap();
            let mut path = Vec::new();
            let asked = Asked {
                host: b"",
                address: address(base),
                ..asked(&url, &mut path).unwrap()
            };
            assert!(
                matches!(check(&rule, &asked, NOW), Finding::Good(_)),
                "{url}"
            );
            for bit in 0..bits {
                let other = Asked {
                    address: address(base ^ 1 << bit),
                    ..asked
                };
                assert_eq!(
                    check(&rule, &other, NOW),
                    Finding::Wrong,
                    "{url} for {}",
                    other.address
                );
            }
        }
    }
}

#[test]
fn segments_and_queries() {
    let form = TokenForm {
        path_segments: 2,
        query: true,
        ..token_form(SignAlgorithm::HmacSha256)
    };
    let rule = rule(SignForm::Token(form));
    let file = Asked {
        path: b"/a/b/1.ts",
        query: Some(b"x=1"),
        host: b"",
        address: [127, 0, 0, 1].into(),
    };
    let url = sign(&rule, &file, Some(NOW)).unwrap();
    let good = |url: &str| {
        let mut path = Vec::new();
        matches!(
            check(&rule, &asked(url, &mut path).unwrap(), NOW),
            Finding::Good(_)
        )
    };
    assert!(good(&url));
    assert!(good(&url.replace("1.ts", "2.ts")), "only /a/b is signed");
    assert!(
        !good(&url.replace("/a/b", "/a/c"))
            && !good(&url.replace("x=1", "x=2"))
            && !good(url.split('?').next().unwrap())
    );
    assert_eq!(first_segments(b"/a/b/c", 1), b"/a");
    assert_eq!(first_segments(b"/a/b/c", 3), b"/a/b/c");
    assert_eq!(first_segments(b"/a", 9), b"/a");
}

#[test]
fn arguments_can_neither_be_added_nor_doubled() {
    let rule = rule(whole());
    let url = made(&rule, Some(NOW + 60));
    let good = |url: &str| {
        let mut path = Vec::new();
        matches!(
            check(&rule, &asked(url, &mut path).unwrap(), NOW),
            Finding::Good(_)
        )
    };
    assert!(good(&url));
    for other in [
        format!("{url}&a=1"),
        url.replace("expires", "a=1&expires"),
        url.replace("?expires", "?x"),
    ] {
        assert!(!good(&other), "{other}");
    }
    // A second signature is never looked at.
    assert!(good(&format!("{url}&sig=")));
    // One without an end stays good; taking the end away is noticed.
    let endless = made(&rule, None);
    assert!(good(&endless));
    assert!(!good(&url.replace(&format!("expires={}&", NOW + 60), "")));
}

#[test]
fn nonsense_is_wrong() {
    for (form, _) in with_address()
        .into_iter()
        .chain([(SignForm::PathMd5, None)])
    {
        let rule = rule(form);
        for url in [
            "/",
            "/dl/",
            "/dl/x",
            "/dl/x/y/z",
            "/dl/a?md5=",
            "/dl/a?md5=x&expires=",
            "/dl/a?md5==&expires=99999999999999999999",
            "/dl/a?sig=",
        ] {
            let mut path = Vec::new();
            assert_eq!(
                check(&rule, &asked(url, &mut path).unwrap(), NOW),
                Finding::Wrong,
                "{url}"
            );
        }
        assert_eq!(
            check(
                &rule,
                &Asked {
                    path: "/dl/é\u{1F600}".as_bytes(),
                    ..asked("/", &mut Vec::new()).unwrap()
                },
                NOW
            ),
            Finding::Wrong
        );
    }
}
