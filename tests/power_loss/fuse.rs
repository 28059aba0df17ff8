//! A FUSE file system with one file, `disk`, that records the order of writes and flushes. A loop device on
//! it is a disk whose power can be cut at any of these operations. Without FUSE's cache of writes, each write
//! of the loop device arrives at once.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// Opcodes of the kernel's `fuse.h`.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

const ROOT: u64 = 1;
const FILE: u64 = 2;
const HEADER_BYTES: usize = 40;
const WRITE_HEADER_BYTES: usize = 40;
const MAX_WRITE: u32 = 128 << 10;
const BIG_WRITES: u32 = 1 << 5;
const ENOENT: i32 = 2;
const ENOSYS: i32 = 38;

/// What arrived at the disk.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Write { offset: usize, bytes: Vec<u8> },
    Flush,
}

/// The content and the recorded operations.
#[derive(Debug, Default)]
pub(super) struct Recording {
    pub(super) first: Vec<u8>,
    current: Vec<u8>,
    pub(super) operations: Vec<Operation>,
}

/// The mounted file system.
pub(super) struct RecordedFile {
    recording: Arc<Mutex<Recording>>,
}

impl RecordedFile {
    /// Serves a file with this content at `mounted/disk`. `None` if FUSE cannot be mounted.
    pub(super) fn mount(content: Vec<u8>, mounted: &Path) -> Option<Self> {
        let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut mount = Command::new("mount");
        mount.args(["-i", "-t", "fuse", "-o", "fd=0,rootmode=40000,user_id=0,group_id=0", "nanoclaw-test"]);
        mount.arg(mounted).stdin(Stdio::from(device.try_clone().ok()?)).stderr(Stdio::null());
        if !mount.status().is_ok_and(|status| status.success()) {
            return None;
        }
        let recording = Recording { current: content.clone(), first: content, operations: Vec::new() };
        let recording = Arc::new(Mutex::new(recording));
        let shared = Arc::clone(&recording);
        // The thread owns the device: if it panics, the kernel ends the connection with errors. It ends
        // itself when the file system is unmounted.
        std::thread::spawn(move || serve(File::from(device), &shared));
        Some(Self { recording })
    }

    /// The number of operations so far.
    pub(super) fn position(&self) -> usize {
        self.recording.lock().expect("the recording").operations.len()
    }

    /// Takes the recording; the disk then has no content.
    pub(super) fn into_recording(self) -> Recording {
        std::mem::take(&mut *self.recording.lock().expect("the recording"))
    }
}

fn serve(mut device: File, recording: &Mutex<Recording>) {
    let mut buffer = vec![0; MAX_WRITE as usize + (64 << 10)];
    while let Ok(length) = device.read(&mut buffer) {
        let request = &buffer[..length];
        let (opcode, unique) = (number(request, 4), long(request, 8));
        if matches!(opcode, FORGET | BATCH_FORGET | INTERRUPT) {
            continue;
        }
        let answer = answer(opcode, request, recording);
        let (error, body) = answer.map_or_else(|errno| (-errno, Vec::new()), |body| (0, body));
        let mut reply = Vec::with_capacity(16 + body.len());
        reply.extend(u32::try_from(16 + body.len()).expect("a length").to_ne_bytes());
        reply.extend(error.to_ne_bytes());
        reply.extend(unique.to_ne_bytes());
        reply.extend(body);
        // The kernel refuses an answer to an interrupted request; the next read shows whether it is gone.
        drop(device.write_all(&reply));
    }
}

fn answer(opcode: u32, request: &[u8], recording: &Mutex<Recording>) -> Result<Vec<u8>, i32> {
    let node = long(request, 16);
    let body = &request[HEADER_BYTES..];
    let mut recording = recording.lock().expect("the recording");
    let size = recording.current.len();
    match opcode {
        INIT => Ok(init(number(body, 8))),
        LOOKUP if body.starts_with(b"disk\0") => {
            Ok([longs(&[FILE, 0, 3_600, 3_600, 0]), attributes(FILE, size)].concat())
        }
        LOOKUP => Err(ENOENT),
        GETATTR | SETATTR => Ok([longs(&[3_600, 0]), attributes(node, size)].concat()),
        OPEN => Ok(longs(&[0, 0])),
        READ => {
            let start = place(long(body, 8)).min(size);
            let end = (start + number(body, 16) as usize).min(size);
            Ok(recording.current[start..end].to_vec())
        }
        WRITE => {
            let (offset, length) = (place(long(body, 8)), number(body, 16));
            let bytes = body[WRITE_HEADER_BYTES..][..length as usize].to_vec();
            recording.current[offset..offset + bytes.len()].copy_from_slice(&bytes);
            recording.operations.push(Operation::Write { offset, bytes });
            Ok(longs(&[u64::from(length)]))
        }
        FSYNC => {
            recording.operations.push(Operation::Flush);
            Ok(Vec::new())
        }
        FLUSH | RELEASE => Ok(Vec::new()),
        STATFS => Ok(vec![0; 80]),
        // `fallocate` too: the loop device then writes zeros, which are recorded.
        _ => Err(ENOSYS),
    }
}

fn init(readahead: u32) -> Vec<u8> {
    let halves = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
    let numbers = [7, 31, readahead, BIG_WRITES, halves(16, 12), MAX_WRITE, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    numbers.iter().flat_map(|number: &u32| number.to_ne_bytes()).collect()
}

fn attributes(node: u64, size: usize) -> Vec<u8> {
    let (mode, size) = if node == ROOT { (0o040_755, 0) } else { (0o100_600, size as u64) };
    let mut bytes = longs(&[node, size, size / 512, 0, 0, 0]);
    for number in [0, 0, 0, mode, 1, 0, 0, 0, 4_096, 0_u32] {
        bytes.extend(number.to_ne_bytes());
    }
    bytes
}

fn longs(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("an offset")
}
