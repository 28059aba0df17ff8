# class: proc-peek
# expect: lenient=denied standard=denied strict=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import time
    def there(pid):
        try: time.clock_getres(((~pid) << 3) | 2); return True
        except OSError: return False
    return "tells which processes there are" if there(1) and not there(4194200) else None
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
