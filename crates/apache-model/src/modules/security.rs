//! mod_security 2.9's directives, and those of ModSecurity's connector for Apache: rules for
//! libmodsecurity.
//!
//! What stands in a scope is kept in its order; scopes are laid over each other as mod_security
//! lays them (rules of the outer one come first), and what comes of that is made into a set of
//! rules, once for the process, whatever number of hosts and workers it is in force for.
//! Difficulties: the library wants arguments quoted where Apache does not, so they are quoted
//! again; it passes phase 2 over when it is told that content is not to be looked at, where
//! mod_security asks its rules all the same. So it is not told, and gets no content. Absent on
//! purpose: `.htaccess`, where Debian's mod_security takes none of its directives either.

use crate::reading::{Reading, Set};
use saker_apache_syntax::Node;
use saker_config::{
    Diagnostic, Severity,
    model::{ModSecurity, ModSecurityMode, Origin},
    modsecurity::{Engine, Reading as RulesReading, Rules, Word, words},
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// The directives of mod_security, under their names; all are read alike.
macro_rules! directives {
    ($($name:literal)*) => {
        pub const DIRECTIVES: &'static [(&'static str, Set<Security>)] = &[
            $(($name, said),)*
            ("SecRuleInheritance", inheritance),
            ("modsecurity", switch),
            ("modsecurity_rules", connector_text),
            ("modsecurity_rules_file", connector_file),
        ];
    };
}

/// Those with names of files that are below ServerRoot where they are relative.
const PATHS: [&str; 7] = [
    "SecAuditLog",
    "SecAuditLog2",
    "SecAuditLogStorageDir",
    "SecDebugLog",
    "SecDataDir",
    "SecTmpDir",
    "SecUploadDir",
];

/// Directives that are inherited only unless SecRuleInheritance is off.
const RULES: [&str; 4] = ["SecRule", "SecAction", "SecMarker", "SecRuleScript"];

/// Without content there is nothing to find fault with; only the library's reader of XML does all
/// the same, that of JSON does not.
const NO_CONTENT: &str = "SecRule REQBODY_PROCESSOR \"@streq XML\" \"id:2147483600,phase:1,pass,nolog,noauditlog,ctl:requestBodyProcessor=JSON\"";

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Text(String),
    File(PathBuf),
}

#[derive(Clone, Debug)]
struct Said {
    what: What,
    origin: Origin,
    is_rule: bool,
    /// mod_security's, or the connector's.
    is_own: bool,
}

/// The directives of one scope.
#[derive(Clone, Debug, Default)]
pub struct Scope(Vec<Said>);

#[derive(Clone, Debug)]
struct Layer {
    scope: Arc<Scope>,
    /// Its rules are not inherited.
    without_rules: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Security {
    layers: Vec<Layer>,
    inherits: Option<bool>,
    /// The connector's switch.
    is_on: Option<bool>,
}

impl Security {
    directives! {
        "SecAction" "SecArgumentSeparator" "SecArgumentsLimit" "SecAuditEngine" "SecAuditLog" "SecAuditLog2" "SecAuditLogDirMode"
        "SecAuditLogFileMode" "SecAuditLogFormat" "SecAuditLogParts" "SecAuditLogRelevantStatus" "SecAuditLogStorageDir" "SecAuditLogType"
        "SecChrootDir" "SecCollectionTimeout" "SecCookieFormat" "SecDataDir" "SecDebugLog" "SecDebugLogLevel" "SecDefaultAction" "SecGeoLookupDB"
        "SecHashEngine" "SecHttpBlKey" "SecInterceptOnError" "SecMarker" "SecPcreMatchLimit" "SecPcreMatchLimitRecursion" "SecRemoteRules"
        "SecRemoteRulesFailAction" "SecRequestBodyAccess" "SecRequestBodyJsonDepthLimit" "SecRequestBodyLimit" "SecRequestBodyLimitAction"
        "SecRequestBodyNoFilesLimit" "SecResponseBodyAccess" "SecResponseBodyLimit" "SecResponseBodyLimitAction" "SecResponseBodyMimeType"
        "SecResponseBodyMimeTypesClear" "SecRule" "SecRuleEngine" "SecRuleRemoveById" "SecRuleRemoveByMsg" "SecRuleRemoveByTag" "SecRuleScript"
        "SecRuleUpdateActionById" "SecRuleUpdateTargetById" "SecRuleUpdateTargetByMsg" "SecRuleUpdateTargetByTag" "SecStatusEngine" "SecTmpDir"
        "SecTmpSaveUploadedFiles" "SecUnicodeMapFile" "SecUploadDir" "SecUploadFileLimit" "SecUploadFileMode" "SecUploadKeepFiles" "SecWebAppId"
        "SecXmlExternalEntity"
    }

