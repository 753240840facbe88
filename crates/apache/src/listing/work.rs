//! Jobs of a listing: reading the folder, looking for titles, sorting and writing the rows.
//!
//! Called by: `listing`, which tries the entries in between. A listing has its place among the jobs
//! from its beginning to its end, so that those who ask for many at once wait for each other.
//! Dropping the request cancels it. Out of scope: what an entry looks like (`page`), and whether it
//! is shown.

use crate::listing::{entry::Entry, form::form, order::compare, page};
use saker_apache_model::dir_config::DirConfig;
use saker_files::{
    EntryChoice, LinkPolicy, Resolved, Watcher, open_entry, read_directory, resolve,
};
use saker_http::Status;
use saker_net::jobs::{self, Cancel, JobError, JobKind, JobPlace};
use std::{
    cell::RefCell,
    ffi::OsStr,
    future::Future,
    io,
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::Path,
    pin::Pin,
    rc::Rc,
    sync::Arc,
};

/// More than anyone reads.
const ENTRIES_MAX: usize = 10_000;

/// A title stands near the beginning of its page.
const LOOKED_AT_BYTES: usize = 8191;

type Pause = Pin<Box<dyn Future<Output = ()>>>;

/// The folder and how it is wanted.
pub struct Folder {
    pub local: Arc<DirConfig>,
    /// With a slash at its end.
    pub filename: Vec<u8>,
    pub query: Vec<u8>,
    pub policy: LinkPolicy,
    pub watcher: Watcher,
    pub folder: Resolved,
}

/// An entry that has a title to be looked for.
#[derive(Clone, Copy)]
pub struct Page {
    pub is_link: bool,
}

/// Entries that are being tried.
pub struct Trying {
    pub place: JobPlace,
    pub left: Vec<saker_files::Entry>,
    pub done: Vec<(Entry, Option<Page>)>,
    /// Bytes of text in those that are done.
    pub bytes: usize,
    pub is_first: bool,
}

impl Trying {
    pub fn add(&mut self, entry: Option<(Entry, Option<Page>)>) {
        let Some((entry, page)) = entry else { return };
        let length = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
        self.bytes += entry.name.len()
            + length(&entry.icon)
            + length(&entry.alternative)
            + entry.description.as_ref().map_or(0, String::len);
        self.done.push((entry, page));
    }
}

pub enum Stage {
    /// A job is at it.
    Begun,
    Found(Box<Trying>),
    /// The page's rows.
    Written(Vec<u8>),
    Refused(Status),
    Failed(JobError),
}

/// A listing on its way; kept in the request's state.
pub struct Work {
    pub folder: Arc<Folder>,
    stage: RefCell<Stage>,
}

impl Work {
    pub fn new(folder: Folder) -> Work {
        Work {
            folder: Arc::new(folder),
            stage: RefCell::new(Stage::Begun),
        }
    }

    pub fn take(&self) -> Stage {
        self.stage.replace(Stage::Begun)
    }

    pub fn put(&self, stage: Stage) {
        *self.stage.borrow_mut() = stage;
    }

    /// Waits for a place and reads the folder.
    pub fn read(self: &Rc<Self>, site: usize) -> Pause {
        let work = Rc::clone(self);
        Box::pin(async move {
            let folder = Arc::clone(&work.folder);
            let read = async {
                let place = jobs::place(JobKind::Listing, Some(site)).await?;
                let found = place.run(move |cancel| entries(&folder, cancel)).await?;
                Ok((place, found))
            };
            work.put(match read.await {
                Ok((place, Ok(left))) => Stage::Found(Box::new(Trying {
                    place,
                    done: Vec::with_capacity(left.len()),
                    left,
                    bytes: 0,
                    is_first: true,
                })),
                Ok((_, Err(error))) if error.kind() == io::ErrorKind::Interrupted => {
                    Stage::Failed(JobError::Late)
                }
                Ok((_, Err(_))) => Stage::Refused(Status::FORBIDDEN),
                Err(error) => Stage::Failed(error),
            });
        })
    }

    /// Looks for titles, and writes the rows.
    pub fn write(self: &Rc<Self>, tried: Trying) -> Pause {
        let work = Rc::clone(self);
        Box::pin(async move {
            let folder = Arc::clone(&work.folder);
            let Trying { place, done, .. } = tried;
            let written = place.run(move |cancel| rows(&folder, done, cancel)).await;
            work.put(match written {
                Ok(Some(rows)) => Stage::Written(rows),
                Ok(None) => Stage::Failed(JobError::Late),
                Err(error) => Stage::Failed(error),
            });
        })
    }
}

/// The last one first.
fn entries(folder: &Folder, cancel: &Cancel) -> io::Result<Vec<saker_files::Entry>> {
    let choose = |_: &[u8]| {
        if cancel.is_cancelled() {
            EntryChoice::Stop
        } else {
            EntryChoice::Take
        }
    };
    let mut found = read_directory(&folder.folder.file, ENTRIES_MAX, choose)?.entries;
    found.reverse();
    Ok(found)
}

/// `None`: cancelled.
fn rows(folder: &Folder, tried: Vec<(Entry, Option<Page>)>, cancel: &Cancel) -> Option<Vec<u8>> {
    let mut entries = Vec::with_capacity(tried.len());
    for (mut entry, page) in tried {
        if let Some(page) = page {
            cancel.check().ok()?;
            entry.description = title(folder, &entry.name, page);
        }
        entries.push(entry);
    }
    cancel.check().ok()?;
    let (form, _) = form(&folder.local.autoindex, &folder.query);
    entries.sort_by(|one, other| compare(one, other, &form));
    cancel.check().ok()?;
    let mut out = Vec::new();
    page::entries(&form, &entries, &mut out);
    Some(out)
}

/// Returns the text of the first `<title>` near the beginning of a page. The entry may have been
/// replaced since it was listed.
fn title(folder: &Folder, name: &[u8], page: Page) -> Option<String> {
    let file = match page.is_link {
        false => open_entry(&folder.folder.file, name).ok()?.0,
        true => {
            let within = Path::new(OsStr::from_bytes(&folder.filename));
            let found = resolve(
                &folder.watcher,
                within,
                name,
                folder.policy,
                &mut Vec::new(),
            )
            .ok()?;
            (found.metadata.kind == saker_files::Kind::File).then_some(found.file)?
        }
    };
    let mut start = vec![0; LOOKED_AT_BYTES];
    let read = file.read_at(&mut start, 0).ok()?;
    title_in(start.get(..read)?)
}

fn title_in(text: &[u8]) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let from = lower.windows(7).position(|part| part == b"<title>")? + 7;
    let title = text.get(from..)?.split(|byte| *byte == b'<').next()?;
    let title: Vec<u8> = title
        .iter()
        .map(|byte| {
            if matches!(byte, b'\r' | b'\n') {
                b' '
            } else {
                *byte
            }
        })
        .collect();
    Some(String::from_utf8_lossy(title.trim_ascii_start()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles() {
        for (text, title) in [
            ("<html><Title> A\nb</title>", Some("A b")),
            ("<title>", Some("")),
            ("<title>cut o", Some("cut o")),
            ("no title", None),
            ("", None),
        ] {
            assert_eq!(title_in(text.as_bytes()).as_deref(), title, "{text}");
        }
    }
}
