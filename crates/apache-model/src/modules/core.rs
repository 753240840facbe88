//! Module core: options, overrides, error documents, handlers and types that are forced.
//!
//! Difficulty: `Options` with signs change what is in force outside, and go on doing so however
//! deep they are laid over.

use crate::{
    arguments::{is_url, set_flag, texts},
    reading::{Reading, Set, said},
};
use saker_ap_expr::StringExpression;
use saker_apache_syntax::{
    Node, Permission,
    options::{
        ANY_OPTION, FOLLOW_SYM_LINKS, INCLUDES, INCLUDES_EXEC, OptionSet, OptionsChange,
        parse_options,
    },
};
use saker_config::model::ErrorPage;
use std::{collections::BTreeMap, sync::Arc};

/// The `Options` lines of a section, as httpd 2.4 keeps them (core.c, `core_dir_config`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionsSaid {
    /// Said without a sign: nothing from outside stays.
    is_absolute: bool,
    /// `opts`: what was said, and what has come of it with that from outside.
    set: OptionSet,
    /// `opts_add` and `opts_remove`: with signs.
    added: OptionSet,
    removed: OptionSet,
    /// Never in force, whatever is laid over.
    withheld: OptionSet,
}

impl OptionsSaid {
    /// These options and no others; sections laid over may change all but `withheld`.
    pub fn only(set: OptionSet, withheld: OptionSet) -> OptionsSaid {
        OptionsSaid {
            is_absolute: true,
            set,
            withheld,
            ..OptionsSaid::default()
        }
    }

    /// A further line of the same section (core.c, `set_options`).
    fn change(&mut self, change: OptionsChange) {
        if let Some(set) = change.set {
            (self.is_absolute, self.set) = (true, set);
        }
        self.added = self.added.without(change.remove).or(change.add);
        self.removed = self.removed.without(change.add).or(change.remove);
        self.set = self.set.without(change.remove).or(change.add);
    }

    /// A section laid over what is outside (core.c, `merge_core_dir_configs`).
    fn merge(&self, over: &OptionsSaid) -> OptionsSaid {
        let withheld = self.withheld.or(over.withheld);
        if over.is_absolute {
            return OptionsSaid { withheld, ..*over };
        }
        let mut added = self.added.without(over.removed).or(over.added);
        let removed = self.removed.without(over.added).or(over.removed);
        let mut set = self.set.without(removed).or(added);
        // `Includes` outside and `+IncludesNOEXEC` inside: programs are not run. httpd forgets that
        // with the next section that is laid over the two; here it holds until a section says
        // `Includes` again.
        let runs_outside = self.set.contains(INCLUDES.or(INCLUDES_EXEC));
        if runs_outside && over.set.contains(INCLUDES) && !over.set.contains(INCLUDES_EXEC) {
            (set, added) = (set.without(INCLUDES_EXEC), added.without(INCLUDES_EXEC));
        }
        OptionsSaid {
            is_absolute: self.is_absolute,
            set,
            added,
            removed,
            withheld,
        }
    }