    pub fn merge(&self, over: &Security) -> Security {
        let inherits = over.inherits != Some(false);
        let outer = self.layers.iter().map(|layer| Layer {
            scope: Arc::clone(&layer.scope),
            without_rules: layer.without_rules || !inherits,
        });
        Security {
            layers: outer.chain(over.layers.iter().cloned()).collect(),
            inherits: over.inherits.or(self.inherits),
            is_on: over.is_on.or(self.is_on),
        }
    }

    pub fn is_idle(&self) -> bool {
        self.layers.is_empty()
    }

    /// For the pipeline.
    pub fn in_use(&self) -> Option<Arc<ModSecurity>> {
        let rules = match self.rules() {
            Ok(None) => return None,
            Ok(some) => some,
            // Scopes that are right each for itself may not go together. Every request is refused,
            // and the log of the start says nothing of it.
            Err(_) => None,
        };
        Some(Arc::new(ModSecurity {
            mode: ModSecurityMode::On,
            rules,
            ..ModSecurity::default()
        }))
    }

    /// Returns the rule set, made once for equal layers. `Ok(None)`: no rules are in force.
    pub fn rules(&self) -> Result<Option<Arc<Rules>>, Vec<Diagnostic>> {
        static KNOWN: Mutex<Option<HashMap<Key, Known>>> = Mutex::new(None);
        if self.layers.is_empty() || self.is_on == Some(false) {
            return Ok(None);
        }
        let key: Key = (
            self.layers
                .iter()
                .map(|layer| (Arc::as_ptr(&layer.scope) as usize, layer.without_rules))
                .collect(),
            self.is_on,
        );
        // Held while a set is made, so that it is made once.
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        if let Some(rules) = known.get(&key).and_then(|known| known.rules.upgrade()) {
            return Ok(Some(rules));
        }
        let Some(reading) = self.read()? else {
            return Ok(None);
        };
        let origin = self
            .layers
            .iter()
            .find_map(|layer| layer.scope.0.first())
            .map_or_else(Origin::built_in, |said| said.origin.clone());
        let rules = Arc::new(Rules::compile(reading, &origin).map_err(|fault| vec![fault])?);
        known.retain(|_, known| known.rules.strong_count() > 0);
        known.insert(
            key,
            Known {
                rules: Arc::downgrade(&rules),
                _layers: self.layers.clone(),
            },
        );
        Ok(Some(rules))
    }

    fn in_order(&self) -> impl Iterator<Item = &Said> {
        self.layers.iter().flat_map(|layer| {
            layer
                .scope
                .0
                .iter()
                .filter(move |said| !(said.is_rule && layer.without_rules))
        })
    }

    fn read(&self) -> Result<Option<RulesReading>, Vec<Diagnostic>> {
        let mut reading = RulesReading::default();
        for said in self.in_order() {
            match &said.what {
                // The library is not told; see above.
                What::Text(text) if text.starts_with(ACCESS) => {}
                What::Text(text) => {
                    let base = Path::new(&*said.origin.file)
                        .parent()
                        .unwrap_or(Path::new("/"));
                    reading.text(text, &said.origin.file, said.origin.line, base);
                }
                What::File(path) => reading.files(path, &said.origin),
            }
        }
        // mod_security is off unless it is switched on; the connector has a switch of its own.
        let is_asked = match reading.engine() {
            Some(Engine::Off) => false,
            Some(_) => self.is_on == Some(true) || self.in_order().any(|said| said.is_own),
            None => false,
        };
        if !is_asked {
            return Ok(None);
        }
        if self.in_order().any(|said| said.is_own) && self.content_access() != Some(true) {
            reading.text(
                NO_CONTENT,
                &"SecRequestBodyAccess Off".into(),
                1,
                Path::new("/"),
            );
            reading.leave_out_request_content();
        }
        let errors: Vec<Diagnostic> = reading
            .take_remarks()
            .into_iter()
            .filter(|remark| remark.is_error)
            .map(diagnostic)
            .collect();
        if errors.is_empty() {
            Ok(Some(reading))
        } else {
            Err(errors)
        }
    }

    /// The last SecRequestBodyAccess, which the library sees only where it is On.
    fn content_access(&self) -> Option<bool> {
        let value = |said: &Said| match &said.what {
            What::Text(text) => text
                .strip_prefix(ACCESS)
                .map(|value| value.trim().eq_ignore_ascii_case("on")),
            What::File(_) => None,
        };
        self.in_order().filter_map(value).last()
    }

