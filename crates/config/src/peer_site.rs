//! The listener and the site at which the servers of a cluster ask each other for pages.
//!
//! Called by: `configuration`, when the model is made.
//! Caveat: the site is on its listener alone, and no other site is: what clients ask for cannot
//! reach it, and the certificates that it demands protect nothing else.
//! Out of scope: what it answers (`saker_page_cache::peers`).

use crate::model::{
    Address, CertificateFiles, ClientCertificates, Listener, ListenerTls, Model, Site, SiteName,
    SiteTls,
};
use std::sync::Arc;

/// Adds them, where pages are shared.
pub(crate) fn add_to(model: &mut Model) {
    let peers = &model.cluster.peers;
    let Some(listen) = peers.listen else {
        return;
    };
    let address = Address::Tcp(listen);
    let tls = SiteTls {
        certificates: vec![CertificateFiles {
            certificate: peers.certificate.clone(),
            key: peers.key.clone(),
            ocsp: None,
            chain: None,
            passphrase: None,
            stapling: None,
            origin: peers.origin.clone(),
        }],
        client_certificates: ClientCertificates::Required,
        client_ca: Some(peers.ca_file.clone()),
        ..SiteTls::default()
    };
    let site = Site {
        names: vec![SiteName::Any],
        listeners: vec![address.clone()],
        tls: Arc::new(tls),
        is_for_peers: true,
        ..Site::new(peers.origin.clone())
    };
    let listener = Listener {
        tls: Some(ListenerTls::default()),
        ..Listener::new(address, peers.origin.clone())
    };
    let of_sites = model.listeners.iter().filter(|one| one.stream.is_none());
    let of_sites: Vec<Address> = of_sites.map(|one| one.address.clone()).collect();
    for site in &mut model.sites {
        if site.listeners.is_empty() {
            Arc::make_mut(site).listeners.clone_from(&of_sites);
        }
    }
    model.listeners.push(listener);
    model.sites.push(Arc::new(site));
}
