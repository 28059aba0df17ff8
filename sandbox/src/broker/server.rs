//! The broker process: receives requests, starts children, reports how they ended.
//!
//! It never outlives the server: when its socket closes, it ends every child and exits.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, Signal};

use super::command_cgroups::CommandCgroups;
use super::packet::{self, Packet};
use super::protocol::{BROKER_MARKER, NETWORK_ARGUMENT, RunReply, RunRequest, RunTask, send_failure};
use super::reaper::Reaper;
use super::spare_child::SpareChild;
use crate::child::{self, ForkContext, RunFds};
use crate::clock::now;
use crate::languages::javascript::JavaScriptEngine;
use crate::languages::shell;
use crate::layers::{OptionalLayers, RunCgroup};
use crate::policy::{self, FilterProfile, SeccompFilters, compile, compile_for_broker};
use crate::sys::{self, ForkResult};
use crate::zygote::ZygotePool;

/// Spare children for JavaScript: one for the next run, and one in preparation.
const SPARE_SCRIPTS: usize = 2;
/// The poll timeout when nothing is pending.
const IDLE_TICK: Duration = Duration::from_secs(30);
/// The poll timeout while a zygote has not answered yet.
const BUSY_TICK: Duration = Duration::from_millis(50);
/// How many times in a row orphans are searched: the children of a killed orphan become the broker's.
const ORPHAN_ROUNDS: usize = 64;
/// The pause between two searches, in which killed processes exit.
const ORPHAN_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// The poll timeout while there may be orphans or cgroups with exiting processes.
const ORPHAN_TICK: Duration = Duration::from_millis(20);
/// How long the supervisors of commands may take to end their trees after the server is gone.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);
/// Half of the kernel's maximum. Children inherit it.
const GUEST_OOM_SCORE: &str = "500";
/// The exit code of a broker whose set-up failed.
pub(super) const SET_UP_FAILED: i32 = 70;

/// A running child.
struct RunningChild {
    pid: Pid,
    pidfd: OwnedFd,
    /// The socket to the caller that waits for the run.
    reply: OwnedFd,
    is_shell: bool,
    /// Only commands have one, where the machine permits it.
    cgroup: Option<RunCgroup>,
    /// Its caller has closed the socket, so the broker has asked the child to end.
    is_cancelled: bool,
    /// It has exited, but another process traces it: nobody else can reap it yet.
    is_traced: bool,
}

/// The ready descriptors: the socket to the server, then one flag per run.
struct PollResult {
    control: bool,
    ended: Vec<bool>,
    cancelled: Vec<bool>,
}

struct BrokerServer {
    control: OwnedFd,
    own_pid: Pid,
    runs: Vec<RunningChild>,
    zygotes: ZygotePool,
    /// The oldest first: the newest may still prepare itself.
    spare_scripts: VecDeque<SpareChild>,
    cgroups: CommandCgroups,
    filters: BTreeMap<(FilterProfile, u32), Rc<SeccompFilters>>,
    /// Created for the first JavaScript run. Children use their copies.
    engine: Option<Rc<JavaScriptEngine>>,
    has_orphans: bool,
    reaper: Reaper,
}

/// Becomes the sandbox's broker if the process was started as one, and never returns then.
///
/// Call it first in `main`, before any thread starts.
pub fn child_hook() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|marker| marker == BROKER_MARKER) {
        serve(arguments.next().is_some_and(|word| word == NETWORK_ARGUMENT));
    }
}

/// Serves until the server is gone, and never returns. With `has_network`, commands may use the network.
fn serve(has_network: bool) -> ! {
    let Ok((control, layers)) = set_up(has_network) else { sys::exit_now(SET_UP_FAILED) };
    let mut broker = BrokerServer {
        control,
        own_pid: rustix::process::getpid(),
        runs: Vec::new(),
        zygotes: ZygotePool::default(),
        spare_scripts: VecDeque::new(),
        cgroups: CommandCgroups::new(layers.cgroup),
        filters: BTreeMap::new(),
        engine: None,
        has_orphans: false,
        reaper: Reaper::default(),
    };
    while broker.step().unwrap_or(false) {}
    broker.shut_down();
    sys::exit_now(0)
}

