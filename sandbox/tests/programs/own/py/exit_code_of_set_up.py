# class: result-forgery
# expect: lenient=allowed standard=allowed strict=allowed
# note: the exit code of a failed set-up
# never: ok sandbox_error
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    os.write(2, b"the child exited before its policy was in force\n")
    os._exit(70)
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
