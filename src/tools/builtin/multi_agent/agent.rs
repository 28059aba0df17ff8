//! One sub-agent: asks the model, runs the tools that it calls, and asks again, within its own limits.

use super::options::SubAgentOptions;
use super::reporter::{ResultCollector, StepReporter};
use crate::domain::message::Message;
use crate::domain::tokens::TokenEstimator;
use crate::domain::tool::{ToolDefinition, ToolCall, ToolChoice};
use crate::domain::usage::Usage;
use crate::ports::{
    ApprovedCalls, Chunk, Completion, CancelToken, Model, ModelError, ModelRequest, ProgressReporter, ToolContext, Toolbox,
};
use std::ops::ControlFlow;
use std::time::Duration;

/// The longest wait before a call to the model is made once more.
const RETRY_WAIT: Duration = Duration::from_secs(5);
/// The wait where the provider asks for none.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// The most that one call can have cost, tokens: a slip of a provider must not spoil a day's accounts.
const CREDIBLE_TOKENS: u64 = 1_000_000_000;

/// What every agent of a call works with.
pub(super) struct AgentEnvironment<'a> {
    pub(super) model: &'a dyn Model,
    pub(super) toolbox: &'a dyn Toolbox,
    pub(super) options: SubAgentOptions,
    pub(super) context: &'a ToolContext,
    pub(super) report: &'a dyn ProgressReporter,
}

/// What an agent came to.
#[derive(Debug)]
pub(super) struct SubAgentResult {
    pub(super) result: Result<String, String>,
    pub(super) iterations: u32,
    pub(super) usage: Usage,
}

/// One agent.
pub(super) struct SubAgent<'a> {
    bench: &'a AgentEnvironment<'a>,
    told: StepReporter<'a>,
    /// Its place among the agents of the call.
    number: usize,
    cancel: CancelToken,
    tools: Vec<ToolDefinition>,
    messages: Vec<Message>,
    calls: usize,
    iterations: u32,
    usage: Usage,
}

/// What one call brought beside its completion.
#[derive(Default)]
struct SubAgentReply {
    thinking: String,
    text: String,
    spent: Option<Usage>,
}

