//! `charset`, `source_charset`, and `charset_map`: the charset of content, and its conversion.
//!
//! Called by: `body_filters`.
//! Caveat: content that an upstream sends with a charset keeps it, unless `override_charset` says so.
//! Content with a coding is not converted.
//! Out of scope: the charset of files that are sent as they are (`saker-nginx-model`).

use crate::state::State;
use saker_content_filters::Transform;
use saker_nginx_model::{
    conf::LocationConf,
    modules::{
        charset::{CharsetMap, Conversion},
        compression::CompressionConf,
    },
};
use saker_pipeline::{BodyError, Exchange, Response};
use std::sync::Arc;

/// Returns true if responses of the location may get a charset, or be converted.
pub fn is_set(conf: &LocationConf) -> bool {
    let compression = &conf.compression;
    matches!(compression.charset_text, Some(Some(_)))
        || matches!(compression.charset, Some(Some(_)))
            && (conf.upstreams.pass.is_some()
                || matches!(compression.source_charset, Some(Some(_))))
}

/// Returns true if content of the location may be converted.
pub fn converts(conf: &LocationConf) -> bool {
    let compression = &conf.compression;
    is_set(conf)
        && (matches!(compression.source_charset, Some(Some(_)))
            || compression.overrides_charset == Some(true))
}

/// The conversion of a response's content.
pub struct Converter {
    map: Arc<CharsetMap>,
    from: Box<str>,
    to: Box<str>,
    /// The beginning of a character whose rest has not come yet.
    begun: Vec<u8>,
}

/// Names of charsets that a request's responses get.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    /// That of the location, where it has variables.
    pub named: Option<&'a str>,
    /// That of the upstream (`X-Accel-Charset`).
    pub overriding: Option<&'a str>,
}

/// Returns the charset that an upstream has asked for, where it is followed.
pub fn overriding(exchange: &Exchange) -> Option<String> {
    let name = exchange.upstream.left_fields.as_ref()?;
    let name = name.first("X-Accel-Charset")?.trim_ascii();
    let state = exchange.extensions.get::<State>()?;
    let upstreams = &state.location.conf.upstreams;
    let conf = upstreams.of(upstreams.pass.as_ref()?.gateway);
    let ignored = conf.ignored.as_deref().unwrap_or_default();
    let is_ignored = |ignored: &[Box<str>]| {
        let mut names = ignored.iter();
        names.any(|name| name.eq_ignore_ascii_case("X-Accel-Charset"))
    };
    let is_followed = exchange.upstream.is_answered_by_program
        && !is_ignored(ignored)
        && saker_http::chars::is_token(name);
    is_followed.then(|| String::from_utf8_lossy(name).into_owned())
}

/// Gives a response its charset, and returns the conversion that it needs. `is_upstreams`: an upstream
/// has said its type.
pub fn plan(
    conf: &CompressionConf,
    names: Names<'_>,
    maps: &[Arc<CharsetMap>],
    response: &mut Response,
    is_upstreams: bool,
) -> Option<Converter> {
    if let Some(to) = names.overriding {
        return override_charset(conf, to, maps, response);
    }
    let named = names.named;
    let fixed = conf.charset.as_ref().and_then(Option::as_deref);
    let to = named.or(fixed).filter(|name| !name.is_empty())?;
    let value = response.fields().first("Content-Type")?;
    let value = String::from_utf8_lossy(value).into_owned();
    let (bare, charset) = split(&value);
    let from = match charset.filter(|_| is_upstreams) {
        // It stays, unless it is the source of a conversion.
        Some(_) if conf.overrides_charset != Some(true) => return None,
        // So does one that there is no way from.
        Some(charset) if !is_convertible(maps, charset, to) => return None,
        Some(charset) => Some(charset.to_ascii_lowercase()),
        None if named.is_some() && charset.is_some() => return None,
        None if (is_upstreams || named.is_some()) && !conf.has_charset(bare) => return None,
        None if charset.is_none() && !is_upstreams && named.is_none() => return None,
        None => {
            let source = conf.source_charset.clone().flatten();
            source.map(|name| name.to_ascii_lowercase())
        }
    };
    if is_upstreams || named.is_some() {
        let value = format!("{bare}; charset={to}");
        response
            .fields_mut()
            .set("Content-Type", value.into_bytes());
    }
    let (from, to) = (from?, to.to_ascii_lowercase());
    let map = maps
        .iter()
        .find(|map| map.conversion(&from, &to).is_some())?;
    Some(Converter {
        map: Arc::clone(map),
        from: from.into(),
        to: to.into(),
        begun: Vec::new(),
    })
}

/// True if content of one charset can be given as another one.
fn is_convertible(maps: &[Arc<CharsetMap>], from: &str, to: &str) -> bool {
    let (from, to) = (from.to_ascii_lowercase(), to.to_ascii_lowercase());
    from == to || maps.iter().any(|map| map.conversion(&from, &to).is_some())
}

