//! `[site.compression]`: dynamic compression.
//!
//! Called by: `settings`, for sites and routes.
//! Out of scope: files that are compressed already (`precompressed` in `files`).

use super::files::MEDIA_TYPE;
use crate::{
    context::{COMPRESSION, ROUTE, SITE},
    kind::Kind,
    model::{Compression, CompressionCoding, Settings},
    reader::{Reader, Table, table_in},
    row::Row,
    units,
};

pub const ROWS: &[Row<Settings>] = &[
    Row {
        name: "compression",
        contexts: SITE.or(ROUTE),
        kind: Kind::Section(COMPRESSION),
        summary: "Dynamic compression.",
        apache: Some("mod_deflate, mod_brotli"),
        aliases: &["gzip", "brotli", "zstd", "deflate", "encode"],
        ..Row::BASE
    },
    Row {
        name: "codings",
        contexts: COMPRESSION,
        kind: Kind::ListOf(&Kind::Choice(&["br", "zstd", "gzip"])),
        default: Some("[\"br\", \"zstd\", \"gzip\"]"),
        summary: "Codings in order of preference, among those that the client accepts equally. \
                  Empty: no compression.",
        apache: Some("SetOutputFilter, AddOutputFilterByType"),
        aliases: &["encodings", "algorithms", "enabled"],
        set: |settings, given| {
            settings.compression.codings = given.texts().iter().map(|word| coding(word)).collect()
        },
        ..Row::BASE
    },
    Row {
        name: "min",
        contexts: COMPRESSION,
        kind: Kind::Bytes {
            min: 0,
            max: 1 << 30,
        },
        default: Some("\"1KiB\""),
        unit: Some("bytes"),
        summary: "Smaller bodies are not compressed.",
        aliases: &["gzip_min_length", "min_length"],
        set: |settings, given| settings.compression.min_bytes = given.number(),
        ..Row::BASE
    },
    Row {
        name: "max",
        contexts: COMPRESSION,
        kind: Kind::Bytes {
            min: 0,
            max: 1 << 30,
        },
        default: Some("\"4MiB\""),
        unit: Some("bytes"),
        summary: "Larger bodies are not compressed.",
        set: |settings, given| settings.compression.max_bytes = given.number(),
        ..Row::BASE
    },
    Row {
        name: "gzip_level",
        contexts: COMPRESSION,
        kind: Kind::Integer { min: 1, max: 9 },
        default: Some("6"),
        summary: "gzip level: 1 is fastest, 9 is smallest.",
        apache: Some("DeflateCompressionLevel"),
        aliases: &["gzip_comp_level", "level"],
        set: |settings, given| settings.compression.gzip_level = given.number() as u32,
        ..Row::BASE
    },
    Row {
        name: "brotli_quality",
        contexts: COMPRESSION,
        kind: Kind::Integer { min: 0, max: 11 },
        default: Some("5"),
        summary: "Brotli quality: 0 is fastest, 11 is smallest.",
        apache: Some("BrotliCompressionQuality"),
        aliases: &["brotli_comp_level", "brotli_level"],
        set: |settings, given| settings.compression.brotli_quality = given.number() as u32,
        ..Row::BASE
    },
    Row {
        name: "zstd_level",
        contexts: COMPRESSION,
        kind: Kind::Integer { min: 1, max: 19 },
        default: Some("6"),
        summary: "zstd level: 1 is fastest, 19 is smallest.",
        aliases: &["zstd_comp_level"],
        set: |settings, given| settings.compression.zstd_level = given.number() as u32,
        ..Row::BASE
    },
    Row {
        name: "dictionaries",
        contexts: COMPRESSION,
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "Compress static files and stored pages with dictionaries that clients have (RFC \
                  9842, dcz)? Dictionaries are files and pages with Use-As-Dictionary.",
        since: "0.2",
        set: |settings, given| settings.compression.dictionaries = given.boolean(),
        ..Row::BASE
    },
    Row {
        name: "types",
        contexts: COMPRESSION,
        kind: Kind::ListOf(&Kind::Word(&MEDIA_TYPE)),
        default: Some("[]"),
        example: Some("[\"application/x-tar\"]"),
        summary: "Media types to compress, in addition to those known to compress well (text, \
                  scripts, JSON, XML, SVG and the like).",
        apache: Some("AddOutputFilterByType"),
        aliases: &["gzip_types"],
        set: |settings, given| settings.compression.types = given.texts(),
        ..Row::BASE
    },
];

/// Reports limits between which no body is. `table`: of a site or route.
pub fn check(reader: &mut Reader<'_>, table: &Table<'_>, compression: &Compression) {
    let (min, max) = (compression.min_bytes, compression.max_bytes);
    let Some(own) = table_in(table, "compression").filter(|_| min > max) else {
        return;
    };
    let given = ["min", "max"].into_iter().find_map(|key| own.get(key));
    if let Some(node) = given {
        let (min, max) = (units::show_size(min), units::show_size(max));
        let message = format!(
            "`min` of compression, {min}, is above `max`, {max}: nothing would be compressed"
        );
        let help = "set `min` below `max`, or write codings = [] for no compression";
        reader.error(&reader.at(node.span()), message, Some(help.into()));
    }
}

fn coding(word: &str) -> CompressionCoding {
    match word {
        "br" => CompressionCoding::Brotli,
        "zstd" => CompressionCoding::Zstd,
        _ => CompressionCoding::Gzip,
    }
}
