//! Against what `htpasswd` and crypt(3) made.

use super::*;

const MADE: &[(&str, &str)] = &[
    ("secret", "$apr1$Rm/AS/w9$.LQ73RV6LMYft2eGnZShw."),
    ("a", "$apr1$k8Oc3Xoe$1HTtYdxbBA6G1vlzeD1hU0"),
    (
        "longer password with more than eight letters",
        "$apr1$ZUmo8Xda$35DBWAwOlp2ZaiaXwlED01",
    ),
    ("päss", "$apr1$lxTCugAP$HXzzy8R5MPPCvGDQzG8R8."),
    ("secret", "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="),
    ("a", "{SHA}hvfkN/qlp/zhXR3cuerq6jd2Z7g="),
    (
        "longer password with more than eight letters",
        "{SHA}rGP5o97OMUig7q2IBsZClkoehFo=",
    ),
    ("päss", "{SHA}ta81cOE4wM/twp7YSmra6UHf0uo="),
    ("secret", "UGG4JS/MD2x0A"),
    ("a", "Fypx5H7IZ/Zyk"),
    (
        "longer password with more than eight letters",
        "eGyiL8eXVxCwk",
    ),
    ("päss", "gw5V/BZIrlKCI"),
    (
        "secret",
        "$2y$04$xey7VdDwapNj3YZJxkG5yOKazVJnUcYUqnRK2exrcuJyZkNMhXIU2",
    ),
    (
        "a",
        "$2y$04$adX88tuC6JxWEMF19ZKxfuA/xZU2DtlldWj4r/KSs3LBNUpMSa.mW",
    ),
    (
        "longer password with more than eight letters",
        "$2y$04$dDGRILSrulOUgCNbnzRRx.mwAhtxEVODcztgtEJqE3R4/Tq5FAJnW",
    ),
    (
        "päss",
        "$2y$04$YhaSNjyl6DyXTj8NJUb08OW56dDbX1KkQj6M5DaOwpLQlx857usYq",
    ),
    (
        "secret",
        "$5$O6S6co7o./X9L9vT$8FyRlb3aFxTrs.qWbXl.XxXLxrQUlPrkgNAANujG3B.",
    ),
    (
        "a",
        "$5$C4MLWE1nDSRH693V$wFGG0PmuAW3aTnS6vSY8MStZjWOZqV6dXCwnd.PHsH5",
    ),
    (
        "longer password with more than eight letters",
        "$5$VUI.vHuc.wH8aHyt$7K78ZAYQ1Om2jg7Y5Vw1klI0P7XdQABRsKM2qmHiB6/",
    ),
    (
        "päss",
        "$5$EJZwtw9nlo621W0V$rt00oAcoV9S.OUt9X7w1LT6lax0oBSs7mfwpb2fEBj8",
    ),
    (
        "secret",
        "$6$exydI3Lr9v6VH2n7$Zh59HlMPMoo/3NVMnGh47U2FoQ.FBeQLJ2v5j6Z9gCLMtqJ3l3/2RAZf/Kx7nESdzX.Xjyc/GHAD37eNf3KvD.",
    ),
    (
        "a",
        "$6$AQlOkfTux3Q0GROQ$Q/G.ghB4M0Ehp3ZG0bgVWNzh8lxPPtlU8d8lBZdPae5qXGfg2sBq8.XPcrcSJACwoLULWoN85L.SRxpokozEH1",
    ),
    (
        "longer password with more than eight letters",
        "$6$EcuWq42mw9khAs7.$DhK3S8hcp44rrW1YIyR2H6T75GnCatCIxxLaSZbLN.QWypyqsFEgqy0bVkosKbz2NAYpXtVilwC4fsqS0jURP0",
    ),
    (
        "päss",
        "$6$oAo50eFCxc0iXqat$T1UmfUW13BGArFckHZJA0/RJAn9qjPMCOCX2yYifZrgcAHWykJmY8obRtEIiA8pv.w.KsI8JH5KDd8rNPHkpI.",
    ),
    (
        "secret",
        "$6$rounds=1000$dFdWiFaSjF8M3Bve$yLUtZ6tNQHbcFU7QG8CIy6zxZ/f4mTTrIVEZuJm8sWyzHL5ts3pdKvWR/yxcmGSswKVBmPdkx.RJ0Stnm3E8N1",
    ),
    (
        "a",
        "$6$rounds=1000$dDC617vDVxoBfrfS$/w.lzVnpYGTKMTVPnUBhhFpJtWBd//TRaoDBnQZcSj0bRzs89X3bh3WH.2SQVA2oIiIKv0rI097U/3DVcbPX51",
    ),
    (
        "longer password with more than eight letters",
        "$6$rounds=1000$MExYZy.3fJHWIsS9$ZuFiC6ejDYfuJm8n3NHWH/goQqbvcAuFhfGRxEeinQ18yMKMeAy5SgD9wCA2lRuLRaAET5pzz.xwZu2V./uy4/",
    ),
    (
        "päss",
        "$6$rounds=1000$sz.nc5z/OAXCp/Pe$uV1CHblv/kj27akckkJ.lO9vsIk8GC2om1mgvoGDjollcyPBUmQuNJsxy8dpIm11zfNKSRKqbI8HHnCAbxbpn0",
    ),
    ("secret", "abNANd1rDfiNc"),
    ("secret", "zZ5x4y8hS4SZE"),
    ("secret", "./17m29LFAflg"),
    ("secret", "$1$salt$ez2vlPGdaLYkJam5pWs/Y1"),
    (
        "secret",
        "$5$saltstring$C3o4O1TC6aRHF4FI.QSZMXtHbaj2gSXr4sUc/3NcUi.",
    ),
    (
        "secret",
        "$5$rounds=1234$averylongsaltstr$6vmSj/lUN.aIso2mhrVIrfEAlnhSLiLmFNR5U7kcNg8",
    ),
    (
        "secret",
        "$6$x$mQUKLCQR1S846TztirS7Ejo4KyTtZWzcyuF2/43jqoJTDZXRb8L.bXBNxX9GCZhKdADbfqEnGZyv89igC73DL/",
    ),
    (
        "secret",
        "$6$rounds=1500$abc$F2.P6iSAFLF.06eJJhrWJrLoNFr9TdmGOJ3HNhFCs4KFYVW3TBrMkDC4CRKRjihyhxez15iQzKMjQRhcJcFz90",
    ),
    ("a", "abxxB7HlIeckU"),
    ("a", "zZ/Dc0K.bMxrQ"),
    ("a", "./xT2u5QYaHcU"),
    ("a", "$1$salt$M17PcHxFIEt5v7SAsS4v60"),
    (
        "a",
        "$5$saltstring$7cz4bTeQ7MnNssphNhFVrITtuJYY/1tdvLL2uzLvOk8",
    ),
    (
        "a",
        "$5$rounds=1234$averylongsaltstr$4/tC47oGHQlUmGnQEKD9BZvXPmlcO/txzoJiRnsSu71",
    ),
    (
        "a",
        "$6$x$6Zqbz8j5rMHIeJ1ujjjFXuZXSa/VORj.fVUEQcJc.rjR9.wCKlhZuymRQLtIEzcxNmqwX/fRNvM45BbvFayY51",
    ),
    (
        "a",
        "$6$rounds=1500$abc$QQi..jJywqGvggU5rtuY2yi9blCvjTACWoi9LUs0.3p2ELX.aUNuzGVcCY46U.fJyy61nYWx6Iozy0sblxbcL.",
    ),
    (
        "longer password with more than eight letters",
        "abEx3ULcSYuz6",
    ),
    (
        "longer password with more than eight letters",
        "zZSELOiBG6APA",
    ),
    (
        "longer password with more than eight letters",
        "./55U6dQC81Cw",
    ),
    (
        "longer password with more than eight letters",
        "$1$salt$XRyCAxz72oeXbpua/Egjp.",
    ),
    (
        "longer password with more than eight letters",
        "$5$saltstring$13dqyi4zZ3oakY09vHVQgYfKtTh8Spn/L7qQqFPPxlB",
    ),
    (
        "longer password with more than eight letters",
        "$5$rounds=1234$averylongsaltstr$zSQ6oxNPwirtfQfR4tBwiTiAPToVrpxuubJAy49Qpy1",
    ),
    (
        "longer password with more than eight letters",
        "$6$x$nOAhoRxK0ZI.W.vH9gIDwdaXcBc9otwciCsq.8La8EYmiyl1QeqyuIYzt34oeG226/1MK4A5DoOYZByVcmRTj0",
    ),
    (
        "longer password with more than eight letters",
        "$6$rounds=1500$abc$80.AumJMinN3t9Flud5D0btRVgLQIelH087Pj/lh/vjbZ4ccQFr9PxU5Xsakovh7WIkurFmShYYURqz9dSu.B1",
    ),
    ("päss", "abxNd6oRGYP9Q"),
    ("päss", "zZE/Z3cJ7B3NM"),
    ("päss", "./Wrjs.Kc.GIM"),
    ("päss", "$1$salt$l2VGtrrDS6SYU7RcQwz0R1"),
    (
        "päss",
        "$5$saltstring$6G3HI990O.FtcpzpgeQzNXoeB9pWn9YU.gVTtFgbMz/",
    ),
    (
        "päss",
        "$5$rounds=1234$averylongsaltstr$wanBUxzygzr5N82z16ivTqy58BEGjsWF19sq4qXPwW.",
    ),
    (
        "päss",
        "$6$x$ATnZrebgNAK/2LJqCZsCOWfP6VR4NW5I1hg5Y0oonBtyLwAmDS7M836tI2JVbj6ePmJYHslGEj.c/EiDM/ob.0",
    ),
    (
        "päss",
        "$6$rounds=1500$abc$7p7O29KxbT0gZoim08z/x6XIkZfWECj8ba5jmjS26gnfJc.7VzzbNNyNzX9RHJ15eL7QGHVB9RAp8bl05E2OQ/",
    ),
];

