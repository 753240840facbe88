//! An API and servers with TLS: the API's certificate is verified for its host, those of servers for
//! the name of the configuration.

use super::fixture::{
    api, configuration, counts, send, source, wait_for_error, wait_for_names, wait_until_settled,
};
use crate::{
    operate::{self, folder},
    tls_site::{self, leaf_certificate},
};
use serde_json::json;
use std::sync::{Arc, Mutex};

#[test]
fn names_and_authorities_are_those_of_the_configuration() {
    let port = Arc::new(Mutex::new(0));
    let told = Arc::clone(&port);
    let agent = api(move |_, stream| {
        let service = json!({ "Address": "127.0.0.1", "Port": *told.lock().unwrap() });
        // No index: asked again after `refresh`.
        send(stream, "", &json!([{ "Service": service }]));
    });
    let dir = folder("discovery-tls-front");
    leaf_certificate(&dir, "site", "localhost");
    let routes = format!(
        "[[site.route]]\npath = \"/v1/*\"\nproxy = \"http://{agent}\"\n\
         [[site.route]]\npath = \"/*\"\nrespond = \"tls\"\n"
    );
    let front = operate::start_in(dir, &tls_site::configuration("", &routes));
    let front_port = front.server.address().port();
    *port.lock().unwrap() = front_port;
    let ca_file = front.dir.join("site.pem");
    let keys = |ca_file: &str, name: &str| {
        let authority = front.dir.join("site.pem");
        format!(
            "consul = \"https://localhost:{front_port}\"\nservice = \"web\"\n{ca_file}\n\
             scheme = \"https\"\nnetworks = [\"127.0.0.0/8\"]\nrefresh = \"1s\"\n\
             [upstream.tls]\nca_file = \"{}\"\nserver_name = \"{name}\"\n",
            authority.display()
        )
    };
    let ca_file = format!("ca_file = \"{}\"", ca_file.display());
    let right = operate::start(
        "discovery-tls",
        &configuration(&keys(&ca_file, "localhost")),
    );
    wait_for_names(&right, &["tls"]);
    let wrong = operate::start(
        "discovery-tls-name",
        &configuration(&keys(&ca_file, "a.test")),
    );
    wait_until_settled(&wrong);
    assert_eq!(source(&wrong)["servers"], 1);
    assert_eq!(
        counts(&wrong, 2)["502"],
        2,
        "a certificate for another name"
    );
    let strange = operate::start("discovery-tls-ca", &configuration(&keys("", "localhost")));
    let error = wait_for_error(&strange);
    assert!(
        !error.is_empty() && source(&strange)["servers"] == 0,
        "{error}"
    );
    assert_eq!(counts(&strange, 2)["503"], 2);
}
