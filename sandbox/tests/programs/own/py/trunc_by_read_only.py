# class: file-write
# expect: lenient=denied standard=denied strict=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    before = os.stat("/tmp/sbx_canary/secret.txt").st_size
    for flags in (os.O_RDONLY | os.O_TRUNC, os.O_RDONLY | os.O_TRUNC | os.O_NONBLOCK):
        try: os.open("/tmp/sbx_canary/secret.txt", flags)
        except OSError: pass
    try: os.truncate("/tmp/sbx_canary/secret.txt", 0)
    except OSError: pass
    if os.stat("/tmp/sbx_canary/secret.txt").st_size != before: return "the canary was emptied"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