    /// With Apache's default where nothing was said.
    pub fn in_force(&self) -> OptionSet {
        let set = match self.is_absolute {
            true => self.set,
            false => self.set.or(FOLLOW_SYM_LINKS.without(self.removed)),
        };
        set.without(self.withheld)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Charset {
    Off,
    Name(Box<str>),
}

#[derive(Clone, Debug, Default)]
pub struct Core {
    pub options: OptionsSaid,
    pub allow_override: Option<Permission>,
    pub allow_override_list: Option<Vec<Box<str>>>,
    /// `None`: back to the built-in page (`default`).
    pub error_documents: BTreeMap<u16, Option<ErrorPage>>,
    /// Those of them that depend on the request.
    pub error_expressions: BTreeMap<u16, Arc<StringExpression>>,
    pub default_charset: Option<Charset>,
    /// ContentDigest
    pub content_digest: Option<bool>,
    /// `none` takes it back.
    pub force_type: Option<Option<Box<str>>>,
    pub set_handler: Option<Option<Box<str>>>,
    pub accept_path_info: Option<bool>,
    pub file_etag: FileEtagSaid,
    pub request_body_bytes_max: Option<u64>,
    pub signature: Option<Signature>,
    /// UseCanonicalName; DNS counts as on.
    pub canonical_name: Option<bool>,
    pub canonical_physical_port: Option<bool>,
    pub qualify_redirect_url: Option<bool>,
    pub lookups: Option<Lookups>,
    /// MaxRanges; 0 is none.
    pub ranges_max: Option<u32>,
    pub range_overlaps_max: Option<u16>,
    pub range_reversals_max: Option<u16>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileEtag {
    pub inode: bool,
    pub mtime: bool,
    pub size: bool,
}

/// The FileETag lines of a section, for inode, time and size: set, or added to and taken from what
/// is in force outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileEtagSaid {
    absolute: Option<[bool; 3]>,
    changes: [Option<bool>; 3],
}

impl FileEtagSaid {
    /// Apache's default is time and size.
    const DEFAULT: [bool; 3] = [false, true, true];

    fn merge(&self, over: &FileEtagSaid) -> FileEtagSaid {
        if over.absolute.is_some() {
            return *over;
        }
        let changes = [0, 1, 2].map(|part| over.changes[part].or(self.changes[part]));
        FileEtagSaid {
            absolute: self.absolute,
            changes,
        }
    }

    /// True if a FileETag line is in force.
    pub fn is_said(&self) -> bool {
        *self != FileEtagSaid::default()
    }

    pub fn in_force(&self) -> FileEtag {
        let base = self.absolute.unwrap_or(Self::DEFAULT);
        let [inode, mtime, size] = [0, 1, 2].map(|part| self.changes[part].unwrap_or(base[part]));
        FileEtag { inode, mtime, size }
    }
}

/// HostnameLookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookups {
    Off,
    On,
    /// The name has to lead back to the address.
    Double,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    Off,
    On,
    EMail,
}

impl Core {
    pub const DIRECTIVES: &'static [(&'static str, Set<Core>)] = &[
        ("Options", set_options),
        ("AllowOverride", set_allow_override),
        ("AllowOverrideList", set_allow_override_list),
        ("ErrorDocument", set_error_document),
        ("AddDefaultCharset", set_default_charset),
        ("ContentDigest", |node, core, _| {
            set_flag(node, &mut core.content_digest)
        }),
        ("ForceType", |node, core, _| {
            set_or_none(node, &mut core.force_type)
        }),
        ("SetHandler", |node, core, _| {
            set_or_none(node, &mut core.set_handler)
        }),
        ("AcceptPathInfo", set_accept_path_info),
        ("FileETag", set_file_etag),
        ("LimitRequestBody", set_limit_request_body),
        ("ServerSignature", set_signature),
        ("UseCanonicalName", set_canonical_name),
        ("HostnameLookups", set_lookups),
        ("QualifyRedirectURL", |node, core, _| {
            crate::arguments::set_flag(node, &mut core.qualify_redirect_url)
        }),
        ("MaxRanges", |node, core, _| {
            core.ranges_max = range_limit(node, "MaxRanges", RANGES_MAX)?;
            Ok(())
        }),
        ("MaxRangeOverlaps", |node, core, _| {
            core.range_overlaps_max = turn_limit(node, "MaxRangeOverlaps")?;
            Ok(())
        }),
        ("MaxRangeReversals", |node, core, _| {
            core.range_reversals_max = turn_limit(node, "MaxRangeReversals")?;
            Ok(())
        }),
        ("UseCanonicalPhysicalPort", |node, core, _| {
            crate::arguments::set_flag(node, &mut core.canonical_physical_port)
        }),
    ];

    pub fn merge(&self, over: &Core) -> Core {
        let mut error_documents = self.error_documents.clone();
        error_documents.extend(
            over.error_documents
                .iter()
                .map(|(status, page)| (*status, page.clone())),
        );
        let mut error_expressions = self.error_expressions.clone();
        error_expressions.retain(|status, _| !over.error_documents.contains_key(status));
        let over_expressions = over.error_expressions.iter();
        error_expressions.extend(over_expressions.map(|(status, one)| (*status, Arc::clone(one))));
        Core {
            options: self.options.merge(&over.options),
            allow_override: said(&self.allow_override, &over.allow_override),
            allow_override_list: said(&self.allow_override_list, &over.allow_override_list),
            error_documents,
            error_expressions,
            default_charset: said(&self.default_charset, &over.default_charset),
            content_digest: over.content_digest.or(self.content_digest),
            force_type: said(&self.force_type, &over.force_type),
            set_handler: said(&self.set_handler, &over.set_handler),
            accept_path_info: over.accept_path_info.or(self.accept_path_info),
            file_etag: self.file_etag.merge(&over.file_etag),
            request_body_bytes_max: over.request_body_bytes_max.or(self.request_body_bytes_max),
            signature: over.signature.or(self.signature),
            canonical_name: over.canonical_name.or(self.canonical_name),
            lookups: over.lookups.or(self.lookups),
            canonical_physical_port: over
                .canonical_physical_port
                .or(self.canonical_physical_port),
            qualify_redirect_url: over.qualify_redirect_url.or(self.qualify_redirect_url),
            ranges_max: over.ranges_max.or(self.ranges_max),
            range_overlaps_max: over.range_overlaps_max.or(self.range_overlaps_max),
            range_reversals_max: over.range_reversals_max.or(self.range_reversals_max),
        }
    }

    /// A type with AddDefaultCharset's charset, where it is one of the two that take it and has
    /// none.
    pub fn with_default_charset(&self, content_type: &str) -> Box<str> {
        self.charset_added(content_type)
            .unwrap_or_else(|| content_type.into())
    }

    /// The same; `None`: the type stays as it is.
    pub fn charset_added(&self, content_type: &str) -> Option<Box<str>> {
        let Some(Charset::Name(name)) = &self.default_charset else {
            return None;
        };
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let takes_one =
            essence.eq_ignore_ascii_case("text/html") || essence.eq_ignore_ascii_case("text/plain");
        let has_one = || content_type.to_ascii_lowercase().contains("charset=");
        (takes_one && !has_one()).then(|| format!("{content_type}; charset={name}").into())
    }

    /// The type that AddDefaultCharset's was added to.
    pub fn without_default_charset<'t>(&self, content_type: &'t str) -> &'t str {
        match &self.default_charset {
            Some(Charset::Name(name)) => content_type
                .strip_suffix(&format!("; charset={name}"))
                .unwrap_or(content_type),
            _ => content_type,
        }
    }

    /// The permissions of `.htaccess` files.
    pub fn permission(&self) -> Permission {
        let mut permission = self.allow_override.clone().unwrap_or_default();
        permission.list = self
            .allow_override_list
            .iter()
            .flatten()
            .map(|name| name.to_ascii_lowercase())
            .collect();
        permission
    }
}

