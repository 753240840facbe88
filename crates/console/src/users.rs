//! The users file: users with their password hashes, and API tokens, each with a role.
//!
//! Called by: log-in and the gate, which read it; `saker console user` and `token`, which write it.
//! Caveat: it is read again when it changes, and a user or token that is gone, or changed, loses
//! its sessions with it. A file with an error admits no user.
//! Out of scope: verifying passwords (`password`).

use crate::{password, totp};
use aws_lc_rs::digest::{SHA256, digest};
use std::{
    fmt, fs, io,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    str::FromStr,
    time::SystemTime,
};

/// Largest file.
const FILE_BYTES_MAX: u64 = 1 << 20;
const NAME_BYTES_MAX: usize = 64;
const TOTP_BYTES: usize = 20;
const TOKEN_BYTES: usize = 32;
/// Begins tokens, so that they are recognized where they leak.
const TOKEN_PREFIX: &str = "saker_";

/// Rights, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Sees the requests of one site, and sees and purges its pages in the page cache.
    Owner,
    /// Sees everything but the configuration.
    Viewer,
    /// Purges pages, too.
    Operator,
    /// Changes the configuration, too.
    Administrator,
}

impl Role {
    pub const ALL: [Role; 4] = [
        Role::Owner,
        Role::Viewer,
        Role::Operator,
        Role::Administrator,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Role::Owner => "owner",
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Administrator => "administrator",
        }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Role, String> {
        let found = Role::ALL.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| {
            format!("invalid role `{text}` (owner, viewer, operator or administrator)")
        })
    }
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub role: Role,
    /// Name of the site of an owner.
    pub site: Option<String>,
    pub secret: Secret,
    /// Changes with the line.
    pub stamp: [u8; 32],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    Password {
        hash: String,
        totp: Option<Vec<u8>>,
    },
    /// SHA-256 of a token, which has enough entropy for it.
    Token([u8; 32]),
}

/// A change of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds or replaces a user. `password`: plain.
    SetUser {
        name: String,
        role: Role,
        /// The site of an owner.
        site: Option<String>,
        password: String,
        totp: Option<String>,
    },
    /// Adds or replaces a token. `token`: plain.
    SetToken {
        name: String,
        role: Role,
        /// The site of an owner.
        site: Option<String>,
        token: String,
    },
    RemoveUser(String),
    RemoveToken(String),
}

#[derive(Debug)]
pub enum UsersError {
    Io(PathBuf, io::Error),
    /// Line and what is wrong with it.
    Invalid(PathBuf, usize, String),
    /// A change that makes no sense.
    Refused(String),
}

impl fmt::Display for UsersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsersError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            UsersError::Invalid(path, line, error) => {
                write!(f, "{}:{line}: {error}", path.display())
            }
            UsersError::Refused(error) => f.write_str(error),
        }
    }
}

impl std::error::Error for UsersError {}

/// The file as it was read last.
#[derive(Debug, Default)]
pub struct Users {
    accounts: Vec<Account>,
    read: Option<(PathBuf, Stamp)>,
}

type Stamp = (u64, u64, Option<SystemTime>, i64);

impl Users {
    /// Reads the file if it has changed. A missing one is empty; after an error there are no users.
    pub fn refresh(&mut self, path: &Path) -> Result<(), UsersError> {
        let stamp = match fs::metadata(path) {
            Ok(found) => (
                found.ino(),
                found.len(),
                found.modified().ok(),
                found.ctime_nsec(),
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                *self = Users::default();
                return Ok(());
            }
            Err(error) => {
                *self = Users::default();
                return Err(UsersError::Io(path.to_owned(), error));
            }
        };
        if self
            .read
            .as_ref()
            .is_some_and(|read| read.0 == path && read.1 == stamp)
        {
            return Ok(());
        }
        *self = Users::default();
        self.accounts = parse(path, &read(path)?)?;
        self.read = Some((path.to_owned(), stamp));
        Ok(())
    }

