//! The directives of one section, and merging of sections.
//!
//! Called by: front ends, when the configuration or an `.htaccess` file is read.
//! Caveat: a server's engine state and options also apply to its directories, its rules do not; and
//! four options define how rules of an outer section join those of an inner one. A directory
//! without any rewrite directive must not be merged at all ([`Settings::is_untouched`]): the outer
//! settings stay in force there. A virtual host without any must be: its rules never run, not even
//! inherited ones, but its directories know the engine state.
//! Out of scope: finding sections.

use crate::{DirectiveError, Map, Notice, Place, SourceLine, condition::Condition, rule::Rule};
use std::{collections::HashMap, path::PathBuf, sync::Arc};

/// RewriteOptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub inherit: bool,
    pub inherit_before: bool,
    pub inherit_down: bool,
    pub inherit_down_before: bool,
    pub ignore_inherit: bool,
    pub allow_no_slash: bool,
    pub allow_any_uri: bool,
    pub merge_base: bool,
    pub ignore_context_info: bool,
    pub legacy_prefix_docroot: bool,
    pub long_url_optimization: bool,
    pub unsafe_prefix_stat: bool,
}

/// The settings of one section, as written or merged.
#[derive(Clone, Debug)]
pub struct Settings {
    place: Place,
    /// Absolute, with a slash at the end; none in server context.
    directory: Option<Box<[u8]>>,
    engine: Option<bool>,
    options: Option<Options>,
    base: Option<Box<[u8]>>,
    pub(crate) rules: Vec<Arc<Rule>>,
    /// Waiting for their rule.
    conditions: Vec<Arc<Condition>>,
    maps: HashMap<String, Arc<Map>>,
    touched: bool,
    /// A virtual host without rewrite directives.
    pub(crate) idle: bool,
    /// The line that is being read.
    line: Option<SourceLine>,
}

impl Settings {
    /// Returns the settings of a server or virtual host.
    pub fn server() -> Settings {
        Settings::new(Place::Server, None)
    }

    /// Returns the settings of a section or an `.htaccess` file for `directory`.
    pub fn directory(place: Place, directory: &[u8]) -> Settings {
        let mut directory = directory.to_vec();
        if directory.last() != Some(&b'/') {
            directory.push(b'/');
        }
        Settings::new(place, Some(directory.into()))
    }

    fn new(place: Place, directory: Option<Box<[u8]>>) -> Settings {
        let (rules, conditions, maps) = (Vec::new(), Vec::new(), HashMap::new());
        Settings {
            place,
            directory,
            engine: None,
            options: None,
            base: None,
            rules,
            conditions,
            maps,
            touched: false,
            idle: false,
            line: None,
        }
    }

    /// Sets the line that the next conditions and rules come from.
    pub fn set_line(&mut self, line: SourceLine) {
        self.line = Some(line);
    }

    /// RewriteEngine.
    pub fn set_engine(&mut self, on: bool) {
        self.engine = Some(on);
        self.touched = true;
    }

    /// Adds one word of RewriteOptions.
    pub fn add_option(&mut self, word: &str) -> Result<Notice, DirectiveError> {
        self.touched = true;
        let options = self.options.get_or_insert_default();
        let option = match word.to_ascii_lowercase().as_str() {
            "inherit" => &mut options.inherit,
            "inheritbefore" => &mut options.inherit_before,
            "inheritdown" => &mut options.inherit_down,
            "inheritdownbefore" => &mut options.inherit_down_before,
            "ignoreinherit" => &mut options.ignore_inherit,
            "allownoslash" => &mut options.allow_no_slash,
            "allowanyuri" => &mut options.allow_any_uri,
            "mergebase" => &mut options.merge_base,
            "ignorecontextinfo" => &mut options.ignore_context_info,
            "legacyprefixdocroot" => &mut options.legacy_prefix_docroot,
            "longurloptimization" => &mut options.long_url_optimization,
            "unsafeprefixstat" => &mut options.unsafe_prefix_stat,
            word if word.starts_with("maxredirects=") => {
                let gone = "RewriteOptions: MaxRedirects option has been removed in favor of the global LimitInternalRecursion directive \
                            and will be ignored.";
                return Ok(Some(gone.to_owned()));
            }
            _ => {
                return Err(DirectiveError(format!(
                    "RewriteOptions: unknown option '{word}'"
                )));
            }
        };
        *option = true;
        Ok(None)
    }

