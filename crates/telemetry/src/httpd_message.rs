//! The table of lines in the words of Apache httpd 2.4, for servers of its configurations: log
//! watchers (fail2ban) look for them.
//!
//! Called by: whatever has such a line to write, by [`crate::error_log::log_httpd`]. The text with
//! its facts stands where it is written, because Apache's sentences have holes in them; module,
//! level and number stand here. Caveat: where Apache changed its words lately, those are kept that
//! Debian's stock filters of fail2ban match. Out of scope: a gate of their own; each counts as the
//! message that would be written otherwise.

use crate::message::{self, Level, Message};

/// Apache's levels, those above `error` among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum HttpdLevel {
    Crit = 2,
    Error,
    Info = 6,
}

impl HttpdLevel {
    pub fn as_str(self) -> &'static str {
        match self {
            HttpdLevel::Crit => "crit",
            HttpdLevel::Error => "error",
            HttpdLevel::Info => "info",
        }
    }

    /// The level that decides whether the line is written.
    pub fn folded(self) -> Level {
        match self {
            HttpdLevel::Crit | HttpdLevel::Error => Level::Error,
            HttpdLevel::Info => Level::Info,
        }
    }
}

/// One row of the table.
#[derive(Debug)]
pub struct HttpdMessage {
    /// `AH` and five digits; empty for lines that Apache writes without.
    pub number: &'static str,
    pub module: &'static str,
    pub level: HttpdLevel,
    /// The message whose rate limit it shares.
    pub counts_as: &'static Message,
}

macro_rules! httpd_messages {
    ($($name:ident $number:literal $module:literal $level:ident $counts_as:ident;)*) => {
        $(pub static $name: HttpdMessage =
            HttpdMessage { number: $number, module: $module, level: HttpdLevel::$level, counts_as: &message::$counts_as };)*

        /// The table.
        pub static ALL: &[&HttpdMessage] = &[$(&$name,)*];
    };
}

