//! One sub-agent: calls the model, runs the requested tools, and repeats both within its own limits.

use super::options::SubAgentOptions;
use super::reporter::{AgentToolResult, ResultCollector, StepReporter};
use crate::domain::approval::{beyond_limit, denied_result};
use crate::domain::call_times::CallTimes;
use crate::domain::job_rights::JobRights;
use crate::domain::message::Message;
use crate::domain::model_settings::ModelSettings;
use crate::domain::tokens::TokenEstimator;
use crate::domain::tool::{ToolCall, ToolChoice, ToolDefinition};
use crate::domain::usage::Usage;
use crate::ports::{
    ApprovedCalls, CancelToken, Chunk, Completion, Journal, Model, ModelCaller, ModelError, ModelInfo,
    ModelRequest, ProgressReporter, SeenFiles, ToolContext, ToolOutcome, ToolScope, Toolbox, WorkspaceOwner,
};
use std::ops::ControlFlow;
use std::time::Duration;

/// The longest wait before a model call is repeated.
const MAX_RETRY_WAIT: Duration = Duration::from_secs(5);
/// The wait if the provider names none.
const DEFAULT_RETRY_WAIT: Duration = Duration::from_millis(500);
/// The largest plausible usage of one call: an error of a provider must not spoil the accounts.
const PLAUSIBLE_TOKENS: u64 = 1_000_000_000;

/// The end of the last prompt.
const LAST_CALL: &str = "\n\n[Note of the server: This is your last call: no tool runs any more. Answer now, \
                         without tools: give the result.]";

/// The parts that all agents of a call share.
pub(super) struct AgentEnvironment<'a> {
    pub(super) model: &'a dyn Model,
    pub(super) toolbox: &'a dyn Toolbox,
    pub(super) options: SubAgentOptions,
    pub(super) context: &'a ToolContext,
    pub(super) report: &'a dyn ProgressReporter,
}

impl AgentEnvironment<'_> {
    /// What these tools say to the model, as to that of the job: skills and memory, within their limits.
    fn tool_instructions(&self, tools: &[ToolDefinition]) -> Vec<String> {
        let scope = ToolScope { choice: &choice_of(tools), ..self.context.scope() };
        self.toolbox.instructions(&scope, WorkspaceOwner::from(self.context))
    }
}

/// The result of one agent.
#[derive(Debug)]
pub(super) struct SubAgentResult {
    pub(super) result: Result<String, String>,
    pub(super) iterations: u32,
    pub(super) usage: Usage,
}

/// One agent.
pub(super) struct SubAgent<'a> {
    environment: &'a AgentEnvironment<'a>,
    steps: StepReporter<'a>,
    /// Its index among the agents of the call.
    number: usize,
    cancel: CancelToken,
    tools: Vec<ToolDefinition>,
    messages: Vec<Message>,
    /// The agent has seen other files than the job's model.
    seen_files: SeenFiles,
    calls: usize,
    iterations: u32,
    usage: Usage,
}

/// The output of one model call.
#[derive(Default)]
struct SubAgentReply {
    thinking: String,
    text: String,
    spent: Option<Usage>,
}

