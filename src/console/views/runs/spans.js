// A run's log as spans of time. The log carries no times. Exact are: the moment in the job's id, the audit's
// times of tool calls, and the arrival of events that this page saw itself. Start and end of a job are whole
// seconds. Everything else lies between its neighbours and is marked as an estimate.

import { momentOfId } from "./journal.js";

/** Events that begin or end something; pieces of text are one point at their first. */
function pointsOf(events) {
  const points = [];
  let lastStep = null;
  for (const event of events) {
    const { data } = event;
    if (event.event === "agent_step") continue;
    if (event.event === "process_step" && data.delta !== undefined) {
      if (data.id === lastStep) continue;
      lastStep = data.id;
    } else lastStep = null;
    points.push({ event, at: null, isExact: false });
  }
  return points;
}

/** Calls of tools that waited for an approval. */
function waitedCalls(points) {
  const waited = new Set();
  let asked = [];
  for (const point of points) {
    const { event, data } = point.event;
    if (event === "status" && data.status === "waiting_approval") asked.forEach((call) => waited.add(call));
    else if (event === "process_step") asked = data.type === "tool_call" ? [...asked, point] : [];
  }
  return waited;
}

/** The known times of points; audit lines are used up in order, because providers use call ids again. */
function setKnown(points, job, audit, seen) {
  const lines = audit.filter((line) => !line.id_ref.includes("/"));
  const starts = new Map();
  const waited = waitedCalls(points);
  for (const point of points) {
    const { event, data } = { event: point.event.event, data: point.event.data };
    const arrival = seen.get(point.event.id);
    if (event === "process_step" && data.type === "tool_call") {
      const at = lines.findIndex((line) => line.id_ref === data.id_ref);
      if (at >= 0) {
        const [line] = lines.splice(at, 1);
        starts.set(data.id_ref, line);
        // A call that waited for a person began long after the model had asked for it.
        const hasWaited = waited.has(point);
        Object.assign(point, { line, at: arrival ?? (hasWaited ? null : line.time_ms - line.duration_ms) });
      }
    } else if (event === "process_step" && data.type === "tool_result") {
      const line = starts.get(data.id_ref);
      if (line) Object.assign(point, { line, at: line.time_ms });
    }
    if (arrival !== undefined && point.at === null) point.at = arrival;
    point.isExact = point.at !== null;
  }
  if (points.length > 0) Object.assign(points[0], { at: momentOfId(job.id) ?? job.created_at * 1000, isExact: true });
  setSeconds(points, job);
}

/** Start and end of the job, which are known to the second. */
function setSeconds(points, job) {
  const began = points.find(({ event }) => event.event === "status" && event.data.status === "running");
  if (began && began.at === null && job.started_at) began.at = Math.max(job.started_at * 1000, points[0].at);
  const last = points.at(-1);
  const isEnd = last && ["done", "error"].includes(last.event.event);
  if (isEnd && last.at === null && job.finished_at) last.at = job.finished_at * 1000;
}

/** People are slower than machines, so most of an unknown time is theirs. */
const weightOf = ({ event }) => (event.data.status === "waiting_approval" ? 8 : event.data.status === "retrying" ? 3 : 1);

/** No time is earlier than the one before it, and the unknown ones are spread between their neighbours. */
function spread(points, openedMs, isSeen, nowMs) {
  let latest = -Infinity;
  for (const point of points) {
    if (point.at === null) continue;
    point.at = Math.max(point.at, latest);
    latest = point.at;
  }
  for (let at = 0; at < points.length; at += 1) {
    if (points[at].at !== null) continue;
    let next = at;
    while (next < points.length && points[next].at === null) next += 1;
    const from = points[at - 1]?.at ?? nowMs;
    // What this page did not see happened before it was opened.
    const latest = isSeen(points[next - 1]) ? Infinity : openedMs;
    const end = Math.min(points[next]?.at ?? nowMs, latest);
    const gaps = points.slice(at - 1, next).map(weightOf);
    const whole = gaps.reduce((sum, each) => sum + each, 0);
    let passed = 0;
    for (let each = at; each < next; each += 1) {
      passed += gaps[each - at];
      points[each].at = from + (Math.max(0, end - from) * passed) / whole;
    }
    at = next;
  }
}

/** Walks through the points and keeps what is open. */
class Walk {
  constructor() {
    Object.assign(this, { spans: [], marks: [], open: null, tools: new Map(), calls: 0, isApproved: false });
  }

  begin(kind, point, values = {}) {
    this.end(point);
    this.open = { kind, from: point.at, to: null, isExact: point.isExact, eventId: point.event.id, state: "running", ...values };
    this.spans.push(this.open);
  }

  end(point, state = "succeeded") {
    if (!this.open) return;
    Object.assign(this.open, { to: point.at, state, isExact: this.open.isExact && point.isExact });
    this.open = null;
  }

  beginModel(point) {
    this.calls += 1;
    this.begin("model", point, { number: this.calls });
  }

  mark(kind, point, text = null) {
    this.marks.push({ kind, at: point.at, text, eventId: point.event.id, isExact: point.isExact });
  }

