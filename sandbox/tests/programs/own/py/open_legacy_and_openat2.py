# class: file-read
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
    import struct
    for n, args in ((2, (b"/tmp/sbx_canary/secret.txt", 0, 0)), (437, (-100, b"/tmp/sbx_canary/secret.txt", struct.pack("QQQ", 0, 0, 0), 24)),
                    (257, (-100, b"/tmp/sbx_canary/secret.txt", 0x8000_0000_0000_0000, 0))):
        try: return "call %d opened the canary as %d" % (n, SC(n, *args))
        except OSError: pass
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
