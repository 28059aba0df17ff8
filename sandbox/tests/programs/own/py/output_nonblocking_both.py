# class: output
# expect: lenient=denied standard=denied strict=denied
# never: ok sandbox_error
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    n = 0
    while n < 1 << 24:
        for fd in (1, 2): n += os.write(fd, b"\xff\n" * 4096)
    return "16 MiB kept"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
