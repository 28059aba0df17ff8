# class: exec
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
    for n, args in ((9, (0, 4096, 0x1_0000_0004 | 1, 0x22, -1, 0)), (9, (0, 4096, 7, 0x22, -1, 0))):
        try: return "executable memory at %x" % SC(n, *args)
        except OSError: pass
    a = SC(9, 0, 4096, 3, 0x22, -1, 0)
    for n, prot in ((10, 5), (10, 0x1_0000_0005), (329, 5), (10, 0x01000005)):
        try:
            SC(n, a, 4096, prot, -1); return "memory made executable by call %d, protection %x" % (n, prot)
        except OSError: pass
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
