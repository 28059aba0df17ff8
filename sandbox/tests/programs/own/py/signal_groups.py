# class: signal
# expect: lenient=denied standard=denied strict=denied
# note: signals to its own group, to all processes and to process 1
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    got = []
    for n, args in ((62, (0, 0)), (62, (-1, 0)), (129, (1, 0, ctypes.create_string_buffer(128))), (297, (1, 1, 0, ctypes.create_string_buffer(128)))):
        try: SC(n, *args); got.append((n, args[0]))
        except OSError: pass
    return "signals by %r" % got if got else None
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
