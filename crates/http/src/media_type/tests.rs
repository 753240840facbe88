use super::*;
use crate::chars::is_token;

#[test]
fn the_table_is_sorted_unique_and_well_formed() {
    assert!(TYPES.len() >= 200);
    assert!(TYPES.is_sorted_by(|one, two| one.0 < two.0));
    for (extension, media_type) in TYPES {
        let (kind, subtype) = media_type.split_once('/').unwrap();
        assert!(
            is_token(kind.as_bytes()) && is_token(subtype.as_bytes()),
            "{media_type}"
        );
        assert_eq!(*media_type, media_type.to_ascii_lowercase());
        assert!(
            extension
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()),
            "{extension}"
        );
        assert_eq!(by_extension(extension.as_bytes()), Some(*media_type));
    }
}

#[test]
fn what_sites_are_made_of() {
    let cases = [
        ("html", "text/html"),
        ("htm", "text/html"),
        ("css", "text/css"),
        ("js", "text/javascript"),
        ("mjs", "text/javascript"),
        ("json", "application/json"),
        ("map", "application/json"),
        ("xml", "application/xml"),
        ("txt", "text/plain"),
        ("svg", "image/svg+xml"),
        ("png", "image/png"),
        ("jpg", "image/jpeg"),
        ("jpeg", "image/jpeg"),
        ("webp", "image/webp"),
        ("avif", "image/avif"),
        ("ico", "image/vnd.microsoft.icon"),
        ("woff2", "font/woff2"),
        ("mp4", "video/mp4"),
        ("webm", "video/webm"),
        ("ogg", "audio/ogg"),
        ("pdf", "application/pdf"),
        ("wasm", "application/wasm"),
        ("webmanifest", "application/manifest+json"),
        (
            "docx",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        ),
    ];
    for (extension, want) in cases {
        assert_eq!(
            by_extension(extension.as_bytes()),
            Some(want),
            "{extension}"
        );
    }
    for extension in [&b""[..], b"HTML", b".html", b"nope", b"\xff"] {
        assert_eq!(by_extension(extension), None, "{extension:?}");
    }
}

#[test]
fn scripts_run_by_servers_have_no_type() {
    for extension in ["php", "phtml", "phar", "asp", "aspx", "jsp", "cgi"] {
        assert_eq!(by_extension(extension.as_bytes()), None, "{extension}");
    }
}

#[test]
fn what_shrinks() {
    let yes = [
        "text/html",
        "text/html; charset=utf-8",
        "TEXT/CSS ;x=y",
        "application/javascript",
        "application/json",
        "application/ld+json",
        "application/rss+xml",
        "image/svg+xml",
        "font/ttf",
        "font/otf",
        "application/wasm",
        "image/x-icon",
    ];
    let no = [
        "",
        "text",
        "image/png",
        "image/jpeg",
        "font/woff",
        "font/woff2",
        "video/mp4",
        "application/zip",
        "application/gzip",
        "application/octet-stream",
        "application/epub+zip",
        "text/event-stream",
        "application/jsonx",
        "image/png; x=text/html",
    ];
    for media_type in yes {
        assert!(is_compressible(media_type.as_bytes()), "{media_type}");
    }
    for media_type in no {
        assert!(!is_compressible(media_type.as_bytes()), "{media_type}");
    }
}

#[test]
fn what_takes_a_charset() {
    for media_type in [
        "text/html",
        "text/plain",
        "Text/CSS",
        "text/javascript",
        "application/javascript",
    ] {
        assert!(takes_charset(media_type.as_bytes()), "{media_type}");
    }
    for media_type in [
        "application/json",
        "application/ld+json",
        "image/svg+xml",
        "application/xml",
        "image/png",
        "texts/x",
        "",
    ] {
        assert!(!takes_charset(media_type.as_bytes()), "{media_type}");
    }
}
