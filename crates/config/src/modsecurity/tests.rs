use super::*;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("saker-rules-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn origin() -> Origin {
    Origin {
        file: "saker.toml".into(),
        line: 7,
        column: 1,
    }
}

fn read(path: &Path) -> Reading {
    let mut reading = Reading::default();
    reading.files(path, &origin());
    reading
}

#[test]
fn what_the_library_understands_is_left_to_it() {
    let folder = Folder::new();
    let path = folder
        .write("a.conf", "# a comment \\\nSecRuleEngine Off\nSecRuleEngine On\nSecRequestBodyAccess \"Off\"\nSecRequestBodyLimit 10\n");
    let mut reading = read(&path);
    assert!(reading.take_remarks().is_empty());
    assert_eq!(reading.engine(), Some(Engine::On));
    let (parts, lines, wants) = reading.into_parts();
    assert_eq!((parts, lines.len()), (vec![Part::File(path)], 0));
    assert!(!wants.request_content() && wants.request_bytes == Some(10));
}

#[test]
fn what_it_does_not_reaches_it_as_text() {
    let folder = Folder::new();
    folder.write("words.data", "bad\n");
    folder.write(
        "b.conf",
        "SecRule ARGS \"@pmFromFile words.data\" \\\n \"id:1,phase:1,deny\"\n",
    );
    folder.write(
        "c.conf",
        "SecGuardianLog /x\nSecRule ARGS \"@pmFromFile words.data\" \"id:2,phase:1,deny\"\nSecAction \"id:3,phase:1,\\\n pass,nolog\"\n",
    );
    let path = folder
        .write("a.load", "Include b.conf\nIncludeOptional none/*.conf\nIncludeOptional none.conf\nInclude c.conf\nSecRuleEngine On\n");
    let mut reading = read(&path);
    let remarks = reading.take_remarks();
    assert!(
        remarks.len() == 1 && !remarks[0].is_error && remarks[0].message.contains("SecGuardianLog"),
        "{remarks:?}"
    );
    assert_eq!(remarks[0].origin.line, 1);
    let (parts, lines, _) = reading.into_parts();
    // Settings go to the front: the library takes the first part that has one.
    assert_eq!(parts[0], Part::Text(b"\n\n\nSecRuleEngine On\n".to_vec()));
    assert_eq!(parts[1], Part::File(folder.0.join("b.conf")));
    let Part::Text(text) = &parts[2] else {
        panic!("{parts:?}")
    };
    let text = String::from_utf8_lossy(text);
    assert!(
        text.contains(&format!("@pmFromFile {}/words.data\"", folder.0.display())),
        "{text}"
    );
    let stood: Vec<u32> = lines.iter().map(|(_, line)| *line).collect();
    assert_eq!(stood, [2, 3, 5, 5]);
    assert!(lines[0].0.ends_with("c.conf") && lines[2].0.ends_with("a.load"));
}

#[test]
fn nothing_is_left_out_that_refuses() {
    let mut reading = Reading::default();
    reading.text(
        "SecHashEngine On\nSecInterceptOnError off\n",
        &"x".into(),
        3,
        Path::new("/"),
    );
    let remarks = reading.take_remarks();
    assert_eq!(
        remarks
            .iter()
            .map(|remark| (remark.is_error, remark.origin.line))
            .collect::<Vec<_>>(),
        [(true, 3), (false, 4)]
    );
    let folder = Folder::new();
    let circle = folder.write("circle.conf", "Include circle.conf\n");
    for path in [
        circle.as_path(),
        Path::new("/nonexistent/x.conf"),
        Path::new("/nonexistent/*.conf"),
        Path::new("/"),
    ] {
        assert!(
            read(path)
                .take_remarks()
                .iter()
                .any(|remark| remark.is_error),
            "{path:?}"
        );
    }
}

