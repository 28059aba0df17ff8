//! Turns the parent's observations into a record.
//!
//! The status comes from the parent's own view. The guest's result, its traceback and its claim that memory
//! ran out are text: they affect the status only if the kernel's figures agree.

use crate::child_report::{GuestResult, SetupStage, guest_result, stage};
use crate::host_calls::{HostCallViolation, MAX_HOST_CALLS, MAX_HOST_REQUEST_BYTES};
use crate::languages::javascript;
use crate::level::{Language, Level};
use crate::limits::RunLimits;
use crate::process::ChildExit;
use crate::record::{RunRecord, RunStatus};
use crate::run::{ObservedRun, QuotaExcess, ScarceResource, StopReason};

/// A run to judge.
pub(crate) struct JudgedRun<'a> {
    pub level: Level,
    pub language: Language,
    /// The version of the engine.
    pub version: String,
    /// The limits of the level, with the call's own timeout applied.
    pub limits: &'a RunLimits,
}

/// A status, the exceeded limit, and the message.
struct RunVerdict {
    status: RunStatus,
    limit: Option<&'static str>,
    error: Option<String>,
}

impl RunVerdict {
    fn new(status: RunStatus, error: impl Into<Option<String>>) -> Self {
        Self { status, limit: None, error: error.into() }
    }

    fn limit(status: RunStatus, limit: &'static str, error: String) -> Self {
        Self { status, limit: Some(limit), error: Some(error) }
    }
}

/// Judges a run.
pub(crate) fn judge(subject: JudgedRun<'_>, observed: ObservedRun) -> RunRecord {
    let stage = stage(observed.frames.head());
    let result = guest_result(observed.result.head());
    let ran = stage == SetupStage::Ran;
    let verdict = decide(&subject, &observed, stage, &result);
    let (stdout_truncated, stderr_truncated) = (observed.stdout.is_cut(), observed.stderr.is_cut());
    let (stdout, mut stderr) = (observed.stdout.into_text(), observed.stderr.into_text());
    if let (false, Some(error)) = (ran, &verdict.error) {
        stderr.push_str(error);
        stderr.push('\n');
    }
    RunRecord {
        status: verdict.status,
        exit_code: observed.exit.exit_code.filter(|_| ran),
        signal: observed.exit.signal,
        limit: verdict.limit.map(str::to_owned),
        stdout,
        stderr,
        stdout_truncated,
        stderr_truncated,
        result: result.result.filter(|_| verdict.status == RunStatus::Ok),
        error: verdict.error,
        duration_ms: u64::try_from(observed.duration.as_millis()).unwrap_or(u64::MAX),
        cpu_ms: u64::try_from(observed.exit.cpu.as_millis()).unwrap_or(u64::MAX),
        max_rss_kb: observed.exit.max_rss_kb,
        level: subject.level,
        engine: subject.language,
        engine_version: subject.version,
    }
}

fn decide(
    subject: &JudgedRun<'_>,
    observed: &ObservedRun,
    stage: SetupStage,
    result: &GuestResult,
) -> RunVerdict {
    if observed.stop == Some(StopReason::Cancelled) {
        return RunVerdict::limit(RunStatus::Timeout, "cancelled", "cancelled by the caller".to_owned());
    }
    // The kernel reports it, for a run that the parent did not end.
    if observed.stop.is_none() && observed.exit.oom_kills > 0 {
        return RunVerdict::limit(RunStatus::Oom, "address_space_bytes", out_of_memory(subject.limits));
    }
    match (stage, observed.stop.clone()) {
        (SetupStage::Failed(message), _) => RunVerdict::new(RunStatus::SandboxError, message),
        (SetupStage::SetUp, Some(StopReason::Timeout)) => {
            let limit = subject.limits.timeout_ms;
            let message = format!(
                "the wall clock limit of {limit} ms was reached (timeout_ms) before the program started"
            );
            RunVerdict::limit(RunStatus::Timeout, "timeout_ms", message)
        }
        (SetupStage::SetUp, _) => RunVerdict::new(RunStatus::SandboxError, set_up_died(observed)),
        (SetupStage::Refused(RunStatus::Oom, message), _) => compiling_oom(subject.limits, &observed.exit)
            .unwrap_or_else(|| RunVerdict::new(RunStatus::SyntaxError, message)),
        (SetupStage::Refused(status, message), _) => RunVerdict::new(status, message),
        (SetupStage::Ready | SetupStage::Ran, Some(stop)) => stopped(subject.limits, stop),
        (SetupStage::Ready, None) if observed.exit.signal.is_none() => {
            let message = "the child ended while it was reading the program".to_owned();
            // Without memory it cannot even report that.
            compiling_oom(subject.limits, &observed.exit)
                .unwrap_or_else(|| RunVerdict::new(RunStatus::SandboxError, message))
        }
        (SetupStage::Ready | SetupStage::Ran, None) => by_exit(subject, &observed.exit, result),
    }
}

