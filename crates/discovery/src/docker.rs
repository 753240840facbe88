//! Running containers with a label in Docker, listed again after each event
//! (<https://docs.docker.com/reference/api/engine/>).
//!
//! Called by: `discoveries`.
//! Caveat: containers whose health checks have not passed are left out. The daemon is asked to
//! filter by label, and the labels are looked at here as well: a proxy before it may not filter.
//! Out of scope: Swarm services, and changes of networks, which are seen with the next list.

use crate::{
    api::{ANSWER_TIME, Api, TokenField, encoded, entries, refusal, text},
    feed::Feed,
    servers::Named,
};
use saker_config::model::DiscoverySource;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, timeout};

const PORT_LABEL: &str = "saker.port";
const WEIGHT_LABEL: &str = "saker.weight";
/// Time for further events after the first.
const QUIET: Duration = Duration::from_millis(100);

/// Terms on which containers are taken.
struct Wanted<'f> {
    label: &'f str,
    network: Option<&'f str>,
    port: Option<u16>,
}

/// Asks until it fails. Returns the reason.
pub async fn follow(feed: &Feed) -> String {
    let DiscoverySource::Docker {
        label,
        network,
        port,
    } = &feed.discovery.terms.source
    else {
        return "not a label of Docker".to_owned();
    };
    let wanted = Wanted {
        label,
        network: network.as_deref(),
        port: *port,
    };
    let api = Api::new(&feed.discovery, TokenField::Bearer);
    loop {
        if let Err(error) = watch(feed, &api, &wanted).await {
            return error;
        }
    }
}

/// Lists containers, and again after events, for as long as the stream of events is open.
async fn watch(feed: &Feed, api: &Api<'_>, wanted: &Wanted<'_>) -> Result<(), String> {
    let filters = json!({ "type": ["container"], "label": [wanted.label] });
    let target = format!("/events?filters={}", encoded(&filters.to_string()));
    // Opened first, so that nothing happens between the list and the events.
    let mut events = api.lines(&target).await?;
    if events.status != 200 {
        return Err(refusal(events.status));
    }
    let filters = json!({
        "label": [wanted.label], "status": ["running"], "health": ["healthy", "none"],
    });
    let target = format!("/containers/json?filters={}", encoded(&filters.to_string()));
    loop {
        let document = api.document(&target, Duration::ZERO).await?;
        if document.status != 200 {
            return Err(refusal(document.status));
        }
        let containers = entries(&document.value, "containers")?;
        let named = containers.iter().filter_map(|one| wanted.server(one));
        feed.publish(&named.collect::<Vec<_>>());
        let Ok(event) = timeout(api.refresh(), events.next(api.refresh() + ANSWER_TIME)).await
        else {
            continue;
        };
        let mut is_open = event?.is_some();
        let end = Instant::now() + QUIET;
        while is_open && let Some(left) = end.checked_duration_since(Instant::now()) {
            match timeout(left, events.next(ANSWER_TIME)).await {
                Ok(event) => is_open = event?.is_some(),
                Err(_) => break,
            }
        }
        if !is_open {
            return Ok(());
        }
    }
}

