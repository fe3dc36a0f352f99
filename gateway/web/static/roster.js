// All sessions that are known, kept by news of them: a fold without document.

import { ask, persist } from "./api.js";
import { newest, standing } from "./text.js";
import { followAll } from "./news.js";

const page = 100; // sessions asked for at a time

export class Roster {
  #sessions = new Map(); // by id
  #deleted = new Set(); // ids; an engine may list them for a while
  #moved = new Map(); // id → when its place in the list was last another one
  #late; // what news told while the list was read: the list may be older
  #next = ""; // cursor of the sessions that are not listed yet
  #changed;
  #asked; // aborts the reading of the list
  trouble = "";
  read = false; // whether the list was ever read

  /** changed is called after each change, with the session that changed, if it is one. */
  constructor(changed) {
    this.#changed = changed;
  }

  /** All sessions, those that were set to work last first. */
  get all() {
    return [...this.#sessions.values()].sort((a, b) => (this.#moved.get(b.id) > this.#moved.get(a.id) ? 1 : -1));
  }

  get more() {
    return this.#next !== "";
  }

  get(id) {
    return this.#sessions.get(id);
  }

  /** Keeps it up to date until the signal aborts. A refusal that stays one rejects. */
  follow(signal) {
    return new Promise((resolve, reject) => {
      const list = () => this.#list(signal).catch((error) => signal.aborted || reject(error));
      followAll({
        signal,
        onBegin: list,
        onConnection: (there) => this.#say(there ? "" : "The connection is lost. Trying again…"),
        onEvent: (event) => (event.name === "watching" ? list() : this.#take(event)),
      }).then(resolve, reject);
    });
  }

  /** Reads older sessions than those that are listed. */
  async older() {
    const { sessions, next } = await ask(`/v1/sessions?${new URLSearchParams({ limit: page, cursor: this.#next })}`);
    for (const session of sessions) if (!this.#sessions.has(session.id)) this.#put(session);
    this.#next = next ?? "";
    this.#changed();
  }

  /** Reads the list anew: the newest, and whatever runs or waits however old it is. */
  async #list(all) {
    this.#asked?.abort();
    const asked = this.#asked = new AbortController(); // one reading at a time
    const signal = AbortSignal.any([all, asked.signal]);
    const late = this.#late = new Map();
    const question = { signal, onTrouble: (error) => this.#say(error.message) };
    const read = (query) => persist(() => ask(`/v1/sessions?${new URLSearchParams(query)}`, signal), question);
    try {
      const first = await read({ limit: page });
      const busy = first.next ? [await read({ limit: 500, state: "waiting" }), await read({ limit: 500, state: "running" })] : [];
      const known = this.#sessions;
      this.#sessions = new Map();
      for (const session of [first, ...busy].flatMap((answer) => answer.sessions)) this.#put(newest(known.get(session.id), session));
      this.#next = first.next ?? "";
    } catch (error) {
      if (asked.signal.aborted) return;
      throw error;
    }
    this.#late = undefined;
    for (const [id, session] of late) session ? this.#put(session) : this.#drop(id);
    this.read = true;
    this.trouble = "";
    this.#changed();
  }

  #take({ name, data }) {
    const told = name === "" || name === "session_deleted" ? JSON.parse(data) : undefined;
    const { id } = told?.session ?? told ?? {};
    if (!id) return; // of a newer gateway, or one that lists again
    this.#late?.set(id, told.session);
    if (told.session) this.#put(told.session);
    else this.#drop(id);
    this.#changed(this.#sessions.get(id));
  }

  /** A session moves to the front when it is set to work, not whenever it says something. */
  #put(session) {
    if (this.#deleted.has(session.id) || !session.model) return; // without a model it was refused when it was to be made
    const before = this.#sessions.get(session.id);
    const now = newest(before, session);
    const begins = standing(now).busy && before && !standing(before).busy;
    if (!this.#moved.has(now.id) || begins) this.#moved.set(now.id, now.last_activity ?? now.created ?? "");
    this.#sessions.set(now.id, now);
  }

  #drop(id) {
    this.#deleted.add(id);
    this.#sessions.delete(id);
  }

  #say(text) {
    if (this.trouble === text) return;
    this.trouble = text;
    this.#changed();
  }
}
