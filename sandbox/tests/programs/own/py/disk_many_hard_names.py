# class: disk
# expect: lenient=denied standard=denied strict=denied
# open: on a busy machine the count comes after 60,000 entries
# control: destructive
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    d = "n" * 200
    os.mkdir(d)
    open("one", "w").close()
    for n in range(60000): os.link("one", "%s/%s%d" % (d, "l" * 200, n))
    return "60,000 names of one file: the directory alone takes 15 MB"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
