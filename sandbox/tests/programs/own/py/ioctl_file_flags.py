# class: file-write
# expect: lenient=denied standard=denied strict=denied
# note: FS_IOC_SETFLAGS with the immutable bit
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
    f = os.open("held", os.O_CREAT | os.O_RDWR, 0o600)
    SC(16, f, 0x40086602, struct.pack("q", 0x10))
    SC(16, f, 0x40086602, struct.pack("q", 0))
    return "a file that nobody could remove"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
