//! Texts of responses that the server makes: pages of errors and redirects, `return`, and escaping.
//!
//! Called by: `script`, `content`, and the rules for the built-in page.
//! Caveat: control characters never get into a field.

use saker_http::Status;
use saker_nginx_model::{Location, conf::LocationConf, modules::core::default_types};
use saker_pipeline::{Body, Chunk, Response};

/// Titles that differ from the standard's phrases.
fn title(status: Status) -> Option<&'static str> {
    Some(match status.0 {
        301 => "301 Moved Permanently",
        302 => "302 Found",
        303 => "303 See Other",
        307 => "307 Temporary Redirect",
        308 => "308 Permanent Redirect",
        400 => "400 Bad Request",
        401 => "401 Authorization Required",
        402 => "402 Payment Required",
        403 => "403 Forbidden",
        404 => "404 Not Found",
        405 => "405 Not Allowed",
        406 => "406 Not Acceptable",
        408 => "408 Request Time-out",
        409 => "409 Conflict",
        410 => "410 Gone",
        411 => "411 Length Required",
        412 => "412 Precondition Failed",
        413 => "413 Request Entity Too Large",
        414 => "414 Request-URI Too Large",
        415 => "415 Unsupported Media Type",
        416 => "416 Requested Range Not Satisfiable",
        421 => "421 Misdirected Request",
        429 => "429 Too Many Requests",
        431 => "431 Request Header Fields Too Large",
        500 => "500 Internal Server Error",
        501 => "501 Not Implemented",
        502 => "502 Bad Gateway",
        503 => "503 Service Temporarily Unavailable",
        504 => "504 Gateway Time-out",
        505 => "505 HTTP Version Not Supported",
        507 => "507 Insufficient Storage",
        _ => return None,
    })
}

/// The reason phrase of a status, where it is not the standard's.
pub fn reason(status: Status) -> Option<&'static str> {
    match status.0 {
        302 => Some("Moved Temporarily"),
        // The page has other words.
        401 => None,
        // Statuses that it has no phrase for.
        ..200
        | 203
        | 205
        | 207..=299
        | 305
        | 306
        | 309..=399
        | 407
        | 417..=420
        | 422..=428
        | 430..=499
        | 506
        | 508.. => Some(""),
        _ => title(status)?
            .get(4..)
            .filter(|words| *words != status.reason()),
    }
}

/// Fault of a request that gets 400 for it. `error_page` tells these statuses apart.
fn bad_request(status: Status) -> Option<&'static str> {
    Some(match status.0 {
        494 => "Request Header Or Cookie Too Large",
        495 => "The SSL certificate error",
        496 => "No required SSL certificate was sent",
        497 => "The plain HTTP request was sent to HTTPS port",
        _ => return None,
    })
}

/// Gives a response without content the page of its status, if there is one, with the name of the
/// server as `Server` has it.
pub fn page(mut response: Response, location: Option<&Location>, product: &str) -> Response {
    let product = location.map_or(product, |location| location.conf.core.product());
    let product = product.to_ascii_lowercase();
    let text = if let Some(what) = bad_request(response.status) {
        response.status = Status::BAD_REQUEST;
        format!(
            "<html>\r\n<head><title>400 {what}</title></head>\r\n<body>\r\n<center><h1>400 Bad Request</h1></center>\r\n<center>{what}</center>\r\n<hr><center>{product}</center>\r\n</body>\r\n</html>\r\n"
        )
    } else if let Some(title) = title(response.status) {
        format!(
            "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n<hr><center>{product}</center>\r\n</body>\r\n</html>\r\n"
        )
    } else {
        return response;
    };
    let media_type = match location {
        Some(location) => location.conf.compression.with_charset("text/html"),
        None => "text/html".to_owned(),
    };
    let fields = response.fields_mut();
    fields.set("Content-Type", media_type.into_bytes());
    response.body = Body::Memory(Chunk::from(text.into_bytes()));
    response
}

/// The response of a `return`.
pub fn returned(
    status: Status,
    text: Option<Vec<u8>>,
    conf: &LocationConf,
    path: &[u8],
) -> Response {
    let mut response = Response::new(status);
    let text = match text {
        None if status == Status::NOT_MODIFIED => Vec::new(),
        None if status.is_success() && !status.forbids_content() => Vec::new(),
        None => return response,
        Some(text) => text,
    };
    if matches!(status.0, 301 | 302 | 303 | 307 | 308) {
        response.fields_mut().set("Location", field_value(&text));
        return response;
    }
    if status.forbids_content() && status != Status::NOT_MODIFIED {
        return response;
    }
    let media_type = media_type(conf, path);
    let value = conf.compression.with_charset(&media_type);
    if !value.is_empty() {
        let fields = response.fields_mut();
        fields.set("Content-Type", value.into_bytes());
    }
    if !text.is_empty() && !status.forbids_content() {
        response.body = Body::Memory(Chunk::from(text));
    }
    response
}

