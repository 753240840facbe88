//! Combined requests (LSCache protocol 9.5): fragments that are not in the cache are named in one
//! form, and the response has inline content for each.
//!
//! Called by: `assemble`.
//! Caveat: what the response leaves out is fetched one by one.
//! Out of scope: storing the inline content (`assembly`).

use crate::{
    esi::{
        assembly::Assembly,
        fragment::{self, FragmentAnswer, FragmentRequest},
        template::ParsedTemplate,
    },
    request::FetchStart,
};
use saker_esi::{Inline, Role, Step, Wanted};
use saker_pipeline::Chunk;
use std::rc::Rc;

pub async fn fetch(assembly: &Rc<Assembly>, steps: &[Step]) {
    let mut wanted = Vec::new();
    add(steps, &mut wanted);
    let Some(main) = wanted
        .iter()
        .find(|wanted| wanted.role == Some(Role::Main))
        .and_then(|main| assembly.source.target(&main.src))
    else {
        return;
    };
    let Some(services) = assembly.services.upgrade() else {
        return;
    };
    let mut missing: Vec<&[u8]> = Vec::new();
    for part in wanted
        .iter()
        .filter(|wanted| wanted.role == Some(Role::Sub))
    {
        let Some(target) = assembly
            .source
            .target(&part.src)
            .filter(|target| !assembly.primed.borrow().contains_key(target))
        else {
            continue;
        };
        let fragment = FragmentRequest {
            include: assembly.include.clone(),
            answered: FragmentAnswer::FromCache,
        };
        match fragment::fetch(&services, &assembly.source, &target, fragment).await {
            Ok(fetched) => drop(assembly.primed.borrow_mut().insert(target, fetched)),
            Err(_) if !missing.contains(&part.src.as_slice()) => missing.push(&part.src),
            Err(_) => {}
        }
    }
    let Some(include) = assembly.further_in().filter(|_| !missing.is_empty()) else {
        return;
    };
    let began = FetchStart::now(&assembly.store);
    let fragment = FragmentRequest {
        include,
        answered: FragmentAnswer::ByAnyone,
    };
    match fragment::post(&services, &assembly.source, &main, fragment, form(&missing)).await {
        // What the response leaves out is fetched one by one.
        Ok(answer) => {
            // Fragments are slices of it.
            assembly.hold(answer.held);
            let parsed = ParsedTemplate::new(answer.content);
            let inlines: Vec<(Inline, Chunk)> = parsed
                .template
                .inlines()
                .iter()
                .map(|inline| (inline.clone(), parsed.page.clone()))
                .collect();
            assembly.prime(&inlines, began).await;
        }
        Err(status) => assembly.complain(
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
