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

use super::order::{self, Order, Task, ZygoteReply, refuse};
use super::packet;
use super::spare::Spare;
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
/// Children that a zygote has ahead of need: one that is taken next, one that gets ready meanwhile.
const SPARES: usize = 2;
/// So many children in a row that die unused mean that none will live.
const MAX_DEATHS: u32 = 3;
/// How long a zygote may take to become warm: large modules take their time.
const WARM_UP: Duration = Duration::from_secs(50);
/// How long a warm one may take to answer with the next child, which is milliseconds' work.
const ANSWER: Duration = Duration::from_secs(5);
/// How much of a dying zygote's last words is told.
const LAST_WORDS_BYTES: u64 = 4 * 1024;

/// A run that a zygote's child has taken, and whom to tell.
pub(crate) struct Newborn {
    pub(crate) pid: i32,
    pub(crate) reply: OwnedFd,
}

/// All zygotes, and the runs that wait for them.
#[derive(Default)]
pub(crate) struct Nursery {
    zygotes: Vec<Zygote>,
    newborns: Vec<Newborn>,
}

/// One run, until a child takes it.
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
    queue: VecDeque<Waiting>,
    spares: Vec<Spare>,
    /// Children asked for and not yet there.
    expected: usize,
    /// Since when it owes an answer: the first child that it was asked for, or the last one that it had.
    asked: Instant,
    /// Children in a row that were dead when their run came.
    deaths: u32,
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
            Some(zygote) => {
                zygote.take(Waiting { order, kit, reply }, &mut self.newborns);
                Ok(())
            }
            None => Err((reply, "there is no Python zygote".to_owned())),
        }
    }

    /// What wakes the broker up.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.zygotes.iter().map(|zygote| zygote.socket.as_fd())
    }

    /// Hears all zygotes, and ends those that no longer answer; says whether one is gone whose last child nobody knows.
    pub(crate) fn listen(&mut self) -> bool {
        let mut has_lost = false;
        self.zygotes.retain_mut(|zygote| {
            zygote.queue.retain(|waiting| !packet::is_abandoned(&waiting.reply));
            let owes = zygote.expected > 0;
            let lives = zygote.hear(&mut self.newborns) && zygote.is_answering();
            if !lives {
                has_lost |= owes;
                zygote.tell_end();
            }
            lives
        });
        has_lost
    }

    /// Whether a run waits for a child.
    pub(crate) fn is_busy(&self) -> bool {
        self.zygotes.iter().any(Zygote::is_busy)
    }

    /// The runs that have been taken since the last time.
    pub(crate) fn newborns(&mut self) -> Vec<Newborn> {
        std::mem::take(&mut self.newborns)
    }

    /// Lets go of zygotes that are retired or not needed.
    pub(crate) fn tidy(&mut self) {
        for zygote in self.zygotes.iter_mut().filter(|zygote| zygote.queue.is_empty()) {
            // Asked for by runs that were given up.
            let surplus = zygote.spares.len().saturating_sub(SPARES);
            zygote.spares.drain(..surplus).for_each(|spare| spare.bury());
        }
        let fresh = self.zygotes.iter().filter(|zygote| zygote.is_ready && !zygote.is_worn());
        let successors: Vec<u64> = fresh.map(|zygote| zygote.spec.id).collect();
        for zygote in &mut self.zygotes {
            zygote.is_retired |= zygote.is_worn() && successors.contains(&zygote.spec.id);
        }
        self.zygotes.retain(|zygote| {
            // A child that is about to be there must not be lost sight of.
            zygote.is_busy() || !(zygote.is_retired || zygote.is_ready && zygote.used.elapsed() > MAX_IDLE)
        });
    }

    /// Whether every child of a zygote is known to the broker.
    pub(crate) fn is_quiet(&self) -> bool {
        self.zygotes.iter().all(|zygote| zygote.expected == 0)
    }

    /// Whether this is the process id of a zygote or of a spare child.
    pub(crate) fn has(&self, pid: i32) -> bool {
        let is_its =
            |zygote: &Zygote| zygote.pid == pid || zygote.spares.iter().any(|spare| spare.pid == pid);
        self.zygotes.iter().any(is_its)
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
            spares: Vec::new(),
            expected: 0,
            asked: now(),
            deaths: 0,
        })
    }

    /// Whether a run waits for it, or a child of its is about to be there.
    fn is_busy(&self) -> bool {
        self.expected > 0 || !self.queue.is_empty()
    }

    fn is_worn(&self) -> bool {
        self.runs >= MAX_RUNS || self.born.elapsed() > MAX_AGE
    }

    /// Gives a run to a spare child, or lets it wait for one.
    fn take(&mut self, waiting: Waiting, newborns: &mut Vec<Newborn>) {
        self.used = now();
        self.queue.push_back(waiting);
        self.serve(newborns);
    }

    /// Hands out what waits as long as there are children, and sees to it that there will be enough.
    fn serve(&mut self, newborns: &mut Vec<Newborn>) {
        while !self.queue.is_empty()
            && let Some(spare) = self.spares.pop()
        {
            self.hand_over(&spare, newborns);
        }
        let ahead = if self.is_retired { 0 } else { SPARES };
        while self.is_ready && self.expected + self.spares.len() < self.queue.len() + ahead {
            if packet::send(self.socket.as_fd(), &"beget", &[]).is_err() {
                // Full: it has enough to do. Gone: its end is heard next.
                return;
            }
            if self.expected == 0 {
                self.asked = now();
            }
            self.expected += 1;
        }
    }

    /// Whether it has done in time what it was asked for.
    fn is_answering(&self) -> bool {
        if self.is_ready {
            self.expected == 0 || self.asked.elapsed() < ANSWER
        } else {
            self.born.elapsed() < WARM_UP
        }
    }

    /// The first run in the queue becomes a child's. A child that died while it waited takes none.
    fn hand_over(&mut self, spare: &Spare, newborns: &mut Vec<Newborn>) {
        let Some(waiting) = self.queue.pop_front() else { return };
        match send_birth(spare, &waiting) {
            Ok(()) => {
                self.runs += 1;
                self.deaths = 0;
                newborns.push(Newborn { pid: spare.pid, reply: waiting.reply });
            }
            Err(Birth::Dead) => {
                spare.bury();
                self.deaths += 1;
                self.queue.push_front(waiting);
                if self.deaths >= MAX_DEATHS {
                    let words = self.last_words();
                    self.refuse_all(&format!("Python children die before they are given a run: {words}"));
                }
            }
            Err(Birth::Refused(message)) => {
                spare.bury();
                refuse(&waiting.reply, message);
            }
        }
    }

    /// Takes what it has said; false once it is gone.
    fn hear(&mut self, newborns: &mut Vec<Newborn>) -> bool {
        loop {
            let packet = match packet::receive(&self.socket, RecvFlags::empty()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Ok(Some(packet)) => packet,
                Ok(None) | Err(_) => return false,
            };
            match packet.decode::<ZygoteReply>() {
                Ok(ZygoteReply::Ready) => {
                    self.is_ready = true;
                    self.serve(newborns);
                }
                Ok(ZygoteReply::Born { pid }) => {
                    self.asked = now();
                    self.expected = self.expected.saturating_sub(1);
                    self.spares
                        .extend(packet.descriptors.into_iter().next().map(|socket| Spare { pid, socket }));
                    self.serve(newborns);
                }
                Ok(ZygoteReply::Failed { message }) if self.is_ready => {
                    self.expected = self.expected.saturating_sub(1);
                    // Nobody waits for a child ahead of need.
                    if let Some(waiting) = self.queue.pop_front() {
                        refuse(&waiting.reply, message);
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

    /// Tells those who wait for it that it is gone: it died without having been told to, or does not answer.
    fn tell_end(&mut self) {
        let level = self.spec.level;
        let message = if self.is_answering() {
            format!("the Python zygote of level {level} died: {}", self.last_words())
        } else {
            let what = if self.is_ready { "answer" } else { "become warm" };
            format!("the Python zygote of level {level} does not {what}; it has been ended")
        };
        self.refuse_all(&message);
    }

    /// The last line of what it and its spare children have written to standard error.
    fn last_words(&self) -> String {
        let mut words = String::new();
        // Without a descriptor to spare there are none.
        if let Ok(copy) = self.last_words.try_clone() {
            let mut file = std::fs::File::from(copy);
            if file.rewind().is_ok() {
                file.take(LAST_WORDS_BYTES).read_to_string(&mut words).ok();
            }
        }
        words.trim().lines().last().unwrap_or("it said nothing").to_owned()
    }

    fn refuse_all(&mut self, message: &str) {
        for waiting in self.queue.drain(..) {
            refuse(&waiting.reply, message.to_owned());
        }
    }
}

/// Why a child has not taken a run.
enum Birth {
    /// There is no such child any more.
    Dead,
    /// The run cannot be.
    Refused(String),
}

fn send_birth(spare: &Spare, waiting: &Waiting) -> Result<(), Birth> {
    let Waiting { order, kit, .. } = waiting;
    let refused = |error: &dyn std::fmt::Display| Birth::Refused(error.to_string());
    let Task::Python { language_check, .. } = order.task else { return Err(refused(&"it is no Python")) };
    let domain = Domain { abi: order.landlock_abi, reach: Reach::Files, has_network: false };
    let ruleset = build_ruleset(domain, &order.files).map_err(|error| refused(&error))?;
    let run =
        order::Birth { language_check, directory: order.directory.clone(), limits: order.limits.clone() };
    let mut descriptors = kit.descriptors();
    descriptors.push(ruleset.as_fd());
    packet::send(spare.socket.as_fd(), &run, &descriptors)
        .map_err(|error| if packet::is_hang_up(&error) { Birth::Dead } else { refused(&error) })
}

impl Drop for Zygote {
    fn drop(&mut self) {
        self.spares.iter().for_each(Spare::bury);
        // Children that run are the broker's and live on.
        if let Some(pid) = Pid::from_raw(self.pid) {
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
        sys::reap(self.pid).ok();
    }
}