/// Drops everything inherited from the server except the socket, and reports the optional layers to it.
fn set_up(has_network: bool) -> io::Result<(OwnedFd, OptionalLayers)> {
    let control = child::keep_only_control_socket()?;
    // First: this needs the privileges, and it needs /proc files that an undumpable process cannot write.
    let layers = OptionalLayers::enter(has_network);
    sys::default_signals();
    sys::block_signals(&[])?;
    // The server handles the signals of the terminal.
    rustix::process::setsid()?;
    rustix::thread::set_name(c"nanoclaw-broker")?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // The orphans of a killed supervisor become children of the broker.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let files = rustix::process::getrlimit(Resource::Nofile).maximum;
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: files, maximum: files })?;
    // When memory runs out, the kernel kills a guest before the server. Best effort.
    std::fs::write("/proc/self/oom_score_adj", GUEST_OOM_SCORE).ok();
    child::drop_broker_privileges().map_err(io::Error::other)?;
    let filter = compile_for_broker().map_err(io::Error::other)?;
    policy::install("the broker's", &filter).map_err(io::Error::other)?;
    packet::send(control.as_fd(), &layers.report, &[])?;
    rustix::io::ioctl_fionbio(&control, true)?;
    Ok((control, layers))
}

impl BrokerServer {
    /// Waits for an event and handles it; false once the server is gone.
    fn step(&mut self) -> io::Result<bool> {
        let ready = self.wait(self.tick())?;
        self.end_cancelled(&ready.cancelled);
        self.reap_ended(&ready.ended);
        self.has_orphans |= self.zygotes.read_replies();
        let is_connected = !ready.control || self.receive_requests()?;
        for started in self.zygotes.take_started() {
            self.register(started.pid, started.reply, false, None);
        }
        self.zygotes.remove_unused();
        self.cgroups.retry_removals();
        self.fork_spare_scripts();
        self.reap_killed();
        Ok(is_connected)
    }

    /// How long the next event may take.
    fn tick(&self) -> Duration {
        let tick =
            if self.has_orphans || self.cgroups.has_draining() || self.runs.iter().any(|run| run.is_traced) {
                ORPHAN_TICK
            } else if self.zygotes.is_busy() {
                BUSY_TICK
            } else {
                self.zygotes.next_idle_end().map_or(IDLE_TICK, |left| left.min(IDLE_TICK))
            };
        self.reaper.tick().map_or(tick, |look| look.min(tick))
    }

