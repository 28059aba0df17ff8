//! JavaScript programs that throw, exhaust or replace what our code relies on.

use nanoclaw_sandbox::RunStatus::{self, Error, ModuleNotAllowed, Ok, Oom, SyntaxError};

use super::python::Case;

#[rustfmt::skip]
pub(super) const PROGRAMS: &[Case] = &[
    ("throw null", Error, "Uncaught null"),
    ("throw undefined", Error, "Uncaught undefined"),
    ("throw Symbol('x')", Error, "Symbol(x)"),
    ("throw new Proxy({}, {get(){throw 1}, getPrototypeOf(){throw 2}, ownKeys(){throw 3}, has(){throw 4}})", Error, "Uncaught error"),
    ("throw new Proxy(new Error('x'), {get(){throw 1}, getPrototypeOf(){return Error.prototype}})", Error, "Uncaught error"),
    ("const r=Proxy.revocable({}, {}); r.revoke(); throw r.proxy", Error, "Uncaught error"),
    ("const r=Proxy.revocable({}, {}); r.revoke(); r.proxy", Ok, ""),
    ("throw new Proxy(function(){}, {get(){throw null}, getPrototypeOf(){throw null}})", Error, "Uncaught error"),
    ("throw {get message(){throw 1}, get stack(){throw 2}, get name(){throw 3}, toString(){throw 4}}", Error, "[Getter]"),
    ("const e=new Error('m'); Object.defineProperty(e,'stack',{get(){throw null}}); Object.defineProperty(e,'message',{get(){throw null}}); throw e", Error, "Uncaught error"),
    ("throw new Error('x'.repeat(3e7))", Error, "Error: xxx"),
    (r"throw new Error('\ud800')", Error, "Error: "),
    ("const e=new Error('a'); const f=new Error('b',{cause:e}); e.cause=f; throw e", Error, "Error: a"),
    ("'x'.repeat(3e7)", Ok, ""),
    ("new Proxy([], {get(){throw 1}, ownKeys(){throw 2}})", Ok, ""),
    (r"for (const k of ['Object','Array','String','Error','Promise','Map','Set','Symbol','JSON','Function','Math']) { try { globalThis[k]=null } catch {} }
throw 1", Error, "Uncaught 1"),
    (r"for (const P of [Object.prototype, Array.prototype, String.prototype, Function.prototype, Error.prototype, Promise.prototype]) for (const k of Object.getOwnPropertyNames(P)) { try { Object.defineProperty(P,k,{get(){throw null},configurable:true}) } catch {} }
throw new Error('x')", Error, ""),
    ("Object.prototype.then = function(){throw 1}; Object.prototype.value=5; Promise.resolve({});", Error, "Uncaught 1"),
    ("Object.defineProperty(Object.prototype,'value',{get(){throw null}}); await 1; 5", Error, ""),
    ("await {get then(){throw null}}", Error, "Uncaught null"),
    ("Promise.reject(null)", Error, "Uncaught null"),
    ("Promise.reject()", Error, "Uncaught undefined"),
    ("for(let i=0;i<1e5;i++) Promise.reject(i)", Error, "Uncaught 0"),
    ("setTimeout(()=>{throw null},1)", Error, "Uncaught null"),
    ("queueMicrotask(()=>{throw null})", Error, "Uncaught null"),
    ("function f(){f()} f()", Error, "RangeError"),
    ("let a=[]; for(let i=0;i<1e5;i++) a=[a]; JSON.stringify(a)", Error, "RangeError"),
    ("let a=[]; for(let i=0;i<1e5;i++) a=[a]; a", Ok, ""),
    ("let a=[]; for(let i=0;i<1e5;i++) a={a}; throw a", Error, "Uncaught"),
    ("let p={}; for(let i=0;i<1e5;i++) p=new Proxy(p,{}); p.x", Error, "RangeError"),
    ("let p={}; for(let i=0;i<1e5;i++) p=new Proxy(p,{}); throw p", Error, ""),
    ("function* g(n){ if(n) yield* g(n-1) } [...g(1e5)]", Error, "RangeError"),
    ("const a=[]; for(;;) a.push(new Uint8Array(1<<20))", Oom, "out of memory"),
    ("let a=[]; for(;;) a=[a,{}]", Oom, "out of memory"),
    ("let s='a'; for(;;) s+=s", Error, "string too long"),
    ("(async()=>{const a=[]; for(;;) {a.push(new Uint8Array(1<<16)); await 1}})()", Oom, "out of memory"),
    ("throw new InternalError('out of memory')", Error, "out of memory"),
    ("`${{[Symbol.toPrimitive](){throw null}}}`", Error, "Uncaught null"),
    ("Object.defineProperty(Error, Symbol.hasInstance, {value(){throw null}}); throw new Error('x')", Error, ""),
    ("eval('('.repeat(1e5))", Error, ""),
    ("Error.prepareStackTrace=()=>{throw null}; throw new Error('x')", Error, ""),
    ("Error.prepareStackTrace=(e,f)=>f[100].x; Error.stackTraceLimit={valueOf(){throw null}}; throw new Error('x')", Error, ""),
    ("globalThis.console=null; throw console", Error, "Uncaught null"),
    ("Object.setPrototypeOf(globalThis, new Proxy({}, {get(){throw null}, has(){throw null}})); zzz", Error, ""),
    ("Object.freeze(globalThis); Object.freeze(Object.prototype); throw new Error('x')", Error, "Error: x"),
    ("2n**(2n**30n)", Error, "RangeError"),
    ("let print=null, console=null; throw null", Error, "Uncaught null"),
    ("await Promise.reject(null)", Error, "Uncaught null"),
    ("async function* g(){ yield 1; throw null } for await (const x of g());", Error, "Uncaught null"),
    ("import('a'.repeat(1e6))", Error, ""),
    ("import({toString(){throw null}})", Error, ""),
    ("'use strict'; undefinedVar = 1", Error, "undefinedVar"),
    ("class A extends Promise { static get [Symbol.species](){throw null} }; await A.resolve(1).then(x=>x)", Error, "Uncaught null"),
    ("new RegExp('('.repeat(1e6)+')'.repeat(1e6))", Error, "SyntaxError"),
];

/// The same for programs that are too long to be written down.
pub(super) fn long_programs() -> Vec<(String, RunStatus, &'static str)> {
    vec![
        (format!("import {} from 'x'", "a".repeat(300_000)), ModuleNotAllowed, ""),
        ("a".repeat(500_000), Error, "ReferenceError"),
        ("(".repeat(100_000) + "1" + &")".repeat(100_000), SyntaxError, ""),
        ("{".repeat(100_000) + &"}".repeat(100_000), SyntaxError, ""),
        (format!("let {} = ;", "a".repeat(500_000)), SyntaxError, "line 1"),
    ]
}
