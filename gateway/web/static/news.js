// News of all sessions: one stream for all tabs of a browser. The tab that holds the lock reads the
// stream, seen or not, and tells the others; when it is closed another one takes over, from the last
// event it heard of. Where there are no locks (plain HTTP to another host) each tab that is seen reads a
// stream of its own.

import { whileSeen } from "./seen.js";
import { follow } from "./sse.js";

const name = "braid.sessions";

/**
 * Follows the news until the signal aborts. onBegin is called whenever news may have been missed, onEvent
 * with each event, onConnection as the connection comes and goes. A refusal that stays one rejects.
 */
export async function followAll({ onBegin, onEvent, onConnection, signal }) {
  let last = "";
  const take = (event) => {
    if (event.id) last = event.id;
    onEvent(event);
  };
  const read = (signal, tell) => follow("/v1/events", {
    signal,
    last: () => last,
    onEvent: (event) => { take(event); tell({ event }); },
    onConnection: (there) => { onConnection(there); tell({ there }); },
  });
  if (!navigator.locks || !window.BroadcastChannel) {
    return whileSeen(signal, (seen) => { onBegin(); return read(seen, () => {}); });
  }
  const channel = new BroadcastChannel(name);
  channel.addEventListener("message", ({ data }) => (data.event ? take(data.event) : onConnection(data.there)));
  addEventListener("pageshow", (event) => event.persisted && onBegin(), { signal });
  document.addEventListener("resume", onBegin, { signal }); // from being frozen
  onBegin();
  try {
    await navigator.locks.request(name, { signal }, () => read(signal, (message) => channel.postMessage(message)));
  } finally {
    channel.close();
  }
}
