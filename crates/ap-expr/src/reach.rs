//! Everything that an expression could read, whichever branch its evaluation takes.
//!
//! Called by: code that evaluates later than it decides: before caching a response head, it must
//! know whether an expression about it can read more than the resource.
//! Caveat: the right side of an `&&` counts even though it may never be evaluated.

use crate::{
    Dependencies, Dependency,
    tree::{Condition, Function, List, Word},
};

pub(crate) fn condition(of: &Condition, all: &mut Dependencies) {
    match of {
        Condition::Constant(_) => {}
        Condition::Not(inner) => condition(inner, all),
        Condition::All(inner) | Condition::Any(inner) => {
            inner.iter().for_each(|one| condition(one, all))
        }
        Condition::Compare(_, left, right) => {
            [left, right].into_iter().for_each(|one| word(one, all))
        }
        Condition::Matches { word: subject, .. } => word(subject, all),
        Condition::In(needle, hay) => {
            word(needle, all);
            list(hay, all);
        }
        Condition::NotEmpty(inner)
        | Condition::Empty(inner)
        | Condition::Truth(inner)
        | Condition::AddressIn(inner, _) => word(inner, all),
        Condition::File(_, path) => {
            all.add(Dependency::Files);
            word(path, all);
        }
        Condition::FileAccessible(inner) | Condition::UriAccessible(inner) => {
            all.add(Dependency::Subrequest);
            word(inner, all);
        }
        Condition::ClientIn(_) => all.add(Dependency::Client),
        Condition::Glob { text, pattern, .. } => {
            [text, pattern].into_iter().for_each(|one| word(one, all))
        }
    }
}

pub(crate) fn word(of: &Word, all: &mut Dependencies) {
    match of {
        Word::Literal(_) | Word::Backreference(_) => {}
        Word::Variable(variable) => match variable.row().request_field {
            Some(name) => all.add_request_field(name.as_bytes(), true),
            None => all.add(variable.row().depends),
        },
        Word::TlsVariable(_) => all.add(Dependency::Transport),
        Word::Concat(words) => words.iter().for_each(|one| word(one, all)),
        Word::Call(function, argument) => {
            call(*function, argument, all);
            word(argument, all);
        }
        Word::Replace(words) => words.iter().for_each(|one| word(one, all)),
        Word::Condition(inner) => condition(inner, all),
        Word::Substitute {
            word: subject,
            substitution,
        } => {
            word(subject, all);
            substitution
                .replacement
                .iter()
                .for_each(|one| word(one, all));
        }
        Word::Join {
            list: inner,
            separator,
        } => {
            list(inner, all);
            separator.iter().for_each(|one| word(one, all));
        }
    }
}

fn list(of: &List, all: &mut Dependencies) {
    match of {
        List::Words(words) => words.iter().for_each(|one| word(one, all)),
        List::Split {
            list: inner,
            substitution,
        } => {
            list(inner, all);
            substitution
                .replacement
                .iter()
                .for_each(|one| word(one, all));
        }
        List::PeerExtensions(inner) => {
            all.add(Dependency::Transport);
            word(inner, all);
        }
    }
}

fn call(function: Function, argument: &Word, all: &mut Dependencies) {
    match function {
        Function::Request | Function::RequestNoVary => match argument {
            Word::Literal(name) => all.add_request_field(name, function == Function::Request),
            _ => all.add(Dependency::RequestFields),
        },
        Function::Response | Function::HealthCheck => all.add(Dependency::Response),
        Function::RequestEnvironment | Function::Note | Function::Environment => {
            all.add(Dependency::Environment)
        }
        Function::File | Function::FileSize | Function::FileModified => all.add(Dependency::Files),
        Function::ProcessEnvironment
        | Function::ToLower
        | Function::ToUpper
        | Function::Escape
        | Function::Unescape
        | Function::Base64
        | Function::Unbase64
        | Function::Md5
        | Function::Sha1
        | Function::Ldap => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::{Dependency, Expression, ExpressionOptions};

    #[test]
    fn what_is_never_evaluated_counts() {
        let cases: [(&str, &[Dependency]); 6] = [
            (
                "false && %{HTTP_COOKIE} == 'a'",
                &[Dependency::RequestFields],
            ),
            ("%{CONTENT_TYPE} =~ m#^text/html#", &[Dependency::Response]),
            (
                "%{REQUEST_URI} =~ /a/ || -R '10.0.0.0/8'",
                &[Dependency::Path, Dependency::Client],
            ),
            (
                "-f %{REQUEST_FILENAME}",
                &[Dependency::Files, Dependency::Path],
            ),
            (
                "resp('X') in { 'a', tolower(reqenv('B')) }",
                &[Dependency::Response, Dependency::Environment],
            ),
            ("%{TIME_HOUR} -gt 5", &[Dependency::Time]),
        ];
        for (text, expected) in cases {
            let all = Expression::compile(text, ExpressionOptions::default())
                .expect(text)
                .may_depend();
            assert!(expected.iter().all(|one| all.has(*one)), "{text}: {all:?}");
            assert!(all.is_within(expected), "{text}: {all:?}");
        }
    }
}
