# class: memory
# expect: lenient=denied standard=denied strict=denied
# note: memory in the kernel's pipe buffers
# control: destructive
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    held, kept = [], 0
    for n in range(4000):
        r, w = os.pipe(); os.set_blocking(w, False)
        try:
            while True: kept += os.write(w, b"x" * 65536)
        except BlockingIOError: pass
        held.append((r, w))
    return "%d MiB outside the address space" % (kept >> 20) if kept > 1 << 27 else None
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
