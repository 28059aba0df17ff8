# class: syscall
# expect: lenient=denied standard=denied strict=denied
# note: the pipe_buffer flags (CVE-2022-0847)
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
    r, w = os.pipe()
    b = ctypes.create_string_buffer(4096)
    SC(278, w, struct.pack("QQ", ctypes.addressof(b), 4096), 1, 8)
    return "vmsplice gifted a page"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
