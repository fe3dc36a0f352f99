// Messages to what is shown of them. A fold without document, clock or network: the same messages
// make the same transcript, whether they come from the history, as partials, or over the stream.
//
// A transcript is a list of tasks; a task has parts, and a request among them has parts of its own:
//
//	prompt    text, images              what somebody said, also in the middle of a task
//	request   attempt, model, status    one model call; what it said is in its parts
//	text      text, open
//	thinking  text, open
//	call      name, arguments, decision, output
//	note      text, tone                what else happened

/** Orders two cursors of one epoch. */
export function compareCursors(a, b) {
  const [, aSequence, aLine] = /-(\d+)\.(\d+)/.exec(a);
  const [, bSequence, bLine] = /-(\d+)\.(\d+)/.exec(b);
  return Number(aSequence) - Number(bSequence) || Number(aLine) - Number(bLine);
}

export class Transcript {
  tasks = [];
  state = "idle";
  pending = [];
  tokens = 0;
  cost = ""; // in US dollars, if it is known
  mode = "";
  last = ""; // everything up to this cursor is in

  #task; // the one that runs
  #request; // the one that runs
  #calls = new Map(); // by id
  #open = new Map(); // parts that are not complete, by kind; calls by id
  #compacting = false; // what is said meanwhile belongs to nobody's task
  #changed;

  /** changed is called with each task or part that is new or another than before. */
  constructor(changed = () => {}) {
    this.#changed = changed;
  }

  /** Takes what /messages answers. */
  load({ messages, partials = [], cursor, state, pending = [] }) {
    for (const { id, message } of messages) this.apply(message, id);
    for (const message of partials) this.apply(message);
    this.last = cursor;
    this.settle(state, pending);
  }

  /** Takes what the session is doing, from who knows. */
  settle(state, pending) {
    this.state = state;
    this.pending = pending;
  }

  /** Takes the next message. One that is in already changes nothing. */
  apply(message, id = "") {
    if (id) {
      if (this.last && compareCursors(id, this.last) <= 0) return;
      this.last = id;
    }
    if (message.origin?.length) return; // a child session has its own stream
    const { payload, timestamp, type } = message;
    const at = Date.parse(timestamp);
    if (type === "model_msg") {
      if (!this.#compacting || message.scope !== "trace") this.#model(payload, at);
    }
    else if (type === "event_msg") this.#event(payload, at);
  }

  #model(p, at) {
    const user = p.role === "user";
    switch (p.type) {
      case "text":
        if (user) return this.#said(p, at);
        return this.#complete("text", p.text, p, at);
      case "thinking": return this.#complete("thinking", p.thinking, p, at);
      case "inline_thinking": return this.#complete("thinking", "", p, at);
      case "image_url": return this.#picture(p.image_url, user, at);
      case "inline_data": return this.#picture(`data:${p.mime_type};base64,${p.data}`, user, at);
      case "tool_call": return this.#called(p, at);
      case "tool_call_output": return this.#output(p, at);
      case "partial_text": return this.#fragment("text", p, p.text, at);
      case "partial_thinking": return this.#fragment("thinking", p, p.thinking, at);
      case "partial_tool_call": return this.#callFragment(p, at);
      case "partial_tool_call_output": return this.#outputFragment(p);
    }
  }

  // What people and the harness say.

