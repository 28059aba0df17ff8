//! Python programs that do something to their own interpreter, and end.

use nanoclaw_sandbox::RunStatus::{self, Crash, Error, Ok, Oom, OutputLimit, SyntaxError};

/// A program, how it ends at level lenient, and a part of its error.
pub(super) type Case = (&'static str, RunStatus, &'static str);

#[rustfmt::skip]
pub(super) const PROGRAMS: &[Case] = &[
    (r"__builtins__ if 0 else 0
imp=(__builtins__ if isinstance(__builtins__,dict) else vars(__builtins__))['__import__']
imp('a'*300000)", Error, "imp('a'*300000)"),
    (r"imp=(__builtins__ if isinstance(__builtins__,dict) else vars(__builtins__))['__import__']
imp(5)", Error, "TypeError"),
    (r"class E(Exception):
    @property
    def __class__(self): raise ValueError(1)
raise E('m')", Error, "E: m"),
    (r"class E(Exception):
    def __str__(self): raise ValueError(1)
    __repr__=__str__
raise E('m')", Error, "E: <exception str() failed>"),
    (r"class M(type):
    @property
    def __name__(cls): raise ValueError('n')
    @property
    def __qualname__(cls): raise ValueError('n')
    @property
    def __module__(cls): raise ValueError('n')
    def __getattribute__(cls,n): raise ValueError('n')
class E(Exception,metaclass=M): pass
raise E('m')", Error, "E"),
    (r"class M(type):
    def __getattribute__(cls,n):
        if n in('__name__','__qualname__','__module__'): raise SystemExit(3)
        return type.__getattribute__(cls,n)
class E(Exception,metaclass=M):
    def __str__(self): raise KeyError
raise E('m')", Error, "E"),
    (r"class E(SystemExit):
    @property
    def code(self): raise KeyError(1)
raise E(3)", Error, "SystemExit"),
    (r"class I(int):
    def __and__(self,o): raise KeyError
    def __int__(self): raise KeyError
    __index__=__rand__=__eq__=__bool__=__int__
raise SystemExit(I(3))", Error, "code 3"),
    (r"class S(str):
    def __len__(self): raise KeyError
    def __add__(self,o): raise KeyError
    def encode(self,*a): raise KeyError
    def __str__(self): return self
raise SystemExit(S('bye'))", Error, "bye"),
    ("raise SystemExit(10**30)", Ok, ""),
    (r"class S:
    def __str__(self): raise SystemExit(0)
raise SystemExit(S())", Error, "SystemExit"),
    ("raise SystemExit(1,2,3)", Error, "(1, 2, 3)"),
    ("raise SystemExit(None)", Ok, ""),
    ("raise SystemExit(2.5)", Error, "2.5"),
    ("raise SystemExit(256)", Ok, ""),
    (r"raise SystemExit('\ud800')", Error, "\\ud800"),
    (r"raise ValueError('\ud800')", Error, "\\ud800"),
    (r"class S(str):
    def __len__(self): raise KeyError('len')
    def encode(self,*a): raise KeyError
    def __getitem__(self,k): raise KeyError
class R:
    def __repr__(self): return S('x')
R()", Ok, ""),
    (r"class R:
    def __repr__(self): return 5
R()", Error, "TypeError"),
    (r"class R:
    def __repr__(self): raise SystemExit(4)
R()", Error, "code 4"),
    ("'x'*(60*10**6)", Ok, ""),
    ("raise ValueError('x'*(60*10**6))", Error, "ValueError: xxx"),
    (r"x=[]
while 1: x.append(bytearray(1<<20))", Oom, "MemoryError"),
    (r"x=[]
while 1: x.append(bytes(1000))", Oom, ""),
    (r"import sys
sys.keep=[]
def f():
    while 1: sys.keep.append(bytearray(100000))
try: f()
except MemoryError: pass
try:
    while 1: sys.keep.append(bytearray(1000))
except MemoryError: pass
while 1: sys.keep.append(object())", Oom, "MemoryError"),
    (r"def f(): f()
f()", Error, "RecursionError"),
    (r"import sys
def f():
  sys.setrecursionlimit(sys.getrecursionlimit())
for i in range(3,200):
  try:
    sys.setrecursionlimit(i); break
  except RecursionError: pass
raise ValueError('low')", Error, "ValueError: low"),
    (r"class A:
    def __repr__(self): return repr(self)
A()", Error, "RecursionError"),
    (r"import sys
def t(*a): raise ValueError('trace')
sys.settrace(t)", Ok, ""),
    (r"import sys
def t(*a): raise ValueError('trace')
sys.settrace(t)
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import sys
k=KeyError('k')
def t(*a): raise ValueError('prof')
sys.setprofile(t)
raise k", Error, "ValueError: prof"),
    (r"import sys
def t(f,e,a):
  if f.f_code.co_filename!='<code>' : raise ValueError('prof')
sys.setprofile(t)
sys.settrace(t)
raise KeyError('k')", Error, ""),
    (r"import sys
def t(f,e,a):
  sys.setprofile(t)
  if f.f_code.co_filename!='<code>' : raise SystemExit(0)
sys.settrace(t)
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import sys
for n in list(sys.modules): sys.modules[n]=None
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import sys
print('x',end='')
sys.modules.clear()
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import json,os,sys,traceback
json.dumps=None
os.write=None
os._exit=None
traceback.TracebackException=None
sys.stderr=None
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import os
def f(*a): raise ValueError
os._exit=f
os.write=f
os.close=f", Ok, ""),
    (r"import builtins
def f(*a,**k): raise ValueError('imp')
builtins.__import__=f
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import builtins
for n in list(vars(builtins)):
  if n not in('vars','list','KeyError','delattr','builtins'):
    try: delattr(builtins,n)
    except Exception: pass
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import builtins
for n in ('str','repr','len','max','min','type','issubclass','isinstance','id','set','dict','list','BaseException','Exception','MemoryError','SystemExit','getattr','exec','eval'):
  setattr(builtins,n,None)
{}['k']", Error, "KeyError: 'k'"),
    (r"import builtins
builtins.BaseException=ZeroDivisionError
builtins.Exception=ZeroDivisionError
builtins.SystemExit=ZeroDivisionError
{}['k']", Error, "KeyError: 'k'"),
    (r"import __main__
for n in ('exit_code','print_error','cut_middle','cut','report','finish','safe_traceback_text','traceback_text','readable','MAX_TEXT','RESULT','FRAMES','sys','FILE'):
  setattr(__main__,n,None)
raise SystemExit('k')", Error, "k"),
    (r"import __main__
for n in list(vars(__main__)):
  if n!='n': delattr(__main__,n) if hasattr(__main__,n) else 0
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import sys
class S:
  def write(self,t): raise ValueError
  flush=write
sys.stderr=S()
sys.stdout=S()
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import sys
class S:
  def write(self,t): raise SystemExit(0)
  def flush(self): raise SystemExit(0)
sys.stderr=S()
sys.stdout=S()
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import os
for i in range(0,20):
  try: os.close(i)
  except OSError: pass
raise KeyError('k')", Error, "code 1"),
    (r"import os
for i in range(0,20):
  try: os.close(i)
  except OSError: pass", Ok, ""),
    (r"import os
os.closerange(0,100)
raise KeyError('k')", Error, "code 1"),
    (r"import threading,os
threading.Thread(target=lambda: 1/0).start()", Ok, ""),
    (r"import threading
for i in range(20): threading.Thread(target=lambda: 1/0).start()
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import atexit
@atexit.register
def f(): raise KeyError('k')", Ok, ""),
    (r"import atexit
@atexit.register
def f(): raise SystemExit(5)", Ok, ""),
    (r"import atexit,os
@atexit.register
def f(): os._exit(5)", Error, "code 5"),
    (r"import os
os._exit(70)", Error, "code 70"),
    (r"class A:
  def __del__(self): raise ValueError('del')
x=A()
del x
y=A()", Ok, ""),
    (r"def g():
  try: yield
  finally: raise ValueError('fin')
x=g()
next(x)
del x", Ok, ""),
    (r"def g():
  while 1:
    try: yield
    except GeneratorExit: pass
x=g()
next(x)
del x", Ok, ""),
    (r"import warnings
warnings.simplefilter('error')
warnings.warn('w')", Error, "UserWarning: w"),
    ("raise ExceptionGroup('g',[ValueError(1),KeyError(2)])", Error, ""),
    (r"a=ValueError(1);b=KeyError(2)
a.__context__=b;b.__context__=a
raise a", Error, "KeyError: 2"),
    (r"e=None
for i in range(20000):
  n=ValueError(i); n.__cause__=e; e=n
raise e", Error, "ValueError"),
    (r"e=ValueError(1)
e.__notes__=5
raise e", Error, "ValueError: 1"),
    (r"class L(list):
  def __iter__(self): raise SystemExit(0)
e=ValueError(1)
e.__notes__=L()
raise e", Error, "ValueError: 1"),
    (r"class E(Exception):
  def with_traceback(self,*a): raise KeyError
  __traceback__=property(lambda s: 1/0)
  __cause__=property(lambda s: 1/0)
  __context__=property(lambda s: 1/0)
raise E", Error, "E"),
    (r"e=SyntaxError('m')
e.lineno=object(); e.text=5; e.offset='x'; e.filename=7
raise e", Error, "SyntaxError: m"),
    (r"import sys
def h(e,a): raise ValueError('audit')
sys.addaudithook(h)
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import sys
sys.excepthook=lambda *a: 1/0
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import sys
sys.unraisablehook=lambda *a: 1/0
class A:
  def __del__(self): raise ValueError
A()", Ok, ""),
    ("raise KeyboardInterrupt", Error, "KeyboardInterrupt"),
    ("raise GeneratorExit", Error, "GeneratorExit"),
    (r"class B(BaseException): pass
raise B('b')", Error, "B: b"),
    (r"import os
os.abort()", Crash, "signal"),
    (r"import ctypes
ctypes.string_at(0)", Crash, "signal"),
    (r"import linecache
linecache.cache=None
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import linecache
linecache.getline=None
linecache.checkcache=lambda *a: 1/0
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import sys,threading
sys.setswitchinterval(1e-9)
def f():
  while 1: pass
for i in range(4): threading.Thread(target=f,daemon=True).start()
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import os,threading
threading.Thread(target=os._exit,args=(0,)).start()
while 1: pass", Ok, ""),
    (r"import pickle
class A: pass
print(type(pickle.loads(pickle.dumps(A()))).__name__)", Ok, ""),
    (r"import __main__
class A: pass
print(__main__.A is A)", Ok, ""),
    (r"import threading
threading.excepthook=lambda *a: 1/0
threading.Thread(target=lambda: 1/0).start()", Ok, ""),
    (r"import sys,threading
t=threading.Thread(target=sys.exit,args=(3,));t.start();t.join()", Ok, ""),
    ("raise type('X'*300000,(Exception,),{})('m')", Error, ""),
    (r"import sys
f=sys._getframe()
while f:
  try: f.clear()
  except Exception as e: pass
  f=f.f_back
raise KeyError('k')", Error, "KeyError: 'k'"),
    (r"import sys
f=sys._getframe(1)
while f:
  f.f_globals.clear() if f.f_code.co_filename!='<code>' else 0
  f=f.f_back
raise KeyError('k')", Error, ""),
    (r"import ctypes,threading
ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()),ctypes.py_object(KeyError))", Error, ""),
    (r"import sys
sys.stdout.detach()
sys.stderr.detach()
raise KeyError('k')", Error, "KeyError: 'k'"),
];

/// The same for programs that are too long to be written down.
pub(super) fn long_programs() -> Vec<(String, RunStatus, &'static str)> {
    vec![
        (format!("import {}", "a".repeat(300_000)), Error, "File \"<code>\", line 1"),
        (
            ('b'..'v')
                .flat_map(|c| ["import ".to_owned(), c.to_string().repeat(20_000), "\n".to_owned()])
                .collect(),
            Error,
            "",
        ),
        (format!("x = '{}\n", "a".repeat(400_000)), SyntaxError, "line 1"),
        ("-".repeat(100_000) + "1", SyntaxError, "nested too deeply"),
        ("a".to_owned() + &".a".repeat(100_000), SyntaxError, "nested too deeply"),
        ("x=".to_owned() + &"9".repeat(5_000), SyntaxError, "4300 digits"),
        ("1 is 1\n".repeat(20_000), OutputLimit, "stderr_bytes"),
    ]
}
