# class: memory
# expect: lenient=killed-by-limit standard=killed-by-limit strict=killed-by-limit
# note: shared memory also counts as address space
# control: destructive
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import mmap
    held = []
    while len(held) < 3000:
        m = mmap.mmap(-1, 1 << 20); m[::4096] = b"x" * 256; held.append(m)
    return "3,000 MiB in shared anonymous memory"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
