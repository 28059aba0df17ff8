# class: file-write
# expect: lenient=denied standard=denied strict=denied
# note: the sandbox returns success for some of these: none may take effect
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    p = "/tmp/sbx_canary/secret.txt"
    before = os.stat(p)
    for what in (lambda: os.chmod(p, 0o777), lambda: os.chown(p, 65534, 65534), lambda: os.utime(p, (1, 1)), lambda: os.setxattr(p, "user.sbx", b"1")):
        try: what()
        except OSError: pass
    after = os.stat(p)
    if (before.st_mode, before.st_uid, before.st_mtime) != (after.st_mode, after.st_uid, after.st_mtime): return "the canary's attributes changed"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
