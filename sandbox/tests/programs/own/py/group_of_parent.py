# class: process
# expect: lenient=denied standard=denied strict=denied
# control: none
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    group = os.getpgid(os.getppid())
    os.setpgid(0, group)
    return "joined the parent's group: a kill of its own would miss it"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
