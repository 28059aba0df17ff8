# class: exec
# expect: lenient=denied standard=denied strict=denied
# note: landlock permits the execution of the interpreter's own file only
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
    argv = (ctypes.c_char_p * 4)(b"python3", b"-c", b"print('ESCAPED: another interpreter ran')", None)
    SC(59, os.path.realpath("/proc/self/exe").encode() if os.path.exists("/proc/self/exe") else b"/usr/bin/python3", argv, (ctypes.c_char_p * 1)(None))
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
