//! Rows of directives, from which reading, checks, `saker check` and the reference derive.
//!
//! Difficulty: Apache has two notions of where a directive may stand, and both count. The manual's
//! contexts are what people read; the override bits are what Apache compares with the place, so
//! that `Require` is refused in a virtual host and accepted in a `<Location>`; and some directives
//! refuse single sections on top of it. The rows carry all three.

/// Sets of places and of `AllowOverride` classes, as Apache compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrides(pub u16);

pub const LIMIT: Overrides = Overrides(1);
pub const OPTIONS: Overrides = Overrides(1 << 1);
pub const FILE_INFO: Overrides = Overrides(1 << 2);
pub const AUTH_CONFIG: Overrides = Overrides(1 << 3);
pub const INDEXES: Overrides = Overrides(1 << 4);
/// Every class of `AllowOverride`.
pub const ALL: Overrides = Overrides(0x1f);
/// `<Directory>` and its kin.
pub const ACCESS: Overrides = Overrides(1 << 6);
/// Outside of them.
pub const SERVER: Overrides = Overrides(1 << 7);
/// `<Proxy>`.
pub const PROXY: Overrides = Overrides(1 << 11);

/// Overrides that the server and its virtual hosts permit: all but those about access.
pub const IN_SERVER: Overrides = Overrides(SERVER.0 | ALL.0 & !(AUTH_CONFIG.0 | LIMIT.0));
pub const IN_SECTION: Overrides = Overrides(ACCESS.0 | ALL.0);
pub const IN_PROXY: Overrides = Overrides(IN_SECTION.0 | PROXY.0);

impl Overrides {
    pub const fn or(self, other: Overrides) -> Overrides {
        Overrides(self.0 | other.0)
    }

    pub const fn meets(self, other: Overrides) -> bool {
        self.0 & other.0 != 0
    }

    /// The classes of `AllowOverride`, any of which permits it in `.htaccess`.
    pub fn classes(self) -> impl Iterator<Item = &'static str> {
        let names = [
            (AUTH_CONFIG, "AuthConfig"),
            (FILE_INFO, "FileInfo"),
            (INDEXES, "Indexes"),
            (LIMIT, "Limit"),
            (OPTIONS, "Options"),
        ];
        names
            .into_iter()
            .filter(move |(class, _)| self.meets(*class))
            .map(|(_, name)| name)
    }
}

/// Sections that a directive refuses although the place permits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub u8);

pub const NOWHERE: Refused = Refused(0);
pub const VIRTUAL_HOST: Refused = Refused(1);
pub const LIMITS: Refused = Refused(1 << 1);
pub const DIRECTORY: Refused = Refused(1 << 2);
pub const LOCATION: Refused = Refused(1 << 3);
/// `<Files>` and `<If>` with their kin.
pub const FILES: Refused = Refused(1 << 4);
pub const PROXIES: Refused = Refused(1 << 5);

impl Refused {
    pub const fn or(self, other: Refused) -> Refused {
        Refused(self.0 | other.0)
    }

    pub const fn includes(self, one: Refused) -> bool {
        self.0 & one.0 != 0
    }
}

/// Contexts in which the manual permits a directive: letters of `svdhp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contexts(pub &'static str);

impl Contexts {
    pub fn describe(self) -> String {
        let names = [
            ('s', "server"),
            ('v', "virtual host"),
            ('d', "directory"),
            ('h', ".htaccess"),
            ('p', "proxy"),
        ];
        names
            .iter()
            .filter(|(letter, _)| self.0.contains(*letter))
            .map(|(_, name)| *name)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// Number of arguments, and the way in which they are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The rest of the line as it stands.
    Raw,
    None,
    One,
    OneOrTwo,
    Two,
    OneToThree,
    OneOrThree,
    TwoOrThree,
    Three,
    /// On or Off; what follows is not looked at.
    Flag,
    /// One or more, each for itself.
    Each,
    /// One, then one or more that each go with it.
    EachWithFirst,
    /// Any number; the directive itself counts.
    Any,
    /// The rest of the line up to the last `>`.
    Section,
}

/// Importance of a module or directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Importance {
    /// In distributions' defaults, panels' output, or the `.htaccess` files of common applications.
    A,
    /// A drop-in for most needs it.
    B,
    C,
}

/// The treatment of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Does what Apache's manual says.
    Honored,
    /// Will be honored; read and checked, and nothing more so far.
    Pending,
    /// Read, and nothing to be done: why.
    NoEffect(&'static str),
    /// Not done: what to do instead.
    Unsupported(&'static str),
    /// Waits for a part of Saker that is not there yet: which.
    Later(&'static str),
    /// Decides over access and is not done: requests that it would decide are denied. What to do
    /// instead.
    Denies(&'static str),
}

/// One directive or section.
#[derive(Debug)]
pub struct Row {
    /// As the manual spells it; a section with its `<`.
    pub name: &'static str,
    /// Identifiers of the modules that define it; one of them loaded is enough.
    pub modules: &'static [&'static str],
    pub importance: Importance,
    pub contexts: Contexts,
    pub shape: Shape,
    pub overrides: Overrides,
    pub refused: Refused,
    pub treatment: Treatment,
}

impl Row {
    pub fn is_section(&self) -> bool {
        self.name.starts_with('<')
    }

    /// As it is written to a person: `<Directory>`, `ServerName`.
    pub fn title(&self) -> String {
        if self.is_section() {
            format!("{}>", self.name)
        } else {
            self.name.to_owned()
        }
    }
}

/// A row, in one line.
#[expect(
    clippy::too_many_arguments,
    reason = "a line of a table; the columns are named by their types"
)]
pub(crate) const fn row(
    name: &'static str,
    modules: &'static [&'static str],
    importance: Importance,
    contexts: &'static str,
    shape: Shape,
    overrides: Overrides,
    refused: Refused,
    treatment: Treatment,
) -> Row {
    Row {
        name,
        modules,
        importance,
        contexts: Contexts(contexts),
        shape,
        overrides,
        refused,
        treatment,
    }
}