/// Returns the media type of a path's extension.
pub fn media_type(conf: &LocationConf, path: &[u8]) -> String {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let dot = name
        .iter()
        .rposition(|byte| *byte == b'.')
        .filter(|at| *at > 0);
    let extension = dot.and_then(|at| name.get(at + 1..)).unwrap_or_default();
    let extension = String::from_utf8_lossy(extension).to_ascii_lowercase();
    let known = match &conf.core.types {
        Some(types) => types.get(&extension).cloned(),
        None => default_types().remove(&extension),
    };
    let default = conf.core.default_type.as_deref().unwrap_or("text/plain");
    known.unwrap_or_else(|| default.to_owned())
}

/// Returns a value without characters that could end a field line.
pub fn field_value(text: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(text.len());
    append_field_value(text, &mut value);
    value
}

/// Appends a value without characters that could end a field line.
pub fn append_field_value(text: &[u8], value: &mut Vec<u8>) {
    if memchr::memchr3(b'\r', b'\n', 0, text).is_none() {
        return value.extend_from_slice(text);
    }
    for byte in text {
        match byte {
            b'\r' | b'\n' | 0 => value.extend(format!("%{byte:02X}").bytes()),
            _ => value.push(*byte),
        }
    }
}

/// Escapes a path for a URL.
pub fn escape_path(path: &[u8]) -> Vec<u8> {
    escape(path, |byte| {
        matches!(byte, b'#' | b'%' | b'?') || is_never_in_url(byte)
    })
}

/// Bytes that no part of a URL may have as they are (RFC 3986, appendix A).
fn is_never_in_url(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{'..=b'}' | 0..=31 | 127..=255
    )
}

/// Escapes what cannot be in a request target; percent signs and question marks stay.
pub fn escape_target(target: &[u8]) -> Vec<u8> {
    escape(
        target,
        |byte| matches!(byte, b' ' | b'#' | 0..=31 | 127..=255),
    )
}

/// Escapes a value for the arguments of a URL.
pub fn escape_argument(text: &[u8]) -> Vec<u8> {
    escape(text, |byte| {
        matches!(byte, b'#' | b'%' | b'&' | b'+' | b';' | b'?') || is_never_in_url(byte)
    })
}

/// Escapes a group of a match for the path of a redirect; most of what separates arguments stays.
pub fn escape_redirect(text: &[u8]) -> Vec<u8> {
    escape(
        text,
        |byte| matches!(byte, b' ' | b'"' | b'#' | b'%' | b'?' | 0..=31 | 127..=255),
    )
}

/// Escapes a value that is one word of a protocol.
pub fn escape_word(text: &[u8]) -> Vec<u8> {
    escape(text, |byte| matches!(byte, b' ' | b'%' | 0..=31 | 127))
}

/// Escapes a value of a page for a URL (`encoding="url"`).
pub fn escape_url(text: &[u8]) -> Vec<u8> {
    escape(text, |byte| {
        matches!(byte, b'#' | b'%' | b'\'') || is_never_in_url(byte)
    })
}

/// Escapes a URL for an attribute of a page.
pub fn escape_attribute(text: &[u8]) -> Vec<u8> {
    escape(text, |byte| {
        matches!(byte, b'"' | b'\'' | b'<' | b'>' | b' ' | 0..=31 | 127)
    })
}

fn escape(text: &[u8], is_escaped: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match is_escaped(*byte) {
            true => out.extend(format!("%{byte:02X}").bytes()),
            false => out.push(*byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaping() {
        assert_eq!(escape_path(b"/a b?c%\xc3"), b"/a%20b%3Fc%25%C3");
        assert_eq!(
            escape_path(b"/\"<>\\^`{|}~'"),
            b"/%22%3C%3E%5C%5E%60%7B%7C%7D~'"
        );
        assert_eq!(escape_argument(b"a&b=c+d"), b"a%26b=c%2Bd");
        assert_eq!(
            field_value(b"/x\r\nSet-Cookie: a"),
            b"/x%0D%0ASet-Cookie: a"
        );
    }

    #[test]
    fn pages_of_known_statuses() {
        assert!(matches!(
            page(Response::new(Status(418)), None, "Saker").body,
            Body::Empty
        ));
        assert!(
            page(Response::new(Status(413)), None, "Saker")
                .fields()
                .has("content-type")
        );
    }
}
