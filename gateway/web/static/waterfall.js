// A task as a waterfall: what took how long, and what waited for what. It is made of the messages
// that are stored, never of a stream that was watched, so it is the same for everybody.

import { history } from "./api.js";
import { el, setText } from "./dom.js";
import { dollars, duration, headline, readableArguments, tokens } from "./text.js";
import { Transcript } from "./transcript.js";

/** The bars of a task: {kind, label, from, to, note}, times in milliseconds. */
export function bars(task, now) {
  const found = [];
  const requests = task.parts.filter((part) => part.kind === "request");
  requests.forEach((request, i) => {
    const to = request.ended ?? now;
    const what = request.attempt > 1 ? `Model, attempt ${request.attempt}` : "Model";
    found.push({
      kind: request.status && request.status !== "completed" ? "failed" : "model", label: what, from: request.begun, to,
      note: [request.status !== "completed" && request.status, request.model, request.usage && tokens(request.usage.total), dollars(request.usage?.cost_usd)].filter(Boolean).join(" · "),
    });
    for (const call of request.parts.filter((part) => part.kind === "call")) found.push(...callBars(call, task, now));
    const next = requests[i + 1];
    if (request.retryIn > 1 && request.ended) {
      found.push({ kind: "wait", label: "Wait before next attempt", from: request.ended, to: next?.begun ?? task.ended ?? now, note: "" });
    }
  });
  return found;
}

function callBars(call, task, now) {
  const what = headline(`${call.name} ${readableArguments(call.arguments)}`, 60);
  const end = call.ended ?? task.ended ?? now;
  const found = [];
  if (call.asked) found.push({ kind: "wait", label: "Waiting for a decision", from: call.asked, to: call.decided ?? end, note: call.decision });
  if (call.decision === "allow") {
    found.push({ kind: call.status && call.status !== "completed" ? "failed" : "tool", label: what, from: call.decided, to: end, note: call.status === "completed" ? "" : call.status });
  } else if (!call.asked) found.push({ kind: "failed", label: what, from: call.begun, to: end, note: call.decision });
  return found;
}

export class Waterfall {
  node;
  #id;
  #number = 0;
  #reading = false;
  #again = false;
  #title = el("h2", {});
  #sum = el("p", { class: "hint" });
  #rows = el("tbody", {});

  constructor(id) {
    this.#id = id;
    const close = el("button", { type: "button", onclick: () => this.close() }, "Close");
    this.node = el("dialog", { class: "waterfall", "aria-label": "Timeline" },
      el("header", { class: "row" }, this.#title, el("span", { class: "gap" }), close), this.#sum,
      el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Timeline" },
        el("table", {}, el("thead", {}, el("tr", {}, ...["Step", "Start", "Duration", ""].map((head) => el("th", { scope: "col" }, head)))), this.#rows)));
  }

  /** Shows the task of that number. */
  open(number) {
    this.#number = number;
    setText(this.#title, `Task ${number}`);
    this.#rows.replaceChildren();
    this.node.showModal();
    this.refresh();
  }

  close() {
    this.node.close();
  }

  /** Reads the stored messages again, if it is open. */
  async refresh() {
    if (!this.node.open) return;
    if (this.#reading) {
      this.#again = true;
      return;
    }
    this.#reading = true;
    try {
      const { messages } = await history(this.#id);
      const stored = new Transcript();
      for (const { id, message } of messages) stored.apply(message, id);
      const task = stored.tasks.find((t) => t.number === this.#number);
      if (task) this.#show(task);
    } catch (error) {
      setText(this.#sum, error.message);
    }
    this.#reading = false;
    if (this.#again) {
      this.#again = false;
      this.refresh();
    }
  }

  #show(task) {
    const now = task.ended ?? Date.now();
    const all = bars(task, now);
    const from = task.begun;
    const span = Math.max(1, now - from);
    const sum = (kind) => duration(all.filter((bar) => bar.kind === kind).reduce((ms, bar) => ms + bar.to - bar.from, 0));
    setText(this.#sum, `${task.ended ? "Took" : "Running for"} ${duration(now - from)}: models ${sum("model")}, tools ${sum("tool")}, waits ${sum("wait")}`);
    this.#rows.replaceChildren(...all.map((bar) => this.#row(bar, from, span)));
  }

  #row(bar, from, span) {
    const mark = el("span", { class: `mark ${bar.kind}` });
    const took = Math.max(0, bar.to - bar.from);
    mark.style.left = `min(${(100 * Math.max(0, bar.from - from)) / span}%, 100% - 2px)`;
    mark.style.width = `${Math.min(100, (100 * took) / span)}%`;
    return el("tr", {},
      el("th", { scope: "row" }, el("span", { class: "label" }, bar.label), bar.note && el("span", { class: "hint" }, bar.note)),
      el("td", {}, `+${duration(Math.max(0, bar.from - from))}`),
      el("td", {}, duration(took)),
      el("td", { class: "track", "aria-hidden": "true" }, el("span", { class: "lane" }, mark)));
  }
}
