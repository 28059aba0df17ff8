# class: fd-leak
# expect: lenient=denied standard=denied strict=denied
# note: a control socket of the zygote or the broker
# control: none
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    import errno
    b = ctypes.create_string_buffer(64)
    for fd in range(0, 64):
        for n, args in ((45, (fd, b, 64, 0x42, 0, 0)), (44, (fd, b"x", 1, 0x40, 0, 0)), (52, (fd, b, ctypes.byref(ctypes.c_int(64)))), (51, (fd, b, ctypes.byref(ctypes.c_int(64))))):
            try: SC(n, *args); return "descriptor %d is a socket (call %d)" % (fd, n)
            except OSError as e:
                if e.errno not in (errno.EBADF, errno.ENOTSOCK, errno.EPERM): return "descriptor %d answers %s" % (fd, e)
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
