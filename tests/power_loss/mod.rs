//! Power losses of the whole product: the store and the files of projects on one recorded disk. Whatever the
//! server acknowledged before a cut is there when a new server starts on what the disk then has.

mod disk;
mod facts;
mod fuse;
mod settings;
mod workload;

use crate::support::disk::{SeededRandom, Syncs};
use crate::support::setting;
use disk::{Cut, RecordedDisk, cuts, mount_image, write_image};
use facts::Facts;
use fuse::Recording;
use std::io::Write;
use std::path::Path;
use std::time::Instant;
use workload::Workload;

const DEFAULT_CUTS: u64 = 50;
const LIE_CUTS: usize = 16;
const ROUNDS: usize = 3;
/// Files that the test writes itself, without `fsync`.
const UNSYNCED: &str = "unsynced";

/// A recorded run.
struct Run {
    recording: Recording,
    facts: Facts,
    token: String,
    /// Positions at which the file of this number was complete, for programs on the same machine.
    unsynced: Vec<usize>,
}

/// Writes a message past the capture of test output; `scripts/test` lists those with `SKIPPED:`.
fn say(text: &str) {
    writeln!(std::io::stderr(), "{text}").expect("standard error");
}

fn record(dir: &Path) -> Option<Run> {
    let disk = RecordedDisk::new(dir)?;
    let unsynced_dir = disk.mounted.0.join(UNSYNCED);
    std::fs::create_dir(&unsynced_dir).expect("a directory");
    let mut workload = Workload::start(&disk);
    let mut unsynced = Vec::new();
    for round in 0..ROUNDS {
        std::fs::write(unsynced_dir.join(round.to_string()), [b'x'; 5_000]).expect("a file");
        unsynced.push(disk.position());
        workload.round(round);
    }
    let (facts, token) = workload.finish();
    Some(Run { recording: disk.into_recording(), facts, token, unsynced })
}

/// What a power loss broke (`None`: all), and how many files without `fsync` it took.
fn strike(
    run: &Run,
    (cut, syncs): (Cut, Syncs),
    random: &mut SeededRandom,
    dir: &Path,
) -> (Option<Vec<String>>, usize) {
    let image = dir.join("image");
    write_image(&run.recording, (cut, syncs), random, &image);
    let Some(mounted) = mount_image(&image, &dir.join("after")) else {
        return (None, 0);
    };
    let written = run.unsynced.iter().filter(|from| **from <= cut.end).count();
    let is_whole = |number: &usize| {
        let path = mounted.0.join(UNSYNCED).join(number.to_string());
        std::fs::read(path).is_ok_and(|bytes| bytes == [b'x'; 5_000])
    };
    let lost = written - (0..written).filter(is_whole).count();
    (run.facts.broken(cut, &mounted.0, &run.token), lost)
}

#[test]
fn p1_what_was_acknowledged_survives_a_power_loss_everywhere() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(run) = record(dir.path()) else {
        return say("SKIPPED: power losses need root, /dev/fuse, loop devices and mkfs.ext4");
    };
    let count = setting("TEST_POWER_CUTS").unwrap_or_else(|| {
        if setting("TEST_IMAGES").is_some_and(|n| n >= 3_000) { 1_000 } else { DEFAULT_CUTS }
    });
    let mut random = SeededRandom(setting("TEST_SEED").unwrap_or(1));
    let count = usize::try_from(count).expect("a count");
    let (mut failures, mut checked, mut unsynced_lost) = (Vec::new(), 0, 0);
    let started = Instant::now();
    for cut in cuts(&run.recording, count, Syncs::Hold, &mut random) {
        let (broken, lost) = strike(&run, (cut, Syncs::Hold), &mut random, dir.path());
        let broken = broken.unwrap_or_else(|| vec!["no mount, or no start".to_owned()]);
        failures.extend(broken.into_iter().map(|error| format!("{cut:?}: {error}")));
        checked += run.facts.count(cut);
        unsynced_lost += lost;
    }
    let operations = run.recording.operations.len();
    say(&format!(
        "{count} cuts of {operations} operations, {checked} facts checked, {:.1?}; {} broken, {unsynced_lost} files \
         without fsync lost",
        started.elapsed(),
        failures.len()
    ));
    assert!(failures.is_empty(), "{} broken:\n{}", failures.len(), failures.join("\n"));
    assert!(unsynced_lost > 0, "no cut takes a file that nobody flushed: the cuts cannot fail");
    let lies = cuts(&run.recording, LIE_CUTS, Syncs::Lie, &mut random);
    let mut outcomes = lies.into_iter().map(|cut| strike(&run, (cut, Syncs::Lie), &mut random, dir.path()).0);
    let is_harmed = outcomes.any(|broken| broken.is_some_and(|broken| !broken.is_empty()));
    assert!(is_harmed, "a disk that lies about flushes loses nothing: the checks cannot fail");
}
