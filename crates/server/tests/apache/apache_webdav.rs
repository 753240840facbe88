//! WebDAV by mod_dav's directives: litmus, and access rules by method.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::{operate, webdav_programs::litmus};
use saker_testkit::{Saker, TempDir};
use std::{fs, os::unix::fs::PermissionsExt};

fn start(name: &str, more: &str) -> Saker {
    let dir = TempDir::new(name).unwrap();
    for folder in ["www", "locks"] {
        fs::create_dir_all(dir.join(folder)).unwrap();
        fs::set_permissions(dir.join(folder), fs::Permissions::from_mode(0o777)).unwrap();
    }
    let text = format!(
        "LoadModule mpm_event_module modules/mod_mpm_event.so\nServerName dav.test\nListen {{address}}\nServerRoot {{dir}}\nDocumentRoot {{dir}}/www\n\
         LoadModule dav_module modules/mod_dav.so\nLoadModule dav_fs_module modules/mod_dav_fs.so\n\
         LoadModule authz_core_module modules/mod_authz_core.so\nDavLockDB {{dir}}/locks/db\n\
         LoadModule dir_module modules/mod_dir.so\n\
         <Directory {{dir}}/www>\nDav On\nRequire all granted\n</Directory>\n{more}\n"
    );
    operate::apache(&text).start(dir)
}

fn status(saker: &Saker, request: &str, fields: &[(&str, &str)]) -> u16 {
    let (method, target) = request.split_once(' ').unwrap();
    let mut client = saker.connect().unwrap();
    let fields = [fields, &[("Content-Length", "0")]].concat();
    client.request(method, target, &fields).unwrap().status
}

#[test]
fn litmus_passes() {
    let saker = start("apache-webdav", "");
    litmus(&format!("http://{}/", saker.server.address()));
    assert!(saker.dir.join("locks/db.saker").exists());
}

#[test]
fn limits_by_method_hold_for_webdav() {
    let saker = start(
        "apache-webdav-limit",
        "<Location /read>\n<LimitExcept GET HEAD OPTIONS PROPFIND>\nRequire all denied\n\
         </LimitExcept>\n</Location>\n<Location /made>\n<Limit PUT DELETE>\nRequire all denied\n\
         </Limit>\n</Location>\nAccessFileName .acl",
    );
    for folder in ["read", "made", "free"] {
        assert_eq!(
            status(&saker, &format!("MKCOL /{folder}"), &[]),
            match folder {
                "read" => 403,
                _ => 201,
            }
        );
    }
    assert_eq!(status(&saker, "PUT /free/a", &[]), 201);
    for request in [
        "PUT /read/a",
        "MKCOL /read/",
        "DELETE /read/",
        "LOCK /read/a",
        "PROPPATCH /read/",
    ] {
        assert_eq!(status(&saker, request, &[]), 403, "{request}");
    }
    for destination in ["/read/a", "/%72ead/a", "//read/a", "/free/../read/a"] {
        for method in ["COPY", "MOVE"] {
            let fields = [("Destination", destination)];
            let found = status(&saker, &format!("{method} /free/a"), &fields);
            assert_eq!(found, 403, "{method} {destination}");
        }
    }
    assert_eq!(status(&saker, "PUT /made/a", &[]), 403);
    for name in [".acl", ".htaccess", ".DAV"] {
        assert_eq!(
            status(&saker, &format!("PUT /free/{name}"), &[]),
            403,
            "{name}"
        );
        let destination = format!("/free/{name}");
        let copied = status(&saker, "COPY /free/a", &[("Destination", &destination)]);
        assert_eq!(copied, 403, "{name}");
    }
    assert_eq!(status(&saker, "POST /free/a", &[]), 200);
}

#[test]
fn rules_inside_of_a_tree_hold() {
    let saker = start(
        "apache-webdav-tree",
        "<Directory {dir}/www>\nDavDepthInfinity On\n</Directory>\n\
         <Directory {dir}/www/open/secret>\nRequire all denied\n</Directory>\n\
         <Location /target/kept>\nRequire all denied\n</Location>",
    );
    let www = saker.dir.join("www");
    for folder in ["open/secret/deep", "open/sub", "target/kept"] {
        fs::create_dir_all(www.join(folder)).unwrap();
    }
    fs::write(www.join("open/secret/a"), "secret").unwrap();
    for folder in ["open", "open/sub", "target", "target/kept", "open/secret"] {
        fs::set_permissions(www.join(folder), fs::Permissions::from_mode(0o777)).unwrap();
    }
    let copied = [("Destination", "/copy/")];
    assert_eq!(status(&saker, "COPY /open/", &copied), 403);
    assert_eq!(status(&saker, "MOVE /open/", &copied), 403);
    assert_eq!(status(&saker, "DELETE /open/", &[]), 403);
    let over = [("Destination", "/target/")];
    assert_eq!(status(&saker, "COPY /open/sub/", &over), 403);
    assert!(!www.join("copy").exists() && www.join("target/kept").exists());
    let mut client = saker.connect().unwrap();
    let fields = [("Depth", "infinity"), ("Content-Length", "0")];
    let response = client.request("PROPFIND", "/open/", &fields);
    let listing = response.unwrap().text();
    assert!(listing.contains("<D:href>/open/sub/</D:href>"), "{listing}");
    assert!(listing.contains("403 Forbidden"), "{listing}");
    assert!(!listing.contains("secret/a"), "{listing}");
    assert_eq!(status(&saker, "COPY /open/sub/", &copied), 201);
    assert_eq!(status(&saker, "DELETE /copy/", &[]), 204);
    // A copy without its rules would be open.
    let rules = "<Files secret.txt>\nRequire all denied\n</Files>\n";
    fs::write(www.join("open/sub/.htaccess"), rules).unwrap();
    fs::write(www.join("open/sub/secret.txt"), "secret").unwrap();
    assert_eq!(status(&saker, "COPY /open/sub/", &copied), 403);
    assert_eq!(status(&saker, "GET /copy/secret.txt", &[]), 404);
}
