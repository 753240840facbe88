//! Instances of a service in Consul that pass their checks, by blocking queries
//! (<https://developer.hashicorp.com/consul/api-docs/features/blocking>).
//!
//! Called by: `discoveries`.
//! Caveat: an instance without an address of its own has that of its node; addresses that are host
//! names are refused.
//! Out of scope: Connect proxies and prepared queries.

use crate::{
    api::{Api, TokenField, encoded, entries, refusal, text},
    feed::Feed,
    servers::Named,
};
use saker_config::model::DiscoverySource;
use serde_json::Value;
use std::time::Duration;
use tokio::time;

/// Asks until it fails. Returns the reason.
pub async fn follow(feed: &Feed) -> String {
    let api = Api::new(&feed.discovery, TokenField::Consul);
    let mut index = 0;
    loop {
        match once(feed, &api, index).await {
            // Without an index nothing says when there is something new.
            Ok(0) => time::sleep(api.refresh()).await,
            // The index goes back when the servers of Consul have been restored.
            Ok(next) if next < index => index = 0,
            Ok(next) => index = next,
            Err(error) => return error,
        }
    }
}

/// Waits for an answer other than that of `index`. Returns the index of the answer; 0: it has none.
async fn once(feed: &Feed, api: &Api<'_>, index: u64) -> Result<u64, String> {
    let DiscoverySource::Consul {
        service,
        tag,
        datacenter,
    } = &feed.discovery.terms.source
    else {
        return Err("not a service of Consul".to_owned());
    };
    let wait = match index {
        0 => Duration::ZERO,
        _ => api.refresh(),
    };
    let mut target = format!("/v1/health/service/{}?passing=1", encoded(service));
    for (name, value) in [("tag", tag), ("dc", datacenter)] {
        if let Some(value) = value {
            target += &format!("&{name}={}", encoded(value));
        }
    }
    if index > 0 {
        target += &format!("&index={index}&wait={}s", wait.as_secs().max(1));
    }
    let document = api.document(&target, wait + wait / 16).await?;
    if document.status != 200 {
        return Err(refusal(document.status));
    }
    let instances = entries(&document.value, "instances")?;
    feed.publish(&instances.iter().map(named).collect::<Vec<_>>());
    Ok(document.index.unwrap_or(0))
}

fn named(instance: &Value) -> Named {
    let own = text(instance, "/Service/Address");
    let address = match own.is_empty() {
        true => text(instance, "/Node/Address"),
        false => own,
    };
    let number = |pointer: &str| instance.pointer(pointer).and_then(Value::as_u64);
    Named {
        address: address.to_owned(),
        port: number("/Service/Port").unwrap_or(0),
        weight: number("/Service/Weights/Passing").unwrap_or(1),
        ..Named::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_instance_has_its_own_address_or_that_of_its_node() {
        let instance = json!({
            "Node": { "Address": "10.0.0.1" },
            "Service": { "Address": "", "Port": 80, "Weights": { "Passing": 7, "Warning": 1 } },
        });
        let found = named(&instance);
        assert_eq!(
            (&*found.address, found.port, found.weight),
            ("10.0.0.1", 80, 7)
        );
        let instance = json!({
            "Node": { "Address": "10.0.0.1" }, "Service": { "Address": "10.9.0.1", "Port": 81 },
        });
        let found = named(&instance);
        assert_eq!(
            (&*found.address, found.port, found.weight),
            ("10.9.0.1", 81, 1)
        );
        for broken in [
            json!(null),
            json!(5),
            json!({ "Service": { "Port": -1, "Address": 5 } }),
        ] {
            let found = named(&broken);
            assert_eq!((&*found.address, found.port), ("", 0), "{broken}");
        }
    }
}
