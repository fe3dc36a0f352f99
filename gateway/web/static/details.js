// What a session is and what it used, and deleting it.

import { sessionPath, tell } from "./api.js";
import { act, el } from "./dom.js";
import { ago, dollars, modes, tokens } from "./text.js";

export class Details {
  node;
  #id;
  #busy;
  #facts = el("dl", { class: "facts-list" });
  #remove = el("button", { type: "button", class: "danger" }, "Delete session");
  #sure = el("div", { class: "sure", hidden: true, role: "group", "aria-label": "Delete this session?" });

  /** busy says whether the session is at work, as far as the page knows. */
  constructor(id, busy) {
    this.#id = id;
    this.#busy = busy;
    this.#remove.addEventListener("click", () => this.#ask());
    this.node = el("dialog", { class: "details", "aria-label": "Details" },
      el("header", { class: "row" }, el("h2", {}, "Details"), el("span", { class: "gap" }),
        el("button", { type: "button", onclick: () => this.close() }, "Close")),
      this.#facts, el("div", { class: "row" }, this.#remove), this.#sure);
    this.node.addEventListener("close", () => this.#settle());
  }

  /** Takes what the gateway says of the session. */
  update(session) {
    const limits = session.limits ?? {};
    this.#facts.replaceChildren(...[
      ["Session", this.#id],
      ["Agent", session.agent],
      ["Model", session.model],
      ["Fallback", session.active_model ?? session.fallback_models?.join(", ")],
      ["Tool calls", modes[session.approval_mode]],
      ["Created", session.created && `${new Date(session.created).toLocaleString()} (${ago(session.created)})`],
      ["Tasks", `${session.tasks}, in ${session.turns} ${session.turns === 1 ? "turn" : "turns"}`],
      ["Usage", [tokens(session.total_tokens), dollars(session.total_cost_usd)].filter(Boolean).join(" · ")],
      ["Task budget", [limits.max_tokens_task && tokens(limits.max_tokens_task), dollars(limits.max_cost_task_usd)].filter(Boolean).join(" · ")],
    ].filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  }

  open() {
    this.#settle();
    this.node.showModal();
  }

  close() {
    this.node.close();
  }

  #settle() {
    this.#sure.hidden = true;
    this.#remove.hidden = false;
  }

  /** Asks once more: what is deleted is gone. */
  #ask() {
    const busy = this.#busy();
    const remove = el("button", { type: "button", class: "danger" }, "Delete");
    const keep = el("button", { type: "button", onclick: () => { this.#settle(); this.#remove.focus(); } }, "Cancel");
    remove.addEventListener("click", () => act(remove, async () => {
      await tell("DELETE", `${sessionPath(this.#id)}${busy ? "?force=true" : ""}`);
      this.close();
    }));
    this.#sure.replaceChildren(
      el("p", {}, `Delete this session? Its messages go for good; files that its tools wrote stay.${busy ? " The task that runs is stopped." : ""}`),
      el("div", { class: "row" }, remove, keep));
    this.#sure.hidden = false;
    this.#remove.hidden = true;
    keep.focus();
  }
}
