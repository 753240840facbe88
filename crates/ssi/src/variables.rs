//! The variables of a page: those of the request (CGI's), those added by server-side includes, and
//! those set by the page.
//!
//! Called by: `elements` and substitution. A page and everything that it includes share them. Names
//! ignore case, as in Apache's tables.
//! Caveat: some are costly or change with the page's time format, so they are computed when first
//! used.

/// Variables of one page.
pub const VARIABLES_MAX: usize = 1000;
/// Length limit of a value, or of any text after substitution.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// Size limit of all values together.
pub const VALUES_BYTES_MAX: usize = 4 << 20;

/// Value that is computed on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lazy {
    DateLocal,
    DateGmt,
    LastModified,
    /// Owner of the page's file.
    UserName,
}

impl Lazy {
    pub const ALL: [(&'static str, Lazy); 4] = [
        ("DATE_LOCAL", Lazy::DateLocal),
        ("DATE_GMT", Lazy::DateGmt),
        ("LAST_MODIFIED", Lazy::LastModified),
        ("USER_NAME", Lazy::UserName),
    ];
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(Box<[u8]>),
    Lazy(Lazy),
}

impl Value {
    fn bytes(&self) -> usize {
        match self {
            Value::Text(text) => text.len(),
            Value::Lazy(_) => 0,
        }
    }
}

/// Variables in the order in which they were first set.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    all: Vec<(Box<[u8]>, Value)>,
    /// Total size of the values.
    bytes: usize,
}

impl Variables {
    pub fn value(&self, name: &[u8]) -> Option<&Value> {
        self.all
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// False: there are as many as there may be, or with this one as many bytes.
    pub fn set(&mut self, name: &[u8], value: &[u8]) -> bool {
        self.put(name, Value::Text(value.into()))
    }

    pub fn set_lazy(&mut self, name: &[u8], lazy: Lazy) -> bool {
        self.put(name, Value::Lazy(lazy))
    }

    fn put(&mut self, name: &[u8], value: Value) -> bool {
        let is_full = self.all.len() >= VARIABLES_MAX;
        let old = self
            .all
            .iter_mut()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, old)| old);
        let before = old.as_deref().map_or(0, Value::bytes);
        let bytes = self.bytes - before + value.bytes();
        if bytes > VALUES_BYTES_MAX && value.bytes() > before {
            return false;
        }
        match old {
            Some(old) => *old = value,
            None if is_full => return false,
            None => self.all.push((name.into(), value)),
        }
        self.bytes = bytes;
        true
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Value)> {
        self.all.iter().map(|(name, value)| (&**name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_any_case_keep_their_place() {
        let mut variables = Variables::default();
        variables.set(b"A", b"1");
        variables.set_lazy(b"DATE_GMT", Lazy::DateGmt);
        variables.set(b"date_gmt", b"2");
        variables.set(b"a", b"3");
        let all: Vec<_> = variables
            .iter()
            .map(|(name, value)| (name.to_vec(), value.clone()))
            .collect();
        let text = |text: &[u8]| Value::Text(text.into());
        assert_eq!(
            all,
            [
                (b"A".to_vec(), text(b"3")),
                (b"DATE_GMT".to_vec(), text(b"2"))
            ]
        );
        assert_eq!(variables.value(b"Date_GMT"), Some(&text(b"2")));
    }

    #[test]
    fn values_have_a_most_together() {
        let mut variables = Variables::default();
        let value = vec![b'x'; VALUE_BYTES_MAX];
        for name in [b"a", b"b", b"c", b"d"] {
            assert!(variables.set(name, &value));
        }
        assert!(!variables.set(b"e", b"x"));
        assert!(
            variables.set(b"a", b"") && variables.set(b"e", &value),
            "what is replaced makes room"
        );
    }

    #[test]
    fn there_is_a_most() {
        let mut variables = Variables::default();
        for number in 0..VARIABLES_MAX {
            assert!(variables.set(number.to_string().as_bytes(), b""));
        }
        assert!(!variables.set(b"one more", b"") && variables.set(b"1", b"x"));
    }
}