#[test]
fn as_they_were_made() {
    for (password, stored) in MADE {
        let checks = |password: &[u8]| match stored.starts_with("{SHA}") {
            true => matches!(check(Turn::from(0), stored, password), Answer::Known(true)),
            false => is_password(stored, password),
        };
        assert!(checks(password.as_bytes()), "{password} {stored}");
        let changed = [b"x", password.as_bytes()].concat();
        assert!(!checks(&changed), "x{password} {stored}");
    }
}

#[test]
fn invalid_hashes_match_no_password() {
    let not_made = [
        "",
        "a",
        "secret",
        "*",
        "!!",
        "$2y$",
        "$2y$05$short",
        "$apr1$",
        "$1$",
        "$5$",
        "$6$rounds=x$a$b",
        "$6$rounds=99999999$a$b",
        "$y$j9T$a$b",
        "ab",
        "$5$ääääääääää$x",
        "é1234567890ab",
    ];
    for stored in not_made {
        for password in [&b""[..], b"secret", stored.as_bytes()] {
            assert!(!is_password(stored, password), "{stored}");
        }
    }
}

#[test]
fn equal_texts() {
    assert!(is_same(b"", b"") && is_same(b"abc", b"abc"));
    assert!(!is_same(b"abc", b"abd") && !is_same(b"abc", b"ab") && !is_same(b"", b"a"));
}

