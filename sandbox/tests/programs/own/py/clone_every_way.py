# class: process
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
    import os, struct
    made = []
    def end(pid, how):
        if pid == 0: os._exit(0)
        made.append(how)
    for how, n, args in (("clone", 56, (17, 0, 0, 0, 0)), ("clone parent", 56, (0x8000 | 17, 0, 0, 0, 0)), ("clone vfork", 56, (0x4000 | 17, 0, 0, 0, 0)),
                         ("clone high", 56, (0x1_0000_0011, 0, 0, 0, 0)), ("clone3", 435, (struct.pack("11Q", 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88)), ("fork", 57, ())):
        try: end(SC(n, *args), how)
        except OSError: pass
    return "processes by %r" % made if made else None
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
