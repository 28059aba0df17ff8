# class: syscall
# expect: lenient=denied standard=denied strict=denied
# note: machine code in the page that ctypes keeps writable and executable: the filter must also apply there
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    import ctypes as c
    f = c.CFUNCTYPE(c.c_int)(lambda: 5)
    entry = c.cast(f, c.c_void_p).value
    page = entry & ~4095
    # getpid of the 32-bit table: mov eax, 20; int 0x80; ret
    code = bytes.fromhex("b814000000cd80c3")
    r, w = __import__("os").pipe()
    if SC(1, w, c.c_void_p(entry), 1) != 1: return None
    c.memmove(entry, code, len(code))
    pid = f()
    return "a 32-bit call answered %d" % pid if pid == __import__("os").getpid() else None
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
