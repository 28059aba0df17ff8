//! The broker's life: take orders, start children, tell how they ended.
//!
//! Owns: the table of running children. Refuses: to outlive the server; the end of its socket ends everything.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, Signal};

use super::cells::Cells;
use super::order::{Order, Reply, Task};
use super::packet::{self, Packet};
use super::zygote::Nursery;
use crate::child::{self, Kit};
use crate::clock::now;
use crate::layers::{Layers, RunCgroup};
use crate::policy::{Filters, Profile, compile};
use crate::shell;
use crate::sys::{self, Fork};

/// How often idle zygotes are looked at.
const TICK: Duration = Duration::from_secs(30);
/// How often orphans, and cgroups that drain, are looked at while there may be some.
const ORPHAN_TICK: Duration = Duration::from_millis(20);
/// How long the supervisors of commands may take to end their trees once the server is gone.
const FAREWELL: Duration = Duration::from_millis(500);
/// The exit code of a broker that cannot begin.
const CANNOT_BEGIN: i32 = 70;

/// A child that runs, and whom to tell about its end.
struct Run {
    pid: Pid,
    pidfd: OwnedFd,
    reply: OwnedFd,
    is_shell: bool,
    /// Only commands have one, and not everywhere.
    cgroup: Option<RunCgroup>,
}

/// Everything that the broker knows.
struct Broker {
    control: OwnedFd,
    own_pid: Pid,
    runs: Vec<Run>,
    nursery: Nursery,
    cells: Cells,
    filters: BTreeMap<(Profile, u32), Rc<Filters>>,
    has_orphans: bool,
}

/// Serves until the server is gone, and never returns. `has_network`: commands may have the network.
pub(crate) fn serve(has_network: bool) -> ! {
    let Ok((control, layers)) = begin(has_network) else { sys::exit_now(CANNOT_BEGIN) };
    let mut broker = Broker {
        control,
        own_pid: rustix::process::getpid(),
        runs: Vec::new(),
        nursery: Nursery::default(),
        cells: Cells::new(layers.cgroups),
        filters: BTreeMap::new(),
        has_orphans: false,
    };
    while broker.turn().unwrap_or(false) {}
    broker.farewell();
    sys::exit_now(0)
}

/// Leaves everything of the server's behind but the socket, and tells it of the optional layers.
fn begin(has_network: bool) -> io::Result<(OwnedFd, Layers)> {
    let control = child::settle_descriptors()?;
    // Before it is undumpable, which would give its own /proc files to root, and while it has its privileges.
    let layers = Layers::enter(has_network);
    // Terminal signals are the server's affair.
    rustix::process::setsid()?;
    rustix::thread::set_name(c"nanoclaw-broker")?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // What a killed supervisor leaves behind comes here.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let files = rustix::process::getrlimit(Resource::Nofile).maximum;
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: files, maximum: files })?;
    child::shed_privileges().map_err(io::Error::other)?;
    packet::send(control.as_fd(), &layers.report, &[])?;
    rustix::io::ioctl_fionbio(&control, true)?;
    Ok((control, layers))
}

impl Broker {
    /// Waits for something to do and does it; says whether to go on.
    fn turn(&mut self) -> io::Result<bool> {
        let ready = self.wait()?;
        let is_ready = |index: usize| ready.get(index).copied().unwrap_or(false);
        let mut index = 1;
        self.has_orphans |= self.bury(|| {
            index += 1;
            is_ready(index - 1)
        });
        for newborn in self.nursery.listen() {
            self.adopt(newborn.pid, newborn.reply, false, None);
        }
        let goes_on = !is_ready(0) || self.take_orders()?;
        self.nursery.tidy();
        self.cells.tidy();
        if self.has_orphans && self.nursery.is_quiet() {
            self.has_orphans = self.kill_orphans();
        }
        Ok(goes_on)
    }

