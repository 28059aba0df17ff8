# class: file-write
# expect: lenient=denied standard=denied strict=denied
# note: a link must not give more rights
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os, json
    os.link(json.__file__, "mine.py")
    with open("mine.py", "r+b"): return "a library file is writable through a hard link"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
