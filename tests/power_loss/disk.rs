//! A recorded ext4 disk, and the images that a power loss may leave of it.

use super::fuse::{Operation, RecordedFile, Recording};
use crate::support::disk::{SeededRandom, Syncs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The disk writes a block whole or not at all. ext4's superblock does not survive half a write; that of redb
/// does (`tests/torn_writes`).
const BLOCK: usize = 4_096;
const DISK_BYTES: u64 = 64 << 20;

/// A mounted directory; unmounted when dropped.
pub(super) struct Mounted(pub(super) PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        if !runs(Command::new("umount").arg(&self.0)) {
            runs(Command::new("umount").arg("--lazy").arg(&self.0));
        }
    }
}

struct LoopDevice(String);

impl Drop for LoopDevice {
    fn drop(&mut self) {
        runs(Command::new("losetup").args(["--detach", &self.0]));
    }
}

/// A disk in use. Fields are dropped in the order of unmounting.
pub(super) struct RecordedDisk {
    pub(super) mounted: Mounted,
    device: LoopDevice,
    fuse: Mounted,
    file: RecordedFile,
}

impl RecordedDisk {
    /// A new disk. `None` on a machine that cannot mount one.
    pub(super) fn new(dir: &Path) -> Option<Self> {
        let image = dir.join("first");
        std::fs::File::create(&image).expect("an image").set_len(DISK_BYTES).expect("a size");
        if !runs(Command::new("mkfs.ext4").args(["-qF", "-b", "4096"]).arg(&image)) {
            return None;
        }
        let content = std::fs::read(&image).expect("the image");
        std::fs::remove_file(&image).expect("the image is removed");
        let [fuse, mounted] = ["fuse", "disk"].map(|name| dir.join(name));
        for path in [&fuse, &mounted] {
            std::fs::create_dir(path).expect("a mount point");
        }
        let file = RecordedFile::mount(content, &fuse)?;
        let fuse = Mounted(fuse);
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show", "--sector-size", "4096"]).arg(fuse.0.join("disk"));
        let output = losetup.stderr(Stdio::null()).output().ok().filter(|output| output.status.success())?;
        let device = LoopDevice(String::from_utf8(output.stdout).expect("a path").trim().to_owned());
        let is_mounted = runs(Command::new("mount").args(["-t", "ext4", &device.0]).arg(&mounted));
        is_mounted.then(|| Self { mounted: Mounted(mounted), device, fuse, file })
    }

    /// The number of operations that arrived at the disk.
    pub(super) fn position(&self) -> usize {
        self.file.position()
    }

    /// Unmounts the disk. Only the operations before this call count as recorded.
    pub(super) fn into_recording(self) -> Recording {
        let end = self.position();
        let Self { mounted, device, fuse, file } = self;
        drop((mounted, device, fuse));
        let mut recording = file.into_recording();
        recording.operations.truncate(end);
        recording
    }
}

/// A moment of a power loss: operations before it arrived at the disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// Operations before this one are on the disk.
    pub(super) flushed: usize,
    /// Of those between, a random part is.
    pub(super) end: usize,
}

/// The moments: first after flushes spread over the run, then random ones.
pub(super) fn cuts(recording: &Recording, count: usize, syncs: Syncs, random: &mut SeededRandom) -> Vec<Cut> {
    let is_flush = |index: &usize| matches!(recording.operations[*index], Operation::Flush);
    let flushes: Vec<usize> =
        (0..recording.operations.len()).filter(is_flush).map(|index| index + 1).collect();
    let at_flushes = flushes.len().min(count / 2);
    let spread = (1..=at_flushes).map(|number| flushes[number * flushes.len() / at_flushes - 1]);
    let ends: Vec<usize> = spread
        .chain((at_flushes..count).map(|_| 1 + index(random.below(recording.operations.len() as u64))))
        .collect();
    let last_flush = |end: usize| match (syncs, flushes.partition_point(|flush| *flush <= end)) {
        (Syncs::Hold, before) => before.checked_sub(1).map_or(0, |last| flushes[last]),
        // The disk answered the last flushes without flushing.
        (Syncs::Lie, before) => before.checked_sub(20).map_or(0, |last| flushes[last]),
    };
    ends.into_iter().map(|end| Cut { flushed: last_flush(end), end }).collect()
}

/// Writes the image that a cut leaves. A disk that lies loses all that it did not flush, so that its file
/// system can be mounted: one that cannot proves nothing.
pub(super) fn write_image(
    recording: &Recording,
    (cut, syncs): (Cut, Syncs),
    random: &mut SeededRandom,
    path: &Path,
) {
    let mut image = recording.first.clone();
    let odds = match syncs {
        // From almost no block to nearly all of them.
        Syncs::Hold => random.below(11),
        Syncs::Lie => 0,
    };
    for (index, operation) in recording.operations[..cut.end].iter().enumerate() {
        let Operation::Write { offset, bytes } = operation else { continue };
        let mut start = 0;
        while start < bytes.len() {
            let end = bytes.len().min((offset + start + BLOCK) / BLOCK * BLOCK - offset);
            if index < cut.flushed || random.below(10) < odds {
                image[offset + start..offset + end].copy_from_slice(&bytes[start..end]);
            }
            start = end;
        }
    }
    let file = std::fs::File::create(path).expect("an image");
    file.set_len(image.len() as u64).expect("a size");
    for (number, block) in image.chunks(BLOCK).enumerate() {
        if block != [0; BLOCK] {
            let offset = (number * BLOCK) as u64;
            std::os::unix::fs::FileExt::write_all_at(&file, block, offset).expect("a block");
        }
    }
}

/// Mounts an image; `None` if the file system refuses it.
pub(super) fn mount_image(image: &Path, mounted: &Path) -> Option<Mounted> {
    if !mounted.exists() {
        std::fs::create_dir(mounted).expect("a mount point");
    }
    runs(Command::new("mount").args(["-t", "ext4", "-o", "loop"]).args([image, mounted]))
        .then(|| Mounted(mounted.to_owned()))
}

fn runs(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("an index")
}
