//! Limits and log-in attempts counted together with the other servers of a cluster.
//!
//! Called by: the rules that charge an account, after they have; the server's cluster, for batches
//! of the other servers.
//! Out of scope: requests at a time, bandwidth, and offenses that lead to a ban, which count on
//! each server (a ban is shared).

use crate::{
    ClientLimits, SharedAbuseState, SharedCounts, login::Attempts, shared_counts::site_hash,
    state::KeyHash,
};
use saker_config::model::{LimitName, RequestRate, Site};
use saker_ipset::ClientNetwork;
use saker_rate_limits::{AccountName, Admission, Limit, deltas, requests};
use std::{net::IpAddr, sync::Arc};

const NS_PER_S: u64 = 1_000_000_000;

/// The part of a rule about log-ins that other servers need.
#[derive(Clone, Copy, Debug)]
pub struct LoginTerms {
    pub attempts: u32,
    pub within_s: u64,
}

/// Charges what another server has, `age_ns` ago.
pub fn receive_charges(
    counts: &SharedCounts,
    (batch, age_ns): (&[u8], u64),
    (clients, shared): (&ClientLimits, &SharedAbuseState),
    (now_ns, now_s): (u64, i64),
) {
    let at_ns = now_ns.saturating_sub(age_ns);
    let at_s = now_s.saturating_sub_unsigned(age_ns / NS_PER_S);
    for (account, amount) in deltas::charges(batch) {
        let is_login = matches!(account.limit, Limit::Login | Limit::LoginRefund);
        // Paid off meanwhile.
        if !is_login && at_ns.saturating_add(amount) <= now_ns {
            continue;
        }
        match account.limit {
            Limit::Static | Limit::Dynamic => {
                let state = clients.addresses.state_of_bits(account.client);
                let usage = state.usage(LimitName::from_number(account.rule));
                requests::charge_at(&usage.account, at_ns, amount);
            }
            Limit::Site => counts.with_site(account.site, |generation, at| {
                if let Some(site) = generation.site_accounts.get(at) {
                    let usage = site.usage(LimitName::from_number(account.rule));
                    requests::charge_at(&usage.account, at_ns, amount);
                }
            }),
            Limit::Key => {
                let key = [account.client as u64, (account.client >> 64) as u64];
                let usage = shared
                    .keyed
                    .change(key, Arc::default, |known| Arc::clone(known));
                requests::charge_at(&usage.account, at_ns, amount);
            }
            Limit::Login | Limit::LoginRefund => counts.with_site(account.site, |_, at| {
                receive_login(shared, (account, at), amount, at_s);
            }),
        }
    }
}

fn receive_login(
    shared: &SharedAbuseState,
    (account, site_index): (AccountName, usize),
    thousandths: u64,
    at_s: i64,
) {
    let Some(network) = ClientNetwork::from_bytes(last_nine(account.client)) else {
        return;
    };
    let (attempts, within_s) = ((account.rule >> 32) as u32, account.rule & 0xffff_ffff);
    let count = u32::try_from(thousandths / 1000).unwrap_or(u32::MAX);
    shared.logins.change(
        (network, site_index),
        Attempts::default,
        |known| match account.limit {
            Limit::LoginRefund => known.give_back(thousandths),
            _ => drop(known.add(count, attempts, within_s, at_s)),
        },
    );
}

/// Tells the other servers of a request that a limit of an address has admitted.
pub fn of_address(
    shared: &SharedAbuseState,
    clients: &ClientLimits,
    (limit, name, address): (Limit, LimitName, IpAddr),
    rate: &RequestRate,
    admission: Admission,
) {
    if let Some(counts) = shared.counts.get() {
        let name = AccountName {
            rule: name.number(),
            ..AccountName::of_address(limit, clients.addresses.bits(address))
        };
        counts.add(name, rate, admission);
    }
}

/// The same for a limit of a site.
pub fn of_site(
    shared: &SharedAbuseState,
    (site, name): (&Site, LimitName),
    rate: &RequestRate,
    admission: Admission,
) {
    if let Some(counts) = shared.counts.get() {
        let name = AccountName {
            rule: name.number(),
            ..AccountName::of_site(site_hash(site))
        };
        counts.add(name, rate, admission);
    }
}

/// The same for the account of a key's value.
pub fn of_key(
    shared: &SharedAbuseState,
    [low, high]: KeyHash,
    rate: &RequestRate,
    admission: Admission,
) {
    if let Some(counts) = shared.counts.get() {
        let client = u128::from(low) | u128::from(high) << 64;
        counts.add(AccountName::of_address(Limit::Key, client), rate, admission);
    }
}

/// The same for attempts to log in, in thousandths.
pub fn of_login(
    shared: &SharedAbuseState,
    (limit, network): (Limit, ClientNetwork),
    site: u64,
    terms: LoginTerms,
    thousandths: u64,
) {
    if let Some(counts) = shared.counts.get() {
        let mut client = [0; 16];
        client[7..].copy_from_slice(&network.bytes());
        let within_s = terms.within_s.min(u64::from(u32::MAX));
        let name = AccountName {
            limit,
            site,
            client: u128::from_be_bytes(client),
            rule: u64::from(terms.attempts) << 32 | within_s,
        };
        counts.add_amount(name, thousandths);
    }
}

fn last_nine(bits: u128) -> [u8; 9] {
    let bytes = bits.to_be_bytes();
    std::array::from_fn(|at| bytes.get(at + 7).copied().unwrap_or_default())
}
