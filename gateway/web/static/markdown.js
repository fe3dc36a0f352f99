// The model's words as elements. It knows what models use most: paragraphs, headings, lists, quotes,
// tables, code, emphasis and links. Everything else stays the text it is; nothing becomes markup.

import { el } from "./dom.js";

/** Splits a text into blocks. A block is {type, lines} with what its type needs besides. */
export function blocks(text) {
  const found = [];
  let block;
  const begin = (type, more = {}) => {
    block = { type, lines: [], ...more };
    found.push(block);
    return block;
  };
  for (const line of text.split("\n")) {
    if (block?.type === "code") {
      if (line.trim().startsWith(block.fence) && line.trim().replaceAll(block.fence[0], "") === "") block = undefined;
      else block.lines.push(line);
      continue;
    }
    const fence = /^\s{0,3}(```+|~~~+)\s*(\S*)/.exec(line);
    const heading = /^(#{1,6})\s+(.*)/.exec(line);
    const item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)/.exec(line);
    if (fence) begin("code", { fence: fence[1], language: fence[2] });
    else if (line.trim() === "") block = undefined;
    else if (heading) {
      begin("heading", { level: heading[1].length }).lines.push(heading[2]);
      block = undefined;
    } else if (/^\s{0,3}([-*_])(\s*\1){2,}\s*$/.test(line)) {
      begin("rule");
      block = undefined;
    } else if (item) {
      const ordered = /\d/.test(item[2]);
      if (block?.type !== "list" || (item[1] === "" && block.ordered !== ordered)) begin("list", { ordered, start: parseInt(item[2], 10) || 1 });
      block.lines.push({ depth: Math.min(deepest, item[1].replaceAll("\t", "    ").length >> 1), ordered, start: parseInt(item[2], 10) || 1, text: item[3] });
    } else if (block?.type === "list") block.lines.at(-1).text += `\n${line.trim()}`;
    else if (line.startsWith(">")) {
      if (block?.type !== "quote") begin("quote");
      block.lines.push(line.replace(/^>\s?/, ""));
    } else if (/^\s*\|.*\|\s*$/.test(line)) {
      if (block?.type !== "table") begin("table");
      block.lines.push(line);
    } else {
      if (block?.type !== "paragraph") begin("paragraph");
      block.lines.push(line);
    }
  }
  return found;
}

// How many quotes may be in one another; what is deeper is plain text.
const deepest = 8;

/**
 * Shows a text in an element. While a text grows only its last blocks change: what is the same as
 * before stays in place, so that a selection in it does as well. depth is how many quotes it is in.
 */
export function show(root, text, depth = 0) {
  const next = depth < deepest ? blocks(text) : [{ type: "paragraph", lines: [text] }];
  const before = root.blocks ?? [];
  next.forEach((block, i) => {
    block.key = JSON.stringify(block);
    if (before[i]?.key === block.key) return;
    const node = render(block, depth);
    if (root.children[i]) root.children[i].replaceWith(node);
    else root.append(node);
  });
  while (root.children.length > next.length) root.lastElementChild.remove();
  root.blocks = next;
}

function render(block, depth) {
  switch (block.type) {
    case "code":
      return el("pre", { class: "code", tabindex: "0", "aria-label": block.language ? `Code, ${block.language}` : "Code" }, el("code", {}, block.lines.join("\n")));
    case "heading": return el(`h${Math.min(6, block.level + 2)}`, {}, ...inline(block.lines[0]));
    case "rule": return el("hr");
    case "list": return list(block.lines);
    case "quote": {
      const quote = el("blockquote");
      show(quote, block.lines.join("\n"), depth + 1);
      return quote;
    }
    case "table": return table(block.lines);
  }
  return el("p", {}, ...inline(block.lines.join("\n")));
}

/** Items as a list; those that are further in stand in a list of their own, in the item before them. */
function list(items) {
  const [{ ordered, start, depth }] = items;
  const node = el(ordered ? "ol" : "ul", { start: ordered && start !== 1 && String(start) });
  for (let i = 0, end; i < items.length; i = end) {
    for (end = i + 1; items[end]?.depth > depth;) end++;
    node.append(el("li", {}, ...inline(items[i].text), end > i + 1 && list(items.slice(i + 1, end))));
  }
  return node;
}

function table(lines) {
  const cells = (line) => line.trim().slice(1, -1).split("|").map((cell) => cell.trim());
  const ruled = lines.length > 1 && cells(lines[1]).every((cell) => /^:?-+:?$/.test(cell));
  const row = (line, tag) => el("tr", {}, ...cells(line).map((cell) => el(tag, {}, ...inline(cell))));
  const head = ruled ? [el("thead", {}, row(lines[0], "th"))] : [];
  const body = el("tbody", {}, ...lines.slice(ruled ? 2 : 0).map((line) => row(line, "td")));
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table" }, el("table", {}, ...head, body));
}

// Each is bounded, or ends at what it may not contain: a span that is never closed must not be looked
// for again from every character to the end.
const spans = /(`{1,9})(.+?)\1(?!`)|\*\*(?=\S)([\s\S]+?)\*\*|(?<![\w*])\*(?=\S)([^*\n]+?)\*(?![\w*])|\[([^[\]\n]{1,500})\]\((https?:\/\/[^\s)]{1,2000})\)|(https?:\/\/[^\s<>"')\]]{1,2000}[^\s<>"')\].,;:!?])/g;

// A line that is longer was not written to be read; it is shown as it is.
const longestLine = 10_000;

function inline(text) {
  if (text.length > longestLine && text.split("\n").some((line) => line.length > longestLine)) return [text];
  const nodes = [];
  let at = 0;
  for (const m of text.matchAll(spans)) {
    if (m.index > at) nodes.push(text.slice(at, m.index));
    at = m.index + m[0].length;
    if (m[1]) nodes.push(el("code", {}, m[2]));
    else if (m[3]) nodes.push(el("strong", {}, ...inline(m[3])));
    else if (m[4]) nodes.push(el("em", {}, ...inline(m[4])));
    else nodes.push(link(m[6] ?? m[7], m[5] ?? m[7]));
  }
  if (at < text.length) nodes.push(text.slice(at));
  return nodes;
}

/** A link to somewhere else, which is not told where it was followed from. */
export function link(url, text) {
  return el("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, text);
}
