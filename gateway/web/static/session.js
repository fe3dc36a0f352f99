// One session: its history, and from where that ends its stream.

import { ask, backOff, history, persist, sessionPath, tell } from "./api.js";
import { Composer } from "./composer.js";
import { Details } from "./details.js";
import { act, announce, el, entitle, setText } from "./dom.js";
import { whileSeen } from "./seen.js";
import { back } from "./sessions.js";
import { follow } from "./sse.js";
import { dollars, headline, modes, newest, standing, tokens } from "./text.js";
import { Transcript, compareCursors } from "./transcript.js";
import { View, atEnd, toEnd } from "./view.js";
import { Waterfall } from "./waterfall.js";

export class Session {
  node;
  #id;
  #leave = new AbortController();
  #summary; // the newest there was
  #transcript; // none until the history is read, and when it has to be read again
  #stale = new AbortController(); // ends a stream that can't be continued
  #resyncs = 0; // in a row
  #view;
  #composer;
  #details;
  #waterfall;
  #title = el("h2", { class: "title" });
  #state = el("span", { class: "pill" });
  #used = el("span", { class: "used" });
  #mode = el("select", { class: "small", "aria-label": "Tool calls" }, ...Object.entries(modes).map(([value, text]) => el("option", { value }, text)));
  #about = el("button", { type: "button", class: "quiet about" }, "Details");
  #banner = el("p", { class: "banner", role: "status", hidden: true });
  #log = el("div", { class: "transcript", tabindex: "0", role: "region", "aria-label": "Messages" });
  #latest = el("button", { type: "button", class: "latest", hidden: true }, "Latest");