impl<'a> SubAgent<'a> {
    /// An agent with these tools. Its time limit starts now.
    pub(super) fn new(
        environment: &'a AgentEnvironment<'a>,
        (number, name): (usize, &'a str),
        tools: Vec<ToolDefinition>,
    ) -> Self {
        let cancel =
            environment.context.cancel.with_timeout(Duration::from_secs(environment.options.timeout_s));
        let steps = StepReporter::new(environment.report, &environment.context.id_ref, name);
        let mut instructions = vec![instructions(name, environment.options.max_iterations)];
        instructions.extend(environment.tool_instructions(&tools));
        let messages = vec![Message::System { content: instructions.join("\n\n") }];
        let (seen_files, usage) = (SeenFiles::default(), Usage::default());
        Self {
            environment,
            steps,
            number,
            cancel,
            tools,
            messages,
            seen_files,
            calls: 0,
            iterations: 0,
            usage,
        }
    }

    /// Works until it has an answer or reaches a limit.
    pub(super) fn run(mut self, instruction: &str) -> SubAgentResult {
        self.messages.push(Message::user(instruction));
        let result = self.work();
        SubAgentResult { result, iterations: self.iterations, usage: self.usage }
    }

    fn work(&mut self) -> Result<String, String> {
        let max_iterations = self.environment.options.max_iterations;
        while self.iterations < max_iterations {
            if self.cancel.is_cancelled() {
                return Err(self.stopped());
            }
            if let Some(limit) = self.environment.context.terms.budget.used_up() {
                return Err(format!("The job's {limit} is used up"));
            }
            let may_call = self.iterations.saturating_add(1) < max_iterations && !self.tools.is_empty();
            let (reply, completion) = self.call_model_with_retry(may_call)?;
            let Completion { tool_calls, echo, .. } = completion;
            if !may_call || tool_calls.is_empty() {
                return if reply.text.trim().is_empty() { Err(self.no_answer()) } else { Ok(reply.text) };
            }
            let calls = self.with_ids(tool_calls);
            let (content, thinking) = (reply.text, reply.thinking);
            self.messages.push(Message::Assistant { content, thinking, tool_calls: calls.clone(), echo });
            self.run_tools(&calls);
        }
        Err(self.no_answer())
    }

    /// Calls the model, and repeats the call once after a short pause if that may help.
    fn call_model_with_retry(&mut self, may_call: bool) -> Result<(SubAgentReply, Completion), String> {
        self.iterations = self.iterations.saturating_add(1);
        let ToolContext { user, job, terms, .. } = &self.environment.context;
        let caller = ModelCaller { user: *user, job: Some(*job) };
        let request = ModelRequest {
            caller,
            model: terms.model.clone(),
            messages: self.prompt(may_call),
            tools: self.tools.clone(),
            may_call,
            temperature: terms.temperature,
            max_tokens: terms.max_tokens,
            thinking: false,
            settings: ModelSettings::default(),
        };
        let mut may_retry = true;
        loop {
            let (reply, outcome) = self.call_model(&request);
            let error = match outcome {
                Ok(completion) => {
                    self.steps.model_replied(&reply.thinking, &reply.text);
                    return Ok((reply, completion));
                }
                Err(error) => error,
            };
            match retry_wait(&error).filter(|wait| may_retry && *wait < self.cancel.remaining()) {
                Some(wait) => self.cancel.sleep(wait),
                None if error == ModelError::Stopped || self.cancel.is_cancelled() => {
                    return Err(self.stopped());
                }
                None => {
                    let info = self.environment.model.model(&request.model).unwrap_or_default();
                    return Err(error.at(&ModelInfo { id: request.model.clone(), ..info }).to_string());
                }
            }
            may_retry = false;
        }
    }

    /// The messages of the next call. In the last call, the newest result tells the agent to answer.
    fn prompt(&self, may_call: bool) -> Vec<Message> {
        let mut messages = self.messages.clone();
        if let (false, Some(Message::Tool { content, .. })) = (may_call, messages.last_mut()) {
            content.push_str(LAST_CALL);
        }
        messages
    }

    fn call_model(&mut self, request: &ModelRequest) -> (SubAgentReply, Result<Completion, ModelError>) {
        let mut reply = SubAgentReply::default();
        let started_at_ms = self.cancel.clock().now_ms();
        let outcome = self.environment.model.ask(request, &self.cancel, &mut |chunk| {
            match chunk {
                Chunk::Thinking(text) => reply.thinking.push_str(text),
                Chunk::Text(text) => reply.text.push_str(text),
                Chunk::TextWasThinking => reply.thinking.push_str(std::mem::take(&mut reply.text).trim()),
                Chunk::Spent(usage) if usage.total_tokens <= PLAUSIBLE_TOKENS => reply.spent = Some(usage),
                Chunk::Spent(_) | Chunk::Call { .. } | Chunk::CaughtUp => {}
            }
            ControlFlow::Continue(())
        });
        let times = CallTimes { started_at_ms, ended_at_ms: self.cancel.clock().now_ms() };
        self.count_usage(request, &reply, &outcome, times);
        (reply, outcome)
    }

    /// Counts the tokens of a call. Missing numbers are estimated. A call without output costs nothing, and
    /// is reported only if it failed by itself.
    fn count_usage(
        &mut self,
        request: &ModelRequest,
        reply: &SubAgentReply,
        outcome: &Result<Completion, ModelError>,
        times: CallTimes,
    ) {
        let completion = outcome.as_ref().ok();
        let has_output = completion.is_some() || !reply.text.is_empty() || !reply.thinking.is_empty();
        let estimate = || {
            let estimator = TokenEstimator::of_model(&request.model);
            let calls = completion.iter().flat_map(|completion| &completion.tool_calls);
            let arguments: u64 = calls.map(|call| estimator.text(&call.arguments)).sum();
            let prompt =
                estimator.messages(&request.messages).saturating_add(estimator.tools(&request.tools));
            let output = estimator.text(&reply.thinking).saturating_add(estimator.text(&reply.text));
            let price = self
                .environment
                .model
                .model(&request.model)
                .and_then(|model| model.price)
                .unwrap_or_default();
            Usage::new(prompt, output.saturating_add(arguments)).priced(price)
        };
        let spent = reply.spent.or_else(|| has_output.then(estimate));
        if spent.is_none() && matches!(outcome, Err(ModelError::Stopped)) {
            return;
        }
        let usage = spent.unwrap_or_default();
        self.usage += usage;
        self.environment.context.terms.budget.spend(usage);
        let response_model = completion.and_then(|completion| completion.response_model.clone());
        let call = self.steps.model_call(response_model, outcome.is_err(), times);
        self.environment.report.spent(&request.model, usage, Some(call));
    }

    /// Gives the calls ids that are unique within this agent.
    fn with_ids(&mut self, calls: Vec<ToolCall>) -> Vec<ToolCall> {
        let first = self.calls;
        self.calls = first.saturating_add(calls.len());
        let number = self.number;
        let name = |(n, call)| ToolCall { id_ref: format!("agent{number}_call{n}"), ..call };
        (first..).zip(calls).map(name).collect()
    }

    /// Runs the calls. The executor refuses tools that the agent was not offered.
    fn run_tools(&mut self, calls: &[ToolCall]) {
        let environment = self.environment;
        let rights = JobRights { tools: choice_of(&self.tools), ..environment.context.rights.clone() };
        let most = rights.max_tool_calls.unwrap_or(u32::MAX);
        let context = ToolContext {
            rights,
            approved: ApprovedCalls::None,
            cancel: self.cancel.clone(),
            seen_files: self.seen_files.clone(),
            ..environment.context.clone()
        };
        self.steps.tools_called(calls);
        let (budget, clock) = (&environment.context.terms.budget, &**self.cancel.clock());
        let collector = ResultCollector::new(environment.report, budget, clock);
        let (made, beyond): (Vec<ToolCall>, Vec<ToolCall>) =
            calls.iter().cloned().partition(|_| budget.take_tool_call());
        environment.toolbox.run(&made, &context, &collector);
        for call in &beyond {
            let denial = denied_result(&beyond_limit(most));
            collector.finished(call, ToolOutcome { content: denial, skipped: true, full_result: None });
        }
        for (call, AgentToolResult { content, times }) in collector.in_order(calls) {
            self.steps.tool_finished(&call.name, &content, times);
            let (id_ref, name) = (call.id_ref.clone(), call.name.clone());
            self.messages.push(Message::Tool { id_ref, name, content });
        }
    }

    fn no_answer(&self) -> String {
        format!("No answer within {} calls to the model", self.iterations)
    }

    fn stopped(&self) -> String {
        match self.cancel.reason() {
            Some(_) => "The job was stopped".to_owned(),
            None => {
                format!("No answer within {} s (sub_agent.timeout_s)", self.environment.options.timeout_s)
            }
        }
    }
}

/// How long to wait before the call is repeated; `None` if that cannot help.
fn retry_wait(error: &ModelError) -> Option<Duration> {
    let wait = match error {
        ModelError::Busy { retry_after_ms, .. } => Duration::from_millis(*retry_after_ms),
        ModelError::RateLimited { retry_after_ms, .. } | ModelError::Unavailable { retry_after_ms, .. } => {
            retry_after_ms.map_or(DEFAULT_RETRY_WAIT, Duration::from_millis)
        }
        _ => return None,
    };
    (wait <= MAX_RETRY_WAIT).then_some(wait)
}

/// The choice of exactly these tools.
fn choice_of(tools: &[ToolDefinition]) -> ToolChoice {
    ToolChoice::of_tools(tools.iter().map(|tool| tool.name.to_string()))
}

fn instructions(name: &str, max_turns: u32) -> String {
    format!(
        "You are the agent '{name}'. You work on one part of a larger task, on your own, while other agents work on others. Do \
         what the message asks; use the tools on offer where they help. Nobody can answer questions. After at most {max_turns} turns \
         you must have answered: give the result itself, complete and brief, because the asking agent sees nothing else of your \
         work."
    )
}
