//! The fuzz targets of `fuzz/`, one function each: turn the fuzzer's bytes into a run and check invariants of
//! its record. Feature `fuzzing` only.

use std::time::Duration;

use crate::child_report::{MAX_TEXT_BYTES, SetupStage, stage};
use crate::host_calls::HostCallViolation;
use crate::languages::javascript::OUT_OF_MEMORY_EXIT;
use crate::level::{Language, Level};
use crate::limits::RunLimits;
use crate::process::ChildExit;
use crate::record::{RunRecord, RunStatus};
use crate::run::{CapturedOutput, ObservedRun, OutputRetention, QuotaExcess, StopReason, read_in_pieces};
use crate::verdict::{self, JudgedRun};

/// A fuzzer's bytes, taken from the front. After their end, zeros follow.
struct FuzzInput<'a>(&'a [u8]);

impl<'a> FuzzInput<'a> {
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

    fn output(&mut self) -> CapturedOutput {
        let (cap, length) = (self.short().into(), self.short().into());
        let retention =
            if self.byte() & 1 == 0 { OutputRetention::Head } else { OutputRetention::HeadAndTail };
        let mut output = CapturedOutput::new(cap, retention);
        output.push(self.take(length));
        output
    }
}

/// The part of a run that the guest cannot choose.
struct FuzzedRun {
    language: Language,
    level: Level,
    stop: Option<StopReason>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    cpu: Duration,
    max_rss_kb: u64,
}

impl FuzzedRun {
    fn read(bytes: &mut FuzzInput<'_>) -> Self {
        let language = if bytes.byte() & 1 == 0 { Language::Python } else { Language::JavaScript };
        let level = match bytes.byte() % 3 {
            0 => Level::Strict,
            1 => Level::Standard,
            _ => Level::Lenient,
        };
        let (exit_kind, number) = (bytes.byte(), bytes.byte());
        // A process ends with an exit code or by a signal, never both.
        let (exit_code, signal) = if exit_kind & 1 == 0 {
            (Some(number.into()), None)
        } else {
            (None, Some(i32::from(number % 64) + 1))
        };
        Self {
            language,
            level,
            stop: stop_reason(bytes.byte()),
            exit_code,
            signal,
            cpu: Duration::from_millis(u64::from(bytes.short())),
            max_rss_kb: u64::from(bytes.short()) * 16,
        }
    }

    fn memory_was_used(&self) -> bool {
        self.max_rss_kb * 1024 >= RunLimits::of(self.level).address_space_bytes / 2
    }

    fn judge(&self, [frames, result, stdout, stderr]: [&CapturedOutput; 4]) -> RunRecord {
        let limits = RunLimits::of(self.level);
        let subject =
            JudgedRun { level: self.level, language: self.language, version: String::new(), limits: &limits };
        let exit = ChildExit {
            exit_code: self.exit_code,
            signal: self.signal,
            cpu: self.cpu,
            max_rss_kb: self.max_rss_kb,
            oom_kills: 0,
            leaves_processes: false,
        };
        let observed = ObservedRun {
            stop: self.stop.clone(),
            exit,
            stdout: stdout.clone(),
            stderr: stderr.clone(),
            frames: frames.clone(),
            result: result.clone(),
            duration: Duration::ZERO,
            left: None,
        };
        verdict::judge(subject, observed)
    }
}

fn stop_reason(byte: u8) -> Option<StopReason> {
    match byte {
        1 => Some(StopReason::Timeout),
        2 => Some(StopReason::Cancelled),
        3 => Some(StopReason::Tasks),
        4 => Some(StopReason::OwnDirectory(QuotaExcess::Bytes)),
        5 => Some(StopReason::OwnDirectory(QuotaExcess::Entries)),
        6 => Some(StopReason::OwnDirectory(QuotaExcess::FileSystem)),
        7 => Some(StopReason::Stdout),
        8 => Some(StopReason::Stderr),
        9 => Some(StopReason::Host(HostCallViolation::Malformed)),
        10 => Some(StopReason::KernelMemory),
        _ => None,
    }
}

