//! What people run instead, measured in the same run (`--peers`). Owns nothing: `scripts/peers/` installs and drives it,
//! and says aloud what cannot be had here.

use crate::show;
use std::process::{Command, Stdio};

/// Jobs a second that `BullMQ` keeps on a Redis which syncs every write.
pub(crate) fn measure() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/peers/bullmq");
    let run = Command::new(script).stderr(Stdio::inherit()).output().expect("run the script");
    let told = String::from_utf8_lossy(&run.stdout);
    let name = "  beside it: BullMQ on Redis, appendfsync always, 64 at once";
    match told.trim().parse::<f64>() {
        Ok(rate) if run.status.success() => show(name, &format!("{rate:.0}/s"), "–"),
        _ => show(name, "skipped", "–"),
    }
}
