//! Texts of SSI commands: variables in them, and comparisons.
//!
//! Called by: `ssi`.

/// Values of variables.
pub trait Values {
    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>>;
}

/// Replaces `$name` and `${name}`; a backslash takes the meaning from a `$`. `None`: a name is
/// missing.
pub fn evaluate(text: &[u8], values: &mut dyn Values) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, behind)) = rest.split_first() {
        match (byte, behind) {
            (b'\\', [escaped @ (b'$' | b'\\'), behind @ ..]) => {
                out.push(*escaped);
                rest = behind;
            }
            (b'$', behind) => {
                let (name, behind) = name(behind)?;
                out.extend(values.variable(name).unwrap_or_default());
                rest = behind;
            }
            (byte, behind) => {
                out.push(*byte);
                rest = behind;
            }
        }
    }
    Some(out)
}

fn name(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if let [b'{', braced @ ..] = text {
        let end = braced.iter().position(|byte| *byte == b'}')?;
        return (end > 0).then(|| (&braced[..end], &braced[end + 1..]));
    }
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let end = match text.first() {
        Some(digit) if digit.is_ascii_digit() => 1,
        _ => text.iter().take_while(|byte| is_name(byte)).count(),
    };
    (end > 0).then(|| text.split_at(end))
}

/// Splits a comparison: the left text, and whether the right one is to be equal.
pub fn split_expression(expression: &[u8]) -> (&[u8], Option<(bool, &[u8])>) {
    let Some(at) = expression.iter().position(|byte| *byte == b'=') else {
        return (expression.trim_ascii(), None);
    };
    let (left, right) = expression.split_at(at);
    let right = right.get(1..).unwrap_or_default().trim_ascii();
    match left.strip_suffix(b"!") {
        Some(left) => (left.trim_ascii(), Some((false, right))),
        None => (left.trim_ascii(), Some((true, right))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Names;

    impl Values for Names {
        fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
            (name != b"none").then(|| [b"<", name, b">"].concat())
        }
    }

    #[test]
    fn variables_in_texts() {
        let cases: [(&str, Option<&str>); 7] = [
            ("a$b c", Some("a<b> c")),
            ("${a}b", Some("<a>b")),
            ("$1x$none", Some("<1>x")),
            ("\\$a\\\\$b", Some("$a\\<b>")),
            ("a$", None),
            ("${}", None),
            ("${a", None),
        ];
        for (text, expected) in cases {
            let value = evaluate(text.as_bytes(), &mut Names);
            assert_eq!(value.as_deref(), expected.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn comparisons() {
        let whole = |text: &'static str| split_expression(text.as_bytes());
        assert_eq!(whole(" $a "), (&b"$a"[..], None));
        assert_eq!(whole("$a = b c"), (&b"$a"[..], Some((true, &b"b c"[..]))));
        assert_eq!(
            whole("$a != /x=y/"),
            (&b"$a"[..], Some((false, &b"/x=y/"[..])))
        );
    }
}
