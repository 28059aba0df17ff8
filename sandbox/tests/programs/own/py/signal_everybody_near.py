# class: signal
# expect: lenient=denied standard=denied strict=denied
# note: signals to the zygote, siblings and the server
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
    hit = []
    for pid in [os.getppid(), 1] + [p for p in range(os.getpid() - 50, os.getpid() + 51) if p > 1 and p != os.getpid()]:
        for n, args in ((62, (pid, 0)), (200, (pid, 0)), (234, (pid, pid, 10)) if pid == os.getppid() and False else (234, (pid, pid, 0))):
            try: SC(n, *args); hit.append((pid, n))
            except OSError: pass
    return "could signal %r" % hit[:5] if hit else None
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
