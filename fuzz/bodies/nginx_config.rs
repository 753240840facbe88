//! Whatever configuration files say, reading them ends, within its bounds, and all diagnostics can be
//! shown; texts with variables, patterns, and conditions are among what is read.

use saker_nginx_model::{Setup, load};
use saker_nginx_syntax::Files;
use std::{
    io,
    path::{Path, PathBuf},
};

struct InMemory<'d> {
    main: &'d [u8],
    included: &'d [u8],
}

impl Files for InMemory<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("/e/nginx.conf") => Ok(self.main.to_vec()),
            Some("/e/a.conf" | "/e/d/b.conf") => Ok(self.included.to_vec()),
            _ => Err(io::Error::from_raw_os_error(2)),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        match path.to_str() {
            Some("/e/d") => Ok(vec!["b.conf".into()]),
            Some("/e") => Ok(vec!["a.conf".into(), "d".into()]),
            _ => Err(io::Error::from_raw_os_error(2)),
        }
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    // The second part is a file that the first can include.
    let (main, included) = match data.iter().position(|byte| *byte == 0xff) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &b""[..]),
    };
    // The first bit chooses the block.
    let main = match main.first().map_or(0, |first| first & 1) {
        0 => [b"events {} http { server { ", main, b" } }"].concat(),
        _ => [b"events {} stream { server { ", main, b" } }"].concat(),
    };
    let files = InMemory {
        main: &main,
        included,
    };
    let setup = Setup {
        file: "/e/nginx.conf".into(),
        prefix: "/e".into(),
        global: String::new(),
        error_log: None,
        is_root: false,
    };
    let loaded = load(&setup, &files);
    for diagnostic in &loaded.report.diagnostics {
        assert!(!diagnostic.to_string().is_empty());
    }
    for emergency in &loaded.report.emergencies {
        assert!(emergency.to_string().starts_with("[emerg] "));
    }
}