fn set_options(node: &Node, core: &mut Core, _: &mut Reading<'_>) -> Result<(), String> {
    // What .htaccess may not change was refused when it was read.
    core.options
        .change(parse_options(&node.arguments(), ANY_OPTION)?);
    Ok(())
}

fn set_allow_override(node: &Node, core: &mut Core, _: &mut Reading<'_>) -> Result<(), String> {
    core.allow_override = Some(Permission::parse(&node.arguments())?);
    Ok(())
}

fn set_allow_override_list(
    node: &Node,
    core: &mut Core,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    let names = texts(node)
        .into_iter()
        .filter(|name| !name.eq_ignore_ascii_case("none"));
    core.allow_override_list = Some(names.map(Into::into).collect());
    Ok(())
}

/// Statuses that Apache has a line for, and whose pages may be named. Only those of errors get one.
pub fn is_known_status(status: u16) -> bool {
    matches!(status, 100..=103 | 200..=208 | 226 | 300..=305 | 307 | 308 | 400..=417 | 421..=426 | 428 | 429 | 431 | 451 | 500..=508 | 510 | 511)
}

fn set_error_document(
    node: &Node,
    core: &mut Core,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let text = node.argument_text();
    let number = text
        .split(u8::is_ascii_whitespace)
        .next()
        .unwrap_or_default();
    let status: u16 = std::str::from_utf8(number)
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default();
    if !is_known_status(status) {
        return Err(format!(
            "Unsupported HTTP response code {}",
            String::from_utf8_lossy(number)
        ));
    }
    let word = String::from_utf8_lossy(
        node.arguments()
            .get(1)
            .map(Vec::as_slice)
            .unwrap_or_default(),
    )
    .into_owned();
    let page = match word.as_str() {
        "default" => None,
        text if text.contains(' ') => Some(ErrorPage::Text(text.to_owned())),
        path if path.starts_with('/') => Some(ErrorPage::Path(path.to_owned())),
        url if is_url(url) => Some(ErrorPage::Redirect(url.to_owned())),
        text => Some(ErrorPage::Text(text.to_owned())),
    };
    core.error_expressions.remove(&status);
    if page.is_some() && word.contains("%{") {
        let expression = StringExpression::compile(&word, reading.expression_options())
            .map_err(|error| format!("Cannot parse expression in ErrorDocument: {error}"))?;
        core.error_expressions.insert(status, Arc::new(expression));
    }
    core.error_documents.insert(status, page);
    Ok(())
}

