//! Settings of the features, made of the settings of a location.
//!
//! Called by: `finish`, once per location.
//! Caveat: what depends on the request (fields with variables, lifetimes, limits with variables) is
//! left to `saker-nginx`.
//! Out of scope: upstreams (`finish`).

use crate::{
    conf::LocationConf,
    modules::{
        compression::{CodingConf, CompressionConf, StaticFiles},
        core::{CoreConf, Symlinks, default_types},
        handlers::HandlersConf,
    },
    text::Text,
    values::size,
};
use saker_config::model::{
    CodedTags, Compression, CompressionCoding, EntityTagParts, Files, Media, Mp4Start, PhpUse,
    Rate, Settings, SymlinkPolicy, Underscores, WebDav,
};
use saker_http::{conditional::DateRule, range::RangeRules};
use std::sync::Arc;

/// Default of `client_max_body_size`.
const BODY_BYTES_MAX: u64 = 1 << 20;
/// Default of `max_ranges`. nginx has none; a head of 8 KiB has room for about as many.
const RANGES_MAX: u32 = 2_000;
/// Default of `mp4_max_buffer_size`.
const MP4_INDEX_BYTES_MAX: u64 = 10 << 20;
/// Statuses of responses that are compressed.
const COMPRESSED_STATUSES: [u16; 3] = [200, 403, 404];
/// Default of `gzip_min_length`.
const GZIP_BYTES_MIN: u64 = 20;

/// Returns the settings of a location.
pub fn settings(conf: &LocationConf) -> Settings {
    let mut settings = Settings {
        files: files(&conf.core, &conf.compression, conf.upstreams.pass.is_none()),
        compression: Compression {
            varies: conf.clients.varies == Some(true),
            ..compression(&conf.compression)
        },
        body_bytes_max: Some(conf.core.client_max_body_size.unwrap_or(BODY_BYTES_MAX)),
        media: media(&conf.handlers),
        webdav: webdav(&conf.handlers),
        php: PhpUse::Off,
        underscores: match (conf.core.underscores, conf.clients.ignores_invalid_fields) {
            (Some(true), _) | (_, Some(false)) => Underscores::Pass,
            _ => Underscores::Drop,
        },
        ..Settings::default()
    };
    settings.throttle.out_by_seconds = rate(&conf.core);
    settings
}

fn media(conf: &HandlersConf) -> Media {
    Media {
        flv: conf.flv == Some(true),
        mp4: conf.mp4 == Some(true),
        mp4_start: match conf.mp4_hides_key_frame {
            Some(true) => Mp4Start::HiddenKeyFrame,
            _ => Mp4Start::Sample,
        },
        index_bytes_max: conf.mp4_index_bytes_max.unwrap_or(MP4_INDEX_BYTES_MAX),
        ..Media::default()
    }
}

/// WebDAV, for the methods that the location names (`saker-nginx` refuses others).
fn webdav(conf: &HandlersConf) -> Option<Arc<WebDav>> {
    let methods = conf.dav_methods.as_deref().unwrap_or_default();
    (!methods.is_empty()).then(|| {
        Arc::new(WebDav {
            is_on: true,
            file_mode: Some(conf.dav_mode.unwrap_or(0o600)),
            is_any_port_ours: true,
            keeps_times: true,
            ..WebDav::default()
        })
    })
}

/// `limit_rate` without variables.
fn rate(core: &CoreConf) -> Option<Rate> {
    let constant = |text: &Option<Text>| size(text.as_ref()?.plain()?);
    let bytes_per_s = constant(&core.limit_rate).filter(|rate| *rate > 0)?;
    Some(Rate {
        bytes_per_s,
        burst_bytes: bytes_per_s,
        after_bytes: constant(&core.limit_rate_after).unwrap_or(0),
    })
}

fn files(core: &CoreConf, compression: &CompressionConf, serves_files: bool) -> Files {
    let has_tag = core.etag != Some(false);
    let types = match (&core.types, serves_files) {
        (_, false) => Default::default(),
        (Some(types), true) => types.as_ref().clone(),
        (None, true) => default_types(),
    };
    let default_type = core.default_type.as_deref().unwrap_or("text/plain");
    Files {
        index: Vec::new(),
        listing: false,
        hidden: true,
        symlinks: match core.symlinks {
            Some(Symlinks::Refuse) => SymlinkPolicy::Never,
            Some(Symlinks::OwnerMatch) => SymlinkPolicy::OwnerMatch,
            Some(Symlinks::Follow) | None => SymlinkPolicy::Follow,
        },
        entity_tag: EntityTagParts {
            inode: false,
            mtime: has_tag,
            size: has_tag,
        },
        precompressed: [&compression.gzip, &compression.brotli, &compression.zstd]
            .iter()
            .any(|coding| coding.files.is_some_and(|files| files != StaticFiles::Off)),
        charset: String::new(),
        types: types
            .into_iter()
            .map(|(ending, media_type)| (ending, compression.with_charset(&media_type)))
            .collect(),
        types_are_complete: true,
        default_type: compression.with_charset(default_type),
        decodes_slashes: true,
        modified_since: core.modified_since.unwrap_or(DateRule::Exact),
        ranges_max: core.max_ranges.unwrap_or(RANGES_MAX),
        range_rules: RangeRules::AsAsked,
        trusts_young_files: true,
        ..Files::default()
    }
}

fn compression(conf: &CompressionConf) -> Compression {
    let codings = [
        (CompressionCoding::Brotli, &conf.brotli),
        (CompressionCoding::Zstd, &conf.zstd),
        (CompressionCoding::Gzip, &conf.gzip),
    ];
    let is_on = |coding: &&(CompressionCoding, &CodingConf)| coding.1.is_on == Some(true);
    let on: Vec<&(CompressionCoding, &CodingConf)> = codings.iter().filter(is_on).collect();
    let mut types = vec!["text/html".to_owned()];
    for (_, coding) in &on {
        types.extend(
            coding
                .types
                .iter()
                .flat_map(|own| own.iter())
                .map(ToString::to_string),
        );
    }
    let default = Compression::default();
    let min_bytes = on.iter().filter_map(|(_, coding)| coding.min_bytes).min();
    Compression {
        codings: on.iter().map(|(coding, _)| *coding).collect(),
        min_bytes: min_bytes.unwrap_or(GZIP_BYTES_MIN),
        gzip_level: conf.gzip.level.unwrap_or(1).clamp(1, 9),
        brotli_quality: conf.brotli.level.unwrap_or(default.brotli_quality).min(11),
        zstd_level: conf.zstd.level.unwrap_or(default.zstd_level).clamp(1, 19),
        every_type: types.iter().any(|media_type| media_type == "*"),
        types_are_complete: true,
        types,
        even_if_larger: true,
        errors: true,
        statuses: &COMPRESSED_STATUSES,
        tags: CodedTags::Level,
        ..default
    }
}
