//! PHP that the server runs itself: found, started when the first request comes, supervised, and
//! ended with the server.
//!
//! Floor 4: the configuration's model in, processes out. Nothing here takes part in a request. A
//! pool is a listening Unix socket of the server's with a PHP behind it (`lsphp`, `php-fpm` or
//! `php-cgi`, each of which makes its own workers); the gateway connects to it as to any other
//! backend. The socket belongs to the pool, not to the PHP: requests wait in its queue while PHP
//! starts, dies or is replaced, and none is lost.
//!
//! [`settle`] looks for PHP and writes the pools into the model, [`Manager`] runs them on the main
//! thread. `detect` finds programs, `command` knows what each wants to be told, `pool` is the life
//! of one, `ini` says when PHP's own configuration changed. Absent on purpose: which requests are
//! for PHP (the rules' business), and what the protocols look like (crate `cgi`).

mod choice;
mod command;
mod detect;
mod ini;
mod manager;
mod module;
mod output;
mod plan;
mod pool;
mod process;
mod settings;
mod temporary;
mod user;

pub use choice::{choose, has_scripts, missing};
pub use detect::{Found, installed};
pub use manager::Manager;
pub use plan::{explain, problems, settle};
pub use settings::prepare;
pub use user::{OWN_USER, closed_to, grants, of_folder, shares_servers_user};
