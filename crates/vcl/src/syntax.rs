//! The syntax tree of a VCL file.
//!
//! Called by: `parser`, which makes it, and `convert`, which reads it.
//! Out of scope: meaning; names are as written.

/// A place in the file: line and column from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VclFile {
    pub backends: Vec<Backend>,
    /// Names of probes, and their attributes.
    pub probes: Vec<(String, Vec<(String, String)>)>,
    pub acls: Vec<Acl>,
    pub subs: Vec<Sub>,
    /// Declarations that have no part in a conversion: `import`, `include`.
    pub others: Vec<(String, Place)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    pub name: String,
    /// Attributes in order: `host`, `port`; nested ones as `probe.url`.
    pub attributes: Vec<(String, String)>,
    pub place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    pub name: String,
    pub entries: Vec<AclEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclEntry {
    pub address: String,
    pub prefix: Option<String>,
    pub is_excluded: bool,
    pub place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sub {
    pub name: String,
    pub body: Vec<Statement>,
    pub place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub kind: StatementKind,
    pub place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementKind {
    Set {
        name: String,
        value: Expression,
    },
    Unset(String),
    /// Branches with their conditions; the last may have none.
    If(Vec<(Option<Expression>, Vec<Statement>)>),
    /// The action and its arguments.
    Return(String, Vec<Expression>),
    Call(String),
    /// `new NAME = …`
    New(String, Expression),
    /// A function call, or a bare word of VCL 3 such as `purge`.
    Expression(Expression),
    InlineC,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    Name(String),
    Text(String),
    Number(String),
    Function(String, Vec<Expression>),
    Not(Box<Expression>),
    /// Operands with the operator between them.
    Binary(&'static str, Box<Expression>, Box<Expression>),
}

impl Expression {
    /// The operands of a chain of one operator.
    pub fn chain<'e>(&'e self, operator: &str) -> Vec<&'e Expression> {
        match self {
            Expression::Binary(found, left, right) if *found == operator => {
                [left.chain(operator), right.chain(operator)].concat()
            }
            other => vec![other],
        }
    }

    pub fn name(&self) -> Option<&str> {
        match self {
            Expression::Name(name) => Some(name),
            _ => None,
        }
    }

    /// True for `0`, `0s` and the like.
    pub fn is_zero(&self) -> bool {
        matches!(self, Expression::Number(number)
            if number.trim_end_matches(|letter: char| letter.is_ascii_alphabetic()).parse() == Ok(0.0))
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Expression::Text(text) => Some(text),
            _ => None,
        }
    }
}
