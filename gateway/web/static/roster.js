// All sessions that are known, kept by news of them: a fold without document.

import { ask, persist } from "./api.js";
import { failures, newest, standing } from "./text.js";
import { followAll } from "./news.js";

const page = 100; // sessions asked for at a time

// What is asked for besides the newest sessions, however old it is, by kind.
const kinds = {
  waiting: { limit: 500, state: "waiting" },
  running: { limit: 500, state: "running" },
  failed: { limit: page, state: "idle", task_status: failures.join(",") },
};

/** The list in which those of a kind are looked for: one of its own, or that of all. */
const listOf = (kind) => (kind in kinds ? kind : "");

export class Roster {
  #sessions = new Map(); // by id
  #deleted = new Set(); // ids; an engine may list them for a while
  #moved = new Map(); // id → when its place in the list was last another one
  #late; // what news told while the list was read: the list may be older
  #aside = new Set(); // ids of failed sessions that are older than what is listed of all
  #next = new Map(); // by list: the cursor of the sessions that are not listed yet
  #listed = new Map(); // by list: how many are
  #changed;
  #asked; // aborts the reading of the list
  #reading; // settles when it is over
  #lost = ""; // that there is no connection
  #unread = ""; // why the list can't be read
  read = false; // whether the list was ever read

  /** changed is called after each change, with the session that changed, if it is one. */
  constructor(changed) {
    this.#changed = changed;
  }

  /** All sessions, those that were set to work last first. */
  get all() {
    return [...this.#sessions.values()].sort((a, b) => (this.#moved.get(b.id) > this.#moved.get(a.id) ? 1 : -1));
  }

  /** The sessions of a kind; without one, all but those that were only found by asking for their kind. */
  of(kind) {
    return this.all.filter((session) => (kind ? standing(session).kind === kind : !this.#aside.has(session.id)));
  }

  /** Whether there are more of a kind than are listed. */
  more(kind) {
    return Boolean(this.#next.get(listOf(kind)));
  }

  get(id) {
    return this.#sessions.get(id);
  }

  /** What is wrong, if anything: without a connection nothing else matters. */
  get trouble() {
    return this.#lost || this.#unread;
  }

  /** Keeps it up to date until the signal aborts. A refusal that stays one rejects. */
  follow(signal) {
    return new Promise((resolve, reject) => {
      const list = () => (this.#reading = this.#list(signal).catch((error) => signal.aborted || reject(error)));
      followAll({
        signal,
        onBegin: () => {
          this.#lost = ""; // unless it is said anew: that it is there again may have been missed
          return list();
        },
        onConnection: (there) => this.#suffer(() => { this.#lost = there ? "" : "Connection lost. Reconnecting…"; }),
        onEvent: (event) => (event.name === "watching" ? list() : this.#take(event)),
      }).then(resolve, reject);
    });
  }

  /** Reads older sessions of a kind than those that are listed. */
  async older(kind) {
    const list = listOf(kind);
    for (let found = 0; found === 0 && this.more(kind);) {
      await this.#reading;
      const cursor = this.#next.get(list);
      const { sessions, next } = await ask(`/v1/sessions?${new URLSearchParams({ limit: page, ...kinds[list], cursor })}`);
      if (this.#next.get(list) !== cursor) continue; // the list was read anew
      this.#beside(list, sessions, next);
      found = sessions.length;
    }
    this.#changed();
  }

  /** Puts what is older than the list, or of a kind, beside what is there; next is the cursor of the rest. */
  #beside(list, sessions, next) {
    this.#listed.set(list, (this.#listed.get(list) ?? 0) + sessions.length);
    this.#next.set(list, next);
    for (const session of sessions) {
      const aside = list === "failed" && (this.#aside.has(session.id) || !this.#sessions.has(session.id));
      this.#put(session);
      if (aside) this.#aside.add(session.id);
    }
  }

  /**
   * Reads the list anew: the newest, as many as were listed, and whatever runs or waits or has failed however old
   * it is.
   */
  async #list(all) {
    this.#asked?.abort();
    const reading = this.#asked = new AbortController(); // one at a time
    const signal = AbortSignal.any([all, reading.signal]);
    const late = this.#late = new Map();
    const question = { signal, onTrouble: (error) => this.#suffer(() => { this.#unread = error.message; }) };
    const read = (query) => persist(() => ask(`/v1/sessions?${new URLSearchParams(query)}`, signal), question);
    const readAll = async (list, query) => {
      let { sessions, next } = await read(query);
      while (next && sessions.length < this.#listed.get(list)) {
        const more = await read({ ...query, cursor: next });
        sessions = sessions.concat(more.sessions);
        next = more.next;
      }
      return { sessions, next };
    };
    try {
      const answers = { "": await readAll("", { limit: page }) };
      if (answers[""].next) for (const kind in kinds) answers[kind] = await readAll(kind, kinds[kind]);
      signal.throwIfAborted(); // an answer may come in the same instant
      const known = this.#sessions;
      this.#sessions = new Map();
      this.#aside = new Set();
      this.#next = new Map();
      this.#listed = new Map();
      for (const [list, { sessions, next }] of Object.entries(answers)) {
        this.#beside(list, sessions.map((session) => this.#advance(known.get(session.id), session)), next);
      }
    } catch (error) {
      if (reading.signal.aborted) return;
      throw error;
    }
    this.#late = undefined;
    for (const [id, session] of late) session ? this.#put(session) : this.#drop(id);
    for (const id of this.#moved.keys()) if (!this.#sessions.has(id)) this.#moved.delete(id); // it may come back
    this.read = true;
    this.#unread = "";
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

  #put(session) {
    if (this.#deleted.has(session.id) || !session.model) return; // without a model it was refused when it was to be made
    const now = this.#advance(this.#sessions.get(session.id), session);
    this.#aside.delete(now.id);
    this.#sessions.set(now.id, now);
  }

  /**
   * The newest summary of a session. The session moves to the front when it is set to work, not whenever it
   * says something; it may be done already when that is heard of.
   */
  #advance(before, later) {
    const now = newest(before, later);
    const begins = before && !standing(before).busy && (standing(now).busy || now.tasks > before.tasks);
    if (!this.#moved.has(now.id) || begins) this.#moved.set(now.id, now.last_activity ?? now.created ?? "");
    return now;
  }

  #drop(id) {
    this.#deleted.add(id);
    this.#sessions.delete(id);
  }

  /** Takes what is wrong, or no longer. */
  #suffer(take) {
    const before = this.trouble;
    take();
    if (this.trouble !== before) this.#changed();
  }
}
