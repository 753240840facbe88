//! ServerTokens: what Saker calls itself.
//!
//! Called by: `assemble`, for the field `Server`; pages that are generated.

/// ServerTokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    Product,
    Major,
    Minor,
    Minimal,
    Os,
    Full,
}

/// The product as ServerTokens wants it; without a version unless one is asked for (Apache would
/// tell all).
pub fn product(tokens: Option<Tokens>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let part = |count: usize| version.split('.').take(count).collect::<Vec<_>>().join(".");
    match tokens {
        None | Some(Tokens::Product) => "Saker".into(),
        Some(Tokens::Major) => format!("Saker/{}", part(1)),
        Some(Tokens::Minor) => format!("Saker/{}", part(2)),
        Some(Tokens::Minimal) => format!("Saker/{version}"),
        Some(Tokens::Os | Tokens::Full) => format!("Saker/{version} (Linux)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_as_was_asked_for() {
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            (product(None), product(Some(Tokens::Product))),
            ("Saker".into(), "Saker".into())
        );
        assert_eq!(product(Some(Tokens::Minimal)), format!("Saker/{version}"));
        assert_eq!(
            product(Some(Tokens::Full)),
            format!("Saker/{version} (Linux)")
        );
        assert!(version.starts_with(product(Some(Tokens::Minor)).trim_start_matches("Saker/")));
    }
}
