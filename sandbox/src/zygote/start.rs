//! Turns a fork of the broker into a zygote: confines the process, then executes the host's interpreter.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;

use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::sock_filter;
use serde_json::json;

use super::spec::ZygoteSpec;
use crate::child::{self, FIRST_PRIVATE_UID, SET_UP_FAILED, SHARED_UID_TASKS};
use crate::languages::python::ONE_THREAD;
use crate::level::Level;
use crate::memory_file::memory_file;
use crate::policy::{
    self, LandlockDomain, RulesetKind, SeccompFilters, TcpAccess, restrict, restriction_flags,
    restriction_number,
};
use crate::process::new_command;
use crate::sys;

/// The program of the interpreter.
const DRIVER: &str = concat!(
    include_str!("../languages/python/driver.py"),
    include_str!("../languages/python/ending.py"),
    include_str!("../languages/python/exercise.py"),
    include_str!("zygote.py")
);
/// The environment of a guest, with [`ONE_THREAD`].
const ENVIRONMENT: [(&str, &str); 3] = [("LANG", "C.UTF-8"), ("PATH", "/usr/bin:/bin"), ("TZ", "UTC")];
/// The socket to the broker. The numbers below are in use, so that the descriptors of a run get higher ones.
const CONTROL_FD: i32 = 5;
/// The file with the specification.
const SPEC_FD: i32 = 6;
/// The descriptor limit of a zygote. The kernel also counts the sent descriptors of all processes of the
/// same user until they are received, and refuses to send more: 256 were too few for many runs at once.
const OPEN_FILES: u64 = 65_536;

/// Becomes a zygote. An error goes to `stderr`.
pub(crate) fn become_zygote(
    spec: &ZygoteSpec,
    socket: &OwnedFd,
    stderr: &OwnedFd,
    filters: &SeccompFilters,
) -> ! {
    let Err(message) = set_up(spec, socket, stderr, filters);
    // Lost if the file is not in place yet; the broker notices the exit either way.
    rustix::io::write(rustix::stdio::stderr(), message.as_bytes()).ok();
    sys::exit_now(SET_UP_FAILED)
}

fn set_up(
    spec: &ZygoteSpec,
    socket: &OwnedFd,
    stderr: &OwnedFd,
    filters: &SeccompFilters,
) -> Result<Infallible, String> {
    let broker = rustix::process::getppid().ok_or("the broker is gone")?;
    put_in_place(spec, socket, stderr, filters).map_err(|error| format!("descriptors: {error}"))?;
    child::enter_session(c"nanoclaw-zygote")?;
    child::set_parent_death_signal(broker, Signal::KILL)?;
    keep_uid_capability().map_err(|error| format!("capabilities: {error}"))?;
    let ceiling = rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    for (resource, maximum) in [(Resource::Core, 0), (Resource::Nofile, OPEN_FILES.min(ceiling))] {
        let limit = Rlimit { current: Some(maximum), maximum: Some(maximum) };
        rustix::process::setrlimit(resource, limit).map_err(|error| format!("rlimit: {error}"))?;
    }
    // A zygote cannot know the directories of lenient children: its domain only forbids what none of them may
    // have.
    let kind = if spec.level == Level::Lenient { RulesetKind::Ceiling } else { RulesetKind::Full };
    let domain = LandlockDomain { abi: spec.landlock_abi, kind, tcp: TcpAccess::Closed };
    restrict(domain, &spec.files).map_err(|error| error.to_string())?;
    policy::install("early kill list", &filters.early)?;
    let error = new_command(&spec.interpreter)
        .args(["-I", "-S", "-B", "-X", "utf8", "-c", DRIVER])
        .env_clear()
        .envs(ENVIRONMENT.into_iter().chain(ONE_THREAD))
        .exec();
    Err(format!("cannot start '{}': {error}", spec.interpreter.display()))
}

fn put_in_place(
    spec: &ZygoteSpec,
    socket: &OwnedFd,
    stderr: &OwnedFd,
    filters: &SeccompFilters,
) -> io::Result<()> {
    let high = |descriptor: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(descriptor, 16);
    // The low copy is closed before its number is reused.
    let spec_file = high(&memory_file(&serde_json::to_vec(&spec_json(spec, filters)?)?)?)?;
    let (socket, stderr) = (high(socket)?, high(stderr)?);
    let null = high(&File::options().read(true).write(true).open("/dev/null")?.into())?;
    for (number, descriptor) in [
        (0, &null),
        (1, &null),
        (2, &stderr),
        (child::FRAMES_FD, &null),
        (child::RESULT_FD, &null),
        (CONTROL_FD, &socket),
        (SPEC_FD, &spec_file),
    ] {
        sys::copy_descriptor(descriptor.as_fd(), number)?;
    }
    drop((socket, stderr, spec_file, null));
    sys::close_from(SPEC_FD.unsigned_abs() + 1)
}

/// What `zygote.py` reads: the specification, the filters as hexadecimal text, and this machine's call
/// numbers.
fn spec_json(spec: &ZygoteSpec, filters: &SeccompFilters) -> io::Result<serde_json::Value> {
    let mut value = serde_json::to_value(spec)?;
    if let Some(fields) = value.as_object_mut() {
        let [first, second] = &filters.last;
        let programs = json!({"zygote": hex(&filters.zygote), "first": hex(first), "second": hex(second)});
        let numbers = json!({
            "clone": libc::SYS_clone, "prctl": libc::SYS_prctl, "seccomp": libc::SYS_seccomp,
            "capset": libc::SYS_capset, "close_range": libc::SYS_close_range,
            "landlock_restrict_self": restriction_number(),
            "fstat": libc::SYS_fstat, "getdents64": libc::SYS_getdents64,
        });
        fields.insert("filters".to_owned(), programs);
        fields.insert("landlock_flags".to_owned(), restriction_flags(spec.landlock_abi).into());
        fields.insert("numbers".to_owned(), numbers);
        fields.insert("first_private_uid".to_owned(), FIRST_PRIVATE_UID.into());
        fields.insert("shared_uid_tasks".to_owned(), SHARED_UID_TASKS.into());
    }
    Ok(value)
}

fn hex(program: &[sock_filter]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS.get(usize::from(value)).map_or('?', |digit| char::from(*digit));
    sys::filter_bytes(program).iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Keeps `CAP_SETUID` over exec if the broker has it. Each child needs it to take a private user id.
fn keep_uid_capability() -> rustix::io::Result<()> {
    let current = rustix::thread::capabilities(None)?;
    let retained = current.permitted & CapabilitySet::SETUID;
    let sets = CapabilitySets { effective: retained, permitted: retained, inheritable: retained };
    rustix::thread::set_capabilities(None, sets)?;
    if retained.is_empty() {
        return Ok(());
    }
    rustix::thread::configure_capability_in_ambient_set(retained, true)
}
