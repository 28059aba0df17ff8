# class: env-leak
# expect: lenient=denied standard=denied strict=denied
# note: reads the environment from memory, not from os.environ
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    env = (ctypes.POINTER(ctypes.c_char_p)).in_dll(_l, "environ")
    n = 0
    while env[n]:
        if b"SBX_CANARY" in env[n]: return "the environment's block holds it"
        n += 1
    auxv = ctypes.cast(ctypes.addressof(env.contents) + 8 * (n + 1), ctypes.POINTER(ctypes.c_ulong))
    k = 0
    while auxv[2 * k]:
        if auxv[2 * k] == 31: top = ctypes.string_at(auxv[2 * k + 1])
        k += 1
    return None
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