    fn push(&mut self, said: Said) {
        if self.layers.is_empty() {
            self.layers.push(Layer {
                scope: Arc::default(),
                without_rules: false,
            });
        }
        if let Some(layer) = self.layers.last_mut() {
            Arc::make_mut(&mut layer.scope).0.push(said);
        }
    }
}

const ACCESS: &str = "SecRequestBodyAccess ";

/// Scopes by their addresses, which stay as long as a reference exists; and the switch.
type Key = (Vec<(usize, bool)>, Option<bool>);

struct Known {
    rules: Weak<Rules>,
    /// They keep their addresses.
    _layers: Vec<Layer>,
}

fn diagnostic(remark: saker_config::modsecurity::Remark) -> Diagnostic {
    let mut diagnostic = Diagnostic::without_source(remark.origin, remark.message);
    diagnostic.severity = if remark.is_error {
        Severity::Error
    } else {
        Severity::Warning
    };
    diagnostic
}

fn said(node: &Node, security: &mut Security, reading: &mut Reading<'_>) -> Result<(), String> {
    let name = node.canonical_name();
    let mut words = words(&String::from_utf8_lossy(&node.text));
    if words.is_empty() && name != "SecResponseBodyMimeTypesClear" {
        return Err(format!("{name} takes an argument"));
    }
    if PATHS.contains(&name)
        && let Some(word) = words.first_mut()
    {
        if word.text.starts_with('|') {
            reading.warn(
                node,
                format!("{name}: libmodsecurity gives its log to no program; name a file"),
            );
            return Ok(());
        }
        word.text = reading
            .server_path(word.text.as_bytes())
            .to_string_lossy()
            .into_owned();
    }
    let arguments: Vec<String> = words
        .iter()
        .enumerate()
        .map(|(at, word)| quoted(word, name, at))
        .collect();
    let text = format!("{name} {}", arguments.join(" "));
    let is_rule = RULES.contains(&name);
    security.push(Said {
        what: What::Text(text),
        origin: node.origin.clone(),
        is_rule,
        is_own: true,
    });
    Ok(())
}

fn inheritance(node: &Node, security: &mut Security, _: &mut Reading<'_>) -> Result<(), String> {
    security.inherits = Some(flag(node)?);
    Ok(())
}

fn switch(node: &Node, security: &mut Security, _: &mut Reading<'_>) -> Result<(), String> {
    security.is_on = Some(flag(node)?);
    Ok(())
}

fn flag(node: &Node) -> Result<bool, String> {
    let word = node.arguments().into_iter().next().unwrap_or_default();
    match word.to_ascii_lowercase().as_slice() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(format!("{} must be On or Off", node.canonical_name())),
    }
}

fn connector_text(node: &Node, security: &mut Security, _: &mut Reading<'_>) -> Result<(), String> {
    let text = String::from_utf8_lossy(&node.arguments().concat()).into_owned();
    security.push(Said {
        what: What::Text(text),
        origin: node.origin.clone(),
        is_rule: false,
        is_own: false,
    });
    Ok(())
}

fn connector_file(
    node: &Node,
    security: &mut Security,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let path = reading.server_path(&node.arguments().concat());
    security.push(Said {
        what: What::File(path),
        origin: node.origin.clone(),
        is_rule: false,
        is_own: false,
    });
    Ok(())
}

