# class: proc-peek
# expect: lenient=denied standard=denied strict=denied
# note: getsid getpgid sched_getscheduler sched_rr_get_interval sched_getparam ioprio_get
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    def errno_of(n, *a):
        try: SC(n, *a); return 0
        except OSError as e: return e.errno
    told = [n for n in (124, 121, 145, 148, 143, 252) if errno_of(n, *((1,) if n in (124, 121, 145) else (1, 0) if n == 252 else (1, ctypes.create_string_buffer(64)))) == 0]
    return "calls %r answer for process 1" % told if told else None
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
