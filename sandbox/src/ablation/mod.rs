//! Support for this crate's own tests, which show that each layer of the policy matters. Feature `ablation`
//! only.
//!
//! A process loses a layer only if `main` of its binary calls [`live_without`] first. The product has no such
//! call.

mod layer;
mod table;

pub(crate) use layer::{IDLE_CALL, lacks_landlock, make_calls, replacement_filters};
pub use layer::{KernelLayer, live_without};
pub use table::{ArgumentCondition, PolicyAction, PolicyRow, PolicyTable, tables};
