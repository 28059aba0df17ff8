# class: result-forgery
# expect: lenient=allowed standard=allowed strict=allowed
# never: ok oom sandbox_error
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
class Full(MemoryError):
    def __str__(self): return "its memory ran out"
raise Full()
