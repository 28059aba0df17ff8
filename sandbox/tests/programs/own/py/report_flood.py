# class: output
# expect: lenient=allowed standard=allowed strict=allowed
# note: a report that is longer than the parent reads
# never: ok sandbox_error oom
# control: none
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    for n in range(2000):
        try: os.write(4, b"x" * 65536)
        except OSError: break
    os._exit(6)
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