httpd_messages! {
    ENCODED_SLASH "AH00026" "core" Info FILE_MISSING;
    NO_AUTHENTICATION "AH00027" "core" Error ACCESS_REFUSED;
    SEARCH_DENIED "AH00035" "core" Error ACCESS_DENIED;
    ACCESS_FAILED "AH00036" "core" Error ACCESS_DENIED;
    LINK_REFUSED "AH00037" "core" Error SYMLINK_REFUSED;
    INVALID_URI "AH00126" "core" Error REQUEST_REJECTED;
    FILE_DOES_NOT_EXIST "AH00128" "core" Info FILE_MISSING;
    PATH_INFO_REFUSED "AH00130" "core" Info FILE_MISSING;
    FILE_PERMISSIONS "AH00132" "core" Error ACCESS_DENIED;
    INVALID_METHOD "AH00135" "core" Error REQUEST_REJECTED;
    HTACCESS_UNREADABLE "AH00529" "core" Crit HTACCESS_BROKEN;
    FIELD_TOO_LONG "AH00561" "core" Info REQUEST_REJECTED;
    TOO_MANY_FIELDS "AH00563" "core" Info REQUEST_REJECTED;
    URI_TOO_LONG "AH00565" "core" Info REQUEST_REJECTED;
    URI_CHARACTERS "AH00566" "core" Info REQUEST_REJECTED;
    ACTION_FILE_MISSING "AH00652" "actions" Error FILE_MISSING;
    CGI_OUTPUT_LINE "AH01215" "cgi" Error PROGRAM_SAID;
    CGI_EXEC_OFF "AH01262" "cgid" Error SCRIPT_REFUSED;
    CGI_NPH_INCLUDED "AH01263" "cgid" Error SCRIPT_REFUSED;
    CGI_NOT_FOUND "AH01264" "cgid" Error SCRIPT_REFUSED;
    CGI_DIRECTORY "AH01265" "cgid" Error SCRIPT_REFUSED;
    CGI_PATH_INFO "AH01266" "cgid" Error SCRIPT_REFUSED;
    FCGI_OUTPUT "AH01071" "proxy_fcgi" Error PROGRAM_SAID;
    DIRECTORY_FORBIDDEN "AH01276" "autoindex" Error ACCESS_DENIED;
    DIRECTORY_UNREADABLE "AH01275" "autoindex" Error ACCESS_DENIED;
    BASIC_OTHER_SCHEME "AH01614" "auth_basic" Error ACCESS_REFUSED;
    BASIC_WITHOUT_NAME "AH01615" "auth_basic" Error ACCESS_REFUSED;
    BASIC_PASSWORD_MISMATCH "AH01617" "auth_basic" Error ACCESS_REFUSED;
    BASIC_USER_NOT_FOUND "AH01618" "auth_basic" Error ACCESS_REFUSED;
    PASSWORD_FILE_MISSING "AH01619" "authn_file" Error ACCESS_REFUSED;
    PASSWORD_FILE_UNREADABLE "AH01620" "authn_file" Error ACCESS_REFUSED;
    METHOD_DENIED "AH01623" "allowmethods" Error ACCESS_REFUSED;
    NO_DIRECTIVES "AH01627" "authz_core" Error ACCESS_REFUSED;
    NO_USER "AH01629" "authz_core" Error ACCESS_REFUSED;
    CLIENT_DENIED "AH01630" "authz_core" Error ACCESS_REFUSED;
    USER_DENIED "AH01631" "authz_core" Error ACCESS_REFUSED;
    DIGEST_NONCE_LENGTH "AH01775" "auth_digest" Error ACCESS_REFUSED;
    DIGEST_NONCE_HASH "AH01776" "auth_digest" Error ACCESS_REFUSED;
    DIGEST_NONCE_EXPIRED "AH01778" "auth_digest" Info ACCESS_REFUSED;
    DIGEST_WITHOUT_NAME "AH01780" "auth_digest" Error ACCESS_REFUSED;
    DIGEST_OTHER_SCHEME "AH01781" "auth_digest" Error ACCESS_REFUSED;
    DIGEST_FIELDS_MISSING "AH01782" "auth_digest" Error ACCESS_REFUSED;
    DIGEST_URI_MISMATCH "AH01786" "auth_digest" Error ACCESS_REFUSED;
    DIGEST_REALM_MISMATCH "AH01788" "auth_digest" Error ACCESS_REFUSED;
    DIGEST_ALGORITHM "AH01789" "auth_digest" Error ACCESS_REFUSED;
    DIGEST_USER_NOT_FOUND "AH01790" "auth_digest" Error ACCESS_REFUSED;
    DIGEST_PASSWORD_MISMATCH "AH01794" "auth_digest" Error ACCESS_REFUSED;
    DIGEST_QOP "AH01793" "auth_digest" Error ACCESS_REFUSED;
    FORM_FORWARDED "AH01809" "auth_form" Error ACCESS_REFUSED;
    FORM_WITHOUT_NAME "AH01810" "auth_form" Error ACCESS_REFUSED;
    FORM_PASSWORD_MISMATCH "AH01807" "auth_form" Error ACCESS_REFUSED;
    FORM_USER_NOT_FOUND "AH01808" "auth_form" Error ACCESS_REFUSED;
    FORM_METHOD "AH01811" "auth_form" Error ACCESS_REFUSED;
    SESSION_DATABASE_MISSING "AH01851" "session_dbd" Error SESSION_DATABASE_FAILED;
    SESSION_STATEMENT_MISSING "AH01852" "session_dbd" Error SESSION_DATABASE_FAILED;
    SESSION_NOT_LOADED "AH01854" "session_dbd" Error SESSION_DATABASE_FAILED;
    SESSION_NOT_SAVED "AH01857" "session_dbd" Error SESSION_DATABASE_FAILED;
    SESSION_NOT_INSERTED "AH01860" "session_dbd" Error SESSION_DATABASE_FAILED;
    CLIENT_DENIED_COMPAT "AH01797" "access_compat" Error ACCESS_REFUSED;
    NAME_MISSING "AH02033" "ssl" Error ACCESS_REFUSED;
    NAME_MISMATCH "AH02032" "ssl" Error ACCESS_REFUSED;
    PHP_SCRIPT_MISSING "" "php" Error PHP_SCRIPT_MISSING;
    MODSECURITY_LINE "" "security2" Error RULE_REFUSED;
}

/// The modules of all rows.
pub fn modules() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|row| row.module)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_are_unique_and_well_formed() {
        let mut seen = HashSet::new();
        for row in ALL.iter().filter(|row| !row.number.is_empty()) {
            assert!(seen.insert(row.number), "{} twice", row.number);
            let digits = row.number.strip_prefix("AH").expect(row.number);
            assert!(
                digits.len() == 5 && digits.bytes().all(|byte| byte.is_ascii_digit()),
                "{}",
                row.number
            );
        }
    }
}
