# Run once by the parent with the host's own CPython: says what the sandbox must know about it, as one JSON line.
# It imports every extension module that a guest may need, so that the shared libraries behind them show up in the maps.
import json, os, sys, sysconfig

SKIP = ("_test", "xx", "_xx", "_tkinter", "readline", "ossaudiodev", "nis", "spwd", "_curses", "_gdbm", "_dbm", "_ctypes_test")

sys.path.extend(p for p in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) if sys.argv[1:])
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
missing = []
for module in sys.argv[1:]:
    try:
        __import__(module)
    except Exception as error:
        missing.append("%s (%s)" % (module, error))
try:
    import ctypes
    ctypes.CDLL(None).prctl
    has_ctypes = True
except Exception:
    has_ctypes = False
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
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "implementation": sys.implementation.name,
    "path": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
    "library_trees": sorted({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), *(
        d for d in sys.path if os.path.basename(d) == "lib-dynload" and os.path.isdir(d))}),
    "site_trees": sorted({p for p in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) if os.path.isdir(p)}),
    "shared_libraries": library,
    "loader": loader,
    "extensions": extensions,
    "missing": missing,
    "has_ctypes": has_ctypes,
}))
