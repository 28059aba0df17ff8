# class: syscall
# expect: lenient=denied standard=denied strict=denied
# note: timers that send any signal
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    t = ctypes.c_int()
    SC(222, 1, 0, ctypes.byref(t))
    return "timer_create is served"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