/// The argument at this place of a directive, as the library wants it.
fn quoted(word: &Word, directive: &str, at: usize) -> String {
    let is_bare = word.quote.is_none();
    let is_plain = !word.text.is_empty()
        && word
            .text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "_-./:+".contains(letter));
    let stays_bare = match directive {
        "SecRule" => at == 0 && is_bare,
        "SecAction" | "SecDefaultAction" | "SecRuleUpdateActionById"
            if at > 0 || directive != "SecRuleUpdateActionById" =>
        {
            false
        }
        _ => is_bare || is_plain,
    };
    match word.quote {
        _ if stays_bare => word.text.clone(),
        Some('\'') => format!("\"{}\"", word.text.replace("\\'", "'").replace('"', "\\\"")),
        Some(_) => format!("\"{}\"", word.text),
        None => format!("\"{}\"", word.text.replace('"', "\\\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(directive: &str, text: &str) -> String {
        let words = words(text);
        words
            .iter()
            .enumerate()
            .map(|(at, word)| quoted(word, directive, at))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn arguments_are_quoted_as_the_library_wants_them() {
        assert_eq!(
            line("SecRule", r#"ARGS "@rx a\"b\\d" "id:1,deny""#),
            r#"ARGS "@rx a\"b\\d" "id:1,deny""#
        );
        assert_eq!(
            line("SecRule", "ARGS|!ARGS:x foo id:5,phase:1,deny"),
            r#"ARGS|!ARGS:x "foo" "id:5,phase:1,deny""#
        );
        assert_eq!(
            line("SecRule", r#"ARGS 'say "x"' 'id:5,msg:\'y\''"#),
            r#"ARGS "say \"x\"" "id:5,msg:'y'""#
        );
        assert_eq!(line("SecAction", "id:1,pass"), "\"id:1,pass\"");
        assert_eq!(line("SecRuleEngine", "\"On\""), "On");
        assert_eq!(line("SecRuleRemoveById", "1 \"2-9\""), "1 2-9");
        assert_eq!(
            line("SecAuditLogRelevantStatus", "\"^(?:5|4(?!04))\""),
            "\"^(?:5|4(?!04))\""
        );
        assert_eq!(
            line("SecRuleUpdateTargetById", "942100 \"!ARGS:text\""),
            "942100 \"!ARGS:text\""
        );
        assert_eq!(line("SecRule", "ARGS \"open"), "ARGS \"open\"");
    }

    fn scope(lines: &[&str]) -> Security {
        let mut security = Security::default();
        for (at, text) in lines.iter().enumerate() {
            let origin = Origin {
                file: "/etc/httpd.conf".into(),
                line: at as u32 + 1,
                column: 1,
            };
            let is_rule = RULES
                .iter()
                .any(|name| text.split(' ').next() == Some(name));
            security.push(Said {
                what: What::Text((*text).into()),
                origin,
                is_rule,
                is_own: true,
            });
        }
        security
    }

    const DENY: &str = "SecRule ARGS \"@streq bad\" \"id:1,phase:2,deny\"";

    /// Returns whether a request is refused by rules that are in force.
    fn refuses(security: &Security, target: &str) -> Option<bool> {
        let rules = security.rules().unwrap()?;
        let mut transaction = rules.transaction("x").unwrap();
        transaction.connection(
            "192.0.2.1:1".parse().unwrap(),
            "192.0.2.2:2".parse().unwrap(),
        );
        transaction.uri(target.as_bytes(), b"POST", "1.1");
        transaction.request_field(b"Content-Type", b"text/xml");
        transaction.request_head();
        transaction.request_content();
        Some(transaction.intervention().is_some())
    }

    #[test]
    fn scopes_are_laid_over_each_other() {
        let server = scope(&["SecRuleEngine On", DENY]);
        assert_eq!(
            (refuses(&server, "/?a=bad"), refuses(&server, "/?a=good")),
            (Some(true), Some(false))
        );
        let removed = server.merge(&scope(&["SecRuleRemoveById 1"]));
        assert_eq!(refuses(&removed, "/?a=bad"), Some(false));
        let mut alone = scope(&["SecRule ARGS \"@streq worse\" \"id:2,phase:1,deny\""]);
        alone.inherits = Some(false);
        let alone = server.merge(&alone);
        assert_eq!(
            (refuses(&alone, "/?a=bad"), refuses(&alone, "/?a=worse")),
            (Some(false), Some(true))
        );
        let off = server.merge(&scope(&["SecRuleEngine Off"]));
        assert_eq!(refuses(&off, "/?a=bad"), None);
        assert_eq!(
            refuses(&scope(&[DENY]), "/?a=bad"),
            None,
            "off unless it is switched on"
        );
        assert_eq!(refuses(&Security::default(), "/?a=bad"), None);
    }

    #[test]
    fn phase_2_is_asked_without_content_too() {
        let xml = "SecRule REQUEST_HEADERS:Content-Type \"xml\" \"id:7,phase:1,pass,nolog,ctl:requestBodyProcessor=XML\"";
        let error = "SecRule REQBODY_ERROR \"!@eq 0\" \"id:8,phase:2,deny,status:400\"";
        let off = scope(&[
            "SecRuleEngine On",
            "SecRequestBodyAccess Off",
            xml,
            error,
            DENY,
        ]);
        assert_eq!(
            (refuses(&off, "/?a=bad"), refuses(&off, "/?a=good")),
            (Some(true), Some(false))
        );
        assert!(!off.rules().unwrap().unwrap().wants_request_content());
        let on = scope(&["SecRuleEngine On", "SecRequestBodyAccess On", DENY]);
        assert!(on.rules().unwrap().unwrap().wants_request_content());
    }

    #[test]
    fn a_set_is_made_once() {
        let security = scope(&["SecRuleEngine On", DENY]);
        let (one, other) = (
            security.rules().unwrap().unwrap(),
            security.clone().rules().unwrap().unwrap(),
        );
        assert!(Arc::ptr_eq(&one, &other));
        let broken = scope(&["SecRuleEngine On", "SecRule ARGS \"@nothing x\" \"deny\""]);
        let faults = broken.rules().unwrap_err();
        assert_eq!(
            (faults[0].origin.file.as_ref(), faults[0].origin.line),
            ("/etc/httpd.conf", 2)
        );
    }
}