  constructor(id) {
    this.#id = id;
    this.#composer = new Composer(id, () => this.#describe());
    this.#details = new Details(id, () => this.#transcript?.state !== "idle");
    this.#waterfall = new Waterfall(id);
    this.#view = new View(this.#log, {
      waterfall: (task) => this.#waterfall.open(task.number),
      retryNow: (button) => act(button, () => tell("POST", sessionPath(id, "/retry-now"))),
    });
    this.#mode.addEventListener("change", () => this.#setMode());
    this.#about.addEventListener("click", () => this.#details.open());
    this.#log.addEventListener("scroll", () => { this.#latest.hidden = atEnd(this.#log); }, { passive: true });
    this.#latest.addEventListener("click", () => toEnd(this.#log));
    this.node = el("article", { class: "session" },
      el("header", { class: "bar" }, back(), this.#title,
        el("div", { class: "facts" }, this.#state, this.#used, this.#about, this.#mode)),
      this.#banner, el("div", { class: "room" }, this.#log, this.#latest), this.#composer.node, this.#details.node, this.#waterfall.node);
    this.#locked(true);
    this.#say("Loading…", true);
  }

  /** Shows the session until close. */
  async open() {
    const { signal } = this.#leave;
    try {
      await whileSeen(signal, (seen) => this.#live(seen));
    } catch (error) {
      if (signal.aborted) return;
      if (error.code === "deleted") this.#deleted();
      else if (error.status === 404) this.#gone(`There is no session ${this.#id}.`);
      else this.#gone(`${error.message} Nothing more is shown.`);
    }
  }

  /** Takes the summary of a session, of this one or another. */
  told(session) {
    if (session.id === this.#id && session !== this.#summary && !this.#leave.signal.aborted) this.#show(session);
  }

  close() {
    this.#leave.abort();
    this.#details.close();
    this.#waterfall.close();
  }

  #say(text, calm = false) {
    setText(this.#banner, text);
    this.#banner.classList.toggle("calm", calm);
    this.#banner.hidden = text === "";
  }

  /** Whether nothing can be done to the session. */
  #locked(is) {
    this.#composer.node.hidden = this.#mode.hidden = this.#about.hidden = this.#state.hidden = is;
    this.node.classList.toggle("locked", is);
  }

  /** What is shown stays, and there is nothing more to do to it. */
  #gone(text) {
    this.#leave.abort();
    this.#locked(true);
    this.#details.close();
    this.#say(text);
  }

  #deleted() {
    this.#gone("This session was deleted.");
    this.#stands({ state: "deleted" });
  }

  async #setMode() {
    const changed = await act(this.#mode, () => tell("PATCH", sessionPath(this.#id), { approval_mode: this.#mode.value }));
    if (!changed) this.#describe(); // what holds is another one than is chosen
  }

  /** Reads history and stream, from the beginning whenever what is shown can't be continued. */
  async #live(signal) {
    while (!signal.aborted) {
      if (!this.#transcript) await this.#load(signal);
      this.#stale = new AbortController();
      await follow(`${sessionPath(this.#id, "/stream")}?include=prompt`, {
        signal: AbortSignal.any([signal, this.#stale.signal]),
        last: () => this.#transcript.last,
        onEvent: (event) => this.#take(event),
        onConnection: (there) => this.#say(there ? "" : "Connection lost. Reconnecting…"),
      });
      if (!this.#transcript) await backOff(this.#resyncs++, signal);
    }
  }

  /** Reads the history, in place of whatever is shown. */
  async #load(signal) {
    const read = () => Promise.all([history(this.#id, signal), ask(sessionPath(this.#id), signal)]);
    const [page, { session }] = await persist(read, { signal, onTrouble: (error) => this.#say(`${error.message} Trying again…`) });
    this.#view.clear();
    this.#transcript = new Transcript(this.#view.touch);
    this.#transcript.load(page);
    this.#view.flush();
    this.#locked(false);
    this.#say("");
    this.#settled();
    this.#show(session);
  }

  #take(event) {
    if (event.name === "resync_required") {
      this.#transcript = undefined;
      return this.#stale.abort();
    }
    if (event.name === "session_deleted") return this.#deleted();
    const data = JSON.parse(event.data);
    if (event.name === "task_state") {
      if (compareCursors(data.cursor, this.#transcript.last) < 0) return;
      this.#transcript.settle(data.state, data.pending);
      return this.#settled();
    }
    if (event.name) return; // of a newer gateway
    this.#resyncs = 0;
    const before = this.#transcript.state;
    this.#transcript.apply(data, event.id);
    this.#noteworthy(data.payload);
    if (before !== this.#transcript.state || data.type === "event_msg") this.#settled();
  }

  /** Shows what stands beside the messages. */
  #settled() {
    const { state, tokens: used, cost, mode, tasks } = this.#transcript;
    this.#stands({ state, task_status: tasks.findLast((task) => task.status)?.status });
    setText(this.#used, used ? [tokens(used), dollars(cost)].filter(Boolean).join(" · ") : "");
    if (mode) this.#mode.value = mode;
    this.#composer.update(this.#transcript);
  }

  #stands(session) {
    const { kind, words } = standing(session);
    setText(this.#state, words);
    this.#state.dataset.state = kind;
    this.#state.hidden = false;
  }

  /** Says what those who can't see the page should hear, and has the waterfall grow. */
  #noteworthy(p) {
    if (p.type === "approval_request") announce(`A decision is needed: ${p.name}`);
    if (p.type === "text" && p.role === "assistant") announce(headline(p.text, 400));
    if (p.type === "task_end") announce(p.status === "completed" ? "Task completed" : `Task ended: ${p.status}`);
    if (["task_end", "request_end", "tool_call_output"].includes(p.type)) this.#waterfall.refresh();
  }

  /** Reads the session's summary, for who has just changed it: news of it may take a moment. */
  async #describe() {
    try {
      this.#show((await ask(sessionPath(this.#id), this.#leave.signal)).session);
    } catch {
      // News of the session comes anyway.
    }
  }

  /** Shows a summary, unless a newer one came before; the history has to be there first. */
  #show(summary) {
    const session = this.#summary = newest(this.#summary, summary);
    if (!this.#transcript) return;
    setText(this.#title, session.title || this.#id);
    entitle({ subject: session.title || this.#id });
    if (session.approval_mode) this.#mode.value = session.approval_mode;
    this.#composer.waiting(session.queue);
    this.#details.update(session);
  }
}
