// One stream of server-sent events over fetch: unlike EventSource it keeps the token out of the
// address, sees refusals, and can tell silence from a lost connection.

import { Refused, authorization } from "./api.js";

/** Returns a function that takes pieces of a stream and calls back once for each whole event. */
export function reader(onEvent) {
  let rest = "";
  let event = { name: "", id: "", data: [] };
  const take = (line) => {
    if (line === "") {
      if (event.data.length > 0) onEvent({ ...event, data: event.data.join("\n") });
      event = { name: "", id: "", data: [] };
      return;
    }
    const [, name, value] = /^([^:]*)(?:: ?(.*))?$/s.exec(line);
    if (name === "data") event.data.push(value ?? "");
    else if (name === "event") event.name = value ?? "";
    else if (name === "id") event.id = value ?? "";
  };
  return (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) take(line.endsWith("\r") ? line.slice(0, -1) : line);
  };
}

// Comments come at least every 15 s: longer silence means that the connection is lost.
const silence = 40_000;
const longestWait = 10_000;

// A page that is not seen lets go of its stream after a moment: over HTTP/1.1 browsers open six
// connections to one origin, for all tabs together, and a seventh tab would wait for ever.
const unseen = 3_000;

/**
 * Follows a session until the signal aborts, as long as the page is seen. onEvent gets each event; last() is the id to resume
 * from; onConnection gets true or false as the connection comes and goes. A refusal ends it by
 * rejecting.
 */
export async function follow(path, { last, onEvent, onConnection, signal }) {
  for (let failures = 0; !signal.aborted;) {
    await toBeSeen(signal);
    try {
      await connect(path, last(), signal, (event) => {
        failures = 0;
        onEvent(event);
      }, () => onConnection(true));
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.status < 500) throw error;
    }
    if (signal.aborted) return;
    if (document.hidden) continue;
    onConnection(false);
    await pause(Math.min(longestWait, 250 * 2 ** failures++), signal);
  }
}

/** Reads one connection to its end. */
async function connect(path, last, signal, onEvent, onOpen) {
  const quiet = new AbortController();
  let timer = setTimeout(() => quiet.abort(), silence);
  let hiding = 0;
  const look = () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(() => quiet.abort(), unseen);
  };
  document.addEventListener("visibilitychange", look);
  look();
  try {
    const headers = { ...authorization(), Accept: "text/event-stream" };
    if (last) headers["Last-Event-ID"] = last;
    const response = await fetch(path, { headers, signal: AbortSignal.any([signal, quiet.signal]) });
    if (!response.ok) {
      const body = await response.json().catch(() => undefined);
      throw new Refused(response.status, body?.error);
    }
    onOpen();
    const take = reader(onEvent);
    const decoder = new TextDecoder();
    for await (const piece of pieces(response.body)) {
      clearTimeout(timer);
      timer = setTimeout(() => quiet.abort(), silence);
      take(decoder.decode(piece, { stream: true }));
    }
  } finally {
    clearTimeout(timer);
    clearTimeout(hiding);
    document.removeEventListener("visibilitychange", look);
  }
}

/** Waits until the page is seen. */
function toBeSeen(signal) {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}

// Not every browser can iterate over a body.
async function* pieces(body) {
  const source = body.getReader();
  try {
    for (;;) {
      const { done, value } = await source.read();
      if (done) return;
      yield value;
    }
  } finally {
    source.cancel().catch(() => {});
  }
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