impl Wanted<'_> {
    /// The server of a container. `None`: it is not meant.
    fn server(&self, container: &Value) -> Option<Named> {
        let labels = container["Labels"].as_object()?;
        let (key, value) = match self.label.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (self.label, None),
        };
        let own = labels.get(key)?.as_str()?;
        if value.is_some_and(|value| value != own) || text(container, "/State") != "running" {
            return None;
        }
        let of_label = |name: &str| labels.get(name).and_then(Value::as_str);
        let number = |name: &str| of_label(name).map(|text| text.trim().parse::<u64>());
        let name = text(container, "/Names/0").trim_start_matches('/');
        let port = match (number(PORT_LABEL), self.port) {
            (Some(port), _) => port.ok(),
            (None, Some(port)) => Some(u64::from(port)),
            (None, None) => lowest_port(container),
        };
        let server = || {
            Ok(Named {
                address: self.address(container)?,
                port: port.ok_or("it exposes no TCP port: set `port`, or its label saker.port")?,
                weight: number(WEIGHT_LABEL).map_or(1, |weight| weight.unwrap_or(1)),
                ..Named::default()
            })
        };
        Some(server().unwrap_or_else(|fault: String| Named::faulty(name, &fault)))
    }

    fn address(&self, container: &Value) -> Result<String, String> {
        let networks = container.pointer("/NetworkSettings/Networks");
        let networks = networks.and_then(Value::as_object);
        let networks = networks.into_iter().flatten();
        let is_wanted = |name: &str| self.network.is_none_or(|wanted| wanted == name);
        let addresses: Vec<&str> = networks
            .filter(|(name, _)| is_wanted(name))
            .filter_map(|(_, network)| {
                let both = ["/IPAddress", "/GlobalIPv6Address"];
                let mut both = both.into_iter().map(|key| text(network, key));
                both.find(|address| !address.is_empty())
            })
            .collect();
        match addresses[..] {
            [address] => Ok(address.to_owned()),
            [] => Err("it has no address in such a network".to_owned()),
            _ => Err("it has several networks: set `network`".to_owned()),
        }
    }
}

/// The lowest port that a container exposes, published or not.
fn lowest_port(container: &Value) -> Option<u64> {
    let ports = container["Ports"].as_array()?.iter();
    let tcp = ports.filter(|port| text(port, "/Type") == "tcp");
    tcp.filter_map(|port| port["PrivatePort"].as_u64()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(labels: Value, networks: Value) -> Value {
        json!({
            "Names": ["/web-1"], "State": "running", "Labels": labels,
            "Ports": [
                { "PrivatePort": 53, "Type": "udp" }, { "PrivatePort": 8443, "Type": "tcp" },
                { "PrivatePort": 8080, "PublicPort": 80, "IP": "0.0.0.0", "Type": "tcp" },
            ],
            "NetworkSettings": { "Networks": networks },
        })
    }

    fn wanted(label: &str) -> Wanted<'_> {
        Wanted {
            label,
            network: None,
            port: None,
        }
    }

    #[test]
    fn containers_have_the_address_of_their_network_and_their_lowest_port() {
        let one = json!({ "web": { "IPAddress": "172.20.0.2" } });
        let with = |labels: Value| wanted("app=shop").server(&container(labels, one.clone()));
        let found = with(json!({ "app": "shop" })).unwrap();
        assert_eq!(
            (&*found.address, found.port, found.weight),
            ("172.20.0.2", 8080, 1)
        );
        let found = with(json!({ "app": "shop", "saker.port": "9000", "saker.weight": "5" }));
        let found = found.unwrap();
        assert_eq!((found.port, found.weight), (9000, 5));
        assert_eq!(with(json!({ "app": "other" })), None);
        assert_eq!(with(json!({ "app": "shop2" })), None);
        assert_eq!(with(json!({})), None);
        let found = with(json!({ "app": "shop", "saker.port": "http" })).unwrap();
        assert!(found.fault.is_some(), "{found:?}");
        let stopped = json!({ "State": "exited", "Labels": { "app": "shop" } });
        assert_eq!(wanted("app=shop").server(&stopped), None);
        let any = wanted("app").server(&container(json!({ "app": "x" }), one.clone()));
        assert_eq!(any.unwrap().fault, None);
    }

    #[test]
    fn a_network_has_to_be_named_where_there_are_several() {
        let two = json!({
            "web": { "IPAddress": "172.20.0.2" },
            "db": { "IPAddress": "", "GlobalIPv6Address": "2001:db8::2" },
        });
        let container = container(json!({ "app": "shop" }), two);
        let found = |network| {
            let wanted = Wanted {
                network,
                ..wanted("app=shop")
            };
            let found = wanted.server(&container).unwrap();
            found.fault.map_or(Ok(found.address), Err)
        };
        assert_eq!(found(Some("web")).as_deref(), Ok("172.20.0.2"));
        assert_eq!(found(Some("db")).as_deref(), Ok("2001:db8::2"));
        assert!(found(None).unwrap_err().contains("several"));
        assert!(found(Some("host")).unwrap_err().contains("no address"));
    }
}
