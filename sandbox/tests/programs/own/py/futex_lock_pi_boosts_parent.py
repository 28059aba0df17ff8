# class: process
# expect: lenient=denied standard=denied strict=denied
# note: FUTEX_LOCK_PI with another process as the owner
# control: none
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    import os, struct
    w = ctypes.c_uint32(os.getppid())
    try: SC(202, ctypes.byref(w), 6 | 128, 0, struct.pack("qq", 1, 0), 0, 0)
    except OSError as e:
        return "waited for the parent as if it held a lock" if e.errno == 110 else None
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
