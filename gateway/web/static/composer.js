// What a person does to a session: prompts, decisions on tool calls, aborting, taking back.

import { sessionPath, tell } from "./api.js";
import { act, el, setText } from "./dom.js";
import { headline, readableArguments } from "./text.js";

const drafts = new Map(); // what was not sent, by session: it outlives a look at another one

/** Keeps a prompt to be sent later. */
export function keepDraft(id, text) {
  if (text) drafts.set(id, text);
  else drafts.delete(id);
}

let shown; // the composer that is

export class Composer {
  node;
  #id;
  #changed;
  #prompt = el("textarea", { id: "say", rows: "1", "aria-label": "Prompt", placeholder: "Message", enterkeyhint: "send" });
  #busy = el("select", { "aria-label": "If a task is running", class: "small" }, el("option", { value: "steer" }, "Add to this task"), el("option", { value: "queue" }, "Run afterwards"));
  #send = el("button", { type: "submit", class: "primary" }, "Send");
  #stop = el("button", { type: "button", class: "stop", hidden: true }, "Stop");
  #question = el("section", { class: "question", "aria-label": "A decision is needed", hidden: true });
  #queue = el("ul", { class: "queue", "aria-label": "Queued prompts", hidden: true });
  #asked = "";
  #waits = "";

  /** changed is called when the session's summary should be read again. */
  constructor(id, changed) {
    shown = this;
    this.#id = id;
    this.#changed = changed;
    this.#stop.addEventListener("click", () => act(this.#stop, () => tell("POST", sessionPath(id, "/abort"), {})));
    this.#prompt.value = drafts.get(id) ?? "";
    this.#prompt.addEventListener("input", () => { keepDraft(id, this.#prompt.value); this.#grow(); });
    this.#prompt.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      form.requestSubmit();
    });
    const form = el("form", { onsubmit: (event) => this.#submit(event) }, this.#prompt,
      el("div", { class: "row" }, this.#busy, el("span", { class: "gap" }), this.#stop, this.#send));
    this.node = el("div", { class: "composer" }, this.#question, this.#queue, form);
  }

  /** Shows what can be done in a state. */
  update({ state, pending }) {
    const busy = state !== "idle";
    this.#stop.hidden = this.#busy.hidden = !busy;
    const next = pending[0];
    if ((next?.tool_call_id ?? "") === this.#asked) return;
    this.#asked = next?.tool_call_id ?? "";
    this.#question.replaceChildren(...(next ? this.#ask(next, pending.length) : []));
    this.#question.hidden = !next;
  }

  /** Shows the prompts that wait. */
  waiting(queue) {
    const waits = JSON.stringify(queue);
    if (waits === this.#waits) return;
    this.#waits = waits;
    const focused = this.#queue.contains(document.activeElement);
    this.#queue.replaceChildren(...queue.map(({ task_id, prompt, steers }) => {
      const back = el("button", { type: "button", class: "quiet" }, "Remove");
      back.addEventListener("click", () => act(back, async () => {
        await tell("DELETE", sessionPath(this.#id, `/tasks/${encodeURIComponent(task_id)}`));
        this.#changed();
      }));
      return el("li", {}, el("span", { class: "state" }, steers ? "Will be added" : "Queued"), el("span", { class: "words" }, headline(prompt)), back);
    }));
    this.#queue.hidden = queue.length === 0;
    if (focused) (this.#queue.querySelector("button") ?? this.#prompt).focus();
  }

  #ask(call, count) {
    const decide = (decision) => (event) => act(event.currentTarget, () => tell("POST",
      sessionPath(this.#id, `/approvals/${encodeURIComponent(call.tool_call_id)}`), { decision, hash: call.hash }));
    return [
      el("h3", {}, `May it run ${call.name}?`),
      el("pre", { class: "given", tabindex: "0", "aria-label": "Arguments" }, readableArguments(call.arguments)),
      el("p", { class: "hint", hidden: !call.rule && !call.deadline && count < 2 }, [
        call.rule && `Asked by the rule ${call.rule}.`,
        call.deadline && `Denied without an answer by ${new Date(call.deadline).toLocaleTimeString()}.`,
        count > 1 && `${count - 1} more after this.`].filter(Boolean).join(" ")),
      el("div", { class: "row" },
        el("button", { type: "button", class: "primary", onclick: decide("allow") }, "Allow"),
        el("button", { type: "button", onclick: decide("deny") }, "Deny")),
    ];
  }

  /** Sends the prompt, once. It comes back if it can't be sent, before what was written meanwhile. */
  #submit(event) {
    event.preventDefault();
    const prompt = this.#prompt.value;
    if (!prompt.trim() || this.#send.disabled) return;
    this.#write("");
    act(this.#send, async () => {
      try {
        await tell("POST", sessionPath(this.#id, "/tasks"), { prompt, when_busy: this.#busy.value });
      } catch (error) {
        this.#takeBack(prompt);
        throw error;
      }
      this.#changed();
    });
  }

  /** The session may have been left meanwhile, and opened again. */
  #takeBack(prompt) {
    keepDraft(this.#id, [prompt, drafts.get(this.#id)].filter(Boolean).join("\n"));
    if (shown.#id === this.#id) shown.#write(drafts.get(this.#id));
  }

  #write(text) {
    this.#prompt.value = text;
    keepDraft(this.#id, text);
    this.#grow();
  }

  #grow() {
    this.#prompt.style.height = "auto";
    this.#prompt.style.height = `${Math.min(this.#prompt.scrollHeight + 2, 200)}px`;
  }
}
