//! The most frequent URLs, clients, user agents, and errors of the last requests.
//!
//! Called by: [`Tail`](crate::tail::Tail), for each request while an operator looks at them.
//! Caveat: memory is bounded, whatever clients send (`sketch`).
//! Out of scope: rates, which the history has; outcomes of the page cache, which counts them.

use crate::{line::Line, sketch::Sketch};
use serde_json::{Value, json};

/// All lists.
#[derive(Debug, Default)]
pub struct Tops {
    requests: u64,
    /// Seconds since 1970 of the first request.
    since_s: i64,
    urls: Sketch<()>,
    clients: Sketch<()>,
    user_agents: Sketch<()>,
    /// Status and URL of 4xx and 5xx.
    errors: Sketch<()>,
}

impl Tops {
    /// Takes in a finished request.
    pub fn note(&mut self, line: &Line) {
        if self.requests == 0 {
            self.since_s = line.at_ms / 1000;
        }
        self.requests += 1;
        let path = line.target.split('?').next().unwrap_or_default();
        let url = format!("{}{path}", line.host);
        self.urls.count(&url);
        self.clients.count(&line.client);
        self.user_agents.count(match line.user_agent.as_str() {
            "" => "(none)",
            agent => agent,
        });
        if line.status >= 400 {
            self.errors.count(&format!("{} {url}", line.status));
        }
    }

    pub fn to_json(&self) -> Value {
        let plain = |(): &()| Value::Null;
        json!({
            "requests": self.requests,
            "since_s": self.since_s,
            "urls": self.urls.rows(plain),
            "clients": self.clients.rows(plain),
            "user_agents": self.user_agents.rows(plain),
            "errors": self.errors.rows(plain),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(target: &str, status: u16) -> Line {
        Line {
            target: target.into(),
            status,
            client: "192.0.2.7".into(),
            host: "a.example".into(),
            site: "a.example".into(),
            ..Line::default()
        }
    }

    #[test]
    fn lists() {
        let mut tops = Tops::default();
        tops.note(&line("/shop/a?x=1", 200));
        tops.note(&line("/shop/a?x=2", 404));
        tops.note(&line("/shop/b", 500));
        tops.note(&line("/", 200));
        let json = tops.to_json();
        assert_eq!(json["requests"], 4);
        assert_eq!(
            json["urls"][0],
            json!({ "text": "a.example/shop/a", "count": 2, "error": 0 })
        );
        assert_eq!(json["clients"][0]["count"], 4);
        assert_eq!(json["user_agents"][0]["text"], "(none)");
        let errors = json["errors"].as_array().expect("rows");
        assert_eq!(errors.len(), 2);
    }
}
