//! Inputs that a set of rules inspects, read from its directives, because the library's interface
//! does not tell.
//!
//! Caveat: inspecting too much only costs time, as the library decides itself what it uses. So
//! anything that may be enabled per request (`ctl:`) counts as enabled.

/// `SecRuleEngine`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Off,
    Detect,
    On,
}

/// Arguments of a request if `SecArgumentsLimit` is not set: mod_security's own limit.
const ARGUMENTS_MAX: u64 = 1000;

/// Media types of responses if `SecResponseBodyMimeType` is not set.
const TYPES: [&str; 2] = ["text/plain", "text/html"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    pub engine: Option<Engine>,
    /// `SecRequestBodyAccess`; the library's default is On.
    pub request: Option<bool>,
    pub request_bytes: Option<u64>,
    pub response: bool,
    pub response_bytes: Option<u64>,
    /// `None`: those of [`TYPES`].
    types: Option<Vec<String>>,
    by_rule: bool,
    response_by_rule: bool,
    /// `SecArgumentsLimit`.
    arguments: Option<u64>,
    /// `SecArgumentSeparator`.
    separator: Option<u8>,
    json_by_rule: bool,
}

impl Wants {
    pub fn request_content(&self) -> bool {
        self.request != Some(false) || self.by_rule
    }

    pub fn response_content(&self, media_type: &[u8]) -> bool {
        if !self.response && !self.response_by_rule {
            return false;
        }
        let essence = media_type
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        let is_it = |known: &str| known.as_bytes().eq_ignore_ascii_case(essence);
        match &self.types {
            // SecResponseBodyMimeTypesClear clears the list; an empty list means all to the
            // library.
            Some(types) => types.is_empty() || types.iter().any(|known| is_it(known)),
            None => TYPES.iter().any(|known| is_it(known)),
        }
    }

    pub fn arguments_max(&self) -> u64 {
        self.arguments.unwrap_or(ARGUMENTS_MAX)
    }

    pub fn argument_separator(&self) -> u8 {
        self.separator.unwrap_or(b'&')
    }

    /// True if a rule lets content be read as JSON.
    pub fn json(&self) -> bool {
        self.json_by_rule
    }

    /// Notes one directive, by its name in lowercase.
    pub fn note(&mut self, name: &str, arguments: &str) {
        let value = arguments.trim().trim_matches(['"', '\'']);
        let is = |word: &str| value.eq_ignore_ascii_case(word);
        match name {
            "secruleengine" if is("on") => self.engine = Some(Engine::On),
            "secruleengine" if is("detectiononly") => self.engine = Some(Engine::Detect),
            "secruleengine" if is("off") => self.engine = Some(Engine::Off),
            "secrequestbodyaccess" => self.request = Some(is("on")),
            "secrequestbodylimit" => self.request_bytes = limit(value),
            "secargumentslimit" => self.arguments = limit(value),
            "secargumentseparator" => self.separator = value.bytes().next(),
            "secresponsebodyaccess" => self.response = is("on"),
            "secresponsebodylimit" => self.response_bytes = limit(value),
            "secresponsebodymimetype" => {
                self.types.get_or_insert_default().extend(
                    arguments
                        .split_ascii_whitespace()
                        .map(|word| word.trim_matches('"').to_owned()),
                );
            }
            "secresponsebodymimetypesclear" => self.types = Some(Vec::new()),
            "secrule" | "secaction" | "secdefaultaction" | "secruleupdateactionbyid" => {
                let lower = arguments.to_ascii_lowercase();
                self.by_rule |= lower.contains("ctl:requestbodyaccess=on")
                    || lower.contains("ctl:forcerequestbodyvariable=on");
                self.json_by_rule |= lower.contains("ctl:requestbodyprocessor=json");
                self.response_by_rule |= lower.contains("ctl:responsebodyaccess=on");
            }
            _ => {}
        }
    }
}

/// 0: not set by the rules.
fn limit(value: &str) -> Option<u64> {
    value.parse().ok().filter(|bytes| *bytes > 0)
}
