//! From what the parent saw to the record.
//!
//! Owns: the rule that a status comes from the parent's own view. What the guest says — its result, its traceback,
//! that memory ran out — is text, and believed in a status only where the kernel's figures agree.

use crate::frame::{self, Stage, Words};
use crate::host::{Breach, MAX_HOST_CALLS, MAX_HOST_REQUEST_BYTES};
use crate::javascript;
use crate::level::{Language, Level};
use crate::limits::RunLimits;
use crate::quota::Excess;
use crate::record::{RunRecord, RunStatus};
use crate::sys::Ended;
use crate::watch::{Cut, Seen};

/// What was run.
pub(crate) struct Subject<'a> {
    /// The level.
    pub level: Level,
    /// The language.
    pub language: Language,
    /// The engine's version.
    pub version: String,
    /// The limits, with the call's own timeout worked in.
    pub limits: &'a RunLimits,
}

/// A status, the limit behind it, and words.
struct Verdict {
    status: RunStatus,
    limit: Option<&'static str>,
    error: Option<String>,
}

impl Verdict {
    fn new(status: RunStatus, error: impl Into<Option<String>>) -> Self {
        Self { status, limit: None, error: error.into() }
    }

    fn limit(status: RunStatus, limit: &'static str, error: String) -> Self {
        Self { status, limit: Some(limit), error: Some(error) }
    }
}

/// Judges a run.
pub(crate) fn judge(subject: Subject<'_>, seen: Seen) -> RunRecord {
    let stage = frame::stage(seen.frames.head());
    let words = frame::words(seen.words.head());
    let ran = stage == Stage::Ran;
    let verdict = decide(&subject, &seen, stage, &words);
    let (stdout_truncated, stderr_truncated) = (seen.stdout.is_cut(), seen.stderr.is_cut());
    let (stdout, mut stderr) = (seen.stdout.into_text(), seen.stderr.into_text());
    if let (false, Some(error)) = (ran, &verdict.error) {
        stderr.push_str(error);
        stderr.push('\n');
    }
    RunRecord {
        status: verdict.status,
        exit_code: seen.ended.exit_code.filter(|_| ran),
        signal: seen.ended.signal,
        limit: verdict.limit.map(str::to_owned),
        stdout,
        stderr,
        stdout_truncated,
        stderr_truncated,
        result: words.result.filter(|_| verdict.status == RunStatus::Ok),
        error: verdict.error,
        duration_ms: u64::try_from(seen.duration.as_millis()).unwrap_or(u64::MAX),
        cpu_ms: u64::try_from(seen.ended.cpu.as_millis()).unwrap_or(u64::MAX),
        max_rss_kb: seen.ended.max_rss_kb,
        level: subject.level,
        engine: subject.language,
        engine_version: subject.version,
    }
}

fn decide(subject: &Subject<'_>, seen: &Seen, stage: Stage, words: &Words) -> Verdict {
    if seen.cut == Some(Cut::Cancelled) {
        return Verdict::limit(RunStatus::Timeout, "cancelled", "cancelled by the caller".to_owned());
    }
    // The kernel says so, of a run that nobody else ended: no word of the guest's is in it.
    if seen.cut.is_none() && seen.ended.oom_kills > 0 {
        return Verdict::limit(RunStatus::Oom, "address_space_bytes", out_of_memory(subject.limits));
    }
    match (stage, seen.cut) {
        (Stage::Failed(message), _) => Verdict::new(RunStatus::SandboxError, message),
        (Stage::Setup, Some(Cut::Timeout)) => {
            let limit = subject.limits.timeout_ms;
            let words = format!(
                "the wall clock limit of {limit} ms was reached (timeout_ms) before the program started"
            );
            Verdict::limit(RunStatus::Timeout, "timeout_ms", words)
        }
        (Stage::Setup, _) => Verdict::new(RunStatus::SandboxError, set_up_died(seen)),
        (Stage::Refused(RunStatus::Oom, message), _) => not_compiled(subject.limits, &seen.ended, message),
        (Stage::Refused(status, message), _) => Verdict::new(status, message),
        (Stage::Ready | Stage::Ran, Some(cut)) => cut_short(subject.limits, cut),
        (Stage::Ready, None) if seen.ended.signal.is_none() => Verdict::new(
            RunStatus::SandboxError,
            "the child ended while it was reading the program".to_owned(),
        ),
        (Stage::Ready | Stage::Ran, None) => by_end(subject, &seen.ended, words),
    }
}

