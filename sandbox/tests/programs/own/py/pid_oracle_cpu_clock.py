# class: proc-peek
# expect: lenient=denied standard=denied strict=denied
# note: clock ids of other processes need no right and only the module time
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import time
    def cpu(pid): return time.clock_gettime(((~pid) << 3) | 2)
    seen = []
    for pid in range(1, 3000):
        try: seen.append((pid, cpu(pid)))
        except OSError: pass
    # Its own clock answers as well; more than one process is the finding.
    return "tells %d processes and their processor time, pid 1: %r" % (len(seen), seen[0]) if len(seen) > 1 else None
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
