//! An OpenID provider (panva's oidc-provider), and curl as the browser that logs in there.
//!
//! Called by: tests of log-in to sites and to the console.
//! Caveat: users need no password; their names and claims are in the program's file.
// Each test program uses its part.
#![allow(dead_code, clippy::unwrap_used)]

use crate::operate::wait_until;
use saker_testkit::require;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// The provider; it ends with the test.
pub struct Provider(Child);

impl Provider {
    /// `callback` and `logged_out`: URLs that the provider may send browsers to.
    pub fn start(port: u16, callback: &str, logged_out: &str) -> Provider {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/serving/identity_programs/provider.mjs");
        let child = Command::new(require("oidc-provider-node").unwrap())
            .arg(script)
            .args([&port.to_string(), callback, logged_out])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        wait_until("the provider listens", || {
            std::net::TcpStream::connect(address).is_ok()
        });
        Provider(child)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// curl with a jar of cookies.
pub struct CurlBrowser {
    /// File with its cookies.
    pub jar: PathBuf,
    version: &'static str,
}

/// The page that a browser shows in the end.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub url: String,
    pub heads: String,
    pub text: String,
}

impl CurlBrowser {
    pub fn new(dir: &Path, name: &str, version: &'static str) -> CurlBrowser {
        CurlBrowser {
            jar: dir.join(format!("jar-{name}")),
            version,
        }
    }

    /// Throws its cookies away.
    pub fn forget(&self) {
        let _ = std::fs::remove_file(&self.jar);
    }

    pub fn open(&self, url: &str, more: &[&str]) -> Page {
        let heads = self.jar.with_extension("heads");
        let output = Command::new(require("curl").unwrap())
            .args([
                "-sk",
                self.version,
                "--path-as-is",
                "-m",
                "60",
                "-w",
                "\n%{http_code} %{url_effective}",
            ])
            .arg("-c")
            .arg(&self.jar)
            .arg("-b")
            .arg(&self.jar)
            .arg("-D")
            .arg(&heads)
            .args(more)
            .arg(url)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (text, last) = text.rsplit_once('\n').unwrap();
        let (status, url) = last.split_once(' ').unwrap();
        Page {
            status: status.parse().unwrap(),
            url: url.to_owned(),
            heads: std::fs::read_to_string(heads).unwrap_or_default(),
            text: text.to_owned(),
        }
    }

    /// Opens a page and logs in at the provider.
    pub fn log_in(&self, url: &str, user: &str) -> Page {
        let page = self.open(url, &["-L"]);
        assert!(page.url.contains("/interaction/"), "{page:?}");
        let login = format!("prompt=login&login={user}&password=x");
        let page = self.open(&page.url, &["-L", "-d", &login]);
        assert!(page.url.contains("/interaction/"), "{page:?}");
        self.open(&page.url, &["-L", "-d", "prompt=consent"])
    }
}
