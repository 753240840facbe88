//! `client_body_in_file_only` and `client_body_temp_path`: content of requests in files.
//!
//! Called by: `setters`, and `saker-nginx`, which writes the files.
//! Caveat: a directory that is missing is made when it is needed, with the rights of the server.

use crate::{inherit::inherit, reading::Setters, values::invalid};
use std::path::PathBuf;

/// `client_body_in_file_only`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFiles {
    Off,
    /// Files are removed with their requests.
    Clean,
    Keep,
}

/// `client_body_temp_path`: a directory, and the digits of the levels of directories in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    pub path: PathBuf,
    pub levels: Vec<usize>,
}

impl Folder {
    /// The path of a numbered file: the last digits are directories, the very last first.
    pub fn file(&self, number: u64) -> PathBuf {
        let name = format!("{number:010}");
        let (mut path, mut end) = (self.path.clone(), name.len());
        for level in &self.levels {
            let start = end.saturating_sub(*level);
            path.push(name.get(start..end).unwrap_or_default());
            end = start;
        }
        path.join(name)
    }
}

/// Settings of the directives.
#[derive(Clone, Debug, Default)]
pub struct BodyConf {
    pub files: Option<BodyFiles>,
    pub folder: Option<Folder>,
}

impl BodyConf {
    pub fn inherit(&mut self, outer: &BodyConf) {
        inherit!(self, outer: files folder);
    }
}

pub const SETTERS: Setters<BodyConf> = &[
    ("client_body_in_file_only", |d, conf, _| {
        conf.files = Some(match d.argument(0) {
            "off" => BodyFiles::Off,
            "clean" => BodyFiles::Clean,
            "on" => BodyFiles::Keep,
            other => return Err(invalid(other)),
        });
        Ok(())
    }),
    ("client_body_temp_path", |d, conf, reading| {
        let levels: Result<Vec<usize>, String> = d
            .texts()
            .skip(1)
            .map(|text| match text.parse() {
                Ok(level @ 1..=3) => Ok(level),
                _ => Err(format!("invalid value \"{text}\"")),
            })
            .collect();
        conf.folder = Some(Folder {
            path: reading.path(d.argument(0)),
            levels: levels?,
        });
        Ok(())
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_below_their_last_digits() {
        let folder = |levels: &[usize]| Folder {
            path: "/t".into(),
            levels: levels.to_vec(),
        };
        let shown = |levels: &[usize]| folder(levels).file(12_345).display().to_string();
        assert_eq!(shown(&[]), "/t/0000012345");
        assert_eq!(shown(&[1, 2]), "/t/5/34/0000012345");
        assert_eq!(shown(&[3, 3, 3]), "/t/345/012/000/0000012345");
    }
}
