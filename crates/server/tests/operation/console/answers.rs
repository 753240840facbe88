//! An answer of every route of the API, which the fixture holds against its description.

use crate::{
    console::fixture::{Fixture, Keys},
    console::live::Origin,
    operate::folder,
};
use saker_testkit::wait_until;
use serde_json::{Value, json};
use std::{cell::RefCell, collections::BTreeSet};

/// Routes whose answers other tests get: they need a cluster, a PHP pool, and an authority.
const ELSEWHERE: [&str; 3] = [
    "GET /api/v1/cluster",
    "POST /api/v1/php/restart",
    "POST /api/v1/certificates/renew",
];

struct Calls {
    fixture: Fixture,
    token: String,
    /// Method and path of routes that have answered.
    answered: RefCell<BTreeSet<String>>,
}

impl Calls {
    fn call(&self, token: &str, method: &str, path: &str, body: &Value) -> Value {
        let target = format!("/api/v1/{path}");
        let (status, answer) = self.fixture.api(token, method, &target, body);
        assert_eq!(status, 200, "{method} {path}: {answer}");
        let route = target.split('?').next().unwrap_or_default();
        self.answered
            .borrow_mut()
            .insert(format!("{method} {route}"));
        answer
    }

    fn get(&self, path: &str) -> Value {
        self.call(&self.token, "GET", path, &Value::Null)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.call(&self.token, "POST", path, body)
    }

    fn cache(&self) {
        let page = "http://localhost/page/1";
        let job = self.post("cache/warm", &json!({ "urls": [page] }))["job"].clone();
        let progress = format!("cache/warm?job={job}");
        wait_until("the warm-up is over", || {
            self.get(&progress)["is_over"] == true
        });
        self.post("cache/warm/stop", &json!({ "job": job }));
        self.get("cache");
        let entry = self.get("cache/entries")["entries"][0]["entry"].clone();
        let entry = entry.as_str().expect("an entry");
        assert!(
            self.get("cache/entries?url=http://localhost/page/1")["entries"][0]["fields"]
                .is_array()
        );
        self.get(&format!("cache/body?entry={entry}"));
        self.post(
            "cache/purge",
            &json!({ "bans": ["req.url ~ ."], "dry_run": true }),
        );
        self.post("cache/purge", &json!({ "all": true }));
    }

    fn clients_and_redirects(&self) {
        let both = json!({ "addresses": ["192.0.2.0/24", "198.51.100.1"], "reason": "test" });
        self.post("bans/ban", &both);
        self.post(
            "bans/ban",
            &json!({ "addresses": ["203.0.113.1"], "seconds": 600 }),
        );
        assert_eq!(self.get("bans")["count"], 3);
        let lifted = self.post("bans/unban", &json!({ "addresses": ["192.0.2.1"] }));
        assert_eq!(lifted["still_held"][0]["address"], "192.0.2.1", "{lifted}");
        let redirect = json!({ "site": "*", "from": "/old", "to": "/new", "status": 301 });
        self.post("redirects/add", &redirect);
        assert_eq!(self.get("redirects")["redirects"][0]["status"], 301);
        self.post("redirects/remove", &json!({ "site": "*", "from": "/old" }));
    }

    fn upstreams(&self, first: &str, second: &str) {
        let member = json!({ "upstream": "app", "member": first });
        self.post("upstreams/test", &member);
        let mut change = member.clone();
        change["action"] = "weight".into();
        change["weight"] = 3.into();
        self.post("upstreams/member", &change);
        self.post(
            "upstreams/servers/add",
            &json!({ "upstream": "app", "url": second }),
        );
        self.get("upstreams");
        let member = json!({ "upstream": "app", "member": second });
        self.post("upstreams/servers/remove", &member);
    }

