# class: syscall
# expect: lenient=denied standard=denied strict=denied
# note: Linux 6.17; does the work of an ioctl on a path, so that rules for descriptors do not apply
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    b = ctypes.create_string_buffer(24)
    SC(468, -100, b"/tmp/sbx_canary/secret.txt", b, 24, 0)
    return "file_getattr told of the canary"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
