# class: file-write
# expect: lenient=denied standard=denied strict=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    import os, stat
    made = []
    for name, mode, device in (("fifo", stat.S_IFIFO, 0), ("sock", stat.S_IFSOCK, 0), ("null", stat.S_IFCHR, os.makedev(1, 3)), ("disk", stat.S_IFBLK, os.makedev(8, 0))):
        try: os.mknod(name, mode | 0o600, device); made.append(name)
        except OSError: pass
    try: SC(316, -100, b"held", -100, b"held2", 4)
    except OSError: pass
    return "made %r" % made if made else None
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