    /// RewriteBase.
    pub fn set_base(&mut self, url: &[u8]) -> Result<(), DirectiveError> {
        self.touched = true;
        let refused = match url.first() {
            _ if self.directory.is_none() => {
                "RewriteBase: only valid in per-directory config files"
            }
            None => "RewriteBase: empty URL not allowed",
            Some(b'/') => {
                self.base = Some(url.into());
                return Ok(());
            }
            Some(_) => "RewriteBase: argument is not a valid URL",
        };
        Err(DirectiveError(refused.to_owned()))
    }

    /// RewriteCond, with everything that follows its name on the line.
    pub fn add_condition(&mut self, line: &[u8]) -> Result<Notice, DirectiveError> {
        self.touched = true;
        let (mut condition, notice) = Condition::compile(line, self.place)?;
        condition.line.clone_from(&self.line);
        self.conditions.push(Arc::new(condition));
        Ok(notice)
    }

    /// RewriteRule, with everything that follows its name on the line.
    pub fn add_rule(&mut self, line: &[u8]) -> Result<Notice, DirectiveError> {
        self.touched = true;
        let conditions = std::mem::take(&mut self.conditions);
        let mut rule = Rule::compile(line, conditions)?;
        rule.line.clone_from(&self.line);
        let is_interim = rule.flags.is_interim;
        self.rules.push(Arc::new(rule));
        Ok(is_interim.then(|| {
            "RewriteRule: an informational status can't be the answer to a request: 500 is sent"
                .to_owned()
        }))
    }

    /// RewriteMap. Says which file must exist.
    pub fn add_map(
        &mut self,
        name: &str,
        source: &str,
        account: Option<&str>,
        path: impl Fn(&str) -> Option<PathBuf>,
    ) -> Result<Arc<Map>, DirectiveError> {
        self.touched = true;
        let map = Arc::new(Map::declare(name, source, account, path)?);
        self.maps.insert(name.to_owned(), Arc::clone(&map));
        Ok(map)
    }

    /// No directive was seen: not to be merged.
    pub fn is_untouched(&self) -> bool {
        !self.touched
    }

    pub fn is_enabled(&self) -> bool {
        self.engine.unwrap_or(false)
    }

    pub fn options(&self) -> Options {
        self.options.unwrap_or_default()
    }

    /// RewriteBase in force.
    pub fn base(&self) -> Option<&[u8]> {
        self.base.as_deref()
    }

    pub fn directory_path(&self) -> Option<&[u8]> {
        self.directory.as_deref()
    }

    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    pub fn maps(&self) -> impl Iterator<Item = &Arc<Map>> {
        self.maps.values()
    }

    pub(crate) fn map(&self, name: &str) -> Option<&Map> {
        self.maps.get(name).map(AsRef::as_ref)
    }

    /// Returns the initial settings of a server's directories: state and options, no rules.
    pub fn for_directories(&self) -> Settings {
        let mut settings = Settings::new(Place::Directory, None);
        (settings.engine, settings.options, settings.touched) =
            (self.engine, self.options, self.touched);
        settings
    }

    /// `inner` inside `self`, both of the same kind: virtual host in server, or directory in
    /// directory.
    pub fn merge(&self, inner: &Settings) -> Settings {
        let mut merged = inner.clone();
        merged.touched |= self.touched;
        merged.engine = inner.engine.or(self.engine);
        merged.options = inner.options.or(self.options);
        if inner.directory.is_none() && inner.is_untouched() {
            merged.idle = true;
            return merged;
        }
        let (own, outer) = (merged.options(), self.options());
        if inner.directory.is_some() && own.merge_base {
            merged.base = inner.base.clone().or_else(|| self.base.clone());
        }
        if own.inherit || outer.inherit_down && !own.ignore_inherit {
            merged.rules.extend(self.rules.iter().cloned());
            merged.add_missing_maps(&self.maps);
        } else if own.inherit_before || outer.inherit_down_before && !own.ignore_inherit {
            merged.rules = self.rules.iter().chain(&inner.rules).cloned().collect();
            // Here the outer map wins.
            merged.maps = self.maps.clone();
            merged.add_missing_maps(&inner.maps);
        }
        merged
    }