/// The verdict on a program that was being compiled, if the kernel's figures confirm that memory ran out: the
/// compiler reports the same for a program that is nested too deeply.
fn compiling_oom(limits: &RunLimits, exit: &ChildExit) -> Option<RunVerdict> {
    let limit = limits.address_space_bytes;
    let message =
        format!("its memory ran out while it was compiled: the limit is {limit} bytes (address_space_bytes)");
    memory_was_used(limits, exit).then(|| RunVerdict::limit(RunStatus::Oom, "address_space_bytes", message))
}

fn set_up_died(observed: &ObservedRun) -> String {
    let how = match (observed.exit.signal, observed.exit.exit_code) {
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (_, code) => format!("exited with code {}", code.unwrap_or(-1)),
    };
    let message = String::from_utf8_lossy(observed.stderr.head());
    let last = message.trim().lines().last().unwrap_or("it said nothing");
    format!("the child {how} before its policy was in force: {last}")
}

fn stopped(limits: &RunLimits, stop: StopReason) -> RunVerdict {
    use RunStatus::{Error, Oom, OutputLimit, Timeout};
    let RunLimits { timeout_ms, processes, stdout_bytes, stderr_bytes, .. } = limits;
    let (status, limit, message) = match stop {
        StopReason::Timeout => {
            (Timeout, "timeout_ms", format!("the wall clock limit of {timeout_ms} ms was reached"))
        }
        StopReason::Cancelled => {
            return RunVerdict::limit(Timeout, "cancelled", "cancelled by the caller".to_owned());
        }
        StopReason::Scarce(ScarceResource::Memory) => {
            let message =
                "the machine ran out of memory, and this program and the kernel for it used the most";
            (Oom, "machine_memory", message.to_owned())
        }
        StopReason::KernelMemory => {
            let message =
                "the kernel held too much memory for it, as buffers of sockets and pipes or as locks";
            (Oom, "kernel_memory", message.to_owned())
        }
        StopReason::Scarce(ScarceResource::Tables) => {
            let message =
                "the machine ran out of open files or epoll watches, and this program used the most";
            (Error, "kernel_tables", message.to_owned())
        }
        StopReason::Tasks => {
            (Error, "processes", format!("it had more than {processes} threads and processes"))
        }
        StopReason::OwnDirectory(excess) => {
            let (limit, message) = own_directory(limits, excess);
            (OutputLimit, limit, message)
        }
        StopReason::Stdout => (
            OutputLimit,
            "stdout_bytes",
            format!("it wrote more than {stdout_bytes} bytes of standard output"),
        ),
        StopReason::Stderr => (
            OutputLimit,
            "stderr_bytes",
            format!("it wrote more than {stderr_bytes} bytes of standard error"),
        ),
        StopReason::Host(HostCallViolation::TooMany) => {
            (Error, "host_calls", format!("it made more than {MAX_HOST_CALLS} host calls"))
        }
        StopReason::Host(HostCallViolation::TooLong) => {
            let message = format!("a host call was longer than {MAX_HOST_REQUEST_BYTES} bytes");
            (Error, "host_request_bytes", message)
        }
        StopReason::Host(HostCallViolation::Malformed) => {
            return RunVerdict::new(Error, "it wrote what is no host call to its host's socket".to_owned());
        }
    };
    RunVerdict::limit(status, limit, format!("{message} ({limit})"))
}

fn own_directory(limits: &RunLimits, excess: QuotaExcess) -> (&'static str, String) {
    let (bytes, entries) = (limits.own_directory_bytes, limits.own_directory_entries);
    match excess {
        QuotaExcess::Bytes => {
            ("own_directory_bytes", format!("its private directory held more than {bytes} bytes"))
        }
        QuotaExcess::Entries => {
            ("own_directory_entries", format!("its private directory held more than {entries} entries"))
        }
        QuotaExcess::Workdir(exceeded) => exceeded,
        QuotaExcess::FileSystem => {
            let message = "its files grew while the file system was nearly full";
            ("disk_free_bytes", message.to_owned())
        }
    }
}

fn by_exit(subject: &JudgedRun<'_>, exit: &ChildExit, result: &GuestResult) -> RunVerdict {
    let limits = subject.limits;
    if let Some(signal) = exit.signal {
        return by_signal(limits, exit, signal);
    }
    let code = exit.exit_code.unwrap_or(-1);
    // A JavaScript guest cannot choose the exit code: our own code does, from the allocator's flag.
    let engine_confirms = subject.language == Language::JavaScript && code == javascript::OUT_OF_MEMORY_EXIT;
    if engine_confirms || (code != 0 && result.out_of_memory && memory_was_used(limits, exit)) {
        let error = result.error.clone().unwrap_or_else(|| out_of_memory(limits));
        return RunVerdict::limit(RunStatus::Oom, "address_space_bytes", error);
    }
    match code {
        0 => RunVerdict::new(RunStatus::Ok, None),
        code => {
            let error = result.error.clone().unwrap_or_else(|| format!("it exited with code {code}"));
            RunVerdict::new(RunStatus::Error, error)
        }
    }
}

