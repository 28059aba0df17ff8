# class: proc-peek
# expect: lenient=denied standard=denied strict=denied
# note: kill and tkill; tgkill shows processes at lenient, as stat of /proc does: documented
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    def errno_of(n, *a):
        try: SC(n, *a); return 0
        except OSError as e: return e.errno
    told = [n for n, one, none in ((62, (1, 0), (4194200, 0)), (200, (1, 0), (4194200, 0))) if errno_of(n, *one) != errno_of(n, *none)]
    return "calls %r tell which processes there are" % told if told else None
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
