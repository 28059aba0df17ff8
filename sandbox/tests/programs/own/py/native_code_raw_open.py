# class: file-read
# expect: lenient=denied standard=denied strict=denied
# note: system calls from machine code, without the C library
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    import ctypes as c, os
    f = c.CFUNCTYPE(c.c_long)(lambda: 5)
    entry = c.cast(f, c.c_void_p).value
    path = c.create_string_buffer(b"/tmp/sbx_canary/secret.txt")
    # mov eax, 2 (open); mov rdi, path; xor esi, esi; syscall; ret
    code = bytes.fromhex("b80200000048bf") + c.addressof(path).to_bytes(8, "little") + bytes.fromhex("31f60f05c3")
    c.memmove(entry, code, len(code))
    fd = f()
    return "own machine code opened the canary" if fd >= 0 else None
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
