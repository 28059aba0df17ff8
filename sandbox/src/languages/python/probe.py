# The parent runs this once with the host's own CPython. It prints a description of the interpreter as one JSON line.
# It imports every extension module that a guest may need, so that the maps show the shared libraries behind them.
import json, os, site, sys, sysconfig, time

# Modules may write to standard output while they load: a copy is kept for the answer.
answer = os.dup(1)
os.dup2(2, 1)

SKIP = ("_test", "xx", "_xx", "_tkinter", "readline", "ossaudiodev", "nis", "spwd", "_curses", "_gdbm", "_dbm", "_ctypes_test")


def site_trees():
    """The directories of installed packages (Debian has several), also of a virtual environment."""
    trees, prefixes = [], [sys.prefix]
    home = os.path.dirname(os.path.dirname(os.path.abspath(sys.executable)))
    settings = os.path.join(home, "pyvenv.cfg")
    if os.path.isfile(settings):
        with open(settings, encoding="utf-8") as lines:
            pairs = [line.lower().replace(" ", "").strip() for line in lines]
        prefixes = [home] + [sys.prefix] * ("include-system-site-packages=true" in pairs)
    trees += site.getsitepackages(prefixes)
    if prefixes[0] != home:
        trees += [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return [tree for tree in dict.fromkeys(trees) if os.path.isdir(tree)]


def mapped():
    """The shared libraries in use, and the loader."""
    library, loader = [], ""
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split(None, 5)
            path = fields[5].strip() if len(fields) == 6 else ""
            if ".so" not in os.path.basename(path) or path in library:
                continue
            library.append(path)
            if os.path.basename(path).startswith("ld-"):
                loader = path
    return library, loader


extensions = []
for directory in sys.path:
    if os.path.basename(directory) != "lib-dynload" or not os.path.isdir(directory):
        continue
    for name in sorted(os.listdir(directory)):
        module = name.split(".")[0]
        if not name.endswith(".so") or module.startswith(SKIP):
            continue
        try:
            __import__(module)
            extensions.append(module)
        except Exception:
            pass
try:
    import ctypes
    ctypes.CDLL(None).prctl
    has_ctypes = True
except Exception:
    has_ctypes = False


def size():
    """The address space in use."""
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def starts_thread():
    """Whether a second thread runs, and goes on to run."""
    for _ in range(20):
        # Two links of the directory itself, and one for each thread.
        if os.stat("/proc/self/task").st_nlink == 3:
            return False
        time.sleep(0.01)
    return True


library, loader = mapped()
size_before = size()
trees, missing = site_trees(), []
if sys.argv[1:]:
    sys.path.extend(trees)
for module in sys.argv[1:]:
    try:
        __import__(module)
        if starts_thread():
            # One after the other would look guilty.
            os.write(2, ("'%s' starts a thread when it is imported; a fork loses it, and may copy a lock that it holds"
                         % module).encode())
            os._exit(1)
    except BaseException as error:  # a module that exits is as useless as one that fails
        missing.append((module, " ".join(str(error).split())[:300] or type(error).__name__))
exercise()
os.write(answer, json.dumps({
    "version": list(sys.version_info[:3]),
    "implementation": sys.implementation.name,
    "path": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
    "library_trees": sorted({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), *(
        d for d in sys.path if os.path.basename(d) == "lib-dynload" and os.path.isdir(d))}),
    "site_trees": trees,
    "shared_libraries": library,
    "extra_libraries": [path for path in mapped()[0] if path not in library],
    "loader": loader,
    "extra_bytes": max(size() - size_before, 0) if sys.argv[1:] else 0,
    "extensions": extensions,
    "missing": missing,
    "has_ctypes": has_ctypes,
}).encode())
