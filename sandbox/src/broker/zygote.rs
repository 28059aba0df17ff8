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
/// How long a zygote may take to become warm: large modules take their time.
const WARM_UP: Duration = Duration::from_secs(50);
/// How long a warm one may take to answer with the next child, which is milliseconds' work.
const ANSWER: Duration = Duration::from_secs(5);
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

/// One run, until its child is asked for.
pub(crate) struct Waiting {
    pub(crate) order: Order,
    pub(crate) kit: Kit,
    pub(crate) reply: OwnedFd,
}

/// What has come of all zygotes since the last look.
#[derive(Default)]
pub(crate) struct Heard {
    /// Children that they have had.
    pub(crate) newborns: Vec<Newborn>,
    /// Runs whose zygote, once warm, is gone before it was asked: another one may take them.
    pub(crate) unserved: Vec<Waiting>,
    /// A zygote is gone that may have had a child without having said so.
    pub(crate) has_lost: bool,
}

/// What became of asking for a child.
enum Asked {
    Sent,
    /// Not now: the zygote's socket is full, or the zygote is gone, which the next look tells.
    Later(Box<Waiting>),
    Failed(OwnedFd, String),
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
    /// Since when it owes an answer: the first child that it was asked for, or the last one that it had.
    asked: Instant,
    /// Before it is warm, and while its socket is full.
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

    /// Hears all zygotes, and ends those that no longer answer.
    pub(crate) fn listen(&mut self) -> Heard {
        let mut heard = Heard::default();
        self.zygotes.retain_mut(|zygote| {
            zygote.drop_abandoned();
            let owes = !zygote.unborn.is_empty();
            if zygote.hear(&mut heard.newborns) && zygote.is_answering() {
                return true;
            }
            heard.has_lost |= owes;
            if zygote.is_ready {
                heard.unserved.extend(zygote.queue.drain(..));
            }
            zygote.bury();
            false
        });
        heard
    }

    /// Whether a run waits for a child.
    pub(crate) fn is_busy(&self) -> bool {
        self.zygotes.iter().any(Zygote::is_busy)
    }

    /// Lets go of zygotes that are retired or not needed.
    pub(crate) fn tidy(&mut self) {
        let fresh = self.zygotes.iter().filter(|zygote| zygote.is_ready && !zygote.is_worn());
        let successors: Vec<u64> = fresh.map(|zygote| zygote.spec.id).collect();
        for zygote in &mut self.zygotes {
            zygote.is_retired |= zygote.is_worn() && successors.contains(&zygote.spec.id);
        }
        self.zygotes.retain(|zygote| {
            zygote.is_busy() || !(zygote.is_retired || zygote.is_ready && zygote.used.elapsed() > MAX_IDLE)
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
            asked: now(),
            queue: VecDeque::new(),
            unborn: VecDeque::new(),
        })
    }

    fn is_worn(&self) -> bool {
        self.runs >= MAX_RUNS || self.born.elapsed() > MAX_AGE
    }

    fn is_busy(&self) -> bool {
        !self.queue.is_empty() || !self.unborn.is_empty()
    }

    /// Whether it has done in time what it was asked for.
    fn is_answering(&self) -> bool {
        if self.is_ready {
            self.unborn.is_empty() || self.asked.elapsed() < ANSWER
        } else {
            self.born.elapsed() < WARM_UP
        }
    }

    fn take(&mut self, waiting: Waiting) -> Result<(), (OwnedFd, String)> {
        self.used = now();
        if !self.is_ready || !self.queue.is_empty() {
            self.queue.push_back(waiting);
            return Ok(());
        }
        match self.ask(waiting) {
            Asked::Sent => Ok(()),
            Asked::Later(waiting) => {
                self.queue.push_back(*waiting);
                Ok(())
            }
            Asked::Failed(reply, message) => Err((reply, message)),
        }
    }

