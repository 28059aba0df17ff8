# class: cpu
# expect: lenient=killed-by-limit standard=killed-by-limit strict=killed-by-limit
# never: ok sandbox_error
# control: none
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
class R:
    def __repr__(self):
        while True: pass
R()