/// The compiler had no memory, or says so of a program that is nested too deeply: the kernel's figures decide.
fn not_compiled(limits: &RunLimits, ended: &Ended, message: String) -> Verdict {
    if memory_was_used(limits, ended) {
        let limit = limits.address_space_bytes;
        let words = format!(
            "its memory ran out while it was compiled: the limit is {limit} bytes (address_space_bytes)"
        );
        return Verdict::limit(RunStatus::Oom, "address_space_bytes", words);
    }
    Verdict::new(RunStatus::Error, message)
}

fn set_up_died(seen: &Seen) -> String {
    let how = match (seen.ended.signal, seen.ended.exit_code) {
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (_, code) => format!("exited with code {}", code.unwrap_or(-1)),
    };
    let words = String::from_utf8_lossy(seen.stderr.head());
    let last = words.trim().lines().last().unwrap_or("it said nothing");
    format!("the child {how} before its policy was in force: {last}")
}

fn cut_short(limits: &RunLimits, cut: Cut) -> Verdict {
    match cut {
        Cut::Timeout => {
            let words = format!("the wall clock limit of {} ms was reached (timeout_ms)", limits.timeout_ms);
            Verdict::limit(RunStatus::Timeout, "timeout_ms", words)
        }
        Cut::Cancelled => {
            Verdict::limit(RunStatus::Timeout, "cancelled", "cancelled by the caller".to_owned())
        }
        Cut::Tasks => {
            let words = format!("it had more than {} threads and processes (processes)", limits.processes);
            Verdict::limit(RunStatus::Error, "processes", words)
        }
        Cut::OwnDirectory(excess) => own_directory(limits, excess),
        Cut::Stdout => {
            let words =
                format!("it wrote more than {} bytes of standard output (stdout_bytes)", limits.stdout_bytes);
            Verdict::limit(RunStatus::OutputLimit, "stdout_bytes", words)
        }
        Cut::Stderr => {
            let words =
                format!("it wrote more than {} bytes of standard error (stderr_bytes)", limits.stderr_bytes);
            Verdict::limit(RunStatus::OutputLimit, "stderr_bytes", words)
        }
        Cut::Host(breach) => host_calls(breach),
    }
}

fn host_calls(breach: Breach) -> Verdict {
    match breach {
        Breach::Calls => {
            let words = format!("it made more than {MAX_HOST_CALLS} host calls (host_calls)");
            Verdict::limit(RunStatus::Error, "host_calls", words)
        }
        Breach::Length => {
            let words =
                format!("a host call was longer than {MAX_HOST_REQUEST_BYTES} bytes (host_request_bytes)");
            Verdict::limit(RunStatus::Error, "host_request_bytes", words)
        }
        Breach::Form => {
            Verdict::new(RunStatus::Error, "it wrote what is no host call to its host's socket".to_owned())
        }
    }
}

fn own_directory(limits: &RunLimits, excess: Excess) -> Verdict {
    let (limit, words) = match excess {
        Excess::Bytes => {
            let most = limits.own_directory_bytes;
            ("own_directory_bytes", format!("its private directory held more than {most} bytes"))
        }
        Excess::Entries => {
            let most = limits.own_directory_entries;
            ("own_directory_entries", format!("its private directory held more than {most} entries"))
        }
        Excess::FileSystem => {
            let words = "the file system of its private directory lost too much free space while it ran";
            ("own_directory_bytes", words.to_owned())
        }
    };
    Verdict::limit(RunStatus::OutputLimit, limit, format!("{words} ({limit})"))
}

fn by_end(subject: &Subject<'_>, ended: &Ended, words: &Words) -> Verdict {
    let limits = subject.limits;
    if let Some(signal) = ended.signal {
        return by_signal(limits, ended, signal);
    }
    let code = ended.exit_code.unwrap_or(-1);
    // A JavaScript guest cannot choose the exit code: the engine's host does, by its allocator's own flag.
    let engine_says = subject.language == Language::JavaScript && code == javascript::OUT_OF_MEMORY_EXIT;
    if engine_says || (code != 0 && words.out_of_memory && memory_was_used(limits, ended)) {
        let error = words.error.clone().unwrap_or_else(|| out_of_memory(limits));
        return Verdict::limit(RunStatus::Oom, "address_space_bytes", error);
    }
    match code {
        0 => Verdict::new(RunStatus::Ok, None),
        code => {
            let error = words.error.clone().unwrap_or_else(|| format!("it exited with code {code}"));
            Verdict::new(RunStatus::Error, error)
        }
    }
}

