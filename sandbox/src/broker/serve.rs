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
use super::order::{Order, Reply, Task, refuse};
use super::packet::{self, Packet};
use super::spare::Spare;
use super::zygote::Nursery;
use crate::child::{self, Heritage, Kit};
use crate::clock::now;
use crate::javascript::Engine;
use crate::layers::{Layers, RunCgroup};
use crate::policy::{Filters, Profile, compile, compile_for_broker};
use crate::shell;
use crate::sys::{self, Fork};

/// Children that stand ready for JavaScript: one that is taken next, one that gets ready meanwhile.
const READY_SCRIPTS: usize = 2;
/// How often idle zygotes are looked at.
const TICK: Duration = Duration::from_secs(30);
/// How often zygotes that owe a child are looked at.
const BUSY_TICK: Duration = Duration::from_millis(50);
/// How often in one turn what orphans leave is looked for at once: their children become the broker's.
const ORPHAN_ROUNDS: usize = 64;
/// How often orphans, and cgroups that drain, are looked at while there may be some.
const ORPHAN_TICK: Duration = Duration::from_millis(20);
/// How long the supervisors of commands may take to end their trees once the server is gone.
const FAREWELL: Duration = Duration::from_millis(500);
/// Half of what the kernel takes; children inherit it.
const GUESTS_GO_FIRST: &str = "500";
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
    /// Its server wants no more of it: it has been told to end.
    is_let_go: bool,
}

/// What a look at all descriptors found: the socket to the server, then the runs in their order.
struct Ready {
    control: bool,
    ended: Vec<bool>,
    abandoned: Vec<bool>,
}

/// Everything that the broker knows.
struct Broker {
    control: OwnedFd,
    own_pid: Pid,
    runs: Vec<Run>,
    nursery: Nursery,
    scripts: Vec<Spare>,
    cells: Cells,
    filters: BTreeMap<(Profile, u32), Rc<Filters>>,
    /// Made for the first JavaScript run; children use copies.
    engine: Option<Rc<Engine>>,
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
        scripts: Vec::new(),
        cells: Cells::new(layers.cgroups),
        filters: BTreeMap::new(),
        engine: None,
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
    sys::default_signals();
    sys::block_signals(&[])?;
    // Terminal signals are the server's affair.
    rustix::process::setsid()?;
    rustix::thread::set_name(c"nanoclaw-broker")?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // What a killed supervisor leaves behind comes here.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let files = rustix::process::getrlimit(Resource::Nofile).maximum;
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: files, maximum: files })?;
    // When memory runs out, a guest goes before the server. Where that cannot be said, the kernel decides alone.
    std::fs::write("/proc/self/oom_score_adj", GUESTS_GO_FIRST).ok();
    child::shed_privileges().map_err(io::Error::other)?;
    let filter = compile_for_broker().map_err(io::Error::other)?;
    child::install("the broker's", &filter).map_err(io::Error::other)?;
    packet::send(control.as_fd(), &layers.report, &[])?;
    rustix::io::ioctl_fionbio(&control, true)?;
    Ok((control, layers))
}

impl Broker {
    /// Waits for something to do and does it; says whether to go on.
    fn turn(&mut self) -> io::Result<bool> {
        let ready = self.wait()?;
        self.let_go(&ready.abandoned);
        self.bury(&ready.ended);
        self.has_orphans |= self.nursery.listen();
        let goes_on = !ready.control || self.take_orders()?;
        for newborn in self.nursery.newborns() {
            self.adopt(newborn.pid, newborn.reply, false, None);
        }
        self.nursery.tidy();
        self.cells.tidy();
        self.stock_up();
        self.end_orphans();
        Ok(goes_on)
    }

