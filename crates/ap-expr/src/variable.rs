//! Every server variable of mod_rewrite and of expressions, in one table.
//!
//! Called by: parsers, which turn names into enum values when the configuration is read.
//! Caveat: the two languages know different sets; each row says which.
//! Out of scope: `ENV:`, `HTTP:`, `SSL:`, `LA-U:`, and `LA-F:` (mod_rewrite) and `SSL_…` (mod_ssl),
//! which take a name and are parsed where they are used.

use crate::{
    Dependency::{self, *},
    RequestPart,
};

/// Value of `%{API_VERSION}`: that of the httpd version whose behavior this crate follows.
pub const API_VERSION: &str = "20120211:142";

/// A row of [`VARIABLES`].
pub struct VariableRow {
    pub variable: Variable,
    pub name: &'static str,
    pub depends: Dependency,
    /// Known to `RewriteCond` and `RewriteRule`.
    pub in_rewrite: bool,
    /// Known to expressions.
    pub in_expressions: bool,
    /// The request field that the variable is, if it is one.
    pub request_field: Option<&'static str>,
    pub summary: &'static str,
}

macro_rules! variables {
    ($($variable:ident $name:literal $depends:ident $rewrite:literal $expressions:literal $field:expr, $summary:literal;)*) => {
        /// A server variable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Variable { $(#[doc = $summary] $variable,)* }

        /// All of them.
        pub const VARIABLES: &[VariableRow] = &[$(VariableRow {
            variable: Variable::$variable, name: $name, depends: $depends, in_rewrite: $rewrite, in_expressions: $expressions,
            request_field: $field, summary: $summary,
        },)*];
    };
}

