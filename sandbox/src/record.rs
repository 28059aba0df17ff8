//! The record of a run, with the fields and statuses of SANDBOX.md.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::level::{Language, Level};

/// How a run ended, as the parent saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It exited with code 0.
    Ok,
    /// It exited with another code (uncaught error, `sys.exit(n)`), had too many threads (`limit` is
    /// `processes`), or was the largest when the kernel ran out of files or watches (`kernel_tables`).
    Error,
    /// It did not run: it uses a module that the level does not allow.
    ModuleNotAllowed,
    /// It did not run: it uses a builtin that the level does not allow.
    BuiltinNotAllowed,
    /// It did not run: it does not parse, is empty, is too long, or contains a NUL byte.
    SyntaxError,
    /// Wall clock or processor time ran out (see `limit`), or the caller cancelled (`limit` is `cancelled`).
    Timeout,
    /// It ran out of memory: the kernel's figures or the engine's allocator confirm it. Or the kernel held
    /// too much for it (`limit` is `kernel_memory`), or the machine ran out and it held the most
    /// (`machine_memory`).
    Oom,
    /// It wrote more than the level allows: output, or its private directory (see `limit`).
    OutputLimit,
    /// The kernel killed it because of a forbidden system call.
    ForbiddenSyscall,
    /// Another signal ended it.
    Crash,
    /// The sandbox could not be set up: nothing ran.
    SandboxError,
}

impl RunStatus {
    /// The name used in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::ModuleNotAllowed => "module_not_allowed",
            Self::BuiltinNotAllowed => "builtin_not_allowed",
            Self::SyntaxError => "syntax_error",
            Self::Timeout => "timeout",
            Self::Oom => "oom",
            Self::OutputLimit => "output_limit",
            Self::ForbiddenSyscall => "forbidden_syscall",
            Self::Crash => "crash",
            Self::SandboxError => "sandbox_error",
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The result of a run. Text fields may contain anything that the guest wrote; the other fields come from the
/// parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// How it ended.
    pub status: RunStatus,
    /// The exit code; `None` if a signal ended it or nothing ran.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The name of the limit that ended it: a field of `RunLimits`, `cancelled`, `kernel_tables`,
    /// `kernel_memory`, `machine_memory` or `code_bytes`.
    pub limit: Option<String>,
    /// Standard output, with invalid UTF-8 replaced, cut at the level's limit.
    pub stdout: String,
    /// Standard error likewise. It ends with the traceback, or is the refusal of a program that did not run.
    pub stderr: String,
    /// Whether `stdout` was cut.
    pub stdout_truncated: bool,
    /// Whether `stderr` was cut.
    pub stderr_truncated: bool,
    /// The value of the last expression (`repr` in Python) of a program that ended without error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Why it failed: the traceback, the refusal, the limit, or the layer that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Wall clock from the start of the child.
    pub duration_ms: u64,
    /// Processor time, user and system.
    pub cpu_ms: u64,
    /// Peak resident memory.
    pub max_rss_kb: u64,
    /// The level.
    pub level: Level,
    /// The language.
    pub engine: Language,
    /// The version of the engine; empty if nothing ran.
    pub engine_version: String,
}

impl RunRecord {
    /// The record of a program that did not run.
    pub(crate) fn not_run(status: RunStatus, level: Level, engine: Language, error: String) -> Self {
        Self {
            status,
            exit_code: None,
            signal: None,
            limit: None,
            stdout: String::new(),
            stderr: error.clone(),
            stdout_truncated: false,
            stderr_truncated: false,
            result: None,
            error: Some(error),
            duration_ms: 0,
            cpu_ms: 0,
            max_rss_kb: 0,
            level,
            engine,
            engine_version: String::new(),
        }
    }
}
