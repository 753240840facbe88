//! Full disks: the page cache leaves a reserve to others, and a state directory without room takes
//! nothing from a site but its cache.
//!
//! The server runs in a mount namespace of its own, with a small file system in memory where its
//! files go, which takes root. Tests look into it through /proc.

use crate::{
    cache_origin::{ok, origin},
    operate::{self, PATIENCE, folder, wait_until},
};
use saker_testkit::{Client, ServerProcess, TempDir, free_port, require};
use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

struct Disk {
    server: ServerProcess,
    address: SocketAddr,
    dir: TempDir,
}

/// The server with `disk` in its folder on a file system of that size, of which `filler` takes that
/// much. `None`: we may not mount.
fn start(dir: TempDir, configuration: &str, size_kib: usize, filler_kib: usize) -> Option<Disk> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting a file system takes root");
        return None;
    }
    let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let disk = dir.join("disk");
    fs::create_dir_all(&disk).unwrap();
    let disk = disk.display();
    let script = format!(
        "mount -t tmpfs -o size={size_kib}k,mode=755 none {disk} && {{ head -c {filler_kib}k /dev/zero > {disk}/filler; exec \"$0\" \"$@\" ; }}"
    );
    let unshare = require("unshare").unwrap();
    let namespace = [
        unshare.to_str().unwrap(),
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        &script,
    ];
    // Its state directory may be on the disk that only the server sees.
    let server = operate::native(configuration)
        .wrapped(&namespace)
        .at(address)
        .until_accepting()
        .start_in(&dir);
    Some(Disk {
        server,
        address,
        dir,
    })
}

impl Disk {
    /// A path below the file system, as the server sees it.
    fn inside(&self, path: &str) -> PathBuf {
        PathBuf::from(format!(
            "/proc/{}/root{}/{path}",
            self.server.pid(),
            self.dir.join("disk").display()
        ))
    }

    fn get(&self, target: &str) -> saker_testkit::Response {
        let mut client = Client::connect(self.address).unwrap();
        client.set_timeout(PATIENCE).unwrap();
        client.get(target).unwrap()
    }

    /// Value of X-Cache for a page, which has to be served in any case.
    fn cached(&self, target: &str) -> String {
        let response = self.get(target);
        assert_eq!(
            (response.status, response.body.len()),
            (200, PAGE_BYTES),
            "{target}"
        );
        response.field("x-cache").unwrap_or_default().to_owned()
    }

    fn free_kib(&self) -> u64 {
        let disk = rustix::fs::statvfs(self.inside("")).unwrap();
        disk.f_bavail * disk.f_frsize / 1024
    }
}

const PAGE_BYTES: usize = 50_000;

fn cached_site(origin: SocketAddr, cache: &str) -> String {
    format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n[cache]\nfolder = \"{{dir}}/disk/cache\"\n{cache}\n[[listener]]\naddress = \"{{address}}\"\n\
         [[upstream]]\nname = \"app\"\nservers = [\"http://{origin}\"]\n[[site]]\nnames = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = \"app\"\n\
         [site.cache]\nresult_header = \"X-Cache\"\n"
    )
}

#[test]
fn the_page_cache_leaves_a_reserve() {
    let origin = origin(|_| {
        ok(
            &[("Cache-Control", "public, max-age=600")],
            &"x".repeat(PAGE_BYTES),
        )
    });
    let dir = folder("full-reserve");
    let Some(disk) = start(
        dir,
        &cached_site(origin.address, "reserve = \"4MiB\""),
        16 * 1024,
        6 * 1024,
    ) else {
        return;
    };
    // More than there is room for.
    let last = (0..400).find(|number| {
        disk.cached(&format!("/page{number}"));
        disk.server.stderr().contains("SK1007")
    });
    let last = last.expect("the reserve is reached");
    assert!(last > 10, "{last}");
    // Between two looks some more is written.
    assert!(disk.free_kib() > 512, "{} KiB are left", disk.free_kib());
    for number in 0..5 {
        let target = format!("/late{number}");
        assert_ne!(disk.cached(&target), "HIT");
        assert_ne!(disk.cached(&target), "HIT", "it is not kept");
    }
    assert_eq!(disk.cached("/page0"), "HIT", "what is there is served");
    assert_eq!(
        disk.server.stderr().matches("SK1007").count(),
        1,
        "{}",
        disk.server.stderr()
    );
    assert_eq!(
        disk.server.stderr().matches("SK1003").count(),
        0,
        "{}",
        disk.server.stderr()
    );
    // Others make room.
    fs::remove_file(disk.inside("filler")).unwrap();
    wait_until("it is kept again", || disk.cached("/late0") == "HIT");
    assert!(disk.server.stderr().contains("SK1008"));
}

/// Without a reserve: the disk itself says that it is full.
#[test]
fn a_disk_that_is_full_takes_nothing_but_the_cache() {
    let origin = origin(|_| {
        ok(
            &[("Cache-Control", "public, max-age=600")],
            &"x".repeat(PAGE_BYTES),
        )
    });
    let dir = folder("full-disk");
    let Some(disk) = start(
        dir,
        &cached_site(origin.address, "reserve = 0"),
        4 * 1024,
        0,
    ) else {
        return;
    };
    for number in 0..120 {
        disk.cached(&format!("/page{number}"));
    }
    disk.server
        .wait_for_stderr("SK1007", Duration::from_secs(20))
        .unwrap();
    let said = disk.server.stderr();
    assert!(
        said.matches("SK1007").count() == 1 && said.matches("SK1003").count() == 0,
        "{said}"
    );
    assert_eq!(disk.cached("/page0"), "HIT");
}

#[test]
fn php_works_where_the_state_directory_is_full() {
    for kind in ["php-fpm", "php-cgi"] {
        let dir = folder("full-state");
        dir.write("www/x.php", "<?php header('Cache-Control: public, max-age=60'); echo 6 * 7, file_get_contents('php://input');").unwrap();
        let text = format!(
            "[server]\nworkers = 1\nstate_dir = \"{{dir}}/disk/state\"\n[php]\nprogram = \"{kind}\"\n[[listener]]\naddress = \"{{address}}\"\n\
             [[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\nphp = \"auto\"\ncache = true\n"
        );
        // Larger than the disk: nothing is left.
        let Some(disk) = start(dir, &text, 64, 128) else {
            return;
        };
        assert_eq!(disk.free_kib(), 0);
        for _ in 0..3 {
            let response = disk.get("/x.php");
            assert_eq!(
                (response.status, response.text().as_str()),
                (200, "42"),
                "{kind}: {}",
                disk.server.stderr()
            );
        }
        let content = "y".repeat(300_000);
        let mut client = Client::connect(disk.address).unwrap();
        client.set_timeout(PATIENCE).unwrap();
        client
            .send(format!(
                "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{content}",
                content.len()
            ))
            .unwrap();
        let response = client.read_response().unwrap();
        assert_eq!(
            (response.status, response.body.len()),
            (200, 300_002),
            "{kind}: {}",
            disk.server.stderr()
        );
    }
}
