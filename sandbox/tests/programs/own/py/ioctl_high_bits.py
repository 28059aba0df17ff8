# class: syscall
# expect: lenient=denied standard=denied strict=denied
# note: a filter that compares 32 bits instead of 64 would permit some calls
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
    r, w = os.pipe()
    b = ctypes.create_string_buffer(8)
    for number in (0x1_0000_541B, 0x5401_0000_541B, 0x541B):
        try:
            SC(16, r, number, b); return "ioctl FIONREAD by number %x" % number
        except OSError: pass
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