    /// Which descriptors have something: the socket to the server, then the runs in order. Zygotes only wake it up.
    fn wait(&self) -> rustix::io::Result<Vec<bool>> {
        let mut polled = vec![PollFd::new(&self.control, PollFlags::IN)];
        polled.extend(self.runs.iter().map(|run| PollFd::new(&run.pidfd, PollFlags::IN)));
        let known = polled.len();
        polled.extend(self.nursery.sockets().map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        let is_busy = self.has_orphans || self.cells.are_draining();
        let tick = if is_busy { ORPHAN_TICK } else { TICK };
        let timeout = Timespec::try_from(tick).map_err(|_| Errno::INVAL)?;
        match rustix::event::poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(polled.iter().take(known).map(|descriptor| !descriptor.revents().is_empty()).collect())
    }

    /// Reaps the runs that have ended; says whether one of them may have left processes behind.
    fn bury(&mut self, mut is_ready: impl FnMut() -> bool) -> bool {
        let mut left = false;
        self.runs.retain_mut(|run| {
            if !is_ready() {
                return true;
            }
            let reply = match sys::reap(run.pid.as_raw_nonzero().get()) {
                Ok(mut ended) => {
                    left |= run.is_shell && ended.signal.is_some();
                    ended.oom_kills = run.cgroup.as_ref().map_or(0, RunCgroup::end);
                    Reply::ended(&ended)
                }
                Err(error) => Reply::Failed { message: format!("cannot reap the child: {error}") },
            };
            // A server that no longer listens has let go of the run.
            packet::send(run.reply.as_fd(), &reply, &[]).ok();
            self.cells.remove(run.cgroup.take());
            false
        });
        left
    }

    /// Takes what the server has sent; false once the server is gone.
    fn take_orders(&mut self) -> io::Result<bool> {
        loop {
            match packet::receive(&self.control, RecvFlags::empty()) {
                Ok(Some(packet)) => self.take(packet),
                Ok(None) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&mut self, packet: Packet) {
        let order = packet.decode::<Order>();
        let mut descriptors = packet.descriptors.into_iter();
        let Some(reply) = descriptors.next() else { return };
        let outcome = match (order, Kit::from_descriptors(descriptors)) {
            (Ok(order), Some(kit)) => self.start(order, kit, reply),
            (Err(error), _) => Err((reply, format!("cannot decode the order: {error}"))),
            (_, None) => Err((reply, "the order lacks a descriptor".to_owned())),
        };
        if let Err((reply, message)) = outcome {
            // A server that no longer listens has let go of the run.
            packet::send(reply.as_fd(), &Reply::Failed { message }, &[]).ok();
        }
    }

    fn start(&mut self, order: Order, kit: Kit, reply: OwnedFd) -> Result<(), (OwnedFd, String)> {
        let filters = match self.filters(&order) {
            Ok(filters) => filters,
            Err(message) => return Err((reply, message)),
        };
        if matches!(order.task, Task::Python { .. }) {
            return self.nursery.order(order, kit, reply, &filters);
        }
        let is_shell = matches!(order.task, Task::Shell(_));
        let cgroup = if is_shell { self.cells.make(&order.limits) } else { None };
        match cgroup.as_ref().map_or_else(sys::fork, RunCgroup::fork) {
            Err(error) => {
                self.cells.remove(cgroup);
                Err((reply, format!("cannot fork: {error}")))
            }
            Ok(Fork::Parent(pid)) => {
                self.adopt(pid, reply, is_shell, cgroup);
                Ok(())
            }
            Ok(Fork::Child) => match &order.task {
                Task::Shell(task) => shell::supervise(&order, task, kit, &filters),
                _ => child::live(&order, kit, &filters, self.own_pid),
            },
        }
    }

    /// The filters of an order's profile, compiled once.
    fn filters(&mut self, order: &Order) -> Result<Rc<Filters>, String> {
        let key = (Profile::of(&order.task, order.level), order.landlock_abi);
        if let Some(filters) = self.filters.get(&key) {
            return Ok(Rc::clone(filters));
        }
        let filters = Rc::new(compile(key.0, key.1).map_err(|error| error.to_string())?);
        self.filters.insert(key, Rc::clone(&filters));
        Ok(filters)
    }

    /// Keeps a child in the table and announces it.
    fn adopt(&mut self, pid: i32, reply: OwnedFd, is_shell: bool, cgroup: Option<RunCgroup>) {
        let Some(known) = Pid::from_raw(pid) else { return };
        match rustix::process::pidfd_open(known, PidfdFlags::empty()) {
            Ok(pidfd) => {
                let started = packet::send(reply.as_fd(), &Reply::Started { pid }, &[pidfd.as_fd()]);
                let run = Run { pid: known, pidfd, reply, is_shell, cgroup };
                if started.is_err() {
                    // Nobody waits for it any more.
                    run.end();
                }
                self.runs.push(run);
            }
            Err(error) => {
                rustix::process::kill_process(known, Signal::KILL).ok();
                sys::reap(pid).ok();
                self.cells.remove(cgroup);
                let message = format!("cannot watch the child: {error}");
                packet::send(reply.as_fd(), &Reply::Failed { message }, &[]).ok();
            }
        }
    }

    /// Kills what a killed supervisor left, where no cgroup has done so already, and reaps it; says whether there was
    /// something.
    fn kill_orphans(&self) -> bool {
        let known: Vec<i32> = self.runs.iter().map(|run| run.pid.as_raw_nonzero().get()).collect();
        let children = shell::children_of_this_thread().unwrap_or_default();
        let orphans = children.into_iter().filter(|pid| !known.contains(pid) && !self.nursery.has(*pid));
        let mut found = false;
        for orphan in orphans.filter_map(Pid::from_raw) {
            found = true;
            rustix::process::kill_process(orphan, Signal::KILL).ok();
            sys::reap(orphan.as_raw_nonzero().get()).ok();
        }
        found
    }

    /// Ends everything: the server is gone. Guests die with this process; supervisors need a moment for their trees.
    fn farewell(mut self) {
        self.nursery = Nursery::default();
        self.end_runs();
        self.cells.leave();
    }

    fn end_runs(&mut self) {
        for run in &self.runs {
            run.end();
        }
        let start = now();
        while !self.runs.is_empty() && start.elapsed() < FAREWELL {
            let Ok(ready) = self.wait() else { return };
            let mut index = 0;
            self.has_orphans |= self.bury(|| {
                index += 1;
                ready.get(index).copied().unwrap_or(false)
            });
        }
        while self.kill_orphans() && start.elapsed() < FAREWELL {}
    }
}

impl Run {
    fn end(&self) {
        let signal = if self.is_shell { Signal::TERM } else { Signal::KILL };
        // It may be gone already; that is what is wanted.
        rustix::process::pidfd_send_signal(&self.pidfd, signal).ok();
    }
}