    pub fn user(&self, name: &str) -> Option<&Account> {
        let is_it = |account: &&Account| {
            account.name == name && matches!(account.secret, Secret::Password { .. })
        };
        self.accounts.iter().find(is_it)
    }

    /// Returns the account of a token.
    pub fn token(&self, token: &str) -> Option<&Account> {
        let own = sha256(token.as_bytes());
        // Hashes are compared: timing tells nothing about tokens.
        let is_it = |account: &&Account| account.secret == Secret::Token(own);
        self.accounts.iter().find(is_it)
    }

    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }
}

/// Changes the file in one step: readers see it before or after. It belongs to the owner and group
/// of its directory, so that a server that has changed its user can read it.
pub fn change_users(path: &Path, change: &Change) -> Result<(), UsersError> {
    let failed = |error| UsersError::Io(path.to_owned(), error);
    let before = match read(path) {
        Err(UsersError::Io(_, error)) if error.kind() == io::ErrorKind::NotFound => String::new(),
        other => other?,
    };
    parse(path, &before)?;
    let (kind, name, line) = line_of(change)?;
    let is_own = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        words.next() == Some(kind) && words.next() == Some(name)
    };
    if line.is_none() && !before.lines().any(is_own) {
        return Err(UsersError::Refused(format!("there is no {kind} `{name}`")));
    }
    let mut text: String = before
        .lines()
        .filter(|line| !is_own(line))
        .map(|line| format!("{line}\n"))
        .collect();
    text.extend(line.map(|line| line + "\n"));
    parse(path, &text)?;
    let folder = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let temporary = path.with_extension(format!("new-{}", std::process::id()));
    let write = || -> io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        let own = fs::metadata(path).or_else(|_| fs::metadata(folder))?;
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::fchown(&file, Some(own.uid()), Some(own.gid()))?;
        }
        let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o640);
        file.set_permissions(mode)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&temporary);
        failed(error)
    })
}

/// Kind, name, and new line of a change.
fn line_of(change: &Change) -> Result<(&'static str, &str, Option<String>), UsersError> {
    match change {
        Change::SetUser {
            name,
            role,
            site,
            password: plain,
            totp,
        } => {
            if plain.is_empty() || plain.len() > password::PASSWORD_BYTES_MAX {
                return Err(UsersError::Refused(format!(
                    "a password has 1 to {} bytes",
                    password::PASSWORD_BYTES_MAX
                )));
            }
            let hash = password::hash(plain).map_err(UsersError::Refused)?;
            let mut line = format!("user {name} {} {hash}", role_word(*role, site.as_deref())?);
            if let Some(secret) = totp {
                line.push_str(&format!(" totp={secret}"));
            }
            Ok(("user", name, Some(line)))
        }
        Change::SetToken {
            name,
            role,
            site,
            token,
        } => {
            let role = role_word(*role, site.as_deref())?;
            let hash = sha256(token.as_bytes());
            let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            let line = format!("token {name} {role} sha256:{hash}");
            Ok(("token", name, Some(line)))
        }
        Change::RemoveUser(name) => Ok(("user", name, None)),
        Change::RemoveToken(name) => Ok(("token", name, None)),
    }
}

/// The role as a line has it: `owner:SITE`, or its name.
fn role_word(role: Role, site: Option<&str>) -> Result<String, UsersError> {
    let refused = |text: &str| Err(UsersError::Refused(text.to_owned()));
    match (role, site) {
        (Role::Owner, None) => refused("an owner needs a site"),
        (Role::Owner, Some(site)) if !is_site(site) => refused("invalid name of a site"),
        (Role::Owner, Some(site)) => Ok(format!("owner:{site}")),
        (_, Some(_)) => refused("only an owner has a site"),
        (role, None) => Ok(role.name().to_owned()),
    }
}

/// Reads what [`role_word`] writes.
pub fn role_of(word: &str) -> Result<(Role, Option<String>), String> {
    let (role, site) = match word.split_once(':') {
        Some(("owner", site)) if is_site(site) => (Role::Owner, Some(site.to_owned())),
        Some(_) => return Err(format!("invalid role `{word}`")),
        None => (word.parse()?, None),
    };
    match role == Role::Owner && site.is_none() {
        true => Err("an owner needs a site (owner:SITE)".into()),
        false => Ok((role, site)),
    }
}

