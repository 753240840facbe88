//! Entries on their way into the store, and into this worker's memory.
//!
//! Place in the walk: the last step of keeping. Difficulty: a content that comes in pieces is
//! written as it goes to the client, and is there when it has come whole; one that is there at once
//! can be asked for at once.

use super::{
    Kept, MEMORY_BYTES_MAX, PageCache, content_of,
    decide::{Decision, Refusal},
    errand::Recipe,
    page::{Page, Parts},
    parts::{self, Piece},
    prepare::{self, Signed},
    purge,
    record::Record,
    tee::Tee,
    visit::{Visit, marks},
};
use saker_cache_store::{EntryHead, Finished, Purge, Standing, Superseded, Ticket, Version};
use saker_http::{Fields, Status};
use saker_pipeline::{Body, Exchange, FilePart, Response};
use saker_telemetry::{error_log, message};
use std::{os::unix::fs::FileExt, rc::Rc};

/// Of an entry whose life is prolonged; a larger one is made anew.
const READ_BYTES_MAX: usize = 8 << 20;
/// A sign outlives what it leads to.
const SIGN_MS: i64 = 86_400_000;

/// Keeps a response, and carries out what it purges.
pub fn store(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    visit: &mut Visit,
    response: &mut Response,
    decision: Decision,
    purges: Vec<Purge>,
) -> Result<(), Refusal> {
    let prepared = prepare::prepare(visit, exchange, response, &decision);
    let (mut head, signed) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => {
            purge::carry_out(cache, purges);
            return Err(why);
        }
    };
    (head.moment, head.began) = (visit.moment, visit.number);
    cache.store.expect(head.probes);
    if !purges.is_empty() {
        let (standing, number) = cache.store.purge_along(purges, visit.moment, &marks(&head));
        if standing != Standing::Valid {
            return Err(Refusal::new("purged", "it was purged while it was made"));
        }
        head.moment = number;
    }
    let sign = signed
        .as_ref()
        .map(|signed| &signed.sign)
        .or(visit.sign.as_deref());
    let recipe = Recipe::of(
        visit,
        exchange,
        sign.map_or(&[], |sign| &sign.fields),
        sign.and_then(|sign| sign.rules.as_ref()),
    );
    match signed {
        Some(signed) => put_sign(cache, &head, signed)?,
        // The address has no variants any more: one entry is for all, whatever has led elsewhere.
        None if !decision.is_private
            && visit.first_key(exchange.head.view()).as_ref() == Some(&head.key) =>
        {
            cache.store.remove_older(&visit.sign_key(), head.began)?;
        }
        None => {}
    }
    if response.status == Status::PARTIAL_CONTENT {
        let piece = Piece::of(response)?;
        if !piece.is_whole() {
            return parts::keep(cache, response, head, &decision, piece);
        }
        // RFC 9111 section 3.4: all of it is a 200.
        head.status = Status::OK.0;
        head.fields
            .retain(|(name, _)| !name.eq_ignore_ascii_case(b"Content-Range"));
    }
    put(
        cache,
        Making {
            ticket: visit.ticket.take(),
            recipe: recipe.filter(|_| !decision.is_private),
        },
        response,
        head,
        &decision,
    )
}

impl From<Superseded> for Refusal {
    fn from(_: Superseded) -> Refusal {
        Refusal::new(
            SUPERSEDED,
            "a response to a later request has been kept meanwhile",
        )
    }
}

fn put_sign(
    cache: &PageCache,
    page: &EntryHead,
    Signed {
        first,
        key,
        mut sign,
    }: Signed,
) -> Result<(), Refusal> {
    // From before it was known that the address has variants. Those that are older still must not
    // come back in its place.
    let replaced = cache.store.remove_older(&first, page.began)?;
    sign.since = sign.since.max(replaced.unwrap_or(0));
    let record = Record::Sign(sign.clone());
    let head = EntryHead {
        key: key.clone(),
        site: page.site.clone(),
        keep_until_ms: page.keep_until_ms.saturating_add(SIGN_MS as u64),
        moment: page.moment,
        began: page.began,
        rules: record.encode(),
        ..EntryHead::default()
    };
    match cache.store.write(&head).and_then(|writer| writer.finish()) {
        Ok(Finished::Placed { id, version }) => {
            cache.hold(&key, &Kept::Sign(Rc::new(sign)), id, version)
        }
        // One that another response has put there, whose request came later.
        Ok(Finished::Superseded) => {}
        Err(error) => tell_not_stored(&error),
    }
    Ok(())
}

/// What comes along with an entry that is being made.
struct Making {
    ticket: Option<Ticket>,
    recipe: Option<Recipe>,
}

