//! The walk from `/` to an object, one directory entry at a time.
//!
//! Called by: `resolve` only. Symbolic links are expanded here, not by the kernel, because each
//! entry on the way needs a token and each link is subject to the policy.
//! Caveat: `..` in a link's target may follow other links; the stack of open directories is the
//! physical path, so `..` is a pop.
//! Out of scope: automounts, which a walk by O_PATH does not trigger.

use crate::{
    ChangeToken, Kind, LinkPolicy, Metadata, ResolveError, Watcher,
    change_token::Concern,
    private,
    watch_table::{Interest, Watch},
};
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat},
    io::Errno,
};
use std::{
    fs::File,
    os::fd::{AsFd, OwnedFd},
};

/// Maximum number of links, as in the kernel (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// Directories on the stack, each an open descriptor.
const DEPTH_MAX: usize = 256;

/// The end of a walk.
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
    tokens: &'a mut Vec<ChangeToken>,
    /// The first is always `/`, the last is where we are.
    first: Directory,
    below: Vec<Directory>,
    /// A non-directory in the last directory: nothing can follow it.
    leaf: Option<Leaf>,
    links: usize,
    /// Set while the target of a link is walked: the number of steps that remain after it.
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

/// The root's depth below `/`, and the identity of its directory.
#[derive(Default)]
struct Root {
    depth: usize,
    identity: Option<(u64, u64)>,
}

/// A directory entry, with tokens from before the look at it.
struct Examined {
    watch: Watch,
    entry_token: ChangeToken,
    content_token: ChangeToken,
    looked: Result<(OwnedFd, Stat), Errno>,
}

enum Step {
    Name(Vec<u8>),
    /// The current entry is the target of a link that belongs to this user.
    LinkOwner(u32),
}

impl<'a> Walk<'a> {
    pub(crate) fn from_slash(
        watcher: &'a Watcher,
        tokens: &'a mut Vec<ChangeToken>,
    ) -> Result<Self, ResolveError> {
        let fd = open_path(CWD, b"/")?;
        let metadata = Metadata::from(&fstat(&fd)?);
        let first = Directory { fd, metadata };
        Ok(Walk {
            watcher,
            tokens,
            first,
            below: Vec::new(),
            leaf: None,
            links: 0,
            target_above: None,
            root: Root::default(),
        })
    }

    /// Continues from the current position. A trailing slash requires a directory.
    pub(crate) fn along(&mut self, path: &[u8], policy: LinkPolicy) -> Result<(), ResolveError> {
        let mut steps = Vec::new();
        push_components(&mut steps, path);
        while let Some(step) = steps.pop() {
            // With fewer steps left, the walk is back in the path itself, behind the link's target.
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

    /// Makes the current position the root.
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
        let Examined {
            watch,
            entry_token,
            content_token,
            looked,
        } = self.examine(&name);
        let (fd, stat) = match looked {
            Ok(looked) => looked,
            Err(error) => {
                self.tokens.push(entry_token);
                return Err(error.into());
            }
        };
        let metadata = Metadata::from(&stat);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let directory = Directory { fd, metadata };
                self.tokens
                    .push(self.directory_token(&watch, entry_token, &name, &directory));
                // The server alone may read what is there. The root's own path, too, has links of
                // users, who own the folder that it is in.
                match private::is_private(&stat) {
                    true => Err(ResolveError::Denied),
                    false => self.descend(directory),
                }
            }
            FileType::Symlink => {
                self.tokens.push(entry_token);
                self.follow(&fd, &metadata, policy, steps)
            }
            _ => {
                let hears_writes =
                    !matches!(watch, Watch::On(_, interest) if interest < Interest::Content);
                self.tokens.push(match hears_writes {
                    true => content_token,
                    false => entry_token,
                });
                let has_names = stat.st_nlink > 1 || !hears_writes;
                let metadata = match has_names && metadata.kind == Kind::File {
                    true => {
                        // A write through its other names is reported to their directories, and to
                        // watchers of the file itself.
                        self.tokens.push(self.watcher.file_token(&fd, &metadata));
                        Metadata::from(&fstat(&fd)?)
                    }
                    false => metadata,
                };
                self.leaf = Some(Leaf { fd, name, metadata });
                Ok(())
            }
        }
    }

    /// First the watch, then the counters, then the look: see `token` for why nothing is missed in
    /// this order. What the watch must report depends on what is there; where it reports less, the
    /// look is repeated.
    fn examine(&self, name: &[u8]) -> Examined {
        let directory = self.last();
        let mut interest = Interest::Existing;
        loop {
            let watch = self
                .watcher
                .watch(&directory.fd, &directory.metadata, interest);
            let entry_token = self.watcher.token(&watch, Concern::Entry(name));
            let content_token = self.watcher.token(&watch, Concern::Content(name));
            let looked =
                open_path(&directory.fd, name).and_then(|fd| fstat(&fd).map(|stat| (fd, stat)));
            let needed = match &looked {
                Err(_) => Interest::Absent,
                Ok((_, stat)) => match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory | FileType::Symlink => Interest::Existing,
                    _ => Interest::Content,
                },
            };
            let is_enough = match &watch {
                Watch::On(_, reported) => needed <= *reported || needed <= interest,
                Watch::Silent | Watch::Failed => true,
            };
            if is_enough {
                return Examined {
                    watch,
                    entry_token,
                    content_token,
                    looked,
                };
            }
            interest = needed;
        }
    }

    /// Returns a token for the name of a directory. If its parent can't be read (a home of mode
    /// 0711), the parent can't be watched either; but a directory that is moved away, removed, or
    /// replaced gets an event itself.
    fn directory_token(
        &self,
        above: &Watch,
        entry_token: ChangeToken,
        name: &[u8],
        directory: &Directory,
    ) -> ChangeToken {
        if !matches!(above, Watch::Failed) {
            return entry_token;
        }
        let watch = self
            .watcher
            .watch(&directory.fd, &directory.metadata, Interest::Existing);
        let own_token = self.watcher.token(&watch, Concern::Itself);
        // First the watch, then the look, here too.
        let again = open_path(&self.last().fd, name).and_then(fstat);
        let is_same = again
            .is_ok_and(|stat| identity(&Metadata::from(&stat)) == identity(&directory.metadata));
        if is_same { own_token } else { entry_token }
    }

    /// The token on a directory below where we are, as if that could not be watched.
    #[cfg(test)]
    pub(crate) fn token_below_unwatched(&self, name: &[u8]) -> ChangeToken {
        let fd = open_path(&self.last().fd, name).unwrap();
        let metadata = Metadata::from(&fstat(&fd).unwrap());
        self.directory_token(
            &Watch::Failed,
            ChangeToken::until(0),
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