fn is_site(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A new token, to be shown once.
pub fn new_token() -> Result<String, UsersError> {
    use base64::Engine as _;
    let random: [u8; TOKEN_BYTES] = random()?;
    let text = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(random);
    Ok(format!("{TOKEN_PREFIX}{text}"))
}

/// A new secret for an authenticator app, in base 32.
pub fn new_totp() -> Result<String, UsersError> {
    random::<TOTP_BYTES>().map(|secret| totp::encode(&secret))
}

fn random<const N: usize>() -> Result<[u8; N], UsersError> {
    let mut bytes = [0; N];
    let filled = aws_lc_rs::rand::fill(&mut bytes);
    filled.map_err(|_| UsersError::Refused("the system gives no random bytes".into()))?;
    Ok(bytes)
}

pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut own = [0; 32];
    own.copy_from_slice(digest(&SHA256, bytes).as_ref());
    own
}

fn read(path: &Path) -> Result<String, UsersError> {
    let failed = |error| UsersError::Io(path.to_owned(), error);
    if fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(failed(io::ErrorKind::FileTooLarge.into()));
    }
    fs::read_to_string(path).map_err(failed)
}

fn parse(path: &Path, text: &str) -> Result<Vec<Account>, UsersError> {
    let mut accounts: Vec<Account> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let invalid = |error: String| UsersError::Invalid(path.to_owned(), index + 1, error);
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let account = account(line).map_err(invalid)?;
        let is_same = |other: &Account| {
            let kinds = (&other.secret, &account.secret);
            other.name == account.name
                && std::mem::discriminant(kinds.0) == std::mem::discriminant(kinds.1)
        };
        if accounts.iter().any(is_same) {
            return Err(invalid(format!("`{}` is there twice", account.name)));
        }
        accounts.push(account);
    }
    Ok(accounts)
}

fn account(line: &str) -> Result<Account, String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (kind, name, role, rest) = match words.as_slice() {
        [kind, name, role, rest @ ..] => (*kind, *name, *role, rest),
        _ => return Err("a line has a kind, a name, a role, and a secret".into()),
    };
    let is_name = name.len() <= NAME_BYTES_MAX
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-@+".contains(&byte));
    if !is_name {
        return Err(format!(
            "invalid name `{name}` (1 to {NAME_BYTES_MAX} letters, digits, or characters of ._-@+)"
        ));
    }
    let (role, site) = role_of(role)?;
    let secret = match (kind, rest) {
        ("user", [hash]) => password_of(hash, None)?,
        ("user", [hash, totp]) => password_of(hash, Some(totp))?,
        ("token", [hash]) => Secret::Token(token_hash(hash).ok_or("invalid hash of a token")?),
        ("user" | "token", _) => return Err("a line ends with one secret".into()),
        _ => return Err(format!("invalid kind `{kind}` (user or token)")),
    };
    Ok(Account {
        name: name.to_owned(),
        role,
        site,
        secret,
        stamp: sha256(line.as_bytes()),
    })
}

fn password_of(hash: &str, totp: Option<&str>) -> Result<Secret, String> {
    if !password::is_hash(hash) {
        return Err("invalid password hash (expected $argon2id$...)".into());
    }
    let totp = totp.map(|text| {
        let secret = text.strip_prefix("totp=").and_then(totp::decode);
        secret
            .filter(|secret| !secret.is_empty())
            .ok_or("invalid secret (expected totp=BASE32)")
    });
    Ok(Secret::Password {
        hash: hash.to_owned(),
        totp: totp.transpose()?,
    })
}

