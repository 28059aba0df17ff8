# class: file-write
# expect: lenient=denied standard=denied strict=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    open("mine", "w").write("x")
    os.rename("mine", "/tmp/sbx_canary/moved_out")
    return "a file moved out"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