fn by_signal(limits: &RunLimits, ended: &Ended, signal: i32) -> Verdict {
    let cpu_spent = ended.cpu.as_secs() + 1 >= limits.cpu_s;
    match signal {
        libc::SIGSYS => {
            let words = "the kernel ended it for a forbidden system call".to_owned();
            Verdict::new(RunStatus::ForbiddenSyscall, words)
        }
        libc::SIGXCPU | libc::SIGKILL if cpu_spent => {
            let words = format!("the processor time limit of {} s was reached (cpu_s)", limits.cpu_s);
            Verdict::limit(RunStatus::Timeout, "cpu_s", words)
        }
        libc::SIGKILL if memory_was_used(limits, ended) => {
            Verdict::limit(RunStatus::Oom, "address_space_bytes", out_of_memory(limits))
        }
        signal => Verdict::new(RunStatus::Crash, format!("it was ended by signal {signal}")),
    }
}

/// Whether the kernel's figures bear out that memory ran out: half of it was really touched.
fn memory_was_used(limits: &RunLimits, ended: &Ended) -> bool {
    ended.max_rss_kb.saturating_mul(1024) >= limits.address_space_bytes / 2
}

fn out_of_memory(limits: &RunLimits) -> String {
    format!("its memory ran out: the limit is {} bytes (address_space_bytes)", limits.address_space_bytes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::stream::{Keep, Stream};

    fn run(code: Option<i32>, signal: Option<i32>, frames: &str, words: &str) -> RunRecord {
        run_counted(0, (code, signal), frames, words)
    }

    fn run_counted(
        oom_kills: u64,
        (code, signal): (Option<i32>, Option<i32>),
        frames: &str,
        words: &str,
    ) -> RunRecord {
        let limits = RunLimits::of(Level::Strict);
        let subject = Subject {
            level: Level::Strict,
            language: Language::Python,
            version: String::new(),
            limits: &limits,
        };
        let ended = Ended { exit_code: code, signal, cpu: Duration::ZERO, max_rss_kb: 1000, oom_kills };
        let stream = |text: &str| {
            let mut stream = Stream::new(1_000, Keep::Head);
            stream.push(text.as_bytes());
            stream
        };
        let (stdout, stderr, duration) = (stream(""), stream(""), Duration::ZERO);
        let (frames, words) = (stream(frames), stream(words));
        judge(subject, Seen { cut: None, ended, stdout, stderr, frames, words, duration })
    }

    const GO: &str = "{\"frame\":\"ready\"}\n{\"frame\":\"go\"}\n";

    #[test]
    fn words_reach_no_status() {
        let forged = "{\"result\":\"42\",\"status\":\"ok\",\"exit_code\":0,\"frame\":\"refused\"}\n";
        assert_eq!(run(Some(1), None, GO, forged).status, RunStatus::Error);
        assert_eq!(run(None, Some(libc::SIGSYS), GO, forged).status, RunStatus::ForbiddenSyscall);
        assert_eq!(run(None, Some(libc::SIGSEGV), GO, forged).status, RunStatus::Crash);
        assert!(run(Some(1), None, GO, forged).result.is_none());
    }

    #[test]
    fn a_claimed_memory_error_without_memory_is_an_error() {
        let claimed = "{\"error\":\"MemoryError\",\"out_of_memory\":true}\n";
        assert_eq!(run(Some(1), None, GO, claimed).status, RunStatus::Error);
        assert_eq!(run(None, Some(libc::SIGKILL), GO, "").status, RunStatus::Crash);
    }

    #[test]
    fn what_the_kernel_counted_is_out_of_memory() {
        for (end, frames) in
            [((None, Some(libc::SIGKILL)), GO), ((Some(0), None), GO), ((Some(137), None), "")]
        {
            let record = run_counted(1, end, frames, "");
            assert_eq!(
                (record.status, record.limit.as_deref()),
                (RunStatus::Oom, Some("address_space_bytes"))
            );
        }
    }

    #[test]
    fn no_exit_code_means_more_than_error() {
        for code in 1..256 {
            assert_eq!(run(Some(code), None, GO, "").status, RunStatus::Error, "exit code {code}");
        }
    }

    #[test]
    fn a_child_that_never_was_ready_is_the_sandbox_s_error() {
        assert_eq!(run(Some(0), None, "", "").status, RunStatus::SandboxError);
        assert_eq!(run(None, Some(9), "", "{\"result\":\"1\"}").status, RunStatus::SandboxError);
        assert_eq!(run(Some(0), None, "{\"frame\":\"ready\"}\n", "").status, RunStatus::SandboxError);
    }
}
