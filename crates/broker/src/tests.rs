use crate::{Grant, Grants, SpawnKind, SpawnRequest, any_number, descriptor};
use saker_net::program::ProgramLimits;
use std::{
    ffi::OsString,
    fs,
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
};

const NOBODY: u32 = 65_534;

fn request(kind: SpawnKind, file: &Path) -> SpawnRequest {
    SpawnRequest {
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

/// Creates a directory with a script, owned by a user without other files.
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
    Grants::new(vec![Grant::Scripts {
        user: "nobody".into(),
        group: None,
        root: root.to_owned(),
    }])
}

fn refusal(grants: &Grants, request: &SpawnRequest) -> String {
    grants.allow(request).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn a_script_has_to_be_his_alone() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let root = folder("alone");
    let (folder, file) = (root.join("in"), root.join("in/x.cgi"));
    let request = request(SpawnKind::Script, &file);
    let grants = scripts(&root);
    assert!(grants.allow(&request).is_ok());
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap()
    };
    for (path, bits, reason) in [
        (&folder, 0o775, "directory is writable"),
        (&file, 0o757, "file is writable"),
        (&file, 0o4755, "setuid"),
        (&file, 0o2755, "setgid"),
        (&file, 0o655, "no execute permission"),
    ] {
        mode(path, bits);
        assert!(refusal(&grants, &request).contains(reason), "{bits:o}");
        mode(path, 0o755);
    }
    for path in [&file, &folder] {
        chown(path, Some(0), None).unwrap();
        assert!(
            refusal(&grants, &request).contains("mismatch"),
            "{}",
            path.display()
        );
        chown(path, Some(NOBODY), None).unwrap();
    }
    symlink("x.cgi", folder.join("link.cgi")).unwrap();
    assert!(
        refusal(
            &grants,
            &SpawnRequest {
                file: folder.join("link.cgi"),
                ..request.clone()
            }
        )
        .contains("cannot stat")
    );
    assert!(
        refusal(
            &grants,
            &SpawnRequest {
                file: root.join("in/../in/x.cgi"),
                ..request.clone()
            }
        )
        .contains("invalid command")
    );
    assert!(grants.allow(&request).is_ok());
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn only_what_was_granted() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (root, other) = (folder("granted"), folder("other"));
    let script = request(SpawnKind::Script, &root.join("in/x.cgi"));
    assert!(refusal(&scripts(&other), &script).contains("docroot"));
    assert!(refusal(&Grants::default(), &script).contains("docroot"));
    // A way out of the folder.
    symlink(other.join("in"), root.join("out")).unwrap();
    assert!(
        refusal(
            &scripts(&root),
            &SpawnRequest {
                file: root.join("out/x.cgi"),
                ..script.clone()
            }
        )
        .contains("docroot")
    );
    assert!(
        refusal(
            &scripts(&root),
            &SpawnRequest {
                user: "daemon".into(),
                ..script.clone()
            }
        )
        .contains("forbidden")
    );
    let grant = |user: &str, arguments: Vec<OsString>| {
        let environment = vec![
            ("PATH".into(), "/bin".into()),
            ("N".into(), any_number()),
            ("FD".into(), descriptor(0)),
        ];
        Grant::Program {
            user: user.into(),
            group: None,
            file: "/bin/php".into(),
            arguments,
            environment,
        }
    };
    let exact = || Grants::new(vec![grant("nobody", vec!["a".into()])]);
    let php = request(SpawnKind::Program, Path::new("/bin/php"));
    assert_eq!(exact().allow(&php).unwrap().inherited, 1);
    assert!(
        Grants::new(vec![grant("daemon", vec!["a".into()])])
            .allow(&php)
            .is_err()
    );
    // None granted: none taken.
    for granted in [vec![], vec!["b".into()], vec!["a".into(), "a".into()]] {
        assert!(
            Grants::new(vec![grant("nobody", granted)])
                .allow(&php)
                .is_err()
        );
    }
    let with = |environment: &[(&str, &str)]| {
        let environment = environment
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        exact()
            .allow(&SpawnRequest {
                environment,
                ..php.clone()
            })
            .is_ok()
    };
    assert!(with(&[]) && with(&[("PATH", "/bin"), ("N", "12")]) && with(&[("FD", "\0\x30")]));
    for refused in [
        &[("PATH", "/tmp")][..],
        &[("LD_PRELOAD", "/tmp/x.so")],
        &[("N", "x")],
        &[("N", "")],
        &[("FD", "3")],
        &[("N", "1"), ("N", "2")],
    ] {
        assert!(!with(refused), "{refused:?}");
    }
    let as_root = SpawnRequest {
        user: "root".into(),
        ..php.clone()
    };
    assert!(
        Grants::new(vec![grant("root", vec!["a".into()])])
            .allow(&as_root)
            .is_err()
    );
    let log = SpawnRequest {
        kind: SpawnKind::LogProgram,
        ..as_root
    };
    let log_program = || {
        Grants::new(vec![Grant::LogProgram {
            file: "/bin/php".into(),
            arguments: vec!["a".into()],
        }])
    };
    assert!(log_program().allow(&log).is_ok());
    assert!(
        log_program()
            .allow(&SpawnRequest {
                arguments: vec!["b".into()],
                ..log.clone()
            })
            .is_err()
    );
    assert!(log_program().allow(&php).is_err() && exact().allow(&log).is_err());
    let own = SpawnRequest {
        kind: SpawnKind::Own,
        ..php.clone()
    };
    let owner = |user: &str| {
        Grants::new(vec![
            Grant::Own {
                user: user.into(),
                group: None,
            },
            Grant::OwnPrograms {
                user: user.into(),
                group: None,
            },
            grant("nobody", vec!["a".into()]),
        ])
    };
    assert!(owner("nobody").allow(&own).is_ok() && owner("daemon").allow(&own).is_err());
    assert!(
        owner("root")
            .allow(&SpawnRequest {
                user: "root".into(),
                ..own
            })
            .is_err()
    );
    assert!(
        owner("nobody").allow(&php).unwrap().is_apart
            && !owner("daemon").allow(&php).unwrap().is_apart
    );
    fs::remove_dir_all(root).unwrap();
    fs::remove_dir_all(other).unwrap();
}

