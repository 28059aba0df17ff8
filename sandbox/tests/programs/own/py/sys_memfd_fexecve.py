# class: exec
# expect: lenient=denied standard=denied strict=denied
# note: execveat with AT_EMPTY_PATH
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
    fd = SC(319, b"x", 0)
    os.write(fd, b"#!/bin/sh\necho 'ESCAPED: a program from memory ran'\n")
    argv = (ctypes.c_char_p * 2)(b"x", None)
    SC(322, fd, b"", argv, (ctypes.c_char_p * 1)(None), 0x1000)
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
