//! Says where in the file system a path would be. The files handler opens it; this phase only
//! records it for `explain` and logs.

use crate::{Exchange, Response, Services};

pub(super) fn map_to_storage(exchange: &mut Exchange, _: &Services) -> Option<Response> {
    if exchange.trace.is_some() {
        let text = match &exchange.site.root {
            Some(root) => format!(
                "{}{}",
                root.display(),
                String::from_utf8_lossy(&exchange.path)
            ),
            None => "the site has no root".into(),
        };
        exchange.trace("map_to_storage", None, || text);
    }
    None
}
