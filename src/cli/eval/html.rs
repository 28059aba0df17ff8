//! The report of an evaluation as one HTML file, which loads nothing from elsewhere.

use super::report::{CaseResult, EvalReport};
use crate::cli::replay::report::{money, seconds};

/// Forbids everything but the style in the page.
const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>NanoClaw evaluation</title>\n<style>\
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1b1f24;background:#fff}\
table{border-collapse:collapse;width:100%;margin:1rem 0}th,td{text-align:left;padding:.35rem .6rem;border-bottom:1px solid #d0d7de}\
td.n{text-align:right;font-variant-numeric:tabular-nums}.ok{color:#1a7f37}.bad{color:#b42318;font-weight:600}\
details{margin:.4rem 0}pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f6f8fa;padding:.6rem;border-radius:6px}\
@media (prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th,td{border-color:#30363d}pre{background:#161b22}\
.ok{color:#3fb950}.bad{color:#f85149}}</style></head><body>\n";

/// The whole page.
pub(super) fn page(report: &EvalReport) -> String {
    let mut page = HEAD.to_owned();
    let (total, failed) = (report.results.len(), report.failed());
    push(
        &mut page,
        format_args!(
            "<h1>Evaluation</h1><p>{} of {total} passed, {}</p>",
            total.saturating_sub(failed),
            escaped(&report.batch)
        ),
    );
    page.push_str("<table><thead><tr><th>Model<th>Passed<th>Rate<th>Tokens<th>Cost<th>Time a case</tr></thead><tbody>\n");
    for summary in report.summaries() {
        let (model, usage) = (escaped(&summary.model), summary.usage);
        let (cost, time) = (money(usage.cost_micros), seconds(summary.mean_ms()));
        push(
            &mut page,
            format_args!(
                "<tr><td>{model}<td class=n>{} of {}<td class=n>{}%<td class=n>{}<td class=n>{cost}<td class=n>{time}</tr>\n",
                summary.passed,
                summary.cases,
                summary.rate(),
                usage.total_tokens
            ),
        );
    }
    page.push_str("</tbody></table>\n<table><thead><tr><th>Case<th>Model<th>Result<th>Tokens<th>Cost<th>Time</tr></thead><tbody>\n");
    report.results.iter().for_each(|result| row(&mut page, result));
    page.push_str("</tbody></table></body></html>\n");
    page
}

fn row(page: &mut String, result: &CaseResult) {
    let (class, mark) = if result.passes() { ("ok", "passed") } else { ("bad", "failed") };
    let (cost, time) = (money(result.usage.cost_micros), seconds(result.time_ms));
    push(
        page,
        format_args!(
            "<tr><td>{}<details><summary>answer and checks</summary><pre>{}</pre><ul>",
            escaped(&result.case),
            escaped(result.error.as_ref().unwrap_or(&result.answer))
        ),
    );
    for check in &result.checks {
        let class = if check.fault.is_none() { "ok" } else { "bad" };
        let fault = check.fault.as_ref().map(|fault| format!(": {}", escaped(fault))).unwrap_or_default();
        push(page, format_args!("<li class={class}>{}{fault}", escaped(&check.title)));
    }
    push(
        page,
        format_args!(
            "</ul></details><td>{}<td class={class}>{mark}<td class=n>{}<td class=n>{cost}<td class=n>{time}</tr>\n",
            escaped(&result.model),
            result.usage.total_tokens
        ),
    );
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.push_str(&text.to_string());
}

/// Text in which HTML means nothing.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() && !c.is_whitespace() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::report::CheckResult;
    use super::*;
    use crate::domain::usage::Usage;

    #[test]
    fn p9_answers_names_and_checks_are_escaped_and_nothing_is_loaded() {
        let hostile = "<script src=//x>&\"'\u{1b}";
        let check = CheckResult { title: hostile.to_owned(), fault: Some(hostile.to_owned()) };
        let result = CaseResult {
            case: hostile.to_owned(),
            line: 1,
            model: hostile.to_owned(),
            job: None,
            answer: hostile.to_owned(),
            error: None,
            checks: vec![check],
            usage: Usage::new(1, 2),
            time_ms: 1_234,
        };
        let page = page(&EvalReport { batch: hostile.to_owned(), results: vec![result] });
        assert!(!page.contains("<script") && !page.contains('\u{1b}') && !page.contains("href"), "{page}");
        assert!(page.matches("&lt;script src=//x&gt;&amp;&quot;&#39;").count() >= 6, "{page}");
        assert!(page.contains("0 of 1 passed") && page.contains("1.234 s"));
    }
}
