# class: proc-peek
# expect: lenient=denied standard=denied strict=denied
# note: FUTEX_TRYLOCK_PI looks its owner up; LOCK_PI would lend it priority
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    def errno_of(tid):
        w = ctypes.c_uint32(tid)
        try: SC(202, ctypes.byref(w), 8 | 128, 0, 0, 0, 0); return 0
        except OSError as e: return e.errno
    return "tells which processes there are" if errno_of(1) != errno_of(4194200) else None
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