/// Target `report`: any content of the four pipes and any exit. No panic, and the status depends only on the
/// parent's view.
///
/// # Panics
///
/// If an invariant does not hold.
pub fn report(data: &[u8]) {
    let mut bytes = FuzzInput(data);
    let run = FuzzedRun::read(&mut bytes);
    let [frames, result, stdout, stderr] = [bytes.output(), bytes.output(), bytes.output(), bytes.output()];
    let record = run.judge([&frames, &result, &stdout, &stderr]);
    assert_status_is_the_parents(&run, &stage(frames.head()), &record);
    assert_texts_are_bounded(&record, &stdout, &stderr);
    // The guest's output does not affect the status: the same run with empty pipes has the same one.
    let empty = CapturedOutput::new(0, OutputRetention::Head);
    let without_output = run.judge([&frames, &result, &empty, &empty]);
    assert_eq!(without_output.status, record.status, "output changed the status");
    let without_result = run.judge([&frames, &empty, &stdout, &stderr]);
    let claimed =
        (without_result.status, record.status) == (RunStatus::Error, RunStatus::Oom) && run.memory_was_used();
    assert!(without_result.status == record.status || claimed, "the result changed the status");
    assert_eq!(
        without_result.limit.is_none(),
        record.limit.is_none() && !claimed,
        "the result changed the limit"
    );
}

fn assert_status_is_the_parents(run: &FuzzedRun, stage: &SetupStage, record: &RunRecord) {
    let ran = *stage == SetupStage::Ran;
    let began = ran || *stage == SetupStage::Ready;
    let is_consistent = match record.status {
        RunStatus::Ok => ran && run.stop.is_none() && run.exit_code == Some(0),
        RunStatus::Error => {
            ran && run.signal.is_none() || matches!(run.stop, Some(StopReason::Tasks | StopReason::Host(_)))
        }
        RunStatus::ModuleNotAllowed | RunStatus::BuiltinNotAllowed | RunStatus::SyntaxError => {
            matches!(stage, SetupStage::Refused(..))
        }
        RunStatus::Timeout => {
            let by_signal = matches!(run.signal, Some(libc::SIGXCPU | libc::SIGKILL));
            matches!(run.stop, Some(StopReason::Timeout | StopReason::Cancelled)) || began && by_signal
        }
        RunStatus::Oom => began && is_oom_confirmed(run),
        RunStatus::OutputLimit => {
            began
                && matches!(
                    run.stop,
                    Some(StopReason::Stdout | StopReason::Stderr | StopReason::OwnDirectory(_))
                )
        }
        RunStatus::ForbiddenSyscall => began && run.stop.is_none() && run.signal == Some(libc::SIGSYS),
        RunStatus::Crash => began && run.stop.is_none() && run.signal.is_some(),
        RunStatus::SandboxError => !ran,
    };
    assert!(is_consistent, "{stage:?} became {record:?}");
    assert_eq!(record.exit_code, run.exit_code.filter(|_| ran));
    assert_eq!(record.signal, run.signal);
    assert!(record.result.is_none() || record.status == RunStatus::Ok);
    assert_eq!(record.error.is_none(), record.status == RunStatus::Ok);
}

fn is_oom_confirmed(run: &FuzzedRun) -> bool {
    let engine = run.language == Language::JavaScript && run.exit_code == Some(OUT_OF_MEMORY_EXIT);
    run.stop.is_none() && run.exit_code != Some(0) && (engine || run.memory_was_used())
}

fn assert_texts_are_bounded(record: &RunRecord, stdout: &CapturedOutput, stderr: &CapturedOutput) {
    let max_text_bytes = MAX_TEXT_BYTES + '…'.len_utf8();
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    // A replaced byte becomes three; the gap between beginning and end adds one line.
    let max_output_bytes = |output: &CapturedOutput| output.cap() * 3 + 64;
    assert!(record.stdout.len() <= max_output_bytes(stdout));
    assert!(length(&record.result) <= max_text_bytes);
    if record.status != RunStatus::SandboxError {
        assert!(length(&record.error) <= max_text_bytes);
        assert!(record.stderr.len() <= max_output_bytes(stderr) + max_text_bytes + 1);
    }
}

/// Target `pieces`: the bytes of a pipe, in any pieces and with any limit, are stored unchanged up to the
/// limit.
///
/// # Panics
///
/// If an invariant does not hold.
pub fn pieces(data: &[u8]) {
    let mut bytes = FuzzInput(data);
    let cap = usize::from(bytes.short());
    let mut pieces = Vec::new();
    while !bytes.0.is_empty() {
        let length = usize::from(bytes.byte());
        pieces.push(bytes.take(length));
    }
    let written = pieces.concat();
    // Without descriptors or memory there is no pipe to test.
    let Ok(output) = read_in_pieces(&pieces, cap) else { return };
    assert_eq!(
        output.head(),
        written.get(..cap).unwrap_or(&written),
        "the kept bytes differ from the written ones"
    );
    assert_eq!(output.is_cut(), written.len() > cap);
    let expected = stage(written.get(..cap).unwrap_or(&written));
    assert_eq!(stage(output.head()), expected);
}