    fn add_missing_maps(&mut self, others: &HashMap<String, Arc<Map>>) {
        for (name, map) in others {
            self.maps
                .entry(name.clone())
                .or_insert_with(|| Arc::clone(map));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(path: &str, options: &[&str], rules: &[&str]) -> Settings {
        let mut settings = Settings::directory(Place::Htaccess, path.as_bytes());
        options
            .iter()
            .for_each(|word| assert_eq!(settings.add_option(word), Ok(None)));
        rules.iter().for_each(|name| {
            settings
                .add_rule(format!("{name} -").as_bytes())
                .map(drop)
                .expect("a rule");
        });
        settings
    }

    fn merged(outer: &[&str], inner: &[&str]) -> String {
        let settings = directory("/a", outer, &["1", "2"]).merge(&directory("/a/b", inner, &["3"]));
        settings
            .rules
            .iter()
            .map(|rule| String::from_utf8_lossy(rule.pattern.text()).into_owned())
            .collect()
    }

    #[test]
    fn rules_join_as_the_options_say() {
        assert_eq!(merged(&[], &[]), "3");
        assert_eq!(merged(&[], &["Inherit"]), "312");
        assert_eq!(merged(&[], &["InheritBefore"]), "123");
        assert_eq!(merged(&["InheritDown"], &[]), "312");
        assert_eq!(merged(&["InheritDownBefore"], &[]), "123");
        assert_eq!(merged(&["InheritDown"], &["IgnoreInherit"]), "3");
        assert_eq!(merged(&["InheritDownBefore"], &["IgnoreInherit"]), "3");
        // Options are taken over only as a whole.
        assert_eq!(merged(&["Inherit"], &[]), "312");
        assert_eq!(merged(&["Inherit"], &["AllowNoSlash"]), "3");
    }

    #[test]
    fn base_engine_and_place() {
        let mut outer = directory("/a", &["MergeBase"], &[]);
        outer.set_base(b"/x").expect("a base");
        outer.set_engine(true);
        let inner = outer.merge(&directory("/a/b/", &[], &["1"]));
        assert_eq!((inner.base(), inner.is_enabled()), (Some(&b"/x"[..]), true));
        assert_eq!(inner.directory_path(), Some(&b"/a/b/"[..]));
        assert_eq!(
            outer.merge(&directory("/a/b", &["Inherit"], &[])).base(),
            None
        );
        let mut off = directory("/a/b", &[], &[]);
        off.set_engine(false);
        assert!(!outer.merge(&off).is_enabled());
    }

    #[test]
    fn servers() {
        let mut main = Settings::server();
        main.set_engine(true);
        main.add_rule(b"^/x$ /y").expect("a rule");
        main.add_map("m", "int:tolower", None, |_| None)
            .expect("a map");
        let quiet = main.merge(&Settings::server());
        assert!(quiet.is_enabled() && quiet.idle && quiet.for_directories().is_enabled());
        let mut own = Settings::server();
        own.add_option("inherit").expect("an option");
        let own = main.merge(&own);
        assert_eq!(
            (own.rule_count(), own.maps().count(), own.idle),
            (1, 1, false)
        );
        assert_eq!(main.for_directories().rule_count(), 0);
    }

    #[test]
    fn errors_in_the_words_of_httpd() {
        let error = |result: Result<Notice, DirectiveError>| result.expect_err("refused").0;
        let mut server = Settings::server();
        assert_eq!(
            error(server.add_option("foo")),
            "RewriteOptions: unknown option 'foo'"
        );
        assert_eq!(
            error(server.set_base(b"/").map(|()| None)),
            "RewriteBase: only valid in per-directory config files"
        );
        let mut directory = Settings::directory(Place::Directory, b"/a");
        assert_eq!(
            error(directory.set_base(b"").map(|()| None)),
            "RewriteBase: empty URL not allowed"
        );
        assert_eq!(
            error(directory.set_base(b"x").map(|()| None)),
            "RewriteBase: argument is not a valid URL"
        );
        assert!(
            directory
                .add_option("MaxRedirects=5")
                .is_ok_and(|notice| notice.is_some())
        );
        for option in [
            "AllowAnyURI",
            "LegacyPrefixDocRoot",
            "LongURLOptimization",
            "UnsafePrefixStat",
            "IgnoreContextInfo",
        ] {
            assert_eq!(directory.add_option(option), Ok(None));
        }
    }
}