fn set_default_charset(node: &Node, core: &mut Core, _: &mut Reading<'_>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    core.default_charset = Some(match word.to_ascii_lowercase().as_str() {
        "off" => Charset::Off,
        "on" => Charset::Name("iso-8859-1".into()),
        _ => Charset::Name(word.into()),
    });
    Ok(())
}

fn set_or_none(node: &Node, slot: &mut Option<Option<Box<str>>>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    *slot = Some((!word.eq_ignore_ascii_case("none")).then(|| word.into()));
    Ok(())
}

fn set_accept_path_info(node: &Node, core: &mut Core, _: &mut Reading<'_>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    core.accept_path_info = match word.to_ascii_lowercase().as_str() {
        "on" => Some(true),
        "off" => Some(false),
        "default" => None,
        _ => return Err("AcceptPathInfo must be set to on, off or default".into()),
    };
    Ok(())
}

fn set_file_etag(node: &Node, core: &mut Core, reading: &mut Reading<'_>) -> Result<(), String> {
    let mut said = FileEtagSaid::default();
    for word in texts(node) {
        let name = word.to_ascii_lowercase();
        let change = name
            .strip_prefix('+')
            .map(|name| (true, name))
            .or_else(|| name.strip_prefix('-').map(|name| (false, name)));
        let (on, bare) = change.unwrap_or((true, &name));
        let part = match bare {
            "all" => [true; 3],
            "none" => [false; 3],
            "inode" => [true, false, false],
            "mtime" => [false, true, false],
            "size" => [false, false, true],
            "digest" => {
                reading.warn(
                    node,
                    "no digests are made of files: the tag is made of time and size",
                );
                [false, true, true]
            }
            _ => return Err(format!("Unknown keyword '{word}' for FileETag directive")),
        };
        match change {
            Some(_) => part
                .iter()
                .zip(&mut said.changes)
                .filter(|(has, _)| **has)
                .for_each(|(_, slot)| *slot = Some(on)),
            None => {
                said.absolute = Some(
                    said.absolute
                        .map_or(part, |so_far| [0, 1, 2].map(|at| so_far[at] || part[at])),
                )
            }
        }
    }
    core.file_etag = core.file_etag.merge(&said);
    Ok(())
}

/// The longest field has fewer ranges than 16 bits can count.
fn turn_limit(node: &Node, name: &str) -> Result<Option<u16>, String> {
    let limit = range_limit(node, name, u16::MAX.into())?;
    Ok(limit.map(|limit| u16::try_from(limit).unwrap_or(u16::MAX)))
}

/// `None`: the default. `name` is the directive's.
fn range_limit(node: &Node, name: &str, unlimited: u32) -> Result<Option<u32>, String> {
    let word = texts(node)
        .into_iter()
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    match word.as_str() {
        "default" => Ok(None),
        "none" => Ok(Some(0)),
        "unlimited" => Ok(Some(unlimited)),
        number => match number.parse::<u32>() {
            Ok(0) => Err(format!("{name} 0 is 'none'")),
            Ok(number) => Ok(Some(number.min(unlimited))),
            Err(_) => Err(format!(
                "{name} requires 'none', 'default', 'unlimited' or a positive integer"
            )),
        },
    }
}

/// The value of `unlimited`: more parts than that do not fit into the field of a request.
const RANGES_MAX: u32 = 10_000;

