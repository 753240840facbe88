use super::*;
use crate::program::ProgramLimits;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
};

const NOBODY: u32 = 65_534;

fn order(kind: OrderKind, file: &Path) -> Order {
    Order {
        kind,
        user: "nobody".into(),
        group: None,
        file: file.to_owned(),
        name: "x".into(),
        arguments: vec!["a".into()],
        environment: Vec::new(),
        folder: "/".into(),
        limits: ProgramLimits::default(),
    }
}

/// A folder of nobody's with a script.
fn folder(name: &str) -> PathBuf {
    let root = std::env::temp_dir().join(format!("saker-grants-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(root.join("in")).unwrap();
    fs::write(root.join("in/x.cgi"), "#!/bin/sh\n").unwrap();
    for path in ["in", "in/x.cgi"] {
        chown(root.join(path), Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }
    root
}

fn scripts(root: &Path) -> Grants {
    Grants::new(vec![Grant::Scripts { user: "nobody".into(), group: None, root: root.to_owned() }])
}

fn refusal(grants: &Grants, order: &Order) -> String {
    grants.allow(order).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn a_script_has_to_be_his_alone() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let root = folder("alone");
    let (folder, file) = (root.join("in"), root.join("in/x.cgi"));
    let order = order(OrderKind::Script, &file);
    let grants = scripts(&root);
    assert!(grants.allow(&order).is_ok());
    let mode = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for (path, bits, reason) in [
        (&folder, 0o775, "directory is writable"),
        (&file, 0o757, "file is writable"),
        (&file, 0o4755, "setuid"),
        (&file, 0o2755, "setgid"),
        (&file, 0o655, "no execute permission"),
    ] {
        mode(path, bits);
        assert!(refusal(&grants, &order).contains(reason), "{bits:o}");
        mode(path, 0o755);
    }
    for path in [&file, &folder] {
        chown(path, Some(0), None).unwrap();
        assert!(refusal(&grants, &order).contains("mismatch"), "{}", path.display());
        chown(path, Some(NOBODY), None).unwrap();
    }
    symlink("x.cgi", folder.join("link.cgi")).unwrap();
    assert!(refusal(&grants, &Order { file: folder.join("link.cgi"), ..order.clone() }).contains("cannot stat"));
    assert!(refusal(&grants, &Order { file: root.join("in/../in/x.cgi"), ..order.clone() }).contains("invalid command"));
    assert!(grants.allow(&order).is_ok());
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn only_what_was_granted() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (root, other) = (folder("granted"), folder("other"));
    let script = order(OrderKind::Script, &root.join("in/x.cgi"));
    assert!(refusal(&scripts(&other), &script).contains("docroot"));
    assert!(refusal(&Grants::default(), &script).contains("docroot"));
    // A way out of the folder.
    symlink(other.join("in"), root.join("out")).unwrap();
    assert!(refusal(&scripts(&root), &Order { file: root.join("out/x.cgi"), ..script.clone() }).contains("docroot"));
    assert!(refusal(&scripts(&root), &Order { user: "daemon".into(), ..script.clone() }).contains("forbidden"));
    let grant = |user: &str, arguments| Grant::Program { user: user.into(), group: None, file: "/bin/php".into(), arguments };
    let php = order(OrderKind::Program, Path::new("/bin/php"));
    assert!(Grants::new(vec![grant("nobody", None)]).allow(&php).is_ok());
    assert!(Grants::new(vec![grant("daemon", None)]).allow(&php).is_err());
    assert!(Grants::new(vec![grant("nobody", Some(vec!["b".into()]))]).allow(&php).is_err());
    let as_root = Order { user: "root".into(), ..php };
    assert!(Grants::new(vec![grant("root", None)]).allow(&as_root).is_err());
    let exact = || Grants::new(vec![grant("root", Some(vec!["a".into()]))]);
    assert!(exact().allow(&as_root).is_err(), "as root it has an environment of the server's choice");
    let log = Order { kind: OrderKind::LogProgram, ..as_root };
    assert!(exact().allow(&log).is_ok());
    assert!(exact().allow(&Order { arguments: vec!["b".into()], ..log.clone() }).is_err());
    assert!(Grants::new(vec![grant("root", None)]).allow(&log).is_err());
    fs::remove_dir_all(root).unwrap();
    fs::remove_dir_all(other).unwrap();
}

#[test]
fn grants_are_read_as_they_were_written() {
    let all = vec![
        Grant::Scripts { user: "a".into(), group: Some("b".into()), root: "/srv".into() },
        Grant::Homes { suffix: "public_html".into() },
        Grant::Program { user: "a".into(), group: None, file: "/bin/php".into(), arguments: None },
        Grant::Program { user: "root".into(), group: None, file: "/bin/sh".into(), arguments: Some(vec!["-c".into()]) },
    ];
    let message = Grant::encode(&all);
    assert_eq!(Grant::decode(&message).unwrap(), all);
    assert!(Grant::decode(&message[..message.len() - 1]).is_err());
}