    /// Waits for the next event. The sockets of zygotes only wake the broker up.
    fn wait(&self, tick: Duration) -> rustix::io::Result<PollResult> {
        let count = self.runs.len();
        let mut polled = vec![PollFd::new(&self.control, PollFlags::IN)];
        polled.extend(self.runs.iter().map(|run| {
            PollFd::new(&run.pidfd, if run.is_traced { PollFlags::empty() } else { PollFlags::IN })
        }));
        polled.extend(self.runs.iter().map(|run| {
            // A closed socket would wake the broker again and again.
            if run.is_cancelled {
                PollFd::new(&run.pidfd, PollFlags::empty())
            } else {
                PollFd::new(&run.reply, packet::PEER_CLOSED)
            }
        }));
        polled.extend(self.zygotes.sockets().map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        let timeout = Timespec::try_from(tick).map_err(|_| Errno::INVAL)?;
        match rustix::event::poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let mut found = polled.iter().map(|descriptor| !descriptor.revents().is_empty());
        let control = found.next().unwrap_or(false);
        let ended = found.by_ref().take(count).collect();
        Ok(PollResult { control, ended, cancelled: found.take(count).collect() })
    }

    /// Ends the runs whose callers no longer wait.
    fn end_cancelled(&mut self, cancelled: &[bool]) {
        for (run, _) in self.runs.iter_mut().zip(cancelled).filter(|(_, is_cancelled)| **is_cancelled) {
            if !run.is_cancelled {
                run.is_cancelled = true;
                run.end();
                // Nobody may be there to read it.
                packet::send(run.reply.as_fd(), &RunReply::Cancelled, &[]).ok();
            }
        }
    }

    /// Reaps the children that have exited, and reports the exits.
    fn reap_ended(&mut self, ended: &[bool]) {
        for (mut run, has_ended) in std::mem::take(&mut self.runs).into_iter().zip(ended) {
            if !*has_ended && !run.is_traced {
                self.runs.push(run);
                continue;
            }
            let reply = match sys::try_reap(run.pid.as_raw_nonzero().get()) {
                Ok(None) => {
                    run.is_traced = true;
                    self.runs.push(run);
                    continue;
                }
                Ok(Some(mut exit)) => {
                    exit.oom_kills = run.cgroup.as_ref().map_or(0, RunCgroup::end);
                    self.cgroups.remove(run.cgroup.take());
                    if run.is_shell && exit.signal.is_some() {
                        // A killed supervisor could not end its tree.
                        self.has_orphans = true;
                        self.reaper.add_run(run.reply, exit);
                        continue;
                    }
                    RunReply::ended(&exit)
                }
                Err(error) => RunReply::Failed { message: format!("cannot reap the child: {error}") },
            };
            self.cgroups.remove(run.cgroup.take());
            // A server that has closed the socket no longer waits for the run.
            packet::send(run.reply.as_fd(), &reply, &[]).ok();
        }
    }

    /// Receives the server's requests; false once the server is gone.
    fn receive_requests(&mut self) -> io::Result<bool> {
        loop {
            match packet::receive(&self.control, RecvFlags::empty()) {
                Ok(Some(packet)) => self.handle_request(packet),
                Ok(None) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }

    fn handle_request(&mut self, packet: Packet) {
        let request = packet.decode::<RunRequest>();
        let mut descriptors = packet.descriptors.into_iter();
        let Some(reply) = descriptors.next() else { return };
        match (request, RunFds::from_descriptors(descriptors)) {
            (Ok(request), Some(fds)) if fds.has(request.task.extra_fd()) => {
                if let Err((reply, message)) = self.start(request, fds, reply) {
                    send_failure(&reply, message);
                }
            }
            (Err(error), _) => send_failure(&reply, format!("cannot decode the request: {error}")),
            (Ok(_), _) => send_failure(&reply, "the request lacks a descriptor".to_owned()),
        }
    }

    fn start(&mut self, request: RunRequest, fds: RunFds, reply: OwnedFd) -> Result<(), (OwnedFd, String)> {
        let filters = match self.filters(&request) {
            Ok(filters) => filters,
            Err(message) => return Err((reply, message)),
        };
        if matches!(request.task, RunTask::Python { .. }) {
            return self.zygotes.submit(request, fds, reply, &filters);
        }
        let is_script = matches!(request.task, RunTask::JavaScript { .. });
        if is_script && let Some(spare) = self.assign_spare_script(&request, &fds) {
            self.register(spare.pid, reply, false, None);
            return Ok(());
        }
        let engine = match is_script.then(|| self.engine()).transpose() {
            Ok(engine) => engine,
            Err(message) => return Err((reply, message)),
        };
        let cgroup = if let RunTask::Shell(task) = &request.task {
            self.cgroups.create(&request.limits, task.memory_bytes)
        } else {
            None
        };
        let is_shell = matches!(request.task, RunTask::Shell(_));
        match cgroup.as_ref().map_or_else(sys::fork, RunCgroup::fork) {
            Err(error) => {
                self.cgroups.remove(cgroup);
                Err((reply, format!("cannot fork: {error}")))
            }
            Ok(ForkResult::Parent(pid)) => {
                self.register(pid, reply, is_shell, cgroup);
                Ok(())
            }
            Ok(ForkResult::Child) => {
                if let RunTask::Shell(task) = &request.task {
                    shell::supervise(&request, task, fds, &filters)
                }
                let engine = engine.as_deref();
                let context = ForkContext { broker: self.own_pid, filters: &filters, engine };
                child::run(&request, fds, &context)
            }
        }
    }

    /// Gives a JavaScript run to a spare child, if there is one.
    fn assign_spare_script(&mut self, request: &RunRequest, fds: &RunFds) -> Option<SpareChild> {
        while let Some(spare) = self.spare_scripts.pop_front() {
            if packet::send(spare.socket.as_fd(), request, &fds.descriptors()).is_ok() {
                return Some(spare);
            }
            // It is dead or not reachable; the other one may work.
            self.reaper.add([spare.kill()]);
        }
        None
    }

    /// Forks spare children for JavaScript after the first such run. Called after the replies, so that it
    /// delays no run.
    fn fork_spare_scripts(&mut self) {
        let Some(engine) = self.engine.clone() else { return };
        let filters = self.filters.iter().find(|((profile, _), _)| *profile == FilterProfile::Confined);
        let Some(filters) = filters.map(|(_, filters)| Rc::clone(filters)) else { return };
        while self.spare_scripts.len() < SPARE_SCRIPTS {
            let Ok((socket, child_end)) = packet::socket_pair() else { return };
            match sys::fork() {
                Ok(ForkResult::Parent(pid)) => self.spare_scripts.push_back(SpareChild { pid, socket }),
                Ok(ForkResult::Child) => {
                    let engine = Some(engine.as_ref());
                    let context = ForkContext { broker: self.own_pid, filters: &filters, engine };
                    child::run_as_spare(child_end, &context)
                }
                // The next run forks its own child and reports the error.
                Err(_) => return,
            }
        }
    }

    /// The filters of a request's profile, compiled once.
    fn filters(&mut self, request: &RunRequest) -> Result<Rc<SeccompFilters>, String> {
        let key = (request.task.filter_profile(request.level), request.landlock_abi);
        if let Some(filters) = self.filters.get(&key) {
            return Ok(Rc::clone(filters));
        }
        let filters = Rc::new(compile(key.0, key.1).map_err(|error| error.to_string())?);
        self.filters.insert(key, Rc::clone(&filters));
        Ok(filters)
    }

    fn engine(&mut self) -> Result<Rc<JavaScriptEngine>, String> {
        if let Some(engine) = &self.engine {
            return Ok(Rc::clone(engine));
        }
        let engine = Rc::new(JavaScriptEngine::new().map_err(|error| format!("QuickJS: {error}"))?);
        self.engine = Some(Rc::clone(&engine));
        Ok(engine)
    }

    /// Adds a child to the table and reports its start.
    fn register(&mut self, pid: i32, reply: OwnedFd, is_shell: bool, cgroup: Option<RunCgroup>) {
        let Some(child) = Pid::from_raw(pid) else { return };
        match rustix::process::pidfd_open(child, PidfdFlags::empty()) {
            Ok(pidfd) => {
                let started = packet::send(reply.as_fd(), &RunReply::Started { pid }, &[pidfd.as_fd()]);
                let mut run = RunningChild {
                    pid: child,
                    pidfd,
                    reply,
                    is_shell,
                    cgroup,
                    is_cancelled: false,
                    is_traced: false,
                };
                if started.is_err() {
                    // The caller no longer waits.
                    run.is_cancelled = true;
                    run.end();
                }
                self.runs.push(run);
            }
            Err(error) => {
                rustix::process::kill_process(child, Signal::KILL).ok();
                self.reaper.add([pid]);
                self.has_orphans |= is_shell;
                self.cgroups.remove(cgroup);
                send_failure(&reply, format!("cannot watch the child: {error}"));
            }
        }
    }

    /// Reaps what was killed, ends the processes that killed supervisors and zygotes left, and reports the
    /// runs that are over with that.
    fn reap_killed(&mut self) {
        self.reaper.add(self.zygotes.take_killed());
        if self.reaper.is_empty() && !self.has_orphans {
            return;
        }
        // The children of an exited child become the broker's.
        self.has_orphans |= self.reaper.reap() > 0;
        // A zygote may have a child that it has not reported yet.
        if self.has_orphans && !self.zygotes.has_pending_forks() {
            // The next tick tries again if orphans keep forking, or if no descriptor is free to list them.
            self.has_orphans = !(0..ORPHAN_ROUNDS).any(|_| self.kill_orphans().is_ok_and(|found| found == 0));
        }
        self.reaper.report(self.has_orphans);
    }

    /// Kills the children that are in no table, and reaps those that have exited. Returns how many of both
    /// there were: with each, more may have become the broker's.
    fn kill_orphans(&mut self) -> io::Result<usize> {
        let runs = self.runs.iter().map(|run| run.pid.as_raw_nonzero().get());
        let spares = self.spare_scripts.iter().map(|spare| spare.pid);
        // A fork bomb leaves thousands.
        let known: HashSet<i32> = runs.chain(spares).chain(self.reaper.pids()).collect();
        let is_known = |pid: i32| known.contains(&pid) || self.zygotes.contains(pid);
        let mut orphans = shell::children_of_this_thread()?;
        orphans.retain(|pid| !is_known(*pid));
        for pid in &orphans {
            self.reaper.kill_orphan(*pid);
        }
        if !orphans.is_empty() {
            // An interrupted pause does no harm.
            rustix::event::poll(&mut [], Some(&ORPHAN_PAUSE)).ok();
        }
        Ok(orphans.len() + self.reaper.reap())
    }

    /// Ends everything after the server is gone. Guests die with this process; supervisors need time for
    /// their trees.
    fn shut_down(mut self) {
        self.end_runs();
        self.cgroups.remove_all();
    }

    fn end_runs(&mut self) {
        self.zygotes.end_all();
        self.reaper.add(self.spare_scripts.drain(..).map(|spare| spare.kill()));
        for run in &mut self.runs {
            run.is_cancelled = true;
            run.end();
        }
        // The closed socket would wake every poll: a silent one replaces it.
        let Ok((silent, _peer)) = packet::socket_pair() else { return };
        self.control = silent;
        let start = now();
        self.has_orphans = true;
        while start.elapsed() < SHUTDOWN_TIMEOUT {
            self.reap_killed();
            if self.runs.is_empty() && self.reaper.is_empty() && !self.has_orphans {
                return;
            }
            let Ok(ready) = self.wait(ORPHAN_TICK) else { return };
            self.reap_ended(&ready.ended);
        }
    }
}

impl RunningChild {
    fn end(&self) {
        let signal = if self.is_shell { Signal::TERM } else { Signal::KILL };
        // It may have exited already.
        rustix::process::pidfd_send_signal(&self.pidfd, signal).ok();
    }
}