  status(point) {
    const { status, reason } = point.event.data;
    if (status === "queued") this.queued(point, reason);
    else if (status === "running") this.running(point, reason); else if (status === "retrying") {
      this.end(point, "failed");
      this.mark("retry", point, reason);
      this.begin("pause", point, { text: reason });
    } else if (status === "waiting_approval") {
      this.end(point);
      // The calls themselves begin when somebody has agreed.
      const asked = new Set(this.tools.values());
      this.spans = this.spans.filter((span) => !asked.has(span));
      this.begin("approval", point, { state: "waiting", text: [...asked].map((span) => span.name).join(", ") });
    }
  }

  queued(point, reason) {
    // Approved calls keep waiting for a worker.
    this.isApproved = this.open?.kind === "approval";
    if (!this.isApproved) {
      // A crash leaves a model call or tools open.
      const isCrash = (this.open !== null || this.tools.size > 0) && /crash/.test(reason ?? "");
      this.cut(point);
      if (this.spans.length > 0) this.mark(isCrash ? "crash" : "again", point, reason);
    }
    this.begin("queued", point);
  }

  running(point, reason) {
    const isWaiting = this.open?.kind === "approval" || this.isApproved;
    this.isApproved = false;
    if (reason && !isWaiting) this.mark("resume", point, reason);
    if (isWaiting && this.tools.size > 0) {
      this.end(point);
      for (const span of this.tools.values()) {
        Object.assign(span, { from: point.at, isExact: point.isExact });
        this.spans.push(span);
      }
      return;
    }
    this.cut(point, this.open?.kind === "queued" ? "succeeded" : "cancelled");
    this.beginModel(point);
  }

  /** Everything that is open ends without a result. */
  cut(point, state = "cancelled") {
    for (const span of this.tools.values()) Object.assign(span, { to: point.at, state: "cancelled", isExact: false });
    this.tools.clear();
    this.end(point, state);
  }

  step(point) {
    const { data } = point.event;
    if (data.type === "tool_call") {
      if (this.open?.kind === "model") this.end(point);
      if (this.open?.kind === "pause") this.end(point);
      const span = { kind: "tool", name: data.name, callId: data.id_ref, text: data.arguments, from: point.at, to: null, state: "running", isExact: point.isExact, eventId: point.event.id };
      this.tools.set(data.id_ref, span);
      this.spans.push(span);
    } else if (data.type === "tool_result") this.result(point);
    else {
      if (this.open?.kind !== "model") this.beginModel(point);
      this.open.hasText = true;
    }
  }

  result(point) {
    const { data } = point.event;
    if (this.open?.kind === "approval") this.end(point);
    const span = this.tools.get(data.id_ref);
    if (span) {
      // A denied call has never begun.
      if (!this.spans.includes(span)) this.spans.push(Object.assign(span, { from: point.at }));
      const from = point.line ? Math.max(span.from, point.line.time_ms - point.line.duration_ms) : span.from;
      const state = data.skipped ? "cancelled" : point.line?.success === false || data.content?.startsWith('{"success":false') ? "failed" : "succeeded";
      Object.assign(span, { from, to: Math.max(point.at, from), state, isExact: span.isExact && point.isExact, level: point.line?.level });
      this.tools.delete(data.id_ref);
    }
    if (this.tools.size === 0 && !this.open) this.beginModel(point);
  }

  take(point) {
    const kind = point.event.event;
    if (kind === "status") this.status(point);
    else if (kind === "process_step") this.step(point);
    else if (kind === "summary") this.mark("summary", point);
    else if (kind === "gap") this.mark("gap", point);
    else if (kind === "done" || kind === "error") {
      const { code, content } = point.event.data;
      const state = kind === "done" ? "succeeded" : code === "cancelled" ? "cancelled" : "failed";
      this.cut(point, state);
      this.mark(state, point, content ?? null);
    }
  }
}

/** Calls of sub-agents, whose times are in the audit alone. */
function agentSpans(audit) {
  return audit
    .filter((line) => line.id_ref.includes("/"))
    .map((line) => ({
      kind: "agent",
      name: line.tool,
      callId: line.id_ref,
      from: line.time_ms - line.duration_ms,
      to: line.time_ms,
      state: line.skipped ? "cancelled" : line.success ? "succeeded" : "failed",
      isExact: true,
      level: line.level,
    }));
}

/** `{spans, marks, from, to}` in unix milliseconds; a span without end goes on until `nowMs`. */
export function spansOf(job, { events, seen, openedMs }, audit, nowMs) {
  const points = pointsOf(events);
  setKnown(points, job, audit, seen);
  spread(points, openedMs, (point) => seen.has(point.event.id), nowMs);
  const walk = new Walk();
  for (const point of points) walk.take(point);
  const spans = [...walk.spans, ...agentSpans(audit)].sort((a, b) => a.from - b.from || (a.to ?? Infinity) - (b.to ?? Infinity));
  const times = [...spans.flatMap((span) => [span.from, span.to ?? nowMs]), ...walk.marks.map((mark) => mark.at)];
  const from = times.length ? Math.min(...times) : nowMs;
  return { spans, marks: walk.marks, from, to: Math.max(from + 1, ...times) };
}
