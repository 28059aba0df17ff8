//! The calculator against Python's answers, and against arithmetic that cannot be wrong.

use super::*;
use crate::app::system::SystemClock;
use crate::ports::CancelReason;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

fn token() -> CancelToken {
    CancelToken::new(Arc::new(SystemClock::new()))
}

fn result(expression: &str) -> Result<Value, String> {
    calculate(expression, &token()).map(|value| value.to_json()).map_err(|error| error.to_string())
}

fn value(expression: &str) -> Value {
    result(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
}

fn error(expression: &str) -> String {
    result(expression).expect_err(expression)
}

#[test]
fn arithmetic_follows_python() {
    for (expression, expected) in [
        ("17*23", json!(391)),
        ("7/2", json!(3.5)),
        ("6/2", json!(3.0)),
        ("7//2", json!(3)),
        ("-7//2", json!(-4)),
        ("-7%3", json!(2)),
        ("7%-3", json!(-2)),
        ("-7.5//2", json!(-4.0)),
        ("-7.5%2", json!(0.5)),
        ("2+3*4**2", json!(50)),
        ("-2**2", json!(-4)),
        ("2**-1", json!(0.5)),
        ("2**3**2", json!(512)),
        ("(1+2)*3", json!(9)),
        ("--5", json!(5)),
        ("~5", json!(-6)),
        ("5&3|8^1", json!(9)),
        ("1<<10>>2", json!(256)),
        ("-1>>100", json!(-1)),
        ("0.1+0.2", json!(0.300_000_000_000_000_04)),
        ("1e16", json!(1e16)),
        ("1_000*.5", json!(500.0)),
        ("0xff+0b11+0o17", json!(273)),
        ("10×5−8÷2", json!(46.0)),
        ("10**20", json!("100000000000000000000")),
        ("2**63", json!(9_223_372_036_854_775_808_u64)),
        ("-2**63", json!(i64::MIN)),
        ("10**400/10**399", json!(10.0)),
        ("1/10**320", json!(1e-320)),
        ("1e308*10", json!("inf")),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn common_python_math_functions_are_known() {
    let names = "abs acos acosh asin asinh atan atan2 atanh cbrt ceil comb cos cosh degrees exp factorial floor fmod fsum \
                 gcd hypot isqrt lcm log log10 log2 max min perm pow prod radians round sin sinh sqrt sum tan tanh trunc";
    for name in names.split_whitespace() {
        assert!(functions::is_known(name), "{name}");
    }
}

#[test]
fn comparisons_and_truth_follow_python() {
    for (expression, expected) in [
        ("1 < 2 <= 2", json!(true)),
        ("1 == 1.0 != 2", json!(true)),
        ("3 > 2 > 2", json!(false)),
        ("10**400 > 1e308", json!(true)),
        ("2**53 + 1 == 2.0**53", json!(false)),
        ("not 0 and 5 or 7", json!(5)),
        ("1 or 1/0", json!(1)),
        ("1 if 2 > 1 else 1/0", json!(1)),
        ("True + True", json!(2)),
        ("nan == nan", json!(false)),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn functions_and_constants_are_those_of_math() {
    for (expression, expected) in [
        ("sqrt(16)", json!(4.0)),
        ("math.sqrt(2)", json!(std::f64::consts::SQRT_2)),
        ("sin(0) + cos(0)", json!(1.0)),
        ("pi", json!(std::f64::consts::PI)),
        ("factorial(20)", json!(2_432_902_008_176_640_000_i64)),
        ("gcd(12, 18)", json!(6)),
        ("lcm(4, 6)", json!(12)),
        ("comb(52, 5)", json!(2_598_960)),
        ("perm(5, 2)", json!(20)),
        ("comb(2, 5)", json!(0)),
        ("log(8, 2)", json!(3.0)),
        ("log2(8)", json!(3.0)),
        ("log10(1000)", json!(3.0)),
        ("log(10**400) > 921", json!(true)),
        ("floor(-2.5)", json!(-3)),
        ("ceil(2.1)", json!(3)),
        ("int(-2.9)", json!(-2)),
        ("round(2.5)", json!(2)),
        ("round(2.675, 2)", json!(2.67)),
        ("round(1250, -2)", json!(1200)),
        ("round(1234.5, -2)", json!(1200.0)),
        ("abs(-3)", json!(3)),
        ("min(3, 1, 2)", json!(1)),
        ("max([3, 1, 2.5])", json!(3)),
        ("sum([1, 2, 3]) / len([1, 2, 3])", json!(2.0)),
        ("prod([2, 3, 4])", json!(24)),
        ("pow(2, 10)", json!(1024)),
        ("pow(3, -1, 7)", json!(5)),
        ("hypot(3, 4)", json!(5.0)),
        ("isqrt(99)", json!(9)),
        ("floor(1e20)", json!("100000000000000000000")),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn calculator_errors_use_the_wording_of_python() {
    for (expression, message) in [
        ("1/0", "Calculation error: division by zero"),
        ("1//0", "Calculation error: division by zero"),
        ("1.5%0", "Calculation error: division by zero"),
        ("sqrt(-1)", "Calculation error: math domain error"),
        ("log(0)", "Calculation error: math domain error"),
        ("sin(inf)", "Calculation error: math domain error"),
        ("factorial(-1)", "Calculation error: factorial() not defined for negative values"),
        ("10**400*1.0", "Calculation error: int too large to convert to float"),
        ("10.0**400", "Calculation error: the result is too large for a float"),
        ("foo", "Calculation error: unknown name 'foo'"),
        ("open('x')", "Syntax error at character 6: unexpected '''"),
        ("__import__(1)", "Calculation error: unknown name '__import__'"),
        ("sqrt(1, 2)", "Calculation error: sqrt() takes one number"),
        ("factorial(2.5)", "Calculation error: factorial() takes one integer"),
        ("2.5^2", "Calculation error: & | ^ << >> take integers only (a power is written **)"),
        ("1 +", "Syntax error at character 4: the expression ends too early"),
        ("1 2", "Syntax error at character 3: unexpected number (is an operator missing?)"),
        ("(1", "Syntax error at character 3: the expression ends too early"),
        ("", "Syntax error at character 1: the expression ends too early"),
        ("1.2.3", "Syntax error at character 1: malformed number"),
        ("2j", "Syntax error at character 1: complex numbers are not supported"),
        ("007", "Syntax error at character 1: leading zeros are not allowed; write 0o… for octal"),
        ("1__0", "Syntax error at character 1: malformed number"),
    ] {
        assert_eq!(error(expression), message, "{expression}");
    }
}

#[test]
fn p8_result_size_nesting_and_length_are_bounded() {
    let digits = "Calculation error: the result is too large (more than 10000 digits)";
    let huge = format!("1{}", "0".repeat(3_000));
    for expression in [
        "9**9**9".to_owned(),
        "factorial(100000)".to_owned(),
        "factorial(10**30)".to_owned(),
        "comb(10**9, 5*10**8)".to_owned(),
        "perm(10**100, 10**50)".to_owned(),
        "1 << 10**10".to_owned(),
        format!("{huge}**4"),
    ] {
        assert_eq!(error(&expression), digits, "{expression}");
    }
    assert_eq!(value("0**10**30"), json!(0));
    assert_eq!(value("(-1)**(10**30+1)"), json!(-1));
    let deep = |levels: usize| format!("{}1{}", "(".repeat(levels), ")".repeat(levels));
    assert_eq!(value(&deep(60)), json!(1));
    for expression in [deep(1_500), "-".repeat(3_000) + "1", "2**".repeat(1_000) + "1", "[".repeat(3_000)] {
        assert!(error(&expression).contains("nested deeper"), "{expression}");
    }
    assert_eq!(value(&("1+".repeat(1_900) + "1")), json!(1_901), "a long chain is not deep");
    assert!(error(&"1".repeat(4_001)).contains("longer than 4000 characters"));
    let cancelled = token();
    cancelled.cancel(CancelReason::Cancelled);
    assert_eq!(calculate("1+1", &cancelled), Err(CalculatorError::Stopped));
}

proptest! {
    #[test]
    fn integers_agree_with_machine_arithmetic(a in -1_000_000_i128..1_000_000, b in -1_000_000_i128..1_000_000, c in 1_i128..1_000) {
        prop_assert_eq!(value(&format!("({a}) * ({b}) + ({c})")), json!(i64::try_from(a * b + c).expect("small")));
        prop_assert_eq!(value(&format!("({a}) // {c} * {c} + ({a}) % {c}")), json!(i64::try_from(a).expect("small")));
        prop_assert_eq!(value(&format!("({a}) // {c}")), json!(i64::try_from(a.div_euclid(c)).expect("small")));
        prop_assert_eq!(value(&format!("({a}) ^ ({b})")), json!(i64::try_from(a ^ b).expect("small")));
    }

    #[test]
    fn floats_agree_with_machine_arithmetic(a in -1e9_f64..1e9, b in -1e9_f64..1e9) {
        prop_assert_eq!(value(&format!("({a:?}) * ({b:?}) - ({a:?})")), json!(a * b - a));
        let rest = value(&format!("({a:?}) % ({b:?})")).as_f64().expect("a number");
        prop_assert!(b == 0.0 || (rest.abs() <= b.abs() && (rest == 0.0 || (rest < 0.0) == (b < 0.0))));
    }

    #[test]
    fn quotients_of_long_integers_are_rounded_once(a in 1_u64.., b in 1_u64.., shift in 0_u32..300) {
        let scaled = value(&format!("({a} << {shift}) / ({b} << {shift})"));
        let (high, low) = (u128::from(a), u128::from(b));
        let exact = value(&format!("{high} / {low}"));
        prop_assert_eq!(scaled, exact);
    }

    #[test]
    fn no_expression_like_text_makes_the_calculator_panic(text in "[-+*/%0-9a-z().,<>=&|~^\\[\\] ]{0,60}") {
        drop(result(&text));
    }

    #[test]
    fn no_text_makes_the_calculator_panic(text in "\\PC{0,40}") {
        drop(result(&text));
    }
}
