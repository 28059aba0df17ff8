//! Where jobs and events live. Owns the embedded store behind [`crate::ports::Store`]; refuses to know who reads it.

mod draft;
mod glance;
mod keep;
pub mod options;
mod redb;

pub use self::redb::{LAYOUT, OpenError, RedbStore, Sight, backup_closed, layout, restore};
pub use draft::Draft;
pub use glance::{Glance, glance};
pub use keep::{Keep, NoTime};
