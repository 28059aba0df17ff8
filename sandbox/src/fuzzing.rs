//! What the fuzz targets of `fuzz/` call: one function a target. Built with the feature `fuzzing` alone.
//!
//! Owns: the reading of a fuzzer's bytes as a run, and the invariants that every record of it must hold.

use std::time::Duration;

use crate::frame::{self, MAX_TEXT_BYTES, Stage};
use crate::host::Breach;
use crate::javascript::OUT_OF_MEMORY_EXIT;
use crate::level::{Language, Level};
use crate::limits::RunLimits;
use crate::quota::Excess;
use crate::record::{RunRecord, RunStatus};
use crate::stream::{Keep, Stream};
use crate::sys::Ended;
use crate::verdict::{self, Subject};
use crate::watch::{Cut, Seen};

/// A fuzzer's bytes, taken from the front; past their end there are zeros.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    fn stream(&mut self) -> Stream {
        let (cap, length) = (self.short().into(), self.short().into());
        let keep = if self.byte() & 1 == 0 { Keep::Head } else { Keep::HeadAndTail };
        let mut stream = Stream::new(cap, keep);
        stream.push(self.take(length));
        stream
    }
}

/// The part of a run that the guest has no say in.
#[derive(Clone, Copy)]
struct View {
    language: Language,
    level: Level,
    cut: Option<Cut>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    cpu: Duration,
    max_rss_kb: u64,
}

impl View {
    fn read(bytes: &mut Bytes<'_>) -> Self {
        let language = if bytes.byte() & 1 == 0 { Language::Python } else { Language::JavaScript };
        let level = match bytes.byte() % 3 {
            0 => Level::Strict,
            1 => Level::Standard,
            _ => Level::Lenient,
        };
        let (how, number) = (bytes.byte(), bytes.byte());
        // A process ends with a code or by a signal, never both.
        let (exit_code, signal) =
            if how & 1 == 0 { (Some(number.into()), None) } else { (None, Some(i32::from(number % 64) + 1)) };
        Self {
            language,
            level,
            cut: cut(bytes.byte()),
            exit_code,
            signal,
            cpu: Duration::from_millis(u64::from(bytes.short())),
            max_rss_kb: u64::from(bytes.short()) * 16,
        }
    }

    fn memory_was_used(&self) -> bool {
        self.max_rss_kb * 1024 >= RunLimits::of(self.level).address_space_bytes / 2
    }

    fn judge(&self, [frames, words, stdout, stderr]: [&Stream; 4]) -> RunRecord {
        let limits = RunLimits::of(self.level);
        let subject =
            Subject { level: self.level, language: self.language, version: String::new(), limits: &limits };
        let ended = Ended {
            exit_code: self.exit_code,
            signal: self.signal,
            cpu: self.cpu,
            max_rss_kb: self.max_rss_kb,
            oom_kills: 0,
        };
        let seen = Seen {
            cut: self.cut,
            ended,
            stdout: stdout.clone(),
            stderr: stderr.clone(),
            frames: frames.clone(),
            words: words.clone(),
            duration: Duration::ZERO,
        };
        verdict::judge(subject, seen)
    }
}

fn cut(byte: u8) -> Option<Cut> {
    match byte {
        1 => Some(Cut::Timeout),
        2 => Some(Cut::Cancelled),
        3 => Some(Cut::Tasks),
        4 => Some(Cut::OwnDirectory(Excess::Bytes)),
        5 => Some(Cut::OwnDirectory(Excess::Entries)),
        6 => Some(Cut::OwnDirectory(Excess::FileSystem)),
        7 => Some(Cut::Stdout),
        8 => Some(Cut::Stderr),
        9 => Some(Cut::Host(Breach::Form)),
        _ => None,
    }
}

