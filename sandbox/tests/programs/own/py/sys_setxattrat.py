# class: syscall
# expect: lenient=denied standard=denied strict=denied
# note: Linux 6.13; landlock does not mediate attributes
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
    v = ctypes.create_string_buffer(b"1")
    args = struct.pack("QII", ctypes.addressof(v), 1, 0)
    SC(463, -100, b"/tmp/sbx_canary/secret.txt", 0, b"user.sbx", args, 16)
    return "setxattrat marked the canary"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