fn by_signal(limits: &RunLimits, exit: &ChildExit, signal: i32) -> RunVerdict {
    let cpu_spent = exit.cpu.as_secs() + 1 >= limits.cpu_s;
    match signal {
        libc::SIGSYS => {
            let message = "the kernel ended it for a forbidden system call".to_owned();
            RunVerdict::new(RunStatus::ForbiddenSyscall, message)
        }
        libc::SIGXCPU | libc::SIGKILL if cpu_spent => {
            let message = format!("the processor time limit of {} s was reached (cpu_s)", limits.cpu_s);
            RunVerdict::limit(RunStatus::Timeout, "cpu_s", message)
        }
        libc::SIGKILL if memory_was_used(limits, exit) => {
            RunVerdict::limit(RunStatus::Oom, "address_space_bytes", out_of_memory(limits))
        }
        signal => RunVerdict::new(RunStatus::Crash, format!("it was ended by signal {signal}")),
    }
}

/// Whether the kernel's figures confirm that memory ran out: at least half of the limit was used.
fn memory_was_used(limits: &RunLimits, exit: &ChildExit) -> bool {
    exit.max_rss_kb.saturating_mul(1024) >= limits.address_space_bytes / 2
}

fn out_of_memory(limits: &RunLimits) -> String {
    format!("its memory ran out: the limit is {} bytes (address_space_bytes)", limits.address_space_bytes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run::{CapturedOutput, OutputRetention};

    fn run(code: Option<i32>, signal: Option<i32>, frames: &str, result: &str) -> RunRecord {
        run_counted(0, (code, signal), frames, result)
    }

    fn run_counted(
        oom_kills: u64,
        (code, signal): (Option<i32>, Option<i32>),
        frames: &str,
        result: &str,
    ) -> RunRecord {
        let limits = RunLimits::of(Level::Strict);
        let subject = JudgedRun {
            level: Level::Strict,
            language: Language::Python,
            version: String::new(),
            limits: &limits,
        };
        let exit = ChildExit {
            exit_code: code,
            signal,
            cpu: Duration::ZERO,
            max_rss_kb: 1000,
            oom_kills,
            leaves_processes: false,
        };
        let output = |text: &str| {
            let mut output = CapturedOutput::new(1_000, OutputRetention::Head);
            output.push(text.as_bytes());
            output
        };
        let (stdout, stderr, duration) = (output(""), output(""), Duration::ZERO);
        let (frames, result) = (output(frames), output(result));
        judge(subject, ObservedRun { stop: None, exit, stdout, stderr, frames, result, duration, left: None })
    }

    const GO: &str = "{\"frame\":\"ready\"}\n{\"frame\":\"go\"}\n";

    #[test]
    fn a_forged_guest_result_cannot_change_the_status() {
        let forged = "{\"result\":\"42\",\"status\":\"ok\",\"exit_code\":0,\"frame\":\"refused\"}\n";
        assert_eq!(run(Some(1), None, GO, forged).status, RunStatus::Error);
        assert_eq!(run(None, Some(libc::SIGSYS), GO, forged).status, RunStatus::ForbiddenSyscall);
        assert_eq!(run(None, Some(libc::SIGSEGV), GO, forged).status, RunStatus::Crash);
        assert!(run(Some(1), None, GO, forged).result.is_none());
    }

    #[test]
    fn a_claimed_memory_error_without_an_oom_kill_is_a_plain_error() {
        let claimed = "{\"error\":\"MemoryError\",\"out_of_memory\":true}\n";
        assert_eq!(run(Some(1), None, GO, claimed).status, RunStatus::Error);
        assert_eq!(run(None, Some(libc::SIGKILL), GO, "").status, RunStatus::Crash);
    }

    #[test]
    fn an_oom_kill_is_reported_as_out_of_memory() {
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
    fn every_exit_code_but_zero_is_an_error() {
        for code in 1..256 {
            assert_eq!(run(Some(code), None, GO, "").status, RunStatus::Error, "exit code {code}");
        }
    }

    #[test]
    fn a_child_that_was_never_ready_is_a_sandbox_error() {
        assert_eq!(run(Some(0), None, "", "").status, RunStatus::SandboxError);
        assert_eq!(run(None, Some(9), "", "{\"result\":\"1\"}").status, RunStatus::SandboxError);
        assert_eq!(run(Some(0), None, "{\"frame\":\"ready\"}\n", "").status, RunStatus::SandboxError);
    }
}
