# class: file-read
# expect: lenient=denied standard=denied strict=denied
# note: private directories of other runs have the same parent directory
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    for path in ("..", "../..", os.path.dirname(os.getcwd()), "/tmp", "/var/tmp", "/dev/shm"):
        try: return "lists %s: %r" % (path, os.listdir(path)[:3])
        except OSError: pass
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
