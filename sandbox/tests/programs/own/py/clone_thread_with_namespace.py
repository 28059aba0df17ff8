# class: process
# expect: lenient=denied standard=denied strict=denied
# note: the kernel returns EINVAL: the filter must refuse first
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    # CLONE_THREAD is what the filter asks for; what rides along must not pass.
    for flag in (0x10000000, 0x02000000, 0x40000000, 0x80, 0x20000000):
        try: SC(56, 0x50f00 | flag, 0, 0, 0, 0)
        except OSError as e:
            if e.errno == 22: return "the kernel itself was asked for a namespace beside a thread (%x)" % flag
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