variables! {
    TimeYear "TIME_YEAR" Time true true None, "Year of the local time, four digits";
    TimeMon "TIME_MON" Time true true None, "Month, 01 to 12";
    TimeDay "TIME_DAY" Time true true None, "Day of the month, 01 to 31";
    TimeHour "TIME_HOUR" Time true true None, "Hour, 00 to 23";
    TimeMin "TIME_MIN" Time true true None, "Minute, 00 to 59";
    TimeSec "TIME_SEC" Time true true None, "Second, 00 to 60";
    TimeWday "TIME_WDAY" Time true true None, "Day of the week, 0 is Sunday";
    Time "TIME" Time true true None, "Local time as YYYYMMDDhhmmss";
    ServerSoftware "SERVER_SOFTWARE" Configuration true true None, "What the Server field says";
    ApiVersion "API_VERSION" Configuration true true None, "Version of httpd's module interface";
    HttpUserAgent "HTTP_USER_AGENT" RequestFields true true Some("User-Agent"), "Field User-Agent";
    HttpProxyConnection "HTTP_PROXY_CONNECTION" RequestFields true true Some("Proxy-Connection"), "Field Proxy-Connection";
    HttpReferer "HTTP_REFERER" RequestFields true true Some("Referer"), "Field Referer";
    HttpCookie "HTTP_COOKIE" RequestFields true true Some("Cookie"), "Field Cookie";
    HttpForwarded "HTTP_FORWARDED" RequestFields true true Some("Forwarded"), "Field Forwarded";
    HttpHost "HTTP_HOST" RequestFields true true Some("Host"), "Field Host";
    HttpAccept "HTTP_ACCEPT" RequestFields true true Some("Accept"), "Field Accept";
    RequestMethod "REQUEST_METHOD" Method true true None, "Method of the request";
    RequestScheme "REQUEST_SCHEME" Scheme true true None, "http or https";
    RequestUri "REQUEST_URI" Path true true None, "Path of the request, decoded, without the query";
    RequestFilename "REQUEST_FILENAME" Path true true None, "File that the path maps to; in server context the path itself";
    RemoteHost "REMOTE_HOST" Client true true None, "Name of the client, or its address";
    RemoteIdent "REMOTE_IDENT" Client true true None, "What an ident service says of the client";
    RemoteUser "REMOTE_USER" User true true None, "Name of the authenticated user";
    ServerAdmin "SERVER_ADMIN" Configuration true true None, "ServerAdmin";
    ServerName "SERVER_NAME" Host true true None, "Name of the server for URLs (UseCanonicalName)";
    ServerPort "SERVER_PORT" Host true true None, "Port of the server for URLs";
    ServerProtocol "SERVER_PROTOCOL" RequestLine true true None, "Protocol of the request, such as HTTP/1.1";
    ScriptFilename "SCRIPT_FILENAME" Path true true None, "The same as REQUEST_FILENAME";
    PathInfo "PATH_INFO" Path true true None, "What follows the file in the path";
    QueryString "QUERY_STRING" Query true true None, "Query, not decoded";
    IsSubreq "IS_SUBREQ" Subrequest true true None, "true in a sub-request, else false";
    DocumentRoot "DOCUMENT_ROOT" Configuration true true None, "DocumentRoot";
    AuthType "AUTH_TYPE" User true true None, "Authentication scheme that was used";
    TheRequest "THE_REQUEST" RequestLine true true None, "Request line as it came";
    ContentType "CONTENT_TYPE" Response false true None, "Type of the response; unknown before it is made";
    Handler "HANDLER" Response false true None, "Name of the handler";
    RequestLogId "REQUEST_LOG_ID" Connection false true None, "Log id of the request";
    ScriptUser "SCRIPT_USER" Files true true None, "Owner of the file";
    ScriptGroup "SCRIPT_GROUP" Files true true None, "Group of the file";
    DocumentUri "DOCUMENT_URI" Path false true None, "REQUEST_URI, but for server-side includes that of the page";
    LastModified "LAST_MODIFIED" Files false true None, "Local time of the file's last change as YYYYMMDDhhmmss";
    ContextPrefix "CONTEXT_PREFIX" Path true true None, "Prefix of the path that Alias or UserDir replaced";
    ContextDocumentRoot "CONTEXT_DOCUMENT_ROOT" Path true true None, "Folder that stands for CONTEXT_PREFIX, or DocumentRoot";
    RequestStatus "REQUEST_STATUS" Response false true None, "Status of the response so far";
    RemoteAddr "REMOTE_ADDR" Client true true None, "Address of the client (mod_remoteip may change it)";
    RemotePort "REMOTE_PORT" Client true true None, "Port of the client";
    Https "HTTPS" Scheme true true None, "on over TLS, else off";
    Ipv6 "IPV6" Client true true None, "on if the client has an IPv6 address, else off";
    ConnLogId "CONN_LOG_ID" Connection false true None, "Log id of the connection";
    ConnRemoteAddr "CONN_REMOTE_ADDR" Client true true None, "Address of the peer of the connection";
    Http2 "HTTP2" Transport false true None, "on over HTTP/2, else off";
    ServerAddr "SERVER_ADDR" Connection true false None, "Address that the connection came in at";
}

impl Variable {
    /// Finds a variable by its name, ignoring case, as both languages do.
    pub fn from_name(name: &[u8]) -> Option<&'static VariableRow> {
        VARIABLES
            .iter()
            .find(|row| row.name.as_bytes().eq_ignore_ascii_case(name))
    }

    pub fn row(self) -> &'static VariableRow {
        // The table is in the order of the enum.
        &VARIABLES[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The part of the request that the variable is, if it is one.
    pub fn part(self) -> Option<RequestPart> {
        match self {
            // The connection's address is no part: requests of one connection may be of several clients.
            Variable::RemoteAddr => Some(RequestPart::ClientAddress),
            Variable::RequestMethod => Some(RequestPart::Method),
            Variable::QueryString => Some(RequestPart::Query),
            Variable::TheRequest => Some(RequestPart::RequestLine),
            Variable::ServerProtocol => Some(RequestPart::Version),
            other => RequestPart::of_field(other.row().request_field?.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for row in VARIABLES {
            assert_eq!(row.variable.name(), row.name);
            assert_eq!(
                Variable::from_name(row.name.to_ascii_lowercase().as_bytes())
                    .map(|row| row.variable),
                Some(row.variable)
            );
            assert_eq!(
                row.request_field.is_some(),
                row.depends == RequestFields,
                "{}",
                row.name
            );
        }
        assert!(Variable::from_name(b"NO_SUCH").is_none());
    }
}
