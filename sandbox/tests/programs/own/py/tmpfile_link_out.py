# class: file-write
# expect: lenient=denied standard=denied strict=denied
# note: AT_EMPTY_PATH and the path through /proc
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    import os
    f = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(f, b"x")
    for how in (lambda: SC(265, f, b"", -100, b"/tmp/sbx_canary/late_tmpfile", 0x1000),
                lambda: SC(265, -100, b"/proc/self/fd/%d" % f, -100, b"/tmp/sbx_canary/late_tmpfile", 0x400)):
        try: how(); return "an unnamed file got a name outside"
        except OSError: pass
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
