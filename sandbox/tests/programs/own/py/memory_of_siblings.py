# class: proc-peek
# expect: lenient=denied standard=denied strict=denied
# note: all children of a zygote have the same address layout
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
    b = ctypes.create_string_buffer(8)
    for pid in [os.getppid()] + list(range(os.getpid() - 20, os.getpid())):
        iov = struct.pack("QQ", ctypes.addressof(b), 8)
        try: SC(310, pid, iov, 1, struct.pack("QQ", id(b) & ~7, 8), 1, 0); return "read memory of %d" % pid
        except OSError as e:
            if e.errno == 14: return "may read memory of %d" % pid
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