/// Target `report`: anything in the four pipes and any end. No panic, and no status but by the parent's own view.
///
/// # Panics
///
/// If an invariant does not hold: that is a finding.
pub fn report(data: &[u8]) {
    let mut bytes = Bytes(data);
    let view = View::read(&mut bytes);
    let [frames, words, stdout, stderr] = [bytes.stream(), bytes.stream(), bytes.stream(), bytes.stream()];
    let record = view.judge([&frames, &words, &stdout, &stderr]);
    status_is_the_parents(&view, &frame::stage(frames.head()), &record);
    texts_are_bounded(&record, &stdout, &stderr);
    // What the guest wrote moves no status: the same run with silent pipes is judged alike.
    let nothing = Stream::new(0, Keep::Head);
    let silent = view.judge([&frames, &words, &nothing, &nothing]);
    assert_eq!(silent.status, record.status, "output moved the status");
    let wordless = view.judge([&frames, &nothing, &stdout, &stderr]);
    let claimed =
        (wordless.status, record.status) == (RunStatus::Error, RunStatus::Oom) && view.memory_was_used();
    assert!(wordless.status == record.status || claimed, "words moved the status");
    assert_eq!(wordless.limit.is_none(), record.limit.is_none() && !claimed, "words moved the limit");
}

fn status_is_the_parents(view: &View, stage: &Stage, record: &RunRecord) {
    let ran = *stage == Stage::Ran;
    let began = ran || *stage == Stage::Ready;
    let fine = match record.status {
        RunStatus::Ok => ran && view.cut.is_none() && view.exit_code == Some(0),
        RunStatus::Error => {
            ran && view.signal.is_none() || matches!(view.cut, Some(Cut::Tasks | Cut::Host(_)))
        }
        RunStatus::ModuleNotAllowed | RunStatus::BuiltinNotAllowed | RunStatus::SyntaxError => {
            matches!(stage, Stage::Refused(..))
        }
        RunStatus::Timeout => {
            let by_signal = matches!(view.signal, Some(libc::SIGXCPU | libc::SIGKILL));
            matches!(view.cut, Some(Cut::Timeout | Cut::Cancelled)) || began && by_signal
        }
        RunStatus::Oom => began && oom_is_borne_out(view),
        RunStatus::OutputLimit => {
            began && matches!(view.cut, Some(Cut::Stdout | Cut::Stderr | Cut::OwnDirectory(_)))
        }
        RunStatus::ForbiddenSyscall => began && view.cut.is_none() && view.signal == Some(libc::SIGSYS),
        RunStatus::Crash => began && view.cut.is_none() && view.signal.is_some(),
        RunStatus::SandboxError => !ran,
    };
    assert!(fine, "{stage:?} became {record:?}");
    assert_eq!(record.exit_code, view.exit_code.filter(|_| ran));
    assert_eq!(record.signal, view.signal);
    assert!(record.result.is_none() || record.status == RunStatus::Ok);
    assert_eq!(record.error.is_none(), record.status == RunStatus::Ok);
}

fn oom_is_borne_out(view: &View) -> bool {
    let engine = view.language == Language::JavaScript && view.exit_code == Some(OUT_OF_MEMORY_EXIT);
    view.cut.is_none() && view.exit_code != Some(0) && (engine || view.memory_was_used())
}

fn texts_are_bounded(record: &RunRecord, stdout: &Stream, stderr: &Stream) {
    let cut = MAX_TEXT_BYTES + '…'.len_utf8();
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    // A replaced byte takes three; the gap between beginning and end is told in a line.
    let most = |stream: &Stream| stream.cap() * 3 + 64;
    assert!(record.stdout.len() <= most(stdout));
    assert!(length(&record.result) <= cut);
    if record.status != RunStatus::SandboxError {
        assert!(length(&record.error) <= cut);
        assert!(record.stderr.len() <= most(stderr) + cut + 1);
    }
}

/// Target `pieces`: a pipe's bytes in any pieces and under any cap are kept as they came, up to the cap.
///
/// # Panics
///
/// If an invariant does not hold: that is a finding.
pub fn pieces(data: &[u8]) {
    let mut bytes = Bytes(data);
    let cap = usize::from(bytes.short());
    let mut pieces = Vec::new();
    while !bytes.0.is_empty() {
        let length = usize::from(bytes.byte());
        pieces.push(bytes.take(length));
    }
    let whole = pieces.concat();
    // Without descriptors or memory there is no pipe: that says nothing about the reading.
    let Ok(stream) = crate::pipes::read_in_pieces(&pieces, cap) else { return };
    assert_eq!(stream.head(), whole.get(..cap).unwrap_or(&whole), "what was kept is not what was written");
    assert_eq!(stream.is_cut(), whole.len() > cap);
    let expected = frame::stage(whole.get(..cap).unwrap_or(&whole));
    assert_eq!(frame::stage(stream.head()), expected);
}
