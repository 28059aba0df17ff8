//! Warm `CPython` processes: one per level, forked for each run, replaced when they are old.
//!
//! Owns: their lives, and who waits for a child of theirs. Refuses: to let guest code near one; a zygote never reads a
//! program, and only its children, which are the broker's, run any.

use std::collections::VecDeque;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;
use rustix::process::{Pid, Signal};

use super::order::{Birth, Order, Reply, Task, ZygoteReply};
use super::packet;
use crate::child::Kit;
use crate::clock::now;
use crate::guest::memory_file;
use crate::policy::{Domain, Filters, Reach, build_ruleset};
use crate::python::{self, ZygoteSpec};
use crate::sys::{self, Fork};

/// A zygote is replaced after so many runs: its children share hash seed and address layout.
const MAX_RUNS: u64 = 1_000;
/// Likewise after this time.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);
/// A zygote that nobody has needed for so long is let go.
const MAX_IDLE: Duration = Duration::from_secs(10 * 60);
/// How much of a dying zygote's last words is told.
const LAST_WORDS_BYTES: u64 = 4 * 1024;

/// A child that a zygote has just had, and whom to tell.
pub(crate) struct Newborn {
    pub(crate) pid: i32,
    pub(crate) reply: OwnedFd,
}

/// All zygotes, and the runs that wait for them.
#[derive(Default)]
pub(crate) struct Nursery {
    zygotes: Vec<Zygote>,
}

/// One run, until its child is there.
struct Waiting {
    order: Order,
    kit: Kit,
    reply: OwnedFd,
}

/// One zygote.
struct Zygote {
    spec: ZygoteSpec,
    pid: i32,
    socket: OwnedFd,
    last_words: OwnedFd,
    is_ready: bool,
    /// Another one takes its place: nothing new for this one.
    is_retired: bool,
    runs: u64,
    born: Instant,
    used: Instant,
    /// Before it is warm.
    queue: VecDeque<Waiting>,
    /// Asked for and not yet born, in order.
    unborn: VecDeque<OwnedFd>,
}

impl Nursery {
    /// Gives a run to the zygote that fits, or to one that is started now.
    pub(crate) fn order(
        &mut self,
        order: Order,
        kit: Kit,
        reply: OwnedFd,
        filters: &Filters,
    ) -> Result<(), (OwnedFd, String)> {
        let Task::Python { zygote: spec, .. } = &order.task else {
            return Err((reply, "only Python has zygotes".to_owned()));
        };
        for other in &mut self.zygotes {
            other.is_retired |= other.spec.level == spec.level && other.spec.id != spec.id;
        }
        let fits = |zygote: &Zygote| zygote.spec.id == spec.id && !zygote.is_retired;
        // A worn one still serves until its successor is warm.
        let is_missing = !self.zygotes.iter().any(|zygote| fits(zygote) && !zygote.is_worn());
        if is_missing {
            match Zygote::start(spec, filters) {
                Ok(zygote) => self.zygotes.push(zygote),
                Err(error) => return Err((reply, format!("cannot start a Python zygote: {error}"))),
            }
        }
        let mut fitting = self.zygotes.iter_mut().filter(|zygote| fits(zygote));
        let best = fitting.next().map(|first| match fitting.next() {
            Some(successor) if successor.is_ready => {
                first.is_retired = true;
                successor
            }
            _ => first,
        });
        match best {
            Some(zygote) => zygote.take(Waiting { order, kit, reply }),
            None => Err((reply, "there is no Python zygote".to_owned())),
        }
    }

    /// What wakes the broker up.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.zygotes.iter().map(|zygote| zygote.socket.as_fd())
    }

    /// Hears all zygotes; the children that they have had.
    pub(crate) fn listen(&mut self) -> Vec<Newborn> {
        let mut newborns = Vec::new();
        self.zygotes.retain_mut(|zygote| zygote.hear(&mut newborns));
        newborns
    }

    /// Lets go of zygotes that are retired or not needed.
    pub(crate) fn tidy(&mut self) {
        self.zygotes.retain(|zygote| {
            let is_busy = !zygote.queue.is_empty() || !zygote.unborn.is_empty();
            is_busy || !(zygote.is_retired || zygote.is_ready && zygote.used.elapsed() > MAX_IDLE)
        });
    }

    /// Whether every child of a zygote is known to the broker.
    pub(crate) fn is_quiet(&self) -> bool {
        self.zygotes.iter().all(|zygote| zygote.unborn.is_empty())
    }

    /// Whether this is a zygote's process id.
    pub(crate) fn has(&self, pid: i32) -> bool {
        self.zygotes.iter().any(|zygote| zygote.pid == pid)
    }
}

