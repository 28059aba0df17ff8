# class: syscall
# expect: lenient=denied standard=denied strict=denied
# note: harmless by itself: a call that the policy does not list must return EPERM
# control: none
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    import mmap
    a = SC(9, 0, 4096, 3, 0x22, -1, 0)
    SC(462, a, 4096, 0)
    return "a new call (mseal) is served"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
