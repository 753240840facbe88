//! Exchanges for this crate's tests.

use saker_config::model::{Address, Origin, Settings, Site, SiteName};
use saker_http::{RequestHead, Version};
use saker_pipeline::{Body, Client, Exchange, NoBody, Response};
use std::{rc::Rc, sync::Arc};

/// A GET request for `/` on a site with these settings.
pub fn exchange(settings: Settings, fields: &[(&str, &str)]) -> Exchange {
    let address = "127.0.0.1:80".parse().unwrap();
    let client = Client::new(address, address, Arc::new(Address::Tcp(address)), false);
    let site = Site {
        names: vec![SiteName::Any],
        settings: Arc::new(settings),
        ..Site::new(Origin::built_in())
    };
    Exchange::new(
        Rc::new(client),
        RequestHead::build("GET", "/", Version::Http11, fields),
        Box::new(NoBody),
        Arc::new(site),
        0,
    )
}

/// Runs a future on a runtime like a worker's.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

pub fn field(response: &Response, name: &str) -> String {
    response
        .fields()
        .first(name)
        .map(|value| String::from_utf8_lossy(value).into_owned())
        .unwrap_or_default()
}

/// The bytes of a body in memory.
pub fn body_bytes(body: &Body) -> Vec<u8> {
    match body {
        Body::Empty => Vec::new(),
        Body::Memory(chunk) => chunk.bytes().to_vec(),
        _ => panic!("not in memory"),
    }
}
