# class: proc-peek
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
    import struct, os
    b = ctypes.create_string_buffer(256)
    SC(332, -100, b"/", 0, 0x4000, b)  # statx: the unique id of the root's mount
    mount = struct.unpack_from("Q", b, 0x90)[0]
    q = struct.pack("IIQQ", 24, 0, mount, 0x3f)
    out = ctypes.create_string_buffer(8192)
    SC(457, q, out, 8192, 0)
    return "statmount told of mount %d" % mount
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