/// Gives a response the charset that its upstream has asked for. As in nginx, content that has another
/// charset already is converted, or stays as it is.
fn override_charset(
    conf: &CompressionConf,
    to: &str,
    maps: &[Arc<CharsetMap>],
    response: &mut Response,
) -> Option<Converter> {
    let value = response.fields().first("Content-Type")?;
    let value = String::from_utf8_lossy(value).into_owned();
    let (bare, charset) = split(&value);
    let source = || conf.source_charset.clone().flatten();
    let from = charset.map(Box::from).or_else(source);
    let (from, to_lower) = (
        from.map(|name| name.to_ascii_lowercase()),
        to.to_ascii_lowercase(),
    );
    let map = from.as_ref().and_then(|from| {
        let mut maps = maps.iter();
        maps.find(|map| map.conversion(from, &to_lower).is_some())
    });
    let is_other = from.as_ref().is_some_and(|from| *from != to_lower);
    if charset.is_some() && is_other && map.is_none() {
        return None;
    }
    let value = format!("{bare}; charset={to}");
    response
        .fields_mut()
        .set("Content-Type", value.into_bytes());
    Some(Converter {
        map: Arc::clone(map?),
        from: from?.into(),
        to: to_lower.into(),
        begun: Vec::new(),
    })
}

/// Splits a media type from the value of its charset.
fn split(value: &str) -> (&str, Option<&str>) {
    let mut parts = value.split(';').map(str::trim);
    let bare = parts.next().unwrap_or_default();
    let charset = parts.find_map(|part| {
        let (name, charset) = part.split_once('=')?;
        name.eq_ignore_ascii_case("charset")
            .then(|| charset.trim_matches('"'))
    });
    (bare, charset)
}

impl Transform for Converter {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BodyError> {
        match self.map.conversion(&self.from, &self.to) {
            None => output.extend_from_slice(input),
            Some(Conversion::Bytes(table)) => {
                output.extend(input.iter().map(|byte| table[usize::from(*byte)]));
            }
            Some(Conversion::ToUtf8(table)) => {
                for byte in input {
                    let text = table.get(usize::from(*byte)).map(|text| &**text);
                    output.extend_from_slice(text.unwrap_or(b"?"));
                }
            }
            Some(Conversion::FromUtf8(_)) => {
                self.begun.extend_from_slice(input);
                self.take_characters(false, output);
            }
        }
        Ok(())
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BodyError> {
        self.take_characters(true, output);
        Ok(())
    }
}

impl Converter {
    /// Converts the characters that are whole. As in nginx, those that the charset does not have
    /// are references, and bytes that are none are question marks.
    fn take_characters(&mut self, is_end: bool, output: &mut Vec<u8>) {
        let Some(Conversion::FromUtf8(known)) = self.map.conversion(&self.from, &self.to) else {
            return;
        };
        let bytes = std::mem::take(&mut self.begun);
        for part in bytes.utf8_chunks() {
            for character in part.valid().chars() {
                match known.get(&character) {
                    _ if character.is_ascii() => output.push(character as u8),
                    Some(byte) => output.push(*byte),
                    None => {
                        output.extend_from_slice(format!("&#{};", u32::from(character)).as_bytes());
                    }
                }
            }
            let rest = part.invalid();
            let error = std::str::from_utf8(rest).err();
            let is_begun = error.is_some_and(|error| error.error_len().is_none());
            match is_begun && !is_end && bytes.ends_with(rest) {
                true => self.begun = rest.to_vec(),
                false if !rest.is_empty() => output.push(b'?'),
                false => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(map: &Arc<CharsetMap>, from: &str, to: &str, pieces: &[&[u8]]) -> Vec<u8> {
        let mut converter = Converter {
            map: Arc::clone(map),
            from: from.into(),
            to: to.into(),
            begun: Vec::new(),
        };
        let mut output = Vec::new();
        for piece in pieces {
            converter.push(piece, &mut output).unwrap();
        }
        converter.finish(&mut output).unwrap();
        output
    }

    #[test]
    fn characters_may_come_in_pieces() {
        let pairs = [(0xc1, "а".into()), (0xc2, "б".into())];
        let map = Arc::new(CharsetMap::new("koi8-r", "utf-8", &pairs));
        let to = |pieces: &[&[u8]]| converted(&map, "koi8-r", "utf-8", pieces);
        assert_eq!(to(&[b"a\xc1", b"\xc2\xc3"]), "aаб?".as_bytes());
        let from = |pieces: &[&[u8]]| converted(&map, "utf-8", "koi8-r", pieces);
        assert_eq!(from(&[b"a\xd0", b"\xb0\xd0\xb1"]), b"a\xc1\xc2");
        assert_eq!(from(&["€".as_bytes()]), b"&#8364;");
        assert_eq!(from(&[b"\xe2\x82"]), b"?");
        assert_eq!(from(&[b"\xff\xd0", b"\xb0"]), b"?\xc1");
    }
}