    /// Zygotes only wake it up.
    fn wait(&self) -> rustix::io::Result<Ready> {
        let count = self.runs.len();
        let mut polled = vec![PollFd::new(&self.control, PollFlags::IN)];
        polled.extend(self.runs.iter().map(|run| PollFd::new(&run.pidfd, PollFlags::IN)));
        polled.extend(self.runs.iter().map(|run| {
            // Told once, that end would be told again and again.
            if run.is_let_go {
                PollFd::new(&run.pidfd, PollFlags::empty())
            } else {
                PollFd::new(&run.reply, packet::ABANDONED)
            }
        }));
        polled.extend(self.nursery.sockets().map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        let tick = if self.has_orphans || self.cells.are_draining() {
            ORPHAN_TICK
        } else if self.nursery.is_busy() {
            BUSY_TICK
        } else {
            TICK
        };
        let timeout = Timespec::try_from(tick).map_err(|_| Errno::INVAL)?;
        match rustix::event::poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let mut found = polled.iter().map(|descriptor| !descriptor.revents().is_empty());
        let control = found.next().unwrap_or(false);
        let ended = found.by_ref().take(count).collect();
        Ok(Ready { control, ended, abandoned: found.take(count).collect() })
    }

    /// Ends the runs that nobody waits for any more.
    fn let_go(&mut self, abandoned: &[bool]) {
        for (run, _) in self.runs.iter_mut().zip(abandoned).filter(|(_, is_abandoned)| **is_abandoned) {
            if !run.is_let_go {
                run.is_let_go = true;
                run.end();
            }
        }
    }

    /// Reaps the runs that have ended, ends what they left behind, and says so.
    fn bury(&mut self, ended: &[bool]) {
        let mut gone = Vec::new();
        for (run, has_ended) in std::mem::take(&mut self.runs).into_iter().zip(ended) {
            if *has_ended { gone.push(run) } else { self.runs.push(run) }
        }
        let mut replies = Vec::new();
        for mut run in gone {
            let reply = match sys::reap(run.pid.as_raw_nonzero().get()) {
                Ok(mut ended) => {
                    ended.oom_kills = run.cgroup.as_ref().map_or(0, RunCgroup::end);
                    // A supervisor that was killed could not end its tree.
                    self.has_orphans |= run.is_shell && ended.signal.is_some();
                    Reply::ended(&ended)
                }
                Err(error) => Reply::Failed { message: format!("cannot reap the child: {error}") },
            };
            self.cells.remove(run.cgroup.take());
            replies.push((run.reply, reply));
        }
        self.end_orphans();
        for (socket, reply) in replies {
            // A server that no longer listens has let go of the run.
            packet::send(socket.as_fd(), &reply, &[]).ok();
        }
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
        match (order, Kit::from_descriptors(descriptors)) {
            (Ok(order), Some(kit)) if kit.suits(order.task.extra()) => {
                self.start_or_refuse(order, kit, reply);
            }
            (Err(error), _) => refuse(&reply, format!("cannot decode the order: {error}")),
            (Ok(_), _) => refuse(&reply, "the order lacks a descriptor".to_owned()),
        }
    }

    fn start_or_refuse(&mut self, order: Order, kit: Kit, reply: OwnedFd) {
        if let Err((reply, message)) = self.start(order, kit, reply) {
            refuse(&reply, message);
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
        if matches!(order.task, Task::JavaScript { .. })
            && let Some(spare) = self.script_for(&order, &kit)
        {
            self.adopt(spare.pid, reply, false, None);
            return Ok(());
        }
        let is_script = matches!(order.task, Task::JavaScript { .. });
        let engine = match is_script.then(|| self.engine()).transpose() {
            Ok(engine) => engine,
            Err(message) => return Err((reply, message)),
        };
        let cgroup = if let Task::Shell(task) = &order.task {
            self.cells.make(&order.limits, task.memory_bytes)
        } else {
            None
        };
        let is_shell = matches!(order.task, Task::Shell(_));
        match cgroup.as_ref().map_or_else(sys::fork, RunCgroup::fork) {
            Err(error) => {
                self.cells.remove(cgroup);
                Err((reply, format!("cannot fork: {error}")))
            }
            Ok(Fork::Parent(pid)) => {
                self.adopt(pid, reply, is_shell, cgroup);
                Ok(())
            }
            Ok(Fork::Child) => {
                if let Task::Shell(task) = &order.task {
                    shell::supervise(&order, task, kit, &filters)
                }
                let engine = engine.as_deref();
                let heritage = Heritage { broker: self.own_pid, filters: &filters, engine };
                child::live(&order, kit, &heritage)
            }
        }
    }

    /// Hands a JavaScript run to a child that stands ready, if one does.
    fn script_for(&mut self, order: &Order, kit: &Kit) -> Option<Spare> {
        while let Some(spare) = self.scripts.pop() {
            if packet::send(spare.socket.as_fd(), order, &kit.descriptors()).is_ok() {
                return Some(spare);
            }
            // Dead, or out of reach: another one may do.
            spare.bury();
        }
        None
    }

    /// Has children stand ready for JavaScript, once there was any. After the replies: nobody waits for them.
    fn stock_up(&mut self) {
        let Some(engine) = self.engine.clone() else { return };
        let filters = self.filters.iter().find(|((profile, _), _)| *profile == Profile::Confined);
        let Some(filters) = filters.map(|(_, filters)| Rc::clone(filters)) else { return };
        while self.scripts.len() < READY_SCRIPTS {
            let Ok((socket, theirs)) = packet::pair() else { return };
            match sys::fork() {
                Ok(Fork::Parent(pid)) => self.scripts.push(Spare { pid, socket }),
                Ok(Fork::Child) => {
                    let engine = Some(engine.as_ref());
                    let heritage = Heritage { broker: self.own_pid, filters: &filters, engine };
                    child::stand_by(theirs, &heritage)
                }
                // The run that needs one is forked directly, and says so.
                Err(_) => return,
            }
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

    fn engine(&mut self) -> Result<Rc<Engine>, String> {
        if let Some(engine) = &self.engine {
            return Ok(Rc::clone(engine));
        }
        let engine = Rc::new(Engine::new().map_err(|error| format!("QuickJS: {error}"))?);
        self.engine = Some(Rc::clone(&engine));
        Ok(engine)
    }

    /// Keeps a child in the table and announces it.
    fn adopt(&mut self, pid: i32, reply: OwnedFd, is_shell: bool, cgroup: Option<RunCgroup>) {
        let Some(known) = Pid::from_raw(pid) else { return };
        match rustix::process::pidfd_open(known, PidfdFlags::empty()) {
            Ok(pidfd) => {
                let started = packet::send(reply.as_fd(), &Reply::Started { pid }, &[pidfd.as_fd()]);
                let mut run = Run { pid: known, pidfd, reply, is_shell, cgroup, is_let_go: false };
                if started.is_err() {
                    // Nobody waits for it any more.
                    run.is_let_go = true;
                    run.end();
                }
                self.runs.push(run);
            }
            Err(error) => {
                rustix::process::kill_process(known, Signal::KILL).ok();
                sys::reap(pid).ok();
                self.has_orphans |= is_shell;
                self.cells.remove(cgroup);
                refuse(&reply, format!("cannot watch the child: {error}"));
            }
        }
    }

    /// Ends what killed supervisors and zygotes left, unless a zygote may have a child that nobody has heard of.
    fn end_orphans(&mut self) {
        if !self.has_orphans || !self.nursery.is_quiet() {
            return;
        }
        // One that forks on and on is met again at the next tick; so are all if there is no descriptor to look with.
        self.has_orphans = !(0..ORPHAN_ROUNDS).any(|_| self.kill_orphans().is_ok_and(|killed| killed == 0));
    }

    /// Kills and reaps the children that nobody knows; says how many there were.
    fn kill_orphans(&self) -> io::Result<usize> {
        let runs = self.runs.iter().map(|run| run.pid.as_raw_nonzero().get());
        let known: Vec<i32> = runs.chain(self.scripts.iter().map(|spare| spare.pid)).collect();
        let children = shell::children_of_this_thread()?.into_iter();
        let orphans = children.filter(|pid| !known.contains(pid) && !self.nursery.has(*pid));
        let orphans: Vec<Pid> = orphans.filter_map(Pid::from_raw).collect();
        for orphan in &orphans {
            rustix::process::kill_process(*orphan, Signal::KILL).ok();
        }
        for orphan in &orphans {
            sys::reap(orphan.as_raw_nonzero().get()).ok();
        }
        Ok(orphans.len())
    }

    /// Ends everything: the server is gone. Guests die with this process; supervisors need a moment for their trees.
    fn farewell(mut self) {
        self.end_runs();
        self.cells.leave();
    }

    fn end_runs(&mut self) {
        self.nursery = Nursery::default();
        self.scripts.drain(..).for_each(|spare| spare.bury());
        for run in &mut self.runs {
            run.is_let_go = true;
            run.end();
        }
        // The server's end is closed and would say so at every look.
        let Ok((silent, _kept)) = packet::pair() else { return };
        self.control = silent;
        let start = now();
        while !self.runs.is_empty() && start.elapsed() < FAREWELL {
            let Ok(ready) = self.wait() else { return };
            self.bury(&ready.ended);
        }
        while self.kill_orphans().is_ok_and(|killed| killed > 0) && start.elapsed() < FAREWELL {}
    }
}

impl Run {
    fn end(&self) {
        let signal = if self.is_shell { Signal::TERM } else { Signal::KILL };
        // It may be gone already; that is what is wanted.
        rustix::process::pidfd_send_signal(&self.pidfd, signal).ok();
    }
}
