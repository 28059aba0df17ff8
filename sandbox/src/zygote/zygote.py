# The last part of the interpreter's program: the zygote, and the first steps of its children.
#
# A zygote warms up, then forks a spare child whenever the broker asks. It never sees a program: the program is in a memory
# file that only the child reads. Its children are the broker's (CLONE_PARENT), so that the broker alone learns how each
# ends.

CONTROL, SPEC = 5, 6
CLONE_PARENT, SIGCHLD = 0x8000, 17
CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID = 0x00200000, 0x01000000
PR_SET_NAME = 15
PR_SET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE, PR_GET_TID_ADDRESS = 1, 3, 4, 40
SIGKILL = 9


class Kernel:
    """System calls that Python does not offer, prepared while everything is still allowed."""

    def __init__(self, spec):
        import ctypes, os, resource, socket
        self.os, self.resource, self.socket, self.spec = os, resource, socket, spec
        self.broker, self.fork_modules = os.getppid(), []
        self.metadata = os.stat  # before look_up_by_opening replaces it
        # PyDLL keeps the interpreter's lock through the call, as os.fork does.
        library = ctypes.PyDLL(None, use_errno=True)
        self.library, self.call = library, library.syscall
        self.call.restype = ctypes.c_long
        self.long, self.errno = ctypes.c_ulong, ctypes.get_errno
        self.before, self.in_child, self.in_parent = (
            self.hook(name) for name in ("PyOS_BeforeFork", "PyOS_AfterFork_Child", "PyOS_AfterFork_Parent"))
        self.programs = {name: self.program(text) for name, text in spec["filters"].items()}
        self.no_capabilities = [ctypes.create_string_buffer(data, len(data)) for data in (
            (0x20080522).to_bytes(4, sys.byteorder) + bytes(4), bytes(24))]
        self.names = [ctypes.create_string_buffer(name) for name in (
            b"nanoclaw-zygote", b"nanoclaw-spare", b"nanoclaw-guest")]
        self.must("prctl", PR_SET_NAME, self.names[0], 0, 0, 0)
        self.flags, self.tid_address = CLONE_PARENT | SIGCHLD, 0
        # Like the C library's own fork: it must learn the new number of the child's main thread.
        address = ctypes.c_ulong(0)
        if self.prctl(PR_GET_TID_ADDRESS, ctypes.addressof(address)) == 0 and address.value:
            self.flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID
            self.tid_address = address.value

    @staticmethod
    def hook(name):
        import ctypes
        function = getattr(ctypes.pythonapi, name)
        function.restype = None
        return function

    def program(self, text):
        """struct sock_fprog: a 16-bit length, padding, a pointer."""
        import ctypes
        code = bytes.fromhex(text)
        buffer = ctypes.create_string_buffer(code, len(code))
        header = (len(code) // 8).to_bytes(8, sys.byteorder) + ctypes.addressof(buffer).to_bytes(8, sys.byteorder)
        return ctypes.create_string_buffer(header, len(header)), buffer

    def number(self, name, *arguments):
        # As unsigned longs: a bare int would be cut to 32 bits.
        return self.call(self.long(self.spec["numbers"][name]), *[
            self.long(one) if isinstance(one, int) else one for one in arguments])

    def must(self, name, *arguments):
        answer = self.number(name, *arguments)
        if answer < 0:
            raise OSError(self.errno(), "%s failed with errno %d" % (name, self.errno()))
        return answer

    def must_have_one_thread(self):
        """Landlock confines the calling thread alone. Another thread may also hold a lock of the C library at a fork."""
        # The number of links of a directory: its own two, and one for each thread.
        threads = self.metadata("/proc/self/task").st_nlink - 2
        if threads != 1:
            raise OSError("%d threads run instead of one; modules that act at forks: %s" % (
                threads, ", ".join(self.fork_modules) or "none"))

    def prctl(self, option, value=0):
        return self.number("prctl", option, value, 0, 0, 0)

    def filter(self, name):
        # SECCOMP_SET_MODE_FILTER with TSYNC: also confines other threads.
        if self.number("seccomp", 1, 1, self.programs[name][0]) != 0:
            raise OSError("installing the %s filter failed with errno %d" % (name, self.errno()))

    def trim_heap(self):
        """Returns free memory: a fork copies the page table of all memory. Only the GNU C library has the function."""
        trim = getattr(self.library, "malloc_trim", None)
        if trim is not None:
            trim(self.long(0))

    def fork_child(self):
        """Forks a child of the broker. Returns 0 in the child."""
        self.before()
        # The order of the last two arguments depends on the architecture, so both are the same.
        pid = self.number("clone", self.flags, 0, 0, self.tid_address, self.tid_address)
        if pid == 0:
            self.in_child()
        else:
            self.in_parent()
        return pid

    def detach(self):
        """The first steps of SANDBOX.md's order, which need no run."""
        self.os.setsid()
        self.must("prctl", PR_SET_NAME, self.names[1], 0, 0, 0)
        self.must("prctl", PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
        if self.os.getppid() != self.broker:
            raise OSError("the parent is gone")
        self.has_private_uid = self.take_private_uid()
        self.must("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)

    def confine(self, run, ruleset):
        """The next steps. The descriptors are in place."""
        os, limits = self.os, run["limits"]
        self.must("prctl", PR_SET_NAME, self.names[2], 0, 0, 0)
        processes = limits["processes"]
        if processes and not self.has_private_uid:
            processes += self.spec["shared_uid_tasks"]
        for name, soft, hard in (
                ("CPU", limits["cpu_s"], limits["cpu_s"] + 1), ("AS", limits["address_space_bytes"], None),
                ("FSIZE", limits["file_size_bytes"], None), ("NOFILE", limits["open_files"], None),
                ("CORE", 0, None), ("NPROC", processes, None)):
            self.limit(getattr(self.resource, "RLIMIT_" + name), soft, soft if hard is None else hard)
        os.chdir(run["directory"])
        self.must("capset", *self.no_capabilities)
        self.must_have_one_thread()
        self.must("landlock_restrict_self", ruleset, self.spec["landlock_flags"])
        if processes:
            # A server without privileges counts the files that it holds open. The landlock domain keeps other
            # guests away.
            self.must("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)
        self.must("close_range", CONTROL, 0xFFFFFFFF, 0)
        self.filter("first")
        self.filter("second")
        if self.prctl(PR_GET_DUMPABLE) != -1 or self.errno() != 1:
            raise OSError("the filters are installed but do not hold")

    def limit(self, resource, soft, hard):
        # A limit above the server's own cannot be set.
        ceiling = self.resource.getrlimit(resource)[1]
        within = lambda value: value if ceiling == self.resource.RLIM_INFINITY else min(value, ceiling)
        self.resource.setrlimit(resource, (within(soft), within(hard)))

    def take_private_uid(self):
        """The process limit does not bind the real user root. The effective user and its file rights stay."""
        if self.os.getuid() != 0 or self.os.geteuid() != 0:
            return False
        try:
            self.os.setresuid(self.spec["first_private_uid"] | self.os.getpid(), -1, -1)
            return True
        except OSError:
            return False


def look_up_by_opening(kernel):
    """Lets imports work without the metadata of paths: the filters of strict and standard refuse it, because landlock does
    not mediate it. Many C libraries ask for the metadata of a descriptor in a form that can name a path, too, also when they
    list a directory. So all of it goes through open, which landlock mediates, and through the descriptor."""
    import ctypes, os, posix
    mode_at = 24 if os.uname().machine == "x86_64" else 16

    def opened(path, dir_fd=None):
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)

    def fstat(descriptor):
        found = ctypes.create_string_buffer(256)
        kernel.must("fstat", descriptor, found)
        at = lambda offset, length=8: int.from_bytes(found[offset:offset + length], sys.byteorder)
        return os.stat_result((at(mode_at, 4), at(8), at(0), 1, 0, 0, at(48), at(72), at(88), at(104)))

    def stat(path, *, dir_fd=None, follow_symlinks=True):
        if isinstance(path, int):
            return fstat(path)
        descriptor = opened(path, dir_fd)
        try:
            return fstat(descriptor)
        finally:
            os.close(descriptor)

    def listdir(path="."):
        names, part = [], ctypes.create_string_buffer(1 << 15)
        descriptor = opened(path)
        try:
            while length := kernel.must("getdents64", descriptor, part, len(part)):
                at = 0
                while at < length:
                    size = int.from_bytes(part[at + 16:at + 18], sys.byteorder)
                    names.append(os.fsdecode(part[at + 19:at + size].split(b"\0")[0]))
                    at += size
        finally:
            os.close(descriptor)
        return [name for name in names if name not in (".", "..")]
    os.stat = posix.stat = stat
    os.fstat = posix.fstat = fstat
    os.listdir = posix.listdir = listdir


class ForkCallbacks:
    """Holds back the functions that modules register for forks, and calls those that a child needs.

    A child copies each page that it changes, and the functions of threading and logging change about 140. They replace locks
    that another thread may have held at the fork, and a zygote has one thread."""

    def __init__(self):
        import os
        self.os, self.register, self.held = os, os.register_at_fork, []
        os.register_at_fork = lambda **functions: self.held.append(functions)

    def settle(self):
        """Decides after the last import. From here on functions are registered as usual."""
        import threading
        self.os.register_at_fork = self.register
        functions = [functions["after_in_child"] for functions in self.held if functions.get("after_in_child")]
        self.in_child = [one for one in functions if getattr(one, "__module__", "") not in ("threading", "logging")]
        self.modules = sorted({str(getattr(one, "__module__", None)) for one in self.in_child} - {"random", "None"})
        self.in_child.append(threading.main_thread()._set_native_id)

    def run_in_child(self):
        for function in self.in_child:
            function()


def read_all(descriptor):
    import os
    parts = []
    while True:
        part = os.read(descriptor, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)


def reseed():
    """Reseeds numpy after a fork. Python's own random reseeds itself."""
    numbers = sys.modules.get("numpy.random")
    if numbers is not None:
        numbers.seed()


def serve(kernel, control):
    """Forks a spare child for each socket that the broker sends, until the broker is gone. Returns the number of the socket
    in each child. Each page that the zygote changes is copied after each fork, so this does as little as possible."""
    import os
    receive, answer, close, fork = kernel.socket.recv_fds, control.send, os.close, kernel.fork_child
    while True:
        asked, sockets, _, _ = receive(control, 64, 1)
        if not asked:
            os._exit(0)
        for number in sockets:
            pid = fork()
            if pid == 0:
                return number
            close(number)
            answer(b'{"zygote":"forked","pid":%d}' % pid if pid > 0 else
                   b'{"zygote":"failed","message":"the zygote cannot fork: errno %d"}' % kernel.errno())
        if not sockets:
            answer(b'{"zygote":"failed","message":"the zygote has no descriptor left"}')


def wait_for_run(kernel, callbacks, spec, own):
    """Prepares a spare child as far as possible, then waits for its run."""
    import json, os
    kernel.detach()
    callbacks.run_in_child()
    reseed()
    # Parses and runs something, so that the child already has its own copies of the pages.
    rehearse(spec)
    data, descriptors, _, _ = kernel.socket.recv_fds(own, 1 << 16, 8)
    if not data:
        os._exit(0)
    return json.loads(data), descriptors


def rehearse(spec):
    import json
    guest = parse(dict(spec, code="1 + 1", max_level="lenient", language_check=spec["level"] != "lenient"))
    json.dumps({"frame": guest.run(), "out_of_memory": False})


def become_guest(kernel, spec, run, descriptors):
    """Installs the descriptors, reads the program and applies the policy. Returns the task."""
    import os
    pipes, code, ruleset, null = descriptors[:4], descriptors[4], descriptors[5], descriptors[6]
    for number, descriptor in enumerate([null, *pipes]):
        os.dup2(descriptor, number)
    try:
        task = dict(spec, max_level=run["max_level"], language_check=run["language_check"] and spec["level"] != "lenient",
                    directory=run["directory"], stderr_bytes=run["limits"]["stderr_bytes"],
                    code=read_all(code).decode())
        if spec["level"] == "lenient":
            os.environ.update(HOME=run["directory"], TMPDIR=run["directory"])
        kernel.confine(run, ruleset)
        return task
    except Exception as error:
        fail("%s: %s" % (type(error).__name__, error))


def warm(spec):
    """Warms up. Returns the prepared system calls, the functions to call in children, and the socket to the broker."""
    import builtins, gc
    callbacks = ForkCallbacks()
    warm_up(spec)
    callbacks.settle()
    kernel = Kernel(spec)
    kernel.must_have_one_thread()
    kernel.fork_modules = callbacks.modules
    if spec["level"] != "lenient":
        spec["rules"] = Rules(spec)
        spec["builtins"] = guest_builtins(spec["rules"], builtins)
    # The parser and the check load and cache more.
    rehearse(spec)
    if spec["level"] == "lenient":
        explain_refusals()
        copy_without_modes()
    sys.stdout.reconfigure(line_buffering=True)
    sys.argv = [FILE]
    control = kernel.socket.socket(fileno=CONTROL)
    if spec["level"] != "lenient":
        look_up_by_opening(kernel)
        forget("ctypes", "_ctypes", "socket", "_socket", "resource")
    kernel.filter("zygote")
    gc.collect()
    gc.freeze()
    gc.disable()
    kernel.trim_heap()
    return kernel, callbacks, control


def main():
    import json, os
    control = None
    try:
        spec = json.loads(read_all(SPEC))
        os.close(SPEC)
        kernel, callbacks, control = warm(spec)
    except Exception as error:
        message = "warm-up: %s: %s" % (type(error).__name__, error)
        os.write(CONTROL, json.dumps({"zygote": "failed", "message": message}).encode())
        os._exit(70)
    control.send(b'{"zygote": "ready"}')
    own = kernel.socket.socket(fileno=serve(kernel, control))
    control.close()  # only the zygote keeps it open, so that the broker notices its exit
    run_, descriptors = wait_for_run(kernel, callbacks, spec, own)
    task = become_guest(kernel, spec, run_, descriptors)
    own.detach()
    del kernel, callbacks, control, own, spec, run_, descriptors
    report(frame="ready")
    run(parse(task), task)


main()
