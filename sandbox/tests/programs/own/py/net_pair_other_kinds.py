# class: network
# expect: lenient=denied standard=denied strict=denied
# note: TIPC also has socket pairs
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    for family, kind, protocol in ((1, 2, 0), (1, 5, 0), (1, 0x1_0000_0002, 0), (2, 1, 6), (30, 1, 0), (30, 2, 0), (1, 3, 0)):
        try: SC(53, family, kind, protocol, (ctypes.c_int * 2)()); return "socketpair %d %x" % (family, kind)
        except OSError: pass
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
