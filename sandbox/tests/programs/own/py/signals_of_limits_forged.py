# class: result-forgery
# expect: lenient=allowed standard=allowed strict=allowed
# note: a program that signals itself must not look like one that reached a limit
# never: forbidden_syscall timeout oom
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    import os, signal
    for s in (signal.SIGKILL, signal.SIGSYS, signal.SIGXCPU, signal.SIGSTOP, signal.SIGXFSZ):
        for n, args in ((62, (os.getpid(), s)), (200, (SC(186), s)), (234, (os.getpid(), SC(186), s))):
            try: SC(n, *args)
            except OSError: pass
    return None
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
