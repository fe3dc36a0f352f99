// Compares a page that stays with one that is reloaded after the first `cut` messages: directly after
// the reload and at the end. entries are {id, recorded, message}. The answer is empty if they agree.
async (entries, cut) => {
  const { Transcript } = await import("/static/transcript.js");

  // What a gateway answers: recorded messages, and the beginnings of what is not complete.
  const partials = (messages) => {
    const open = new Map();
    for (const m of messages) {
      const p = m.payload;
      if (m.origin?.length) continue;
      const of = (p.type ?? "").replace(/^partial_/, "");
      const key = `${of} ${of.startsWith("tool_call") ? p.tool_call_id : ""}`;
      if (p.type === "request_begin" || p.type === "task_end") open.clear();
      else if (of === p.type) open.delete(key);
      else if (p.event_type === "start") open.set(key, [m]);
      else if (!open.has(key)) continue;
      else if (p.event_type === "stop") open.get(key).push(m);
      else {
        const member = { text: "text", thinking: "thinking", tool_call: "arguments", tool_call_output: "output" }[of];
        const kept = open.get(key);
        const text = (kept[1]?.payload[member] ?? "") + p[member];
        const images = [...(kept[1]?.payload.images ?? []), ...(p.images ?? [])];
        kept[1] = { ...m, payload: { ...p, [member]: text, ...(images.length && { images }) } };
      }
    }
    return [...open.values()].flat();
  };

  // Where a part hangs shows, and when a fragment came does not.
  const shown = (t) => JSON.stringify({ tasks: t.tasks, state: t.state, pending: t.pending, tokens: t.tokens, cost: t.cost, mode: t.mode },
    (key, value) => (key === "parent" || key === "begun" ? undefined : value), 1);

  // Whatever was said is there once, in the order in which it was said; outputs are with their calls.
  const said = (messages) => {
    const words = [];
    let compacting = false;
    for (const m of messages) {
      const p = m.payload;
      if (m.origin?.length) continue;
      if (p.type === "compaction_begin") compacting = true;
      if (p.type === "compaction_end") compacting = false;
      if (m.type !== "model_msg" || (compacting && m.scope === "trace")) continue;
      if (p.type === "text" && p.role === "assistant") words.push(`text ${p.text}`);
      if (p.type === "thinking") words.push(`thinking ${p.thinking}`);
      if (p.type === "tool_call") words.push(`call ${p.tool_call_id} ${p.arguments}`);
    }
    const outputs = messages.filter((m) => !m.origin?.length && m.payload.type === "tool_call_output").map((m) => `output ${m.payload.tool_call_id} ${m.payload.output}`);
    return [...words, ...outputs.sort()].join("\n");
  };
  const told = (t) => {
    const parts = t.tasks.flatMap((task) => task.parts.flatMap((part) => part.parts ?? [part]));
    const words = parts.filter((part) => ["text", "thinking", "call"].includes(part.kind))
      .map((part) => (part.kind === "call" ? `call ${part.id} ${part.arguments}` : `${part.kind} ${part.text}`));
    const outputs = parts.filter((part) => part.kind === "call" && part.status).map((part) => `output ${part.id} ${part.output}`);
    return [...words, ...outputs.sort()].join("\n");
  };

  const before = entries.slice(0, cut);
  const stays = new Transcript();
  for (const { id, message } of before) stays.apply(message, id);
  const reloaded = new Transcript();
  reloaded.load({
    messages: before.filter((e) => e.recorded), partials: partials(before.map((e) => e.message)),
    cursor: before.at(-1)?.id ?? "x-0.0", state: stays.state, pending: stays.pending,
  });
  if (shown(stays) !== shown(reloaded)) return `after the reload:\n${shown(reloaded)}\nis not\n${shown(stays)}`;
  for (const { id, message } of entries) reloaded.apply(message, id); // what it has already changes nothing
  for (const { id, message } of entries.slice(cut)) stays.apply(message, id);
  if (shown(stays) !== shown(reloaded)) return `at the end:\n${shown(reloaded)}\nis not\n${shown(stays)}`;
  const want = said(entries.map((e) => e.message));
  if (told(stays) !== want) return `it tells:\n${told(stays)}\nnot\n${want}`;
  return "";
}
