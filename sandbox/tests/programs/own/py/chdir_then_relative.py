# class: file-read
# expect: lenient=denied standard=denied strict=denied
# note: landlock does not mediate chdir itself
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    os.chdir("/tmp/sbx_canary")
    return "relative read: " + open("secret.txt").read()
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