impl<'a> SubAgent<'a> {
    /// An agent with these tools, whose time begins now.
    pub(super) fn new(bench: &'a AgentEnvironment<'a>, (number, name): (usize, &'a str), tools: Vec<ToolDefinition>) -> Self {
        let cancel = bench.context.cancel.with_timeout(Duration::from_secs(bench.options.timeout_s));
        let told = StepReporter::new(bench.report, &bench.context.id_ref, name);
        let (messages, usage) = (vec![instructions(name, bench.options.max_iterations)], Usage::default());
        Self { bench, told, number, cancel, tools, messages, calls: 0, iterations: 0, usage }
    }

    /// Works until it has an answer, or may not go on.
    pub(super) fn run(mut self, instruction: &str) -> SubAgentResult {
        self.messages.push(Message::user(instruction));
        let result = self.work();
        SubAgentResult { result, iterations: self.iterations, usage: self.usage }
    }

    fn work(&mut self) -> Result<String, String> {
        let most = self.bench.options.max_iterations;
        while self.iterations < most {
            if self.cancel.is_cancelled() {
                return Err(self.stopped());
            }
            if self.bench.context.terms.budget.is_used_up() {
                return Err("The job's max_total_tokens are used up".to_owned());
            }
            let may_call = self.iterations.saturating_add(1) < most && !self.tools.is_empty();
            let (heard, completion) = self.ask(may_call)?;
            let Completion { tool_calls, echo, .. } = completion;
            if !may_call || tool_calls.is_empty() {
                return if heard.text.trim().is_empty() { Err(self.unanswered()) } else { Ok(heard.text) };
            }
            let calls = self.numbered(tool_calls);
            let (content, thinking) = (heard.text, heard.thinking);
            self.messages.push(Message::Assistant { content, thinking, tool_calls: calls.clone(), echo });
            self.run_tools(&calls);
        }
        Err(self.unanswered())
    }

    /// One call to the model, made once more where that may help soon.
    fn ask(&mut self, may_call: bool) -> Result<(SubAgentReply, Completion), String> {
        self.iterations = self.iterations.saturating_add(1);
        let terms = &self.bench.context.terms;
        let request = ModelRequest {
            model: terms.model.clone(),
            messages: self.messages.clone(),
            tools: self.tools.clone(),
            may_call,
            temperature: terms.temperature,
            max_tokens: terms.max_tokens,
            thinking: false,
        };
        let mut may_retry = true;
        loop {
            let (heard, outcome) = self.hear(&request);
            let error = match outcome {
                Ok(completion) => {
                    self.told.said(&heard.thinking, &heard.text);
                    return Ok((heard, completion));
                }
                Err(error) => error,
            };
            match pause_before_another(&error).filter(|pause| may_retry && *pause < self.cancel.remaining()) {
                Some(pause) => self.cancel.sleep(pause),
                None if error == ModelError::Stopped || self.cancel.is_cancelled() => return Err(self.stopped()),
                None => return Err(error.to_string()),
            }
            may_retry = false;
        }
    }

    fn hear(&mut self, request: &ModelRequest) -> (SubAgentReply, Result<Completion, ModelError>) {
        let mut heard = SubAgentReply::default();
        let outcome = self.bench.model.ask(request, &self.cancel, &mut |chunk| {
            match chunk {
                Chunk::Thinking(text) => heard.thinking.push_str(text),
                Chunk::Text(text) => heard.text.push_str(text),
                Chunk::Spent(usage) if usage.total_tokens <= CREDIBLE_TOKENS => heard.spent = Some(usage),
                Chunk::Spent(_) => {}
            }
            ControlFlow::Continue(())
        });
        self.pay(request, &heard, outcome.as_ref().ok());
        (heard, outcome)
    }

    /// What nobody reported is estimated; a call of which nothing came has cost nothing.
    fn pay(&mut self, request: &ModelRequest, heard: &SubAgentReply, completion: Option<&Completion>) {
        let has_come = completion.is_some() || !heard.text.is_empty() || !heard.thinking.is_empty();
        let estimated = || {
            let estimator = TokenEstimator::of_model(&request.model);
            let calls = completion.iter().flat_map(|completion| &completion.tool_calls);
            let asked: u64 = calls.map(|call| estimator.text(&call.arguments)).sum();
            let prompt =
                estimator.messages(&request.messages).saturating_add(estimator.tools(&request.tools));
            let written = estimator.text(&heard.thinking).saturating_add(estimator.text(&heard.text));
            let price = self.bench.model.model(&request.model).map(|model| model.price).unwrap_or_default();
            Usage::new(prompt, written.saturating_add(asked)).priced(price)
        };
        let Some(usage) = heard.spent.or_else(|| has_come.then(estimated)) else { return };
        self.usage += usage;
        self.bench.context.terms.budget.spend(usage);
        self.bench.report.spent(&request.model, usage);
    }

    /// Whatever the provider calls them: an id names one call of this agent.
    fn numbered(&mut self, calls: Vec<ToolCall>) -> Vec<ToolCall> {
        let first = self.calls;
        self.calls = first.saturating_add(calls.len());
        let number = self.number;
        let name = |(n, call)| ToolCall { id_ref: format!("agent{number}_call{n}"), ..call };
        (first..).zip(calls).map(name).collect()
    }

    /// The list of its tools is held where they are run: what the model was not offered is not executed.
    fn run_tools(&mut self, calls: &[ToolCall]) {
        let bench = self.bench;
        let names = self.tools.iter().map(|tool| tool.name.to_string()).collect();
        let context = ToolContext {
            allowed: ToolChoice::Named(names),
            approved: ApprovedCalls::None,
            cancel: self.cancel.clone(),
            ..bench.context.clone()
        };
        self.told.called(calls);
        let gathered = ResultCollector::new(bench.report, &bench.context.terms.budget);
        bench.toolbox.run(calls, &context, &gathered);
        for (call, content) in gathered.in_order(calls) {
            self.told.answered(&call.name, &content);
            let (id_ref, name) = (call.id_ref.clone(), call.name.clone());
            self.messages.push(Message::Tool { id_ref, name, content });
        }
    }

    fn unanswered(&self) -> String {
        format!("No answer within {} calls to the model", self.iterations)
    }

    fn stopped(&self) -> String {
        match self.cancel.reason() {
            Some(_) => "The job was stopped".to_owned(),
            None => format!("No answer within {} s (sub_agent.timeout_s)", self.bench.options.timeout_s),
        }
    }
}

/// How long to wait before the same call is made once more; `None` where that is of no use.
fn pause_before_another(error: &ModelError) -> Option<Duration> {
    let wait = match error {
        ModelError::Busy { retry_after_ms, .. } => Duration::from_millis(*retry_after_ms),
        ModelError::Unavailable { retry_after_ms, .. } => {
            retry_after_ms.map_or(RETRY_PAUSE, Duration::from_millis)
        }
        _ => return None,
    };
    (wait <= RETRY_WAIT).then_some(wait)
}

fn instructions(name: &str, most: u32) -> Message {
    let content = format!(
        "You are the agent '{name}'. You work on one part of a larger task, on your own, while other agents work on others. Do \
         what the message asks; use the tools on offer where they help. Nobody can answer questions. After at most {most} turns \
         you must have answered: give the result itself, complete and brief, because whoever asked sees nothing else of your \
         work."
    );
    Message::System { content }
}
