# class: limit-evasion
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
    import os, struct
    for pid in [os.getppid(), 1] + list(range(os.getpid() - 50, os.getpid())):
        try:
            SC(302, pid, 7, 0, ctypes.create_string_buffer(16)); return "read the limits of %d" % pid
        except OSError: pass
        try:
            SC(302, pid, 0, struct.pack("QQ", 2**63, 2**63), 0); return "set the limits of %d" % pid
        except OSError: pass
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
