//! The tree of a compiled expression.
//!
//! Called by: [`crate::parse`], which builds it once; [`crate::evaluate`] and [`crate::reach`], which
//! walk it per request.
//! Out of scope: positions in the text; errors are found while parsing, where they are known.

use crate::{Pattern, Subnet, Variable, facts::FileTest, glob::GlobOptions};

#[derive(Debug)]
pub(crate) enum Condition {
    Constant(bool),
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Compare(Comparison, Word, Word),
    Matches {
        word: Word,
        pattern: Box<Pattern>,
        negated: bool,
    },
    In(Word, List),
    NotEmpty(Word),
    Empty(Word),
    /// `-T`
    Truth(Word),
    File(FileTest, Word),
    /// `-F`
    FileAccessible(Word),
    /// `-U`, `-A`
    UriAccessible(Word),
    /// `-R`
    ClientIn(Subnet),
    AddressIn(Word, Subnet),
    Glob {
        text: Word,
        pattern: Word,
        options: GlobOptions,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Compares numbers instead of texts.
    pub numbers: bool,
    pub relation: Relation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug)]
pub(crate) enum Word {
    Literal(Box<[u8]>),
    Variable(Variable),
    /// `%{SSL_…}`
    TlsVariable(Box<[u8]>),
    Backreference(u8),
    Concat(Vec<Word>),
    Call(Function, Box<Word>),
    /// `replace(text, from, to)`
    Replace(Box<[Word; 3]>),
    /// `%{:condition:}`
    Condition(Box<Condition>),
    /// `sub s/pattern/text/, word`
    Substitute {
        word: Box<Word>,
        substitution: Substitution,
    },
    Join {
        list: Box<List>,
        separator: Option<Box<Word>>,
    },
}

#[derive(Debug)]
pub(crate) enum List {
    Words(Vec<Word>),
    /// `split /pattern/, list`
    Split {
        list: Box<List>,
        substitution: Substitution,
    },
    /// `PeerExtList(oid)`
    PeerExtensions(Word),
}

/// A pattern with what replaces its matches.
#[derive(Debug)]
pub(crate) struct Substitution {
    pub pattern: Box<Pattern>,
    /// `None` for a plain pattern.
    pub replacement: Option<Box<Word>>,
    /// Every match, not the first alone.
    pub all: bool,
}

/// A function from text to text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Request,
    RequestNoVary,
    Response,
    RequestEnvironment,
    ProcessEnvironment,
    Note,
    Environment,
    ToLower,
    ToUpper,
    Escape,
    Unescape,
    Base64,
    Unbase64,
    Md5,
    Sha1,
    File,
    FileSize,
    FileModified,
    Ldap,
    HealthCheck,
}

/// Name and function. Those that look at the file system are not for restricted places.
pub(crate) const FUNCTIONS: &[(&str, Function)] = &[
    ("hc", Function::HealthCheck),
    ("osenv", Function::ProcessEnvironment),
    ("env", Function::Environment),
    ("resp", Function::Response),
    ("req", Function::Request),
    ("http", Function::Request),
    ("note", Function::Note),
    ("reqenv", Function::RequestEnvironment),
    ("req_novary", Function::RequestNoVary),
    ("tolower", Function::ToLower),
    ("toupper", Function::ToUpper),
    ("escape", Function::Escape),
    ("unescape", Function::Unescape),
    ("file", Function::File),
    ("filesize", Function::FileSize),
    ("filemod", Function::FileModified),
    ("base64", Function::Base64),
    ("unbase64", Function::Unbase64),
    ("sha1", Function::Sha1),
    ("md5", Function::Md5),
    ("ldap", Function::Ldap),
];

impl Function {
    pub fn from_name(name: &[u8]) -> Option<Function> {
        FUNCTIONS
            .iter()
            .find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
            .map(|(_, function)| *function)
    }

    pub fn is_restricted(self) -> bool {
        matches!(
            self,
            Function::File | Function::FileSize | Function::FileModified
        )
    }
}

impl Relation {
    pub fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Relation::Equal => order.is_eq(),
            Relation::NotEqual => order.is_ne(),
            Relation::Less => order.is_lt(),
            Relation::LessOrEqual => order.is_le(),
            Relation::Greater => order.is_gt(),
            Relation::GreaterOrEqual => order.is_ge(),
        }
    }
}
