//! Filters that change bodies on their way: responses after the handler, request bodies before it.
//!
//! Each filter is a type or a function over settings of its own and `saker_pipeline`'s bodies and
//! responses; it knows no configuration language. `catalog` lists the filters by name with their
//! place in the chain, `transform` runs one over any body.
//!
//! Called by: the front ends, which choose the filters of a response and configure them; `server`,
//! which registers [`Compress`] and
//! [`Dictionaries`].
//! Out of scope: server-side includes, which make requests of their own; ranges of filtered
//! content.

mod budget;
pub mod buffer;
pub mod catalog;
mod compress;
pub mod data_url;
mod dictionaries;
mod encoded_stream;
pub mod ext_filter;
mod gather;
pub mod inflate;
pub mod literals;
pub mod made;
pub mod program;
pub mod proxy_html;
pub mod rate_limit;
pub mod sed;
pub mod substitute;
mod transform;

pub use catalog::Stage;
pub use compress::Compress;
pub use dictionaries::Dictionaries;
pub use gather::gather;
pub use transform::{
    PassThrough, Transform, TransformedBody, TransformedStream, as_stream, transform_response,
};

#[cfg(test)]
mod test_exchange;
