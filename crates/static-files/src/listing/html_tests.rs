//! The page as text: links, names, sizes, order, whatever files are called.

use super::*;

fn entry(name: impl AsRef<[u8]>, folder: bool, size: u64) -> Entry {
    Entry {
        name: name.as_ref().to_vec(),
        folder,
        size,
        mtime_s: 784_111_777,
    }
}

fn page(path: &str, list: Vec<Entry>, truncated: bool) -> String {
    let order = Order {
        by: Column::Name,
        descending: false,
    };
    String::from_utf8(html(
        path.as_bytes(),
        &Entries { list, truncated },
        order,
        &Files::default(),
    ))
    .unwrap()
}

#[test]
fn rows_have_link_size_and_date() {
    let page = page(
        "/d/",
        vec![entry("sub", true, 0), entry("photo.jpg", false, 1_234_567)],
        false,
    );
    assert!(page.contains("<a href=\"./sub/\"><svg class=\"folder\"><use href=\"#folder\"/></svg><bdi>sub/</bdi></a>"), "{page}");
    assert!(page.contains("<a href=\"./photo.jpg\"><svg class=\"image\">"));
    assert!(page.contains("title=\"1\u{202f}234\u{202f}567 bytes\">1.2 MB"));
    assert!(page.contains(
        "<time datetime=\"1994-11-06T08:49Z\" title=\"Sun, 06 Nov 1994 08:49:37 GMT\">1994-11-06 "
    ));
    assert!(page.contains("href=\"../\"") && page.contains("1 folder, 1 file, 1.2 MB"));
    assert!(page.contains("<title>Index of /d/</title>"));
    assert!(
        !self::page("/", Vec::new(), false).contains("href=\"../\""),
        "the root has no parent"
    );
}

/// Whatever a file is called: its link leads to it and to nothing else, and its name is text.
#[test]
fn names_that_try_to_be_something_else() {
    let cases: [(&[u8], &str, &str); 10] = [
        (b"<script>", "./%3Cscript%3E", "&lt;script&gt;"),
        (b"a:b", "./a%3Ab", "a:b"),
        (b"javascript:x", "./javascript%3Ax", "javascript:x"),
        (b"q?a=1&b#c", "./q%3Fa=1&amp;b%23c", "q?a=1&amp;b#c"),
        (b"\"><b>", "./%22%3E%3Cb%3E", "&quot;&gt;&lt;b&gt;"),
        (b"it's", "./it&#39;s", "it&#39;s"),
        (b"a\nb\x7f", "./a%0Ab%7F", "a\u{240a}b\u{2421}"),
        (b"z\xff", "./z%FF", "z\u{fffd}"),
        (
            "\u{202e}gpj.exe".as_bytes(),
            "./%E2%80%AEgpj.exe",
            "\u{fffd}gpj.exe",
        ),
        (b"100%", "./100%25", "100%"),
    ];
    for (name, href, text) in cases {
        let page = page("/", vec![entry(name, false, 0)], false);
        assert!(
            page.contains(&format!("<a href=\"{href}\"><svg")),
            "{href}\n{page}"
        );
        assert!(
            page.contains(&format!("<bdi>{text}</bdi>")),
            "{text}\n{page}"
        );
    }
}

#[test]
fn the_breadcrumb_leads_up() {
    let page = page("/a&b/c d/<x>/", Vec::new(), false);
    let expected = "<a href=\"/\">Home</a> / <a href=\"/a&amp;b/\"><bdi>a&amp;b</bdi></a> / <a href=\"/a&amp;b/c%20d/\"><bdi>c d</bdi></a> \
                    / <a href=\"/a&amp;b/c%20d/%3Cx%3E/\"><bdi>&lt;x&gt;</bdi></a></h1>";
    assert!(page.contains(expected), "{page}");
}

#[test]
fn a_click_on_the_current_column_turns_the_order_round() {
    let heads = |by, descending| {
        let mut out = Vec::new();
        head_row(Order { by, descending }, &mut out);
        String::from_utf8(out).unwrap()
    };
    let by_name = heads(Column::Name, false);
    assert!(
        by_name.contains("aria-sort=\"ascending\"><a href=\"?C=N;O=D\">Name ↑")
            && by_name.contains("?C=S;O=A\">Size")
    );
    let by_size = heads(Column::Size, true);
    assert!(
        by_size.contains("aria-sort=\"descending\"><a href=\"?C=S;O=A\">Size ↓")
            && by_size.contains("?C=M;O=A\">Modified")
    );
}

#[test]
fn sizes_for_people() {
    let cases = [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (9_949, "9.9 kB"),
        (9_951, "10 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (21_000_000, "21 MB"),
        (u64::MAX, "18 EB"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(human_size(bytes), expected, "{bytes}");
    }
    assert_eq!(
        [grouped(0), grouped(999), grouped(1000)],
        ["0", "999", "1\u{202f}000"]
    );
}

#[test]
fn a_long_folder_says_so() {
    assert!(page("/", Vec::new(), true).contains("Only the first 10\u{202f}000 entries are shown"));
    assert!(page("/", Vec::new(), false).contains("0 folders, 0 files, 0 B"));
}

#[test]
fn icons_by_kind() {
    let files = Files::default();
    let cases = [
        ("x.mp4", "media"),
        ("x.mp3", "media"),
        ("x.svg", "image"),
        ("x.css", "text"),
        ("x.json", "text"),
        ("x.zip", "archive"),
        ("x.tar.gz", "archive"),
        ("x", "file"),
    ];
    for (name, expected) in cases {
        assert_eq!(icon(&entry(name, false, 0), &files), expected, "{name}");
    }
    assert_eq!(icon(&entry("x.zip", true, 0), &files), "folder");
}
