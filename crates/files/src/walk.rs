//! The walk from `/` to an object, one directory entry at a time.
//!
//! Used by `resolve` only. Symbolic links are expanded here, not by the kernel: only so is every
//! entry on the way known (each gets its stamp) and each link can be judged. The difficulty is `..`
//! in a link's target after other links; the stack of open directories is the physical path, so
//! that `..` is a pop. Absent on purpose: automounts, which a walk by O_PATH does not set off.

use crate::{
    Kind, LinkPolicy, Metadata, ResolveError, Stamp, Watcher, stamp::Concern, watcher::Watch,
};
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, fstat, openat, readlinkat},
    io::Errno,
};
use std::{
    fs::File,
    os::fd::{AsFd, OwnedFd},
};

/// As many links as the kernel would follow (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// Directories on the stack, each an open descriptor.
const DEPTH_MAX: usize = 256;

/// What a walk arrived at.
pub(crate) enum Found {
    /// Not yet opened for reading.
    File {
        parent: OwnedFd,
        name: Vec<u8>,
        metadata: Metadata,
    },
    /// Open as a path.
    Directory {
        file: File,
        metadata: Metadata,
    },
    Other {
        file: File,
        metadata: Metadata,
    },
}

pub(crate) struct Walk<'a> {
    watcher: &'a Watcher,
    stamps: &'a mut Vec<Stamp>,
    /// The first is always `/`, the last is where we are.
    first: Directory,
    below: Vec<Directory>,
    /// A thing in the last directory that is no directory: nothing can come after it.
    leaf: Option<Leaf>,
    links: usize,
    /// While the target of a link is walked: how many steps are left behind it.
    target_above: Option<usize>,
    root: Root,
}

struct Directory {
    fd: OwnedFd,
    metadata: Metadata,
}

struct Leaf {
    fd: OwnedFd,
    name: Vec<u8>,
    metadata: Metadata,
}

/// Where beneath `/` the root is, and which directory that was.
#[derive(Default)]
struct Root {
    depth: usize,
    identity: Option<(u64, u64)>,
}

enum Step {
    Name(Vec<u8>),
    /// What we are at now is the end of a link that belongs to this user.
    LinkOwner(u32),
}

impl<'a> Walk<'a> {
    pub(crate) fn from_slash(
        watcher: &'a Watcher,
        stamps: &'a mut Vec<Stamp>,
    ) -> Result<Self, ResolveError> {
        let fd = open_path(CWD, b"/")?;
        let metadata = Metadata::from(&fstat(&fd)?);
        let first = Directory { fd, metadata };
        Ok(Walk {
            watcher,
            stamps,
            first,
            below: Vec::new(),
            leaf: None,
            links: 0,
            target_above: None,
            root: Root::default(),
        })
    }

    /// Goes on from where we are. A trailing slash asks for a directory.
    pub(crate) fn along(&mut self, path: &[u8], policy: LinkPolicy) -> Result<(), ResolveError> {
        let mut steps = Vec::new();
        push_components(&mut steps, path);
        while let Some(step) = steps.pop() {
            // Below that many steps the path itself goes on, not the target of a link.
            self.target_above = self.target_above.filter(|floor| steps.len() >= *floor);
            match step {
                Step::Name(name) => match self.step(name, policy, &mut steps) {
                    Err(ResolveError::NotFound) if self.target_above.is_some() => {
                        return Err(ResolveError::LinkDangling);
                    }
                    outcome => outcome?,
                },
                Step::LinkOwner(uid) if self.here().uid != uid => {
                    return Err(ResolveError::LinkDenied);
                }
                Step::LinkOwner(_) => {}
            }
        }
        Ok(())
    }

    /// From here on, where we are is the root.
    pub(crate) fn set_root(&mut self) {
        self.root = Root {
            depth: self.below.len(),
            identity: Some(identity(&self.last().metadata)),
        };
    }

    /// The physical path of where we are leads through the root.
    pub(crate) fn is_beneath_root(&self) -> bool {
        let at_depth = match self.root.depth {
            0 => Some(&self.first),
            depth => self.below.get(depth - 1),
        };
        at_depth.map(|directory| identity(&directory.metadata)) == self.root.identity
    }

    pub(crate) fn found(mut self) -> Found {
        let last = self.below.pop().unwrap_or(self.first);
        match self.leaf {
            None => Found::Directory {
                file: last.fd.into(),
                metadata: last.metadata,
            },
            Some(leaf) if leaf.metadata.kind == Kind::File => Found::File {
                parent: last.fd,
                name: leaf.name,
                metadata: leaf.metadata,
            },
            Some(leaf) => Found::Other {
                file: leaf.fd.into(),
                metadata: leaf.metadata,
            },
        }
    }

    fn step(
        &mut self,
        name: Vec<u8>,
        policy: LinkPolicy,
        steps: &mut Vec<Step>,
    ) -> Result<(), ResolveError> {
        if self.leaf.is_some() {
            return Err(ResolveError::NotFound);
        }
        match &*name {
            b"." => Ok(()),
            b".." => {
                self.below.pop(); // `/..` is `/`
                Ok(())
            }
            _ => self.enter(name, policy, steps),
        }
    }

