# class: output
# expect: lenient=killed-by-limit standard=killed-by-limit strict=killed-by-limit
# note: one call writes many buffers
# never: ok sandbox_error timeout
# control: destructive
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    while True: os.writev(1, [b"x" * 65536] * 16)
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