fn token_hash(text: &str) -> Option<[u8; 32]> {
    let digits = text.strip_prefix("sha256:")?;
    if digits.len() != 64 || !digits.is_ascii() {
        return None;
    }
    let mut hash = [0; 32];
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[at * 2..at * 2 + 2], 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder");
        folder
    }

    #[test]
    fn the_file_is_written_and_read_again() {
        let folder = folder("console-users");
        let path = folder.join("users");
        let mut users = Users::default();
        users.refresh(&path).expect("a missing file is empty");
        assert!(users.is_empty());
        let user = |password: &str| Change::SetUser {
            name: "ada".into(),
            role: Role::Operator,
            site: None,
            password: password.into(),
            totp: Some("MZXW6YTBOI".into()),
        };
        change_users(&path, &user("one")).expect("added");
        let token = new_token().expect("a token");
        let set = Change::SetToken {
            name: "ada".into(),
            role: Role::Viewer,
            site: None,
            token: token.clone(),
        };
        change_users(&path, &set).expect("added");
        let owned = |role, site: Option<&str>| Change::SetToken {
            name: "owned".into(),
            role,
            site: site.map(str::to_owned),
            token: "saker_owned".into(),
        };
        for (role, site) in [
            (Role::Owner, None),
            (Role::Owner, Some("")),
            (Role::Owner, Some("a b")),
            (Role::Viewer, Some("a.example")),
        ] {
            assert!(
                change_users(&path, &owned(role, site)).is_err(),
                "{role:?} {site:?}"
            );
        }
        change_users(&path, &owned(Role::Owner, Some("a.example:1"))).expect("added");
        users.refresh(&path).expect("read");
        let ada = users.user("ada").expect("there").clone();
        assert_eq!(ada.role, Role::Operator);
        assert!(
            matches!(&ada.secret, Secret::Password { totp: Some(secret), .. } if secret == b"foobar")
        );
        assert_eq!(
            users.token(&token).map(|account| account.role),
            Some(Role::Viewer)
        );
        let owner = users.token("saker_owned").expect("there");
        assert_eq!(
            (owner.role, owner.site.as_deref()),
            (Role::Owner, Some("a.example:1"))
        );
        assert!(users.token("saker_x").is_none() && users.user("eve").is_none());
        change_users(&path, &user("two")).expect("replaced");
        users.refresh(&path).expect("read");
        assert_ne!(users.user("ada").expect("there").stamp, ada.stamp);
        let mode = fs::metadata(&path).expect("there").mode();
        assert_eq!(mode & 0o777, 0o640);
        change_users(&path, &Change::RemoveUser("ada".into())).expect("removed");
        assert!(change_users(&path, &Change::RemoveUser("ada".into())).is_err());
        users.refresh(&path).expect("read");
        assert!(users.user("ada").is_none() && users.token(&token).is_some());
        fs::write(&path, "user eve administrator plain\n").expect("written");
        assert!(users.refresh(&path).is_err() && users.is_empty());
        let _ = fs::remove_dir_all(folder);
    }

    #[test]
    fn invalid_lines() {
        let hash = password::hash("x").expect("hashed");
        for line in [
            "user ada".to_owned(),
            format!("user ada root {hash}"),
            format!("user ada owner {hash}"),
            format!("user ada owner: {hash}"),
            format!("user ada viewer:a.example {hash}"),
            format!("user a/da viewer {hash}"),
            format!("user {} viewer {hash}", "a".repeat(NAME_BYTES_MAX + 1)),
            "user ada viewer secret".to_owned(),
            format!("user ada viewer {hash} totp=1"),
            format!("user ada viewer {hash} totp=MY extra"),
            "token ci viewer sha256:00".to_owned(),
            format!("admin ada viewer {hash}"),
            format!("user ada viewer {hash}\nuser ada viewer {hash}"),
        ] {
            assert!(parse(Path::new("users"), &line).is_err(), "{line}");
        }
        let longest = format!("user {} viewer {hash}", "a".repeat(NAME_BYTES_MAX));
        assert!(parse(Path::new("users"), &longest).is_ok());
        let name_with_line = Change::SetToken {
            name: "a\ntoken b".into(),
            role: Role::Viewer,
            site: None,
            token: "t".into(),
        };
        let path = std::env::temp_dir().join("console-users-that-is-not-there");
        assert!(change_users(&path, &name_with_line).is_err() && !path.exists());
    }
}
