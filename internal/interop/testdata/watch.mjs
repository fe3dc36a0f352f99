// Watches a stream with the package eventsource, and prints each event as a line of JSON.
//
//   node watch.mjs http://host:port/v1/sessions/<id>/stream <token>
//
// What it tells of errors is `closed` when it gives up, and `error` when it connects again.
import { EventSource } from "eventsource";

const [url, token] = process.argv.slice(2);
const source = new EventSource(url, {
  fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } }),
});
const tell = (e) => console.log(JSON.stringify({ event: e.type, id: e.lastEventId, data: e.data }));
for (const name of ["message", "task_state", "resync_required", "session_deleted"]) source.addEventListener(name, tell);
const failed = () => (source.readyState === EventSource.CLOSED ? "closed" : "error");
source.addEventListener("error", (e) => console.log(JSON.stringify({ event: failed(), data: e.message ?? "" })));
setInterval(() => {}, 60_000); // a source that waits to connect again does not keep node alive
