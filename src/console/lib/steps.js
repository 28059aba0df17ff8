// Folds a job's events into what a page shows: steps in order, status, waiting approvals, end.

/** A run before its first event. */
export const emptyRun = () => ({
  lastId: 0,
  status: "queued",
  attempt: 0,
  reason: null,
  waitingCalls: [],
  steps: [],
  agentSteps: {},
  summaries: 0,
  gap: null,
  done: null,
  error: null,
});

/** The position of the step with this index, or where it belongs. */
function place(steps, index) {
  let at = steps.length;
  while (at > 0 && steps[at - 1].index >= index) at -= 1;
  return at;
}

function put(steps, step) {
  const at = place(steps, step.index);
  const isThere = steps[at]?.index === step.index;
  const next = steps.slice();
  next.splice(at, isThere ? 1 : 0, step);
  return next;
}

function withStep(run, data) {
  if (data.delta === undefined) return { ...run, steps: put(run.steps, data) };
  const at = place(run.steps, data.index);
  const old = run.steps[at]?.index === data.index ? run.steps[at].content : "";
  // A piece at offset 0 begins the step anew.
  const content = data.offset === 0 ? data.delta : old + data.delta;
  return { ...run, steps: put(run.steps, { ...data, delta: undefined, content }) };
}

function withStatus(run, data) {
  const waitingCalls = data.status === "waiting_approval" ? (data.calls ?? []) : [];
  // A retry goes on behind the error of the attempt before.
  const ends = { done: null, error: null };
  return { ...run, ...ends, status: data.status, attempt: data.attempt, reason: data.reason ?? null, waitingCalls };
}

function withAgentStep(run, data) {
  const list = (run.agentSteps[data.id_ref] ?? []).concat(data);
  return { ...run, agentSteps: { ...run.agentSteps, [data.id_ref]: list } };
}

/** The run after one more event. Pure. */
export function fold(run, { id, event, data }) {
  const next = { ...run, lastId: Math.max(run.lastId, id) };
  switch (event) {
    case "status":
      return withStatus(next, data);
    case "process_step":
      return withStep(next, data);
    case "step_discarded":
      return { ...next, steps: next.steps.filter((step) => step.id !== data.id) };
    case "agent_step":
      return withAgentStep(next, data);
    case "summary":
      return { ...next, summaries: next.summaries + 1 };
    case "gap":
      return { ...next, gap: data };
    case "done":
      return { ...next, status: "succeeded", waitingCalls: [], done: data };
    case "error":
      return { ...next, status: data.code === "cancelled" ? "cancelled" : "failed", waitingCalls: [], error: data };
    default:
      return next;
  }
}

/** Calls with their results beside them: the steps that a page draws. */
export function shownSteps(run) {
  const results = new Map();
  const shown = [];
  for (let at = run.steps.length - 1; at >= 0; at -= 1) {
    const step = run.steps[at];
    if (step.type === "tool_result") results.set(step.id_ref, step);
    else if (step.type === "tool_call") {
      // Providers may use an id again: the nearest later result belongs to the call.
      shown.push({ ...step, result: results.get(step.id_ref) ?? null });
      results.delete(step.id_ref);
    } else if (step.type !== "arguments") shown.push(step); // the whole call follows
  }
  return shown.reverse();
}

export const isOver = (status) => ["succeeded", "failed", "cancelled"].includes(status);
