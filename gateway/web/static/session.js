// One session: its history, and from where that ends its stream.

import { ask, history, sessionPath, tell } from "./api.js";
import { Composer } from "./composer.js";
import { act, announce, el, setText } from "./dom.js";
import { follow } from "./sse.js";
import { dollars, headline, modes, stateName, tokens } from "./text.js";
import { Transcript, compareCursors } from "./transcript.js";
import { View, atEnd, toEnd } from "./view.js";
import { Waterfall } from "./waterfall.js";

export class Session {
  node;
  #id;
  #changed;
  #leave = new AbortController();
  #transcript;
  #later; // events that wait until the history is read again
  #view;
  #composer;
  #waterfall;
  #title = el("h2", { class: "title" });
  #state = el("span", { class: "pill" });
  #used = el("span", { class: "used" });
  #mode = el("select", { class: "small", "aria-label": "Tool calls" });
  #banner = el("p", { class: "banner", hidden: true });
  #log = el("div", { class: "transcript", tabindex: "0", role: "region", "aria-label": "Messages" });
  #latest = el("button", { type: "button", class: "latest", hidden: true }, "Latest");

  /** changed is called when the session's line in the list may be another one. */
  constructor(id, changed) {
    this.#id = id;
    this.#changed = changed;
    this.#composer = new Composer(id, () => this.#describe());
    this.#waterfall = new Waterfall(id);
    this.#view = new View(this.#log, {
      waterfall: (task) => this.#waterfall.open(task.number),
      retryNow: (button) => act(button, () => tell("POST", sessionPath(id, "/retry-now"))),
    });
    for (const [value, text] of Object.entries(modes)) this.#mode.append(el("option", { value }, text));
    this.#mode.addEventListener("change", () => act(this.#mode, () => tell("PATCH", sessionPath(id), { approval_mode: this.#mode.value })));
    this.#log.addEventListener("scroll", () => { this.#latest.hidden = atEnd(this.#log); }, { passive: true });
    this.#latest.addEventListener("click", () => toEnd(this.#log));
    this.node = el("article", { class: "session" },
      el("header", { class: "bar" }, el("a", { class: "back", href: "#/" }, "All sessions"), this.#title,
        el("div", { class: "facts" }, this.#state, this.#used, this.#mode)),
      this.#banner, this.#log, this.#latest, this.#composer.node, this.#waterfall.node);
  }

  /** Shows the session until close. */
  async open() {
    const { signal } = this.#leave;
    try {
      await Promise.all([this.#load(), this.#describe()]);
      await follow(`${sessionPath(this.#id, "/stream")}?include=prompt`, {
        signal,
        last: () => this.#transcript.last,
        onEvent: (event) => this.#take(event),
        onConnection: (there) => this.#say(there ? "" : "The connection is lost. Trying again…"),
      });
    } catch (error) {
      if (error.status === 404) this.#gone(error.code === "deleted" ? "The session is deleted." : `There is no session ${this.#id}.`);
      else if (!signal.aborted) this.#say(error.message);
      if (error.status === 401) throw error;
    }
  }

  close() {
    this.#leave.abort();
    this.#waterfall.close();
  }

  focus() {
    this.#composer.focus();
  }

  #say(text) {
    setText(this.#banner, text);
    this.#banner.hidden = text === "";
  }

  /** What is shown stays, and there is nothing more to do to it. */
  #gone(text) {
    this.#leave.abort();
    this.#say(text);
    this.#composer.node.hidden = this.#mode.hidden = true;
  }

  /** Reads the history, in place of whatever is shown. */
  async #load() {
    const page = await history(this.#id, this.#leave.signal);
    this.#view.clear();
    this.#transcript = new Transcript(this.#view.touch);
    this.#transcript.load(page);
    this.#view.flush();
    this.#settled();
  }

  /**
   * Reads the history again, since what is shown can't be continued. What the stream says meanwhile
   * is taken afterwards; the transcript knows what of it the history had.
   */
  async #again() {
    const later = this.#later = [];
    for (let read = false; !read && !this.#leave.signal.aborted;) {
      try {
        await this.#load();
        read = true;
      } catch (error) {
        this.#say(error.message);
        await new Promise((resolve) => setTimeout(resolve, 2_000));
      }
    }
    this.#say("");
    this.#later = undefined;
    for (const event of later) this.#take(event);
  }

  #take(event) {
    if (this.#later) return void this.#later.push(event);
    const data = JSON.parse(event.data);
    if (event.name === "task_state") {
      if (compareCursors(data.cursor, this.#transcript.last) < 0) return;
      this.#transcript.settle(data.state, data.pending);
      return this.#settled();
    }
    if (event.name === "resync_required") return void this.#again();
    if (event.name === "session_deleted") {
      this.#gone("The session is deleted.");
      return this.#changed();
    }
    if (event.name) return; // of a newer gateway
    const before = this.#transcript.state;
    this.#transcript.apply(data, event.id);
    this.#noteworthy(data.payload);
    if (before !== this.#transcript.state || data.type === "event_msg") this.#settled();
  }

  /** Shows what stands beside the messages. */
  #settled() {
    const { state, tokens: used, cost, mode } = this.#transcript;
    if (this.#state.dataset.state && this.#state.dataset.state !== state) this.#changed();
    setText(this.#state, stateName(state));
    this.#state.dataset.state = state;
    setText(this.#used, used ? [tokens(used), dollars(cost)].filter(Boolean).join(" · ") : "");
    if (mode) this.#mode.value = mode;
    this.#composer.update(this.#transcript);
  }

  /** Says what those who can't see the page should hear, and looks up what the stream has not. */
  #noteworthy(p) {
    if (p.type === "approval_request") announce(`A decision is needed: ${p.name}`);
    if (p.type === "text" && p.role === "assistant") announce(headline(p.text, 400));
    if (p.type === "task_end") announce(p.status === "completed" ? "The task is completed" : `The task ended: ${p.status}`);
    if (p.type === "task_end" || p.type === "request_begin" || (p.type === "text" && p.role === "user")) this.#describe();
    if (["task_end", "request_end", "tool_call_output"].includes(p.type)) this.#waterfall.refresh();
  }

  /** Reads the session's summary: title, mode, what waits. */
  async #describe() {
    try {
      const { session } = await ask(sessionPath(this.#id), this.#leave.signal);
      setText(this.#title, session.title || this.#id);
      document.title = `${session.title || this.#id} – Braid`;
      if (session.approval_mode) this.#mode.value = session.approval_mode;
      this.#title.title = [this.#id, session.model].filter(Boolean).join(" · ");
      this.#composer.waiting(session.queue);
    } catch {
      // The next event asks again.
    }
  }
}
