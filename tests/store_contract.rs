//! The store against its port: what every method promises, on a real file, crashes by copying that file.

#[path = "store_contract/cancel.rs"]
mod cancel;
#[path = "store_contract/faults.rs"]
mod faults;
#[path = "store_kit/mod.rs"]
mod kit;
#[path = "store_contract/lists.rs"]
mod lists;
#[path = "store_contract/log.rs"]
mod log;
#[path = "store_contract/order.rs"]
mod order;
#[path = "store_contract/recovery.rs"]
mod recovery;
#[path = "store_contract/rig.rs"]
mod rig;
