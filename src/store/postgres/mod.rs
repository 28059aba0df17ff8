//! The store on `PostgreSQL`, for several nodes that share one database.
//!
//! Every act is a transaction. Those of jobs go through one thread of the node, which runs waiting acts in
//! one transaction and claims ready jobs at its end; reads use connections of their own. A node holds its
//! jobs as long as its lease in the table `nodes` lasts: each transaction under a lease checks that.

mod accounts;
mod audit;
mod batches;
mod catalogue_watch;
mod cluster;
mod conversations;
mod encoded_param;
mod heartbeat;
mod inspect;
mod jobs;
mod last_beat;
mod listener;
mod migrations;
mod next_due;
mod node;
mod node_store;
mod options;
mod param_types;
pub(crate) mod pool;
mod pool_error;
mod projects;
mod providers;
mod retention;
mod schedules;
mod session;
mod settings;
mod shared;
mod store;
mod stored_files;
mod sweeper;
mod tls;
pub(crate) mod transfer;
mod url;
mod user_lock;
mod webhooks;
mod windows;
mod writer;

pub use inspect::{ConnectionProtection, DatabaseReport, inspect, read_cluster};
pub use options::PostgresOptions;
pub use pool_error::PoolError;
pub use store::{PostgresOpenError, PostgresStore};
pub use transfer::access::DatabaseError;
pub(crate) use transfer::logs::LOG_KEY_SETTING;