    /// Asks for a child.
    fn ask(&mut self, waiting: Waiting) -> Asked {
        match self.send_birth(&waiting.order, &waiting.kit) {
            Ok(()) => {
                self.runs += 1;
                if self.unborn.is_empty() {
                    self.asked = now();
                }
                self.unborn.push_back(waiting.reply);
                Asked::Sent
            }
            Err(error) if is_full_or_gone(&error) => Asked::Later(Box::new(waiting)),
            Err(error) => {
                Asked::Failed(waiting.reply, format!("cannot ask the Python zygote for a child: {error}"))
            }
        }
    }

    /// Forgets the runs that their server has let go before they were asked for.
    fn drop_abandoned(&mut self) {
        self.queue.retain(|waiting| !packet::is_abandoned(&waiting.reply));
    }

    fn send_birth(&self, order: &Order, kit: &Kit) -> io::Result<()> {
        let Task::Python { language_check, .. } = order.task else {
            return Err(io::Error::other("it is no Python"));
        };
        let domain = Domain { abi: order.landlock_abi, reach: Reach::Files, has_network: false };
        let ruleset = build_ruleset(domain, &order.files).map_err(io::Error::other)?;
        let birth =
            Birth { language_check, directory: order.directory.clone(), limits: order.limits.clone() };
        let mut descriptors = kit.descriptors().to_vec();
        descriptors.push(ruleset.as_fd());
        packet::send(self.socket.as_fd(), &birth, &descriptors)
    }

    /// Takes what it has said; false once it is gone or speaks nonsense.
    fn hear(&mut self, newborns: &mut Vec<Newborn>) -> bool {
        loop {
            let packet = match packet::receive(&self.socket, RecvFlags::empty()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Ok(Some(packet)) => packet,
                Ok(None) | Err(_) => return false,
            };
            match packet.decode::<ZygoteReply>() {
                Ok(ZygoteReply::Ready) => self.is_ready = true,
                Ok(ZygoteReply::Born { pid }) => {
                    self.asked = now();
                    newborns.extend(self.unborn.pop_front().map(|reply| Newborn { pid, reply }));
                }
                Ok(ZygoteReply::Failed { message }) if self.is_ready => {
                    self.asked = now();
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
        if self.is_ready {
            self.ask_for_queue();
        }
        true
    }

    /// Asks for the children of those who wait, as long as its socket takes them.
    fn ask_for_queue(&mut self) {
        while let Some(waiting) = self.queue.pop_front() {
            match self.ask(waiting) {
                Asked::Sent => {}
                Asked::Later(waiting) => {
                    self.queue.push_front(*waiting);
                    return;
                }
                Asked::Failed(reply, message) => refuse(&reply, message),
            }
        }
    }

    /// Tells those who wait for it that it is gone: it died without having been told to, or does not answer.
    fn bury(&mut self) {
        let level = self.spec.level;
        if !self.is_answering() {
            let what = if self.is_ready { "answer" } else { "become warm" };
            self.refuse_all(&format!(
                "the Python zygote of level {level} does not {what}; it has been ended"
            ));
            return;
        }
        let mut words = String::new();
        // Without a descriptor to spare there are no last words.
        if let Ok(copy) = self.last_words.try_clone() {
            let mut file = std::fs::File::from(copy);
            if file.rewind().is_ok() {
                file.take(LAST_WORDS_BYTES).read_to_string(&mut words).ok();
            }
        }
        let last = words.trim().lines().last().unwrap_or("it said nothing");
        self.refuse_all(&format!("the Python zygote of level {level} died: {last}"));
    }

    fn refuse_all(&mut self, message: &str) {
        let queued = self.queue.drain(..).map(|waiting| waiting.reply);
        for reply in queued.chain(self.unborn.drain(..)) {
            refuse(&reply, message.to_owned());
        }
    }
}

/// Whether a packet can be sent later, to this zygote or to its successor: this one has not got it.
fn is_full_or_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, WouldBlock};
    matches!(error.kind(), WouldBlock | BrokenPipe | ConnectionReset)
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