  #said(p, at) {
    if (p.sender && p.sender !== "user") {
      this.#add({ kind: "note", tone: "quiet", text: p.text }, at);
      return;
    }
    this.#prompt(at, (part) => { part.text += (part.text && "\n\n") + p.text; });
  }

  #picture(url, user, at) {
    if (user) this.#prompt(at, (part) => part.images.push(url));
    else this.#add({ kind: "note", tone: "quiet", text: "", images: [url] }, at);
  }

  /** One prompt may come as several messages; they follow one another directly. */
  #prompt(at, change) {
    const task = this.#running(at);
    let part = task.parts.at(-1);
    if (part?.kind !== "prompt") part = this.#add({ kind: "prompt", text: "", images: [], steers: task.parts.some((q) => q.kind === "request") }, at, task);
    change(part);
    this.#changed(part);
  }

  // What the model says.

  #complete(kind, text, p, at) {
    const part = this.#open.get(kind) ?? this.#add({ kind, text: "" }, at);
    this.#open.delete(kind);
    Object.assign(part, { text, open: false, status: p.stop_reason ?? "completed", ended: at });
    this.#changed(part);
  }

  #fragment(kind, p, text, at) {
    if (p.event_type === "start") {
      this.#open.set(kind, this.#add({ kind, text: "", open: true }, at));
      return;
    }
    const part = this.#open.get(kind); // without its beginning: the complete one follows
    if (!part || p.event_type === "stop") return;
    part.text += text;
    this.#changed(part);
  }

  #callFragment(p, at) {
    if (p.event_type === "start") this.#open.set(p.tool_call_id, this.#call(p.tool_call_id, p.name, at, true));
    const call = this.#calls.get(p.tool_call_id);
    if (!call || p.event_type !== "delta") return;
    call.arguments += p.arguments;
    this.#changed(call);
  }

  #called(p, at) {
    const call = this.#call(p.tool_call_id, p.name, at);
    this.#open.delete(p.tool_call_id);
    Object.assign(call, { name: p.name, arguments: p.arguments, open: false, unfinished: Boolean(p.stop_reason && p.stop_reason !== "completed") });
    this.#changed(call);
  }

  #call(id, name, at, open = false) {
    let call = this.#calls.get(id);
    if (!call) {
      call = this.#add({ kind: "call", id, name, open, arguments: "", output: "", images: [], decision: "", status: "" }, at);
      this.#calls.set(id, call);
    }
    return call;
  }

  // What tools say.

  #outputFragment(p) {
    const call = this.#calls.get(p.tool_call_id);
    if (!call) return;
    if (p.event_type === "start") Object.assign(call, { output: "", running: true });
    if (p.event_type === "delta") {
      call.output += p.output;
      call.images.push(...(p.images ?? []));
    }
    this.#changed(call);
  }

  #output(p, at) {
    const call = this.#call(p.tool_call_id, "tool", at);
    Object.assign(call, { output: p.output, images: p.images ?? [], status: p.stop_reason ?? "completed", running: false, ended: at });
    this.#changed(call);
  }

  // What happens around it.

  #event(p, at) {
    switch (p.type) {
      case "request_begin": return this.#requestBegin(p, at);
      case "request_end": return this.#requestEnd(p, at);
      case "token_usage": return this.#usage(p);
      case "approval_request": return this.#asked(p, at);
      case "approval_decision": return this.#decided(p, at);
      case "task_end": return this.#taskEnd(p, at);
      case "abort":
        this.pending = [];
        this.#closeAll();
        return;
      case "loop_detected":
        return void this.#add({ kind: "note", tone: "warn", text: `The model repeats itself: ${p.detail || `${p.repetitions} times the same`}` }, at);
      case "budget_exceeded":
        return void this.#add({ kind: "note", tone: "warn", text: `The budget is used up: ${p.used} of ${p.limit} ${p.unit}` }, at);
      case "owner_changed":
        return void this.#add({ kind: "note", tone: "quiet", text: "Another engine took over the session" }, at);
      case "session_changed":
        if (p.approval_mode) this.mode = p.approval_mode;
        return void this.#add({ kind: "note", tone: "quiet", text: "", mode: p.approval_mode }, at);
      case "session_imported":
        return void this.#add({ kind: "note", tone: "quiet", text: `${p.messages} imported messages follow` }, at);
      case "compaction_end":
        this.#compacting = false;
        return;
      case "compaction_begin":
        this.#compacting = true;
        return void this.#add({ kind: "note", tone: "quiet", text: "The context is being compacted" }, at);
    }
  }

  #requestBegin(p, at) {
    this.#closeAll();
    this.#waitIsOver(true);
    this.pending = [];
    this.state = "running";
    this.#request = this.#add({ kind: "request", attempt: p.attempt ?? 1, model: p.model ?? "", status: "", parts: [] }, at, this.#running(at));
  }

  #requestEnd(p, at) {
    const request = this.#request;
    if (p.status !== "completed") this.pending = [];
    this.#closeAll();
    this.#request = undefined;
    this.#step();
    if (!request) return;
    Object.assign(request, {
      status: p.status, ended: at, error: p.error_message ?? p.error_info?.message ?? "", retryAt: p.retry_in_ms ? at + p.retry_in_ms : 0,
      retryIn: p.retry_in_ms ?? 0, fallback: p.fallback_model ?? "",
    });
    this.#changed(request);
  }

  #usage(p) {
    this.tokens = p.session.total;
    this.cost = p.session.cost_usd ?? "";
    if (!this.#request) return;
    this.#request.usage = p.request;
    this.#changed(this.#request);
  }

  /** Nothing waits for the next attempt any more, if anything did; followed says that it begins. */
  #waitIsOver(followed = false) {
    const last = this.#task?.parts.findLast((part) => part.kind === "request");
    if (!last || last.status === "completed") return;
    Object.assign(last, { retryAt: 0, followed });
    this.#changed(last);
  }

  #asked(p, at) {
    const call = this.#call(p.tool_call_id, p.name, at);
    Object.assign(call, { asked: at, rule: p.rule ?? "" });
    this.pending = [...this.#without(p.tool_call_id), { ...p, arguments: p.arguments ?? call.arguments }];
    this.#step();
    this.#changed(call);
  }

  #decided(p, at) {
    const call = this.#call(p.tool_call_id, "tool", at);
    Object.assign(call, { decision: p.decision, decided: at, rule: p.rule ?? call.rule });
    this.pending = this.#without(p.tool_call_id);
    this.#step();
    this.#changed(call);
  }

  #without(call) {
    return this.pending.filter((p) => p.tool_call_id !== call);
  }

  #taskEnd(p, at) {
    this.#closeAll();
    this.#waitIsOver();
    const task = this.#running(at);
    Object.assign(task, { id: p.task_id ?? "", status: p.status, cause: p.cause ?? "", error: p.error_info?.message ?? "", ended: at });
    this.#task = this.#request = undefined;
    this.settle("idle", []);
    this.#changed(task);
  }

  #step() {
    this.state = this.pending.length > 0 ? "waiting" : this.#task ? "running" : "idle";
  }

  /** What is not complete now is never continued. */
  #closeAll() {
    for (const part of this.#open.values()) {
      part.open = false;
      this.#changed(part);
    }
    this.#open.clear();
  }

  /** The task that runs; one begins if none does. */
  #running(at) {
    if (!this.#task) {
      this.#task = { kind: "task", number: this.tasks.filter((t) => !t.aside).length + 1, parts: [], status: "", begun: at };
      this.tasks.push(this.#task);
      this.state = "running";
      this.#changed(this.#task);
    }
    return this.#task;
  }

  /**
   * Adds a part to the request that runs, else to the task; a note may stand between tasks. What is
   * open stays last, since that is where a reload finds it.
   */
  #add(part, at, parent) {
    parent ??= this.#request ?? (part.kind === "note" && !this.#task ? this.#aside(at) : this.#running(at));
    Object.assign(part, { parent, begun: at });
    const open = part.open ? -1 : parent.parts.findIndex((other) => other.open);
    parent.parts.splice(open < 0 ? parent.parts.length : open, 0, part);
    this.#changed(part);
    return part;
  }

  #aside(at) {
    const lastTask = this.tasks.at(-1);
    if (lastTask?.aside) return lastTask;
    const aside = { kind: "task", aside: true, number: 0, parts: [], status: "", begun: at };
    this.tasks.push(aside);
    this.#changed(aside);
    return aside;
  }
}