    fn configuration(&self) {
        let open = self.get("configuration");
        let (file, text) = (&open["file"], open["text"].as_str().expect("a text"));
        let mistake = json!({ "file": file, "text": format!("{text}\nnosuch = 1\n") });
        let found = self.post("configuration/check", &mistake);
        assert!(found["diagnostics"][0]["line"].is_u64(), "{found}");
        let typed = json!({ "file": file, "before": "[server]\nwork" });
        let completed = self.post("configuration/complete", &typed);
        assert!(
            completed["candidates"][0]["text"].is_string(),
            "{completed}"
        );
        for table in ["", "server", "site.0", "upstream.0"] {
            self.get(&format!("configuration/settings?table={table}"));
        }
        let mut base = open["digest"].clone();
        for (end, seconds) in [("roll-back", "21"), ("confirm", "22")] {
            let values = json!({ "shutdown_timeout": format!("{seconds}s") });
            let change = json!({ "file": file, "table": "server", "values": values });
            let changed = self.post("configuration/settings", &change);
            let order = json!({ "file": file, "text": changed["text"], "base": base });
            let applied = self.post("configuration/apply", &order);
            assert!(self.get("configuration")["pending"]["id"].is_string());
            self.post(
                &format!("configuration/{end}"),
                &json!({ "id": applied["id"] }),
            );
            base = self.get("configuration")["digest"].clone();
        }
        self.post("reload", &json!({}));
    }

    fn owner(&self) {
        let eve = self.fixture.owner_token("a.example");
        for end in ["roll-back", "confirm"] {
            let found = self.call(&eve, "GET", "site/settings", &Value::Null);
            let order = json!({ "base": found["base"], "values": { "listing": "true" } });
            let applied = self.call(&eve, "POST", "site/apply", &order);
            let id = json!({ "id": applied["id"] });
            self.call(&eve, "POST", &format!("site/{end}"), &id);
        }
        for path in ["cache", "cache/entries", "redirects"] {
            self.call(&eve, "GET", path, &Value::Null);
        }
    }
}

#[test]
fn answers_of_every_route_are_as_described() {
    let (first, second) = (
        Origin::start("Cache-Control: public, max-age=600\r\nCache-Tag: news\r\n"),
        Origin::start("Cache-Control: no-store\r\n"),
    );
    let (first, second) = (
        format!("http://{}", first.address),
        format!("http://{}", second.address),
    );
    let site = format!(
        "cache = true\naccess_log = {{ path = \"{{dir}}/access.log\" }}\n\
         [[site.route]]\npath = \"/page/*\"\nproxy = \"app\"\n\
         [[site.route]]\npath = \"/own/*\"\nproxy = \"{second}\"\n\
         [[upstream]]\nname = \"app\"\nservers = [\"{first}\"]\n\
         [[site]]\nnames = [\"a.example\"]\nroot = \"{{dir}}/www\"\n"
    );
    let keys = Keys {
        site: &site,
        ..Keys::default()
    };
    let fixture = Fixture::start_in(folder("console-answers"), &keys);
    let calls = Calls {
        token: fixture.token("administrator"),
        fixture,
        answered: RefCell::default(),
    };
    calls.get("top");
    let mut client = calls.fixture.saker.connect().unwrap();
    wait_until("a pass is counted", || {
        client.get("/own/1").unwrap();
        client.get("/missing").unwrap();
        let tops = calls.get("top");
        tops["passes"][0]["cause"].is_string() && tops["errors"][0]["text"].is_string()
    });
    calls.cache();
    calls.clients_and_redirects();
    calls.upstreams(&first, &second);
    calls.configuration();
    calls.owner();
    let question = "explain?url=/page/1&method=GET&header=Accept:+*/*";
    assert!(calls.get(question)["steps"][0]["phase"].is_string());
    let log = calls.get("logs")["files"][0]["file"].clone();
    calls.get(&format!("logs/text?file={}", log.as_str().expect("a log")));
    for path in ["status", "live", "live?range=24h", "certificates", "audit"] {
        calls.get(path);
    }
    let document = calls.get("openapi.json");
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if operation["responses"]["200"]["content"]["application/json"].is_object() {
                described.insert(format!("{} {path}", method.to_ascii_uppercase()));
            }
        }
    }
    let mut answered = calls.answered.into_inner();
    answered.extend(ELSEWHERE.map(str::to_owned));
    assert_eq!(answered, described);
}