#[test]
fn keys_tell_texts_apart() {
    assert_ne!(key("ab", b"c"), key("a", b"bc"));
    assert_eq!(key("ab", b"c"), key("ab", b"c"));
}

#[test]
fn work_that_takes_days_is_not_begun() {
    // 2 to the 31st rounds; without the bound this test does not end.
    assert!(!is_password(
        "$2y$31$abcdefghijklmnopqrstuu5Lo0g67CiD3M4RpN1BmBb4Crp5w7dbK",
        b"a"
    ));
    assert_eq!(
        (
            bcrypt_cost("$2y$10$x"),
            bcrypt_cost("$2y$x"),
            bcrypt_cost("$2y")
        ),
        (Some(10), None, None)
    );
    assert!(!is_password("$6$rounds=999999999$salt$x", b"a"));
}

#[test]
fn wrong_passwords_do_not_drive_out_right_ones() {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut checked = |stored: &str, password: &str| {
        let ask = || check(Turn::of_client(0, 1), stored, password.as_bytes());
        match ask() {
            Answer::Known(is_right) => (is_right, true),
            Answer::Wait(mut pause) => {
                while pause.as_mut().poll(&mut context).is_pending() {
                    std::thread::park_timeout(Duration::from_secs(10));
                }
                (matches!(ask(), Answer::Known(true)), false)
            }
            Answer::Busy => panic!("nothing else waits"),
        }
    };
    let (password, stored) = MADE
        .iter()
        .find(|(_, stored)| stored.starts_with("$1$"))
        .unwrap();
    assert_eq!(checked(stored, password), (true, false));
    for number in 0..KEPT_MAX + 10 {
        assert_eq!(checked("*", &number.to_string()), (false, false));
    }
    assert_eq!(checked(stored, password), (true, true), "is known");
}