    fn enter(
        &mut self,
        name: Vec<u8>,
        policy: LinkPolicy,
        steps: &mut Vec<Step>,
    ) -> Result<(), ResolveError> {
        // First the watch, then the counters, then the look: see `stamp` for why nothing is missed
        // in this order.
        let watched = self
            .watcher
            .watch(&self.last().fd, self.last().metadata.device);
        let entry_stamp = self.watcher.stamp(&watched, Concern::entry(&name));
        let content_stamp = self.watcher.stamp(&watched, Concern::content(&name));
        let looked =
            open_path(&self.last().fd, &name).and_then(|fd| fstat(&fd).map(|stat| (fd, stat)));
        let (fd, stat) = match looked {
            Ok(looked) => looked,
            Err(error) => {
                self.stamps.push(entry_stamp);
                return Err(error.into());
            }
        };
        let metadata = Metadata::from(&stat);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let directory = Directory { fd, metadata };
                self.stamps
                    .push(self.directory_stamp(&watched, entry_stamp, &name, &directory));
                self.descend(directory)
            }
            FileType::Symlink => {
                self.stamps.push(entry_stamp);
                self.follow(&fd, &metadata, policy, steps)
            }
            _ => {
                self.stamps.push(content_stamp);
                let metadata = match stat.st_nlink > 1 && metadata.kind == Kind::File {
                    true => {
                        // A write through its other names is reported to their directories, and to
                        // whoever watches the file itself.
                        self.stamps
                            .push(self.watcher.stamp_file(&fd, metadata.device));
                        Metadata::from(&fstat(&fd)?)
                    }
                    false => metadata,
                };
                self.leaf = Some(Leaf { fd, name, metadata });
                Ok(())
            }
        }
    }

    /// A stamp on the name of a directory. Where the one above it can't be read (a home of mode
    /// 0711), it can't be watched either; but a directory that is moved away, removed or replaced
    /// hears of that itself.
    fn directory_stamp(
        &self,
        above: &Watch,
        entry_stamp: Stamp,
        name: &[u8],
        directory: &Directory,
    ) -> Stamp {
        if !matches!(above, Watch::Failed) {
            return entry_stamp;
        }
        let watch = self.watcher.watch(&directory.fd, directory.metadata.device);
        let own_stamp = self.watcher.stamp(&watch, Concern::Itself);
        // First the watch, then the look, here too.
        let again = open_path(&self.last().fd, name).and_then(fstat);
        let is_same = again
            .is_ok_and(|stat| identity(&Metadata::from(&stat)) == identity(&directory.metadata));
        if is_same { own_stamp } else { entry_stamp }
    }

    /// The stamp on a directory below where we are, as if that could not be watched.
    #[cfg(test)]
    pub(crate) fn stamp_below_unwatched(&self, name: &[u8]) -> Stamp {
        let fd = open_path(&self.last().fd, name).unwrap();
        let metadata = Metadata::from(&fstat(&fd).unwrap());
        self.directory_stamp(
            &Watch::Failed,
            Stamp::until(0),
            name,
            &Directory { fd, metadata },
        )
    }

    fn descend(&mut self, directory: Directory) -> Result<(), ResolveError> {
        if self.below.len() >= DEPTH_MAX {
            return Err(ResolveError::NotFound);
        }
        self.below.push(directory);
        Ok(())
    }

    fn follow(
        &mut self,
        link: &OwnedFd,
        metadata: &Metadata,
        policy: LinkPolicy,
        steps: &mut Vec<Step>,
    ) -> Result<(), ResolveError> {
        if policy == LinkPolicy::Never {
            return Err(ResolveError::LinkDenied);
        }
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(ResolveError::LinkLoop);
        }
        let target = readlinkat(link, c"", Vec::new())?;
        if target.is_empty() {
            return Err(Errno::NOENT.into());
        }
        self.target_above.get_or_insert(steps.len());
        if policy == LinkPolicy::OwnerMatch {
            steps.push(Step::LinkOwner(metadata.uid));
        }
        if target.to_bytes().starts_with(b"/") {
            self.below.clear();
        }
        push_components(steps, target.to_bytes());
        Ok(())
    }

    fn last(&self) -> &Directory {
        self.below.last().unwrap_or(&self.first)
    }

    fn here(&self) -> &Metadata {
        self.leaf
            .as_ref()
            .map_or(&self.last().metadata, |leaf| &leaf.metadata)
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.device, metadata.inode)
}

/// The next component last, so that it is popped first. A trailing slash becomes `.`, which nothing
/// but a directory has.
fn push_components(steps: &mut Vec<Step>, path: &[u8]) {
    if path.ends_with(b"/") {
        steps.push(Step::Name(b".".to_vec()));
    }
    let components = path
        .rsplit(|byte| *byte == b'/')
        .filter(|component| !component.is_empty());
    steps.extend(components.map(|component| Step::Name(component.to_vec())));
}

/// Opens the entry itself, whatever it is, without reading from it: needs no right to read, and
/// sets nothing off.
fn open_path(directory: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    openat(
        directory,
        name,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
}