#[test]
fn faults_and_lines_have_their_places() {
    let folder = Folder::new();
    let path = folder.write("bad.conf", "SecRuleEngine On\nSecNothing x\n");
    let fault = Rules::compile(read(&path), &origin()).unwrap_err();
    assert_eq!(
        (fault.origin.file.as_ref(), fault.origin.line),
        (path.display().to_string().as_str(), 2)
    );
    let mut reading = Reading::default();
    reading.files(&folder.write("good.conf", "SecRuleEngine On\n"), &origin());
    reading.text(
        "\n# x\nSecNothing y\n",
        &"saker.toml".into(),
        20,
        Path::new("/"),
    );
    let fault = Rules::compile(reading, &origin()).unwrap_err();
    assert_eq!(
        (fault.origin.file.as_ref(), fault.origin.line),
        ("saker.toml", 22)
    );
    assert!(fault.message.contains("SecNothing y"), "{}", fault.message);
    let mut reading = Reading::default();
    reading.text("SecRuleEngine On\n", &"a".into(), 1, Path::new("/"));
    reading.files(
        &folder.write(
            "other.conf",
            "SecRule REQUEST_METHOD \"@rx .\" \"id:9,phase:1,pass,log\"\n",
        ),
        &origin(),
    );
    reading.text(
        "SecRule REQUEST_METHOD \"@rx .\" \"id:1,phase:1,pass,log\"\n",
        &"b".into(),
        33,
        Path::new("/"),
    );
    let rules = Rules::compile(reading, &origin()).unwrap();
    let mut transaction = rules.transaction("u").unwrap();
    transaction.connection(
        "192.0.2.1:1".parse().unwrap(),
        "192.0.2.2:2".parse().unwrap(),
    );
    transaction.uri(b"/", b"GET", "1.1");
    transaction.request_head();
    let lines: Vec<String> = transaction
        .take_lines()
        .iter()
        .map(|line| rules.told(line, "example.org"))
        .collect();
    assert!(
        lines[0].contains("other.conf\"] [line \"1\"")
            && lines[1].contains("[file \"b\"] [line \"33\"]"),
        "{lines:?}"
    );
    assert!(
        lines
            .iter()
            .all(|line| line.contains("[hostname \"example.org\"]")),
        "{lines:?}"
    );
}

#[test]
fn a_rule_without_an_id_is_told_with_its_own_place() {
    let folder = Folder::new();
    let path = folder.write(
        "own.conf",
        "SecRuleEngine On\nSecRule ARGS \"@streq x\" \"phase:1,deny\"\n",
    );
    let of_file = Rules::compile(read(&path), &origin()).unwrap_err();
    assert_eq!(
        (&*of_file.origin.file, of_file.origin.line),
        (&*path.to_string_lossy(), 2),
        "{of_file:?}"
    );
    let mut reading = Reading::default();
    reading.text(
        "SecRule ARGS \"@streq x\" \"phase:1,deny\"\n",
        &"x".into(),
        5,
        Path::new("/"),
    );
    let of_text = Rules::compile(reading, &origin()).unwrap_err();
    assert_eq!(
        (&*of_text.origin.file, of_text.origin.line),
        ("x", 5),
        "{of_text:?}"
    );
    for one in [of_file, of_text] {
        assert!(
            one.message.contains("ID")
                && !one.message.contains("File:")
                && !one.message.contains("at line"),
            "{}",
            one.message
        );
    }
}

#[test]
fn rules_without_actions_and_unknown_operators() {
    let mut reading = Reading::default();
    let text = "SecRuleEngine On\nSecRule ARGS:a \"x\" \\\n  \"id:1,phase:1,pass,chain\"\nSecRule ARGS:b \"@rx x\"\nSecRule REQUEST_METHOD \"@rx .\" \\\n \"id:2,phase:1,pass,log\"\n";
    reading.text(text, &"x".into(), 1, Path::new("/"));
    assert!(reading.take_remarks().is_empty());
    let rules = Rules::compile(reading, &origin()).unwrap();
    let mut transaction = rules.transaction("u").unwrap();
    transaction.uri(b"/", b"GET", "1.1");
    transaction.request_head();
    let line = transaction.take_lines().remove(0);
    assert!(
        rules.told(&line, "").contains("[file \"x\"] [line \"5\"]"),
        "{line}"
    );
    for (text, is_right) in [
        ("SecRule A \"!@nothing x\" id:1", false),
        ("SecRule A \"user@example\"", true),
        ("SecRule A \"! @PM x\"", true),
    ] {
        let mut reading = Reading::default();
        reading.text(text, &"x".into(), 1, Path::new("/"));
        assert_eq!(reading.take_remarks().is_empty(), is_right, "{text}");
    }
}

#[test]
fn what_rules_want_to_see() {
    let wants = |text: &str| {
        let mut reading = Reading::default();
        reading.text(text, &"x".into(), 1, Path::new("/"));
        reading.into_parts().2
    };
    assert!(wants("").request_content() && !wants("").response_content(b"text/html"));
    let on = wants("secResponseBodyAccess on\n");
    assert!(on.response_content(b"text/html; charset=utf-8") && !on.response_content(b"image/png"));
    let typed = wants(
        "SecResponseBodyAccess On\nSecResponseBodyMimeType application/json text/xml\nSecResponseBodyLimit 9\n",
    );
    assert!(
        typed.response_content(b"Application/JSON")
            && !typed.response_content(b"text/html")
            && typed.response_bytes == Some(9)
    );
    let by_rule = wants(
        "SecRequestBodyAccess Off\nSecAction \"id:1,phase:1,pass,\\\n  ctl:requestBodyAccess=On\"\n",
    );
    assert!(by_rule.request_content());
}