/// Writes the entry: at once where the content is there, else as it comes.
fn put(
    cache: &Rc<PageCache>,
    making: Making,
    response: &mut Response,
    head: EntryHead,
    decision: &Decision,
) -> Result<(), Refusal> {
    let failed = |error: std::io::Error| {
        tell_not_stored(&error);
        broken(&error)
    };
    let coding = response
        .fields()
        .first("Content-Encoding")
        .map(<[u8]>::to_vec);
    match std::mem::take(&mut response.body) {
        Body::Stream(stream) if coding.is_none() => {
            let writer = match cache.store.write(&head) {
                Ok(writer) => writer,
                Err(error) => {
                    response.body = Body::Stream(stream);
                    return Err(failed(error));
                }
            };
            let (forgetful, key) = (Rc::clone(cache), head.key.clone());
            // What is in memory under that key is older.
            let done = move || forgetful.tier.borrow_mut().remove(&key);
            response.body = Body::Stream(Box::new(Tee::new(
                stream,
                writer,
                making.ticket,
                Box::new(done),
            )));
            Ok(())
        }
        Body::Stream(stream) => {
            response.body = Body::Stream(stream);
            Err(Refusal::new("coded", "it comes coded, in pieces"))
        }
        body => {
            let plain = plain(&body, coding.as_deref());
            response.body = body;
            let plain = plain?;
            let written = cache.store.write(&head).and_then(|mut writer| {
                writer.write(&plain)?;
                writer.finish()
            });
            let Finished::Placed { id, version } = written.map_err(failed)? else {
                return Err(Superseded.into());
            };
            hold(cache, head, (id, version), plain, decision, making.recipe);
            drop(making.ticket);
            Ok(())
        }
    }
}

/// Why a response is not kept for want of room.
pub const NO_ROOM: &str = "disk-full";
/// Why it is not kept where another one is.
pub const SUPERSEDED: &str = "superseded";

fn broken(error: &std::io::Error) -> Refusal {
    let word = if error.kind() == std::io::ErrorKind::StorageFull {
        NO_ROOM
    } else {
        "store"
    };
    Refusal::new(word, error.to_string())
}

/// Logs that a response is not kept. Of want of room the store tells once.
pub fn tell_not_stored(error: &std::io::Error) {
    if error.kind() != std::io::ErrorKind::StorageFull {
        error_log::log(&message::CACHE_NOT_STORED, format_args!("{error}"));
    }
}

/// The content without its coding.
pub fn plain(body: &Body, coding: Option<&[u8]>) -> Result<Vec<u8>, Refusal> {
    let bytes = match body {
        Body::Empty => &b""[..],
        Body::Memory(chunk) => chunk.bytes(),
        // An entry that holds a while longer.
        Body::File(part) => return read(part).map_err(|error| broken(&error)),
        Body::Parts(_) | Body::Stream(_) => {
            return Err(Refusal::new("parts", "its content is not made here"));
        }
    };
    match coding {
        None => Ok(bytes.to_vec()),
        Some(coding) => saker_content_coding::decode(coding, bytes)
            .ok_or_else(|| Refusal::new("coded", "it comes in a coding that is not known")),
    }
}

fn read(part: &FilePart) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![
        0;
        usize::try_from(part.length)
            .unwrap_or(usize::MAX)
            .min(READ_BYTES_MAX)
    ];
    if bytes.len() as u64 != part.length {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    part.file.read_exact_at(&mut bytes, part.offset)?;
    Ok(bytes)
}

/// Puts it into this worker's memory, too: it is asked for again soon, if at all.
fn hold(
    cache: &PageCache,
    head: EntryHead,
    (id, version): (u64, Version),
    content: Vec<u8>,
    decision: &Decision,
    recipe: Option<Recipe>,
) {
    let key = head.key.clone();
    let mut fields = Fields::new();
    for (name, value) in &head.fields {
        fields.append(
            saker_http::fields::known_name(&String::from_utf8_lossy(name)),
            value.clone(),
        );
    }
    if content.len() as u64 > MEMORY_BYTES_MAX {
        return cache.tier.borrow_mut().remove(&key);
    }
    let parts = Parts {
        tags: head.tags.clone().into(),
        site: head.site.clone().into(),
        key: key.as_slice().into(),
        id,
        status: Status(head.status),
        fields,
        by: decision.by,
        is_private: decision.is_private,
        is_template: decision.is_template,
        life: decision.life.clone(),
        marks: marks(&head),
        moment: head.moment,
        content: content_of(saker_cache_store::Content::Memory(content)),
        boundaries: Rc::clone(&cache.boundaries),
    };
    let page = Page::new(parts);
    recipe
        .into_iter()
        .for_each(|recipe| drop(page.recipe.set(Rc::new(recipe))));
    cache.hold(&key, &Kept::Page(Rc::new(page)), id, version);
}
