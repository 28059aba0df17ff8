# class: result-forgery
# expect: lenient=allowed standard=allowed strict=allowed
# note: a repr that is huge, has a false length and cannot be encoded
# never: sandbox_error crash
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
class R:
    def __repr__(self): raise SystemExit(0)
class S(str):
    def __len__(self): return 1
    def __getitem__(self, i): return self
class T:
    def __repr__(self): return S("\ud800" * 3000000)
T()
