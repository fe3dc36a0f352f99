// One stream of server-sent events over fetch: unlike EventSource it keeps the token out of the
// address, sees refusals, and can tell silence from a lost connection.

import { backOff, passing, request } from "./api.js";

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

/**
 * Follows a stream until the signal aborts, over as many connections as it takes. onEvent gets each event;
 * last() is the id to resume from; onConnection gets true or false as the connection comes and goes. A
 * refusal that stays one ends it by rejecting.
 */
export async function follow(path, { last, onEvent, onConnection, signal }) {
  for (let failures = 0; !signal.aborted; failures++) {
    try {
      await connect(path, last(), signal, (event) => {
        failures = 0;
        onEvent(event);
      }, () => onConnection(true));
    } catch (error) {
      if (signal.aborted) return;
      if (!passing(error)) throw error;
    }
    if (signal.aborted) return;
    onConnection(false);
    await backOff(failures, signal);
  }
}

/** Reads one connection to its end. */
async function connect(path, last, signal, onEvent, onOpen) {
  const quiet = new AbortController();
  let timer = setTimeout(() => quiet.abort(), silence);
  try {
    const headers = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
    const response = await request(path, { headers, signal: AbortSignal.any([signal, quiet.signal]) });
    onOpen();
    const take = reader((event) => signal.aborted || onEvent(event));
    const decoder = new TextDecoder();
    for await (const piece of pieces(response.body)) {
      clearTimeout(timer);
      timer = setTimeout(() => quiet.abort(), silence);
      take(decoder.decode(piece, { stream: true }));
    }
  } finally {
    clearTimeout(timer);
  }
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
