//! Power loss at any moment (P1, P2, P4): a seeded workload runs on a disk that tracks syncs. Images contain
//! all synced sectors and any subset of the unsynced ones. On each image the store must open, contain
//! everything acknowledged or seen, have no gaps, and finish every job; also after a second loss during
//! recovery. A disk with ineffective syncs is a control: the method must detect it.
//!
//! `TEST_IMAGES` sets the number of images, `TEST_SEED` the first seed.
#![warn(clippy::disallowed_methods, reason = "time comes in through a clock of the test")]

mod oracle;
mod power_loss;
mod split;
mod workload;

use crate::support::disk::Syncs;
use crate::support::setting;
use power_loss::PowerLoss;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Images, including those of a second loss.
const IMAGES: u64 = 300;

/// Two threads share the seeds and stop after enough images.
#[test]
fn p1_p2_p4_no_power_loss_loses_acknowledged_or_seen_data() {
    let (images, first) = (setting("TEST_IMAGES").unwrap_or(IMAGES), setting("TEST_SEED").unwrap_or(1));
    let (next, taken, second) = (AtomicU64::new(first), AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        while taken.load(SeqCst) + second.load(SeqCst) < images {
            let seed = next.fetch_add(1, SeqCst);
            let power_loss = workload::run(seed, Syncs::Hold);
            let failures = power_loss.failures();
            assert!(failures.is_empty(), "TEST_SEED={seed}: {failures:#?}");
            taken.fetch_add(power_loss.taken(), SeqCst);
            second.fetch_add(power_loss.taken_again(), SeqCst);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let (taken, second, seed) = (taken.into_inner(), second.into_inner(), next.into_inner());
    println!("{taken} images and {second} of a second power loss, seeds {first} to {}", seed - 1);
    assert!(second * 3 > taken, "too few second power losses");
}

#[test]
fn a_disk_with_ineffective_syncs_is_detected() {
    let losses: Vec<PowerLoss> = (1..=3).map(|seed| workload::run(seed, Syncs::Lie)).collect();
    let caught: usize = losses.iter().map(|power_loss| power_loss.failures().len()).sum();
    let taken: u64 = losses.iter().map(PowerLoss::taken).sum();
    println!("{caught} failures in {taken} images");
    assert!(caught as u64 * 2 > taken, "only {caught} of {taken} images were detected");
}

#[test]
fn p4_a_job_end_split_into_two_transactions_is_detected() {
    let count = |end| (1..=10).map(|seed| split::run(seed, end)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let ((intact_images, inconsistent), (split, caught)) =
        (count(split::End::Whole), count(split::End::Split));
    println!(
        "{inconsistent} of {intact_images} images are inconsistent, {caught} of {split} when the end is split"
    );
    assert!(
        intact_images > 50 && inconsistent == 0,
        "{inconsistent} of {intact_images} images of an ordinary end are inconsistent"
    );
    assert!(caught * 10 > split, "only {caught} of {split} images of a split end were detected");
}
