// The list of sessions at the side.

import { Roster } from "./roster.js";
import { act, announce, el, entitle, setText } from "./dom.js";
import { ago, standing } from "./text.js";

const kinds = { waiting: "Waiting", running: "Running", failed: "Failed", idle: "Idle" };

export class Sessions {
  #list = document.getElementById("sessions");
  #note = document.getElementById("sessions-note");
  #filters = document.getElementById("filters");
  #older = document.getElementById("older");
  #rows = new Map(); // by id
  #buttons = new Map(); // by kind
  #roster = new Roster((session) => { this.#show(session); this.#tell(); });
  #told;
  #leave; // ends the following
  #only = ""; // the kind that is shown
  #waiting = new Set(); // those that did at the last look
  #current = "";

  /** told is called with the session that is open, when it is selected and when it may have changed. */
  constructor(told) {
    this.#told = told;
    for (const [kind, name] of Object.entries({ "": "All", ...kinds })) {
      const count = el("span", { class: "count" });
      const button = el("button", { type: "button", class: "chip", "data-kind": kind, onclick: () => this.#choose(kind) }, name, count);
      this.#buttons.set(kind, { button, count });
      this.#filters.append(button);
    }
    this.#older.addEventListener("click", () => act(this.#older, () => this.#roster.older(this.#only)));
    setInterval(() => this.#rows.forEach((row) => row.update()), 60_000); // "3 min ago"
  }

  /** Shows the list, and keeps it up to date, until stop. */
  start() {
    if (this.#leave) return;
    this.#leave = new AbortController();
    const { signal } = this.#leave;
    this.#roster.follow(signal).catch((error) => signal.aborted || this.#say(error.message));
  }

  stop() {
    this.#leave?.abort();
    this.#leave = undefined;
  }

  /** Marks the session that is open. */
  select(id) {
    this.#current = id;
    for (const row of this.#rows.values()) row.update();
    this.#count();
    this.#tell();
  }

  #tell() {
    const open = this.#roster.get(this.#current);
    if (open) this.#told(open);
  }

  #choose(kind) {
    this.#only = kind;
    this.#show();
  }

  #say(text) {
    setText(this.#note, text);
    this.#note.hidden = text === "";
  }

  #show(changed) {
    const all = this.#roster.all;
    const shown = this.#roster.of(this.#only);
    this.#place(shown);
    if (changed) this.#rows.get(changed.id)?.update();
    else for (const row of this.#rows.values()) row.update();
    this.#count();
    const known = this.#roster.read;
    document.body.classList.toggle("first", known && all.length === 0);
    this.#older.hidden = !this.#roster.more(this.#only);
    this.#say(this.#roster.trouble || (shown.length > 0 || !known ? "" : all.length === 0 ? "No sessions yet." : "No matching sessions."));
  }

  /** Puts rows in order; those that are in place already are left alone. */
  #place(sessions) {
    const ids = new Set(sessions.map(({ id }) => id));
    for (const [id, row] of this.#rows) {
      if (ids.has(id)) continue;
      row.node.remove();
      this.#rows.delete(id);
    }
    let place = this.#list.firstElementChild;
    for (const { id } of sessions) {
      const row = this.#rows.get(id) ?? this.#row(id);
      if (row.node === place) place = place.nextElementSibling;
      else {
        const focused = row.node.contains(document.activeElement);
        this.#list.insertBefore(row.node, place);
        if (focused) row.node.firstElementChild.focus({ preventScroll: true });
      }
    }
  }

  /** Counts the kinds, and says which sessions wait for a person now and did not before. */
  #count() {
    const counts = new Map();
    const waiting = new Set();
    for (const session of this.#roster.all) {
      const { kind } = standing(session);
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
      if (kind !== "waiting") continue;
      waiting.add(session.id);
      if (!this.#waiting.has(session.id) && session.id !== this.#current) announce(`${session.title || session.id} is waiting for you`);
    }
    this.#waiting = waiting;
    this.#filters.hidden = counts.size === 0;
    for (const [kind, { button, count }] of this.#buttons) {
      const n = counts.get(kind) ?? 0;
      const more = this.#roster.more(kind);
      setText(count, kind && n > 0 ? `${n}${more ? "+" : ""}` : "");
      button.hidden = kind !== "" && n === 0 && !more && this.#only !== kind;
      button.setAttribute("aria-pressed", String(this.#only === kind));
    }
    entitle({ waiting: waiting.size });
    const others = [...waiting].filter((id) => id !== this.#current).length;
    for (const badge of document.querySelectorAll(".back .badge")) {
      setText(badge, others > 0 ? String(others) : "");
      badge.hidden = others === 0;
      badge.title = others === 1 ? "1 other session is waiting for you" : `${others} other sessions are waiting for you`;
    }
  }

  #row(id) {
    const title = el("span", { class: "title" });
    const state = el("span", { class: "state" });
    const model = el("span", { class: "model" });
    const when = el("span", { class: "when" });
    const anchor = el("a", { href: `#/session/${encodeURIComponent(id)}` }, title, el("span", { class: "line" }, state, model, when));
    const update = () => {
      const session = this.#roster.get(id);
      if (!session) return;
      const { kind, words } = standing(session);
      setText(title, session.title || id);
      anchor.dataset.state = kind;
      setText(state, words);
      setText(model, session.agent || session.model || "");
      setText(when, ago(session.last_activity ?? session.created));
      if (id === this.#current) anchor.setAttribute("aria-current", "page");
      else anchor.removeAttribute("aria-current");
    };
    const row = { node: el("li", {}, anchor), update };
    update();
    this.#rows.set(id, row);
    return row;
  }
}

/** The way back to the list, where both don't fit beside one another; it counts what waits there. */
export function back() {
  return el("a", { class: "back", href: "#/" }, "Sessions", el("span", { class: "badge", hidden: true }));
}