fn set_limit_request_body(node: &Node, core: &mut Core, _: &mut Reading<'_>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    let bytes = word
        .parse()
        .map_err(|_| format!("LimitRequestBody requires a non-negative integer: {word}"))?;
    core.request_body_bytes_max = Some(bytes);
    Ok(())
}

fn set_signature(node: &Node, core: &mut Core, _: &mut Reading<'_>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    core.signature = Some(match word.to_ascii_lowercase().as_str() {
        "on" => Signature::On,
        "off" => Signature::Off,
        "email" => Signature::EMail,
        _ => return Err("ServerSignature: use one of: off | on | email".into()),
    });
    Ok(())
}

fn set_lookups(node: &Node, core: &mut Core, _: &mut Reading<'_>) -> Result<(), String> {
    core.lookups = Some(
        match texts(node)
            .first()
            .map(|word| word.to_ascii_lowercase())
            .as_deref()
        {
            Some("off") => Lookups::Off,
            Some("on") => Lookups::On,
            Some("double") => Lookups::Double,
            _ => return Err("parameter must be 'on', 'off', or 'double'".into()),
        },
    );
    Ok(())
}

fn set_canonical_name(
    node: &Node,
    core: &mut Core,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    core.canonical_name = Some(match word.to_ascii_lowercase().as_str() {
        "on" => true,
        "off" => false,
        "dns" => {
            reading.warn(
                node,
                "UseCanonicalName DNS takes the ServerName: addresses are not looked up",
            );
            true
        }
        _ => return Err("parameter must be 'on', 'off', or 'dns'".into()),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_apache_syntax::options::{EXEC_CGI, INDEXES};

    /// Sections from outside in, lines of one separated by `;`.
    fn merged(sections: &[&str]) -> OptionSet {
        let said = |lines: &&str| {
            let mut said = OptionsSaid::default();
            for line in lines.split(';') {
                let words: Vec<Vec<u8>> = line
                    .split_ascii_whitespace()
                    .map(|word| word.as_bytes().to_vec())
                    .collect();
                said.change(parse_options(&words, ANY_OPTION).unwrap());
            }
            said
        };
        sections
            .iter()
            .map(said)
            .fold(OptionsSaid::default(), |outer, inner| outer.merge(&inner))
            .in_force()
    }

    #[test]
    fn programs_are_not_run_below_noexec() {
        let both = INCLUDES.or(INCLUDES_EXEC);
        let cases: &[(&[&str], OptionSet)] = &[
            (&["Includes", "+IncludesNOEXEC"], INCLUDES),
            (
                &["+Includes", "+IncludesNOEXEC"],
                INCLUDES.or(FOLLOW_SYM_LINKS),
            ),
            (
                &["Includes", "+IncludesNOEXEC", "+Indexes"],
                INCLUDES.or(INDEXES),
            ),
            (
                &["+Includes", "+IncludesNOEXEC", "+Indexes"],
                INCLUDES.or(INDEXES).or(FOLLOW_SYM_LINKS),
            ),
            (&["Includes", "+IncludesNOEXEC", "+Includes"], both),
            (&["Includes", "IncludesNOEXEC"], INCLUDES),
            (&["IncludesNOEXEC", "+Includes"], both),
            (&["IncludesNOEXEC", "+ExecCGI"], INCLUDES.or(EXEC_CGI)),
            (&["Includes", "-IncludesNOEXEC"], INCLUDES_EXEC),
            (&["Includes", "-Includes"], OptionSet(0)),
            (&["Includes", "-Includes +IncludesNOEXEC"], INCLUDES),
            (&["Includes;+IncludesNOEXEC"], both),
            (&["+Includes;IncludesNOEXEC"], INCLUDES),
            // httpd remembers what was added before the line without a sign.
            (&["+Indexes;None", "+ExecCGI"], INDEXES.or(EXEC_CGI)),
            (&["-FollowSymLinks"], OptionSet(0)),
            (&["-FollowSymLinks", "+FollowSymLinks"], FOLLOW_SYM_LINKS),
            (&[], FOLLOW_SYM_LINKS),
        ];
        for (sections, expected) in cases {
            assert_eq!(merged(sections), *expected, "{sections:?}");
        }
    }
}