/// A server without programs of its own has none started; one with CGI has its scripts.
#[test]
fn programs_of_the_servers_user_are_its_configurations() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (root, other) = (folder("own"), folder("own-other"));
    let own = || Grant::Own {
        user: "nobody".into(),
        group: None,
    };
    let shell = SpawnRequest {
        kind: SpawnKind::Own,
        name: "sh".into(),
        arguments: vec!["-c".into(), "id".into()],
        folder: "/bin".into(),
        ..request(SpawnKind::Own, Path::new("/bin/sh"))
    };
    let script = |file: PathBuf| SpawnRequest {
        name: file.file_name().unwrap().into(),
        folder: file.parent().unwrap().into(),
        ..request(SpawnKind::Own, &file)
    };
    let one = script(root.join("in/x.cgi"));
    let none = Grants::new(vec![own()]);
    for request in [&shell, &one] {
        assert!(refusal(&none, request).contains("no programs of the server's user"));
    }
    let of = |follows_links| {
        let scripts = Grant::OwnScripts {
            user: "nobody".into(),
            group: None,
            root: root.clone(),
            follows_links,
            environment: vec![
                ("PYTHONPATH".into(), "/srv/lib".into()),
                ("PERL5LIB".into(), crate::any_text()),
            ],
        };
        Grants::new(vec![own(), scripts])
    };
    assert!(of(false).allow(&one).is_ok());
    symlink(other.join("in"), root.join("out")).unwrap();
    symlink("/bin/sh", root.join("in/sh.cgi")).unwrap();
    for (file, is_behind_link) in [("out/x.cgi", true), ("in/sh.cgi", true), ("in", false)] {
        let request = script(root.join(file));
        assert!(of(false).allow(&request).is_err(), "{file}");
        assert_eq!(of(true).allow(&request).is_ok(), is_behind_link, "{file}");
    }
    let elsewhere = [
        shell,
        script(other.join("in/x.cgi")),
        script(root.join("in/../../x.cgi")),
        SpawnRequest {
            folder: other.clone(),
            ..one.clone()
        },
        SpawnRequest {
            user: "daemon".into(),
            ..one.clone()
        },
    ];
    for request in &elsewhere {
        assert!(of(true).allow(request).is_err(), "{request:?}");
    }
    let given = [
        ("QUERY_STRING", "q"),
        ("APP_ENV", "production"),
        ("LD_PRELOAD", "/tmp/x.so"),
        ("BASH_FUNC_x%%", "() { id; }"),
        ("PYTHONPATH", "/tmp"),
        ("PYTHONPATH", "/srv/lib"),
        ("PERL5LIB", "/any"),
        ("PATH", "/tmp"),
    ];
    let given = given.map(|(name, value)| (name.into(), value.into()));
    let allowed = of(false).allow(&SpawnRequest {
        environment: given.to_vec(),
        ..one
    });
    let mut kept = allowed.unwrap().environment.unwrap();
    let path = kept.pop().unwrap();
    assert_eq!(path, ("PATH".into(), std::env::var_os("PATH").unwrap()));
    assert_eq!(kept, [&given[..2], &given[5..7]].concat());
    fs::remove_dir_all(root).unwrap();
    fs::remove_dir_all(other).unwrap();
}

#[test]
fn grants_are_read_as_they_were_written() {
    let all = vec![
        Grant::Scripts {
            user: "a".into(),
            group: Some("b".into()),
            root: "/srv".into(),
        },
        Grant::Homes {
            suffix: "public_html".into(),
        },
        Grant::RenamedLogs {
            log: "/var/log/a".into(),
        },
        Grant::Program {
            user: "a".into(),
            group: None,
            file: "/bin/php".into(),
            arguments: vec!["-c".into()],
            environment: vec![("A".into(), any_number())],
        },
        Grant::LogProgram {
            file: "/bin/sh".into(),
            arguments: vec!["-c".into()],
        },
        Grant::Own {
            user: "a".into(),
            group: None,
        },
        Grant::OwnScripts {
            user: "a".into(),
            group: Some("b".into()),
            root: "/srv/%0".into(),
            follows_links: true,
            environment: vec![("A".into(), crate::any_text())],
        },
        Grant::OwnPrograms {
            user: "a".into(),
            group: None,
        },
    ];
    let message = Grant::encode(&all);
    assert_eq!(Grant::decode(&message).unwrap(), all);
    assert!(Grant::decode(&message[..message.len() - 1]).is_err());
    assert!(Grant::decode(&[&message[..], b"x"].concat()).is_err());
}
