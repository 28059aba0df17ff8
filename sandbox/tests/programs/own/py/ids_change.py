# class: privilege
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
    import os
    before = SC(102)
    for n, args in ((117, (65534, 65534, -1)), (105, (65534,)), (113, (65534, 65534)), (122, (65534,))):
        try: SC(n, *args)
        except OSError: pass
    if SC(102) != before: return "user id changed from %d to %d: the process count starts anew" % (before, SC(102))
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
