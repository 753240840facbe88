//! Parts that are asked for by one request (LSCache protocol 9.5): what is not in the cache is
//! named in a form, and the answer says it for each address.

use super::{
    Parsed,
    assembly::Work,
    fragment::{self, Answered, Fragment},
};
use crate::page_cache::visit::Began;
use saker_esi::{Inline, Role, Step, Wanted};
use saker_pipeline::Chunk;
use std::rc::Rc;

pub async fn fetch(work: &Rc<Work>, steps: &[Step]) {
    let mut wanted = Vec::new();
    add(steps, &mut wanted);
    let Some(main) = wanted
        .iter()
        .find(|wanted| wanted.role == Some(Role::Main))
        .and_then(|main| work.source.target(&main.src))
    else {
        return;
    };
    let Some(services) = work.services.upgrade() else {
        return;
    };
    let mut missing: Vec<&[u8]> = Vec::new();
    for part in wanted
        .iter()
        .filter(|wanted| wanted.role == Some(Role::Sub))
    {
        let Some(target) = work
            .source
            .target(&part.src)
            .filter(|target| !work.given.borrow().contains_key(target))
        else {
            continue;
        };
        let fragment = Fragment {
            inside: work.inside.clone(),
            answered: Answered::FromCache,
        };
        match fragment::fetch(&services, &work.source, &target, fragment).await {
            Ok(fetched) => drop(work.given.borrow_mut().insert(target, fetched)),
            Err(_) if !missing.contains(&part.src.as_slice()) => missing.push(&part.src),
            Err(_) => {}
        }
    }
    let Some(inside) = work.further_in().filter(|_| !missing.is_empty()) else {
        return;
    };
    let began = Began::now(&work.store);
    let fragment = Fragment {
        inside,
        answered: Answered::ByAnyone,
    };
    match fragment::post(&services, &work.source, &main, fragment, form(&missing)).await {
        // What it leaves out is asked for one by one.
        Ok(answer) => {
            // Parts are slices of it.
            work.hold(answer.held);
            let parsed = Parsed::new(answer.content);
            let inlines: Vec<(Inline, Chunk)> = parsed
                .template
                .inlines()
                .iter()
                .map(|inline| (inline.clone(), parsed.page.clone()))
                .collect();
            work.prime(&inlines, began).await;
        }
        Err(status) => work.complain(
            &main,
            &format!("the combined request was answered with {}", status.0),
        ),
    }
}

fn add<'s>(steps: &'s [Step], wanted: &mut Vec<&'s Wanted>) {
    for step in steps {
        match step {
            Step::Include(include) => wanted.push(include),
            Step::Try { attempt, .. } => add(attempt, wanted),
            Step::Text(_) | Step::Made(_) => {}
        }
    }
}

fn form(addresses: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for address in addresses {
        out.extend_from_slice(if out.is_empty() {
            b"esi_include%5B%5D="
        } else {
            b"&esi_include%5B%5D="
        });
        for byte in *address {
            match byte.is_ascii_alphanumeric() || b"-._~/".contains(byte) {
                true => out.push(*byte),
                false => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            }
        }
    }
    out
}
