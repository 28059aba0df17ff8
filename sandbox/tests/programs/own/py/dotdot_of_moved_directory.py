# class: file-read
# expect: lenient=denied standard=denied strict=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    os.makedirs("a/b/c")
    d = os.open("a/b/c", os.O_RDONLY)
    os.rename("a/b/c", "c")
    for n in range(1, 12):
        try: return "up from a moved directory: " + open(os.open("../" * n + "tmp/sbx_canary/secret.txt", os.O_RDONLY, dir_fd=d)).read()
        except OSError: pass
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
