//! The store against its port: what every method promises, on a real file, crashes by copying that file.

#[cfg(test)]
#[path = "store_contract/accounts.rs"]
mod accounts;
#[cfg(test)]
#[path = "store_contract/again.rs"]
mod again;
#[cfg(test)]
#[path = "store_contract/approvals.rs"]
mod approvals;
#[cfg(test)]
#[path = "store_contract/backup.rs"]
mod backup;
#[cfg(test)]
#[path = "store_contract/batches.rs"]
mod batches;
#[cfg(test)]
#[path = "store_contract/beside.rs"]
mod beside;
#[cfg(test)]
#[path = "store_contract/cancel.rs"]
mod cancel;
#[cfg(test)]
#[path = "store_contract/conversation_model.rs"]
mod conversation_model;
#[cfg(test)]
#[path = "store_contract/conversation_removal.rs"]
mod conversation_removal;
#[cfg(test)]
#[path = "store_contract/conversations.rs"]
mod conversations;
#[cfg(test)]
#[path = "store_contract/defer.rs"]
mod defer;
#[cfg(test)]
#[path = "store_contract/faults.rs"]
mod faults;
#[cfg(test)]
#[path = "store_kit/mod.rs"]
mod kit;
#[cfg(test)]
#[path = "store_contract/layout_3.rs"]
mod layout_3;
#[cfg(test)]
#[path = "store_contract/lists.rs"]
mod lists;
#[cfg(test)]
#[path = "store_contract/log.rs"]
mod log;
#[cfg(test)]
#[path = "store_contract/messages.rs"]
mod messages;
#[cfg(test)]
#[path = "store_contract/migration.rs"]
mod migration;
#[cfg(test)]
#[path = "store_contract/order.rs"]
mod order;
#[cfg(test)]
#[path = "store_contract/outbox.rs"]
mod outbox;
#[cfg(test)]
#[path = "store_contract/projects.rs"]
mod projects;
#[cfg(test)]
#[path = "store_contract/race.rs"]
mod race;
#[cfg(test)]
#[path = "store_contract/recovery.rs"]
mod recovery;
#[cfg(test)]
#[path = "store_contract/regenerate.rs"]
mod regenerate;
#[cfg(test)]
#[path = "store_contract/results.rs"]
mod results;
#[cfg(test)]
#[path = "store_contract/retention.rs"]
mod retention;
#[cfg(test)]
#[path = "store_contract/rig.rs"]
mod rig;
#[cfg(test)]
#[path = "store_contract/schedules.rs"]
mod schedules;
#[cfg(test)]
#[path = "store_contract/summaries.rs"]
mod summaries;
#[cfg(test)]
#[path = "store_contract/users.rs"]
mod users;
