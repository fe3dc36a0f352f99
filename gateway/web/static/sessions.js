// The list of sessions, and making a new one.

import { ask, tell, sessionPath } from "./api.js";
import { act, el, setText } from "./dom.js";
import { ago, modes, stateName } from "./text.js";

const every = 4_000; // milliseconds between looks at the list, while the page is seen

/** The list at the side. It looks for changes as long as the page is seen. */
export class Sessions {
  #list = document.getElementById("sessions");
  #note = document.getElementById("sessions-note");
  #rows = new Map();
  #timer = 0;
  #onRefused;
  current = "";
  known = []; // as the gateway tells them, the newest first

  constructor(onRefused) {
    this.#onRefused = onRefused;
    document.addEventListener("visibilitychange", () => this.look());
  }

  /** Looks now, and from now on. */
  async look() {
    clearTimeout(this.#timer);
    if (document.hidden) return;
    try {
      const { sessions, next } = await ask("/v1/sessions?limit=100");
      this.known = sessions;
      this.#show(next);
    } catch (error) {
      if (error.status === 401) return this.#onRefused();
      this.#say("The gateway can't be reached.");
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.look(), every);
  }

  select(id) {
    this.current = id;
    for (const [key, row] of this.#rows) row.mark(key === id);
  }

  #say(text) {
    setText(this.#note, text);
    this.#note.hidden = text === "";
  }

  #show(more) {
    const seen = new Set();
    let place = this.#list.firstElementChild;
    for (const session of this.known) {
      seen.add(session.id);
      const row = this.#rows.get(session.id) ?? this.#row(session.id);
      row.update(session);
      if (row.node === place) place = place.nextElementSibling;
      else this.#list.insertBefore(row.node, place);
    }
    for (const [id, row] of this.#rows) {
      if (seen.has(id)) continue;
      row.node.remove();
      this.#rows.delete(id);
    }
    this.#say(this.known.length === 0 ? "No sessions yet." : more ? "Older sessions are not listed." : "");
  }

  #row(id) {
    const title = el("span", { class: "title" });
    const state = el("span", { class: "state" });
    const when = el("span", { class: "when" });
    const anchor = el("a", { href: `#/session/${id}` }, title, el("span", { class: "line" }, state, when));
    const row = {
      node: el("li", {}, anchor),
      mark: (current) => (current ? anchor.setAttribute("aria-current", "page") : anchor.removeAttribute("aria-current")),
      update(session) {
        setText(title, session.title || session.id);
        anchor.dataset.state = session.state;
        setText(state, session.state === "idle" ? session.model ?? "" : stateName(session.state));
        setText(when, ago(session.last_activity ?? session.created));
      },
    };
    row.mark(id === this.current);
    this.#rows.set(id, row);
    return row;
  }
}

/** The form that makes a session and gives it its first task. */
export function newSession(sessions, go) {
  const models = [...new Set(["shell/demo", ...sessions.known.map((s) => s.model)])].filter(Boolean);
  const model = el("input", { id: "model", name: "model", required: true, autocomplete: "off", spellcheck: "false", list: "models", value: sessions.known[0]?.model ?? "shell/demo" });
  const mode = el("select", { id: "mode", name: "mode" }, ...Object.entries(modes).map(([value, text]) => el("option", { value }, text)));
  const prompt = el("textarea", { id: "prompt", name: "prompt", rows: "6", required: true });
  const start = el("button", { type: "submit", class: "primary" }, "Start");
  const submit = (event) => {
    event.preventDefault();
    act(start, async () => {
      const { session } = await tell("POST", "/v1/sessions", { model: model.value.trim(), approval_mode: mode.value });
      await tell("POST", sessionPath(session.id, "/tasks"), { prompt: prompt.value });
      sessions.look();
      go(`#/session/${session.id}`);
    });
  };
  const field = (label, node, hint) => el("div", { class: "field" }, el("label", { for: node.id }, label), node, hint && el("p", { class: "hint" }, hint));
  return el("form", { class: "sheet", onsubmit: submit },
    el("a", { class: "back", href: "#/" }, "All sessions"),
    el("h2", {}, "New session"),
    field("Prompt", prompt, model.value === "shell/demo" && "shell/demo runs each line that begins with a dollar sign."),
    field("Model", model),
    field("Tool calls", mode),
    el("datalist", { id: "models" }, ...models.map((value) => el("option", { value }))),
    el("div", { class: "row" }, start));
}
