//! Arguments of ModSecurity's directives, which have the same syntax in rule files and in Apache's
//! configuration.
//!
//! Called by: `reading`, `logs` and the Apache front end.

/// An argument without its quotes, escapes included.
#[derive(Debug, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    pub quote: Option<char>,
}

/// Splits a line into arguments.
pub fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut letters = text.chars().peekable();
    loop {
        while letters
            .next_if(|letter| letter.is_ascii_whitespace())
            .is_some()
        {}
        let Some(first) = letters.peek().copied() else {
            return words;
        };
        let quote = ['"', '\''].contains(&first).then_some(first);
        if quote.is_some() {
            letters.next();
        }
        let mut word = String::new();
        while let Some(letter) =
            letters.next_if(|letter| quote.is_some() || !letter.is_ascii_whitespace())
        {
            if quote == Some(letter) {
                break;
            }
            word.push(letter);
            if letter == '\\' && quote.is_some() {
                word.extend(letters.next());
            }
        }
        words.push(Word { text: word, quote });
    }
}

/// Joins continuation lines.
pub(super) fn joined(text: &str) -> String {
    text.replace("\\\r\n", "").replace("\\\n", "")
}

/// Removes the quotes around an argument.
pub(super) fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = |quote: char| {
        text.strip_prefix(quote)
            .and_then(|text| text.strip_suffix(quote))
    };
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<(String, Option<char>)> {
        words(text)
            .into_iter()
            .map(|word| (word.text, word.quote))
            .collect()
    }

    #[test]
    fn words_with_and_without_quotes() {
        let bare = |text: &str| (text.to_owned(), None);
        let in_quotes = |text: &str, quote| (text.to_owned(), Some(quote));
        assert_eq!(
            texts(r#"ARGS "@rx a\"b\\d" id:1"#),
            [bare("ARGS"), in_quotes(r#"@rx a\"b\\d"#, '"'), bare("id:1")]
        );
        assert_eq!(
            texts(r"ARGS \d+ 'say \'x\''"),
            [bare("ARGS"), bare(r"\d+"), in_quotes(r"say \'x\'", '\'')]
        );
        assert_eq!(
            texts("a\t \"\" \"open"),
            [bare("a"), in_quotes("", '"'), in_quotes("open", '"')]
        );
        assert_eq!(texts(" \t"), []);
    }

    #[test]
    fn lines_that_go_on() {
        assert_eq!(
            texts(&joined("ARGS \\\n  \"@streq \\\r\nx\" \\\n")),
            texts("ARGS   \"@streq x\" ")
        );
    }
}