impl Zygote {
    fn start(spec: &ZygoteSpec, filters: &Filters) -> io::Result<Self> {
        let (socket, theirs) = packet::pair()?;
        let last_words = memory_file(&[])?;
        let pid = match sys::fork()? {
            Fork::Child => python::become_zygote(spec, &theirs, &last_words, filters),
            Fork::Parent(pid) => pid,
        };
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self {
            spec: spec.clone(),
            pid,
            socket,
            last_words,
            is_ready: false,
            is_retired: false,
            runs: 0,
            born: now(),
            used: now(),
            queue: VecDeque::new(),
            unborn: VecDeque::new(),
        })
    }

    fn is_worn(&self) -> bool {
        self.runs >= MAX_RUNS || self.born.elapsed() > MAX_AGE
    }

    fn take(&mut self, waiting: Waiting) -> Result<(), (OwnedFd, String)> {
        self.used = now();
        if self.is_ready {
            return self.ask(waiting);
        }
        self.queue.push_back(waiting);
        Ok(())
    }

    /// Asks for a child.
    fn ask(&mut self, waiting: Waiting) -> Result<(), (OwnedFd, String)> {
        let Waiting { order, kit, reply } = waiting;
        match self.send_birth(order, &kit) {
            Ok(()) => {
                self.runs += 1;
                self.unborn.push_back(reply);
                Ok(())
            }
            Err(message) => Err((reply, format!("cannot ask the Python zygote for a child: {message}"))),
        }
    }

    fn send_birth(&self, order: Order, kit: &Kit) -> Result<(), String> {
        let Task::Python { language_check, .. } = order.task else {
            return Err("it is no Python".to_owned());
        };
        let domain = Domain { abi: order.landlock_abi, reach: Reach::Files, has_network: false };
        let ruleset = build_ruleset(domain, &order.files).map_err(|error| error.to_string())?;
        let birth = Birth { language_check, directory: order.directory, limits: order.limits };
        let mut descriptors = kit.descriptors().to_vec();
        descriptors.push(ruleset.as_fd());
        packet::send(self.socket.as_fd(), &birth, &descriptors).map_err(|error| error.to_string())
    }

    /// Takes what it has said; false once it is gone.
    fn hear(&mut self, newborns: &mut Vec<Newborn>) -> bool {
        loop {
            let packet = match packet::receive(&self.socket, RecvFlags::empty()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Ok(Some(packet)) => packet,
                Ok(None) | Err(_) => {
                    self.bury();
                    return false;
                }
            };
            match packet.decode::<ZygoteReply>() {
                Ok(ZygoteReply::Ready) => self.wake(),
                Ok(ZygoteReply::Born { pid }) => {
                    newborns.extend(self.unborn.pop_front().map(|reply| Newborn { pid, reply }));
                }
                Ok(ZygoteReply::Failed { message }) if self.is_ready => {
                    if let Some(reply) = self.unborn.pop_front() {
                        refuse(&reply, message);
                    }
                }
                Ok(ZygoteReply::Failed { message }) => {
                    self.refuse_all(&message);
                    return false;
                }
                Err(error) => {
                    self.refuse_all(&format!("the Python zygote makes no sense: {error}"));
                    return false;
                }
            }
        }
    }

    fn wake(&mut self) {
        self.is_ready = true;
        while let Some(waiting) = self.queue.pop_front() {
            if let Err((reply, message)) = self.ask(waiting) {
                refuse(&reply, message);
            }
        }
    }

    /// It is gone without having been told to go.
    fn bury(&mut self) {
        let mut words = String::new();
        // Without a descriptor to spare there are no last words.
        if let Ok(copy) = self.last_words.try_clone() {
            let mut file = std::fs::File::from(copy);
            if file.rewind().is_ok() {
                file.take(LAST_WORDS_BYTES).read_to_string(&mut words).ok();
            }
        }
        let last = words.trim().lines().last().unwrap_or("it said nothing");
        self.refuse_all(&format!("the Python zygote of level {} died: {last}", self.spec.level));
    }

    fn refuse_all(&mut self, message: &str) {
        let queued = self.queue.drain(..).map(|waiting| waiting.reply);
        for reply in queued.chain(self.unborn.drain(..)) {
            refuse(&reply, message.to_owned());
        }
    }
}

fn refuse(reply: &OwnedFd, message: String) {
    // A server that no longer listens has let go of the run.
    packet::send(reply.as_fd(), &Reply::Failed { message }, &[]).ok();
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // Its children are the broker's and live on.
        if let Some(pid) = Pid::from_raw(self.pid) {
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
        sys::reap(self.pid).ok();
    }
}
