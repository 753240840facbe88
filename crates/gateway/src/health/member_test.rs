//! One test of a member on request: a connection, then the request of its health check.
//!
//! Called by: the console, on the main thread.
//! Caveat: the member is one of the configuration, or one that an administrator has added; the
//! answer's status is told, its content is not. What is known of the member stays as it is.
//! Out of scope: health checks (`probe`), whose request this is.

use super::probe;
use crate::pool::Pool;
use saker_config::model::{HealthCheck, HealthMethod, Member, MemberTest, Protocol};
use std::{rc::Rc, sync::Arc, time::Instant};

/// Limit on each of the two steps.
const STEP_MS_MAX: u64 = 10_000;

/// Connects to a member, and sends the request of its health check; without one, `GET /`.
pub async fn test_member(member: &Member) -> MemberTest {
    let check = check_of(member);
    let is_http = matches!(member.backend.protocol, Protocol::Http1 | Protocol::Http2);
    let mut test = MemberTest {
        is_tls: member.backend.tls.is_some(),
        request: is_http.then(|| format!("{} {}", check.method.as_str(), check.target)),
        ..MemberTest::default()
    };
    let pool = Rc::new(Pool::new(Arc::clone(&member.backend)));
    let begun = Instant::now();
    if let Err(error) = probe::connect(&pool, member, &check).await {
        test.error = Some(error);
        return test;
    }
    test.connected = Some(begun.elapsed());
    if !is_http {
        test.is_passed = true;
        return test;
    }
    let begun = Instant::now();
    match probe::answer(&pool, member, &check).await {
        Ok(answer) => {
            test.is_passed = answer.as_ref().is_none_or(|answer| check.is_passed(answer));
            test.answered = answer.map(|answer| (answer.status, begun.elapsed()));
        }
        Err(error) => test.error = Some(error),
    }
    test
}

/// The member's own check. One that only connects asks for more here.
fn check_of(member: &Member) -> HealthCheck {
    let own = member.health.as_deref().cloned().unwrap_or_default();
    HealthCheck {
        method: match own.method {
            HealthMethod::Connect => HealthMethod::Get,
            method => method,
        },
        timeout_ms: own.timeout_ms.min(STEP_MS_MAX),
        ..own
    }
}
