//! From a fork of the broker to a zygote: the process becomes the host's interpreter, already behind a policy.

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
use crate::broker::new_command;
use crate::child::{self, FIRST_PRIVATE_UID, SET_UP_FAILED, SHARED_UID_TASKS};
use crate::guest::memory_file;
use crate::level::Level;
use crate::policy::{Domain, Filters, Reach, restrict, restriction_number};
use crate::sys;

/// What runs in the interpreter: the guest's surroundings first, then the zygote's own life.
const DRIVER: &str =
    concat!(include_str!("driver.py"), include_str!("exercise.py"), include_str!("zygote.py"));
/// A guest's whole environment. One thread: number libraries would start a pool while they warm up.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("LANG", "C.UTF-8"),
    ("PATH", "/usr/bin:/bin"),
    ("TZ", "UTC"),
    ("OPENBLAS_NUM_THREADS", "1"),
    ("OMP_NUM_THREADS", "1"),
    ("MKL_NUM_THREADS", "1"),
];
/// The number of the socket to the broker. Lower ones are taken, so that what a run brings gets higher ones.
const CONTROL_DESCRIPTOR: i32 = 5;
/// The number of the specification.
const ASSIGNMENT_DESCRIPTOR: i32 = 6;
/// Descriptors that a zygote may hold. The kernel holds every descriptor that any process of the user has sent and nobody
/// has received against this limit, too, and refuses to send more: 256 were too few for many runs at once.
const OPEN_FILES: u64 = 65_536;

/// Becomes a zygote. Last words go to its standard error.
pub(crate) fn become_zygote(
    spec: &ZygoteSpec,
    socket: &OwnedFd,
    last_words: &OwnedFd,
    filters: &Filters,
) -> ! {
    let Err(message) = set_up(spec, socket, last_words, filters);
    // Into the file if it is in place already, else nowhere: the broker sees the end either way.
    rustix::io::write(rustix::stdio::stderr(), message.as_bytes()).ok();
    sys::exit_now(SET_UP_FAILED)
}

fn set_up(
    spec: &ZygoteSpec,
    socket: &OwnedFd,
    last_words: &OwnedFd,
    filters: &Filters,
) -> Result<Infallible, String> {
    let broker = rustix::process::getppid().ok_or("the broker is gone")?;
    put_in_place(spec, socket, last_words, filters).map_err(|error| format!("descriptors: {error}"))?;
    child::enter_session(c"nanoclaw-zygote")?;
    child::die_with(broker, Signal::KILL)?;
    keep_uid_capability().map_err(|error| format!("capabilities: {error}"))?;
    let ceiling = rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    for (resource, most) in [(Resource::Core, 0), (Resource::Nofile, OPEN_FILES.min(ceiling))] {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        rustix::process::setrlimit(resource, limit).map_err(|error| format!("rlimit: {error}"))?;
    }
    // Lenient children own directories that a zygote cannot know: it only takes away what none of them may have.
    let reach = if spec.level == Level::Lenient { Reach::Ceiling } else { Reach::Files };
    let domain = Domain { abi: spec.landlock_abi, reach, has_network: false };
    restrict(domain, &spec.files).map_err(|error| error.to_string())?;
    child::install("early kill list", &filters.early)?;
    let error = new_command(&spec.interpreter)
        .args(["-I", "-S", "-B", "-X", "utf8", "-c", DRIVER])
        .env_clear()
        .envs(ENVIRONMENT)
        .exec();
    Err(format!("cannot start '{}': {error}", spec.interpreter.display()))
}

fn put_in_place(
    spec: &ZygoteSpec,
    socket: &OwnedFd,
    last_words: &OwnedFd,
    filters: &Filters,
) -> io::Result<()> {
    let high = |descriptor: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(descriptor, 16);
    // The low one must be gone before its number is given away.
    let assignment = high(&memory_file(&serde_json::to_vec(&assignment(spec, filters)?)?)?)?;
    let (socket, last_words) = (high(socket)?, high(last_words)?);
    let null = high(&File::options().read(true).write(true).open("/dev/null")?.into())?;
    for (number, descriptor) in [
        (0, &null),
        (1, &null),
        (2, &last_words),
        (child::FRAMES_DESCRIPTOR, &null),
        (child::WORDS_DESCRIPTOR, &null),
        (CONTROL_DESCRIPTOR, &socket),
        (ASSIGNMENT_DESCRIPTOR, &assignment),
    ] {
        sys::copy_descriptor(descriptor.as_fd(), number)?;
    }
    drop((socket, last_words, assignment, null));
    sys::close_from(ASSIGNMENT_DESCRIPTOR.unsigned_abs() + 1)
}

/// What the driver reads: the specification, filters as hexadecimal text, and the numbers that a machine has for calls.
fn assignment(spec: &ZygoteSpec, filters: &Filters) -> io::Result<serde_json::Value> {
    let mut assignment = serde_json::to_value(spec)?;
    if let Some(fields) = assignment.as_object_mut() {
        let [first, second] = &filters.last;
        let programs = json!({"zygote": hex(&filters.zygote), "first": hex(first), "second": hex(second)});
        let numbers = json!({
            "clone": libc::SYS_clone, "prctl": libc::SYS_prctl, "seccomp": libc::SYS_seccomp,
            "capset": libc::SYS_capset, "close_range": libc::SYS_close_range,
            "landlock_restrict_self": restriction_number(),
        });
        fields.insert("filters".to_owned(), programs);
        fields.insert("numbers".to_owned(), numbers);
        fields.insert("first_private_uid".to_owned(), FIRST_PRIVATE_UID.into());
        fields.insert("shared_uid_tasks".to_owned(), SHARED_UID_TASKS.into());
    }
    Ok(assignment)
}

fn hex(program: &[sock_filter]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS.get(usize::from(value)).map_or('?', |digit| char::from(*digit));
    sys::filter_bytes(program).iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Carries the right to change user ids over exec, where the broker has it: each child takes an id of its own with it.
fn keep_uid_capability() -> rustix::io::Result<()> {
    let held = rustix::thread::capabilities(None)?;
    let kept = held.permitted & CapabilitySet::SETUID;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
    rustix::thread::set_capabilities(None, sets)?;
    if kept.is_empty() {
        return Ok(());
    }
    rustix::thread::configure_capability_in_ambient_set(kept, true)
}
