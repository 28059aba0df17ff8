# class: cpu
# expect: lenient=killed-by-limit standard=killed-by-limit strict=killed-by-limit
# never: ok sandbox_error
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
class E(Exception):
    def __str__(self):
        while True: pass
raise E()
