// Elements, made of properties and children, never of markup.

/**
 * Makes an element. Properties that begin with "on" are listeners; absent, false and null ones are
 * left out; texts among the children become text.
 */
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

/** Sets a text only if it is another one, so that nothing is read out or laid out again. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Says something to those who can't see the page. */
export function announce(text) {
  setText(document.getElementById("status"), text);
}

const heading = { subject: "", waiting: 0 };

/** Names the page, for its tab: by its subject, or by how many sessions wait for a person. */
export function entitle(change) {
  const { subject, waiting } = Object.assign(heading, change);
  document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${subject ? `${subject} – ` : ""}Braid`;
}

const mostToasts = 3;

/** Shows that something went wrong, until it is dismissed or too much else went wrong. */
export function complain(error) {
  const said = error instanceof Error ? error.message : String(error);
  const text = said.charAt(0).toUpperCase() + said.slice(1);
  const dismiss = () => toast.remove();
  const toast = el("div", { class: "toast" }, el("p", {}, text),
    el("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: dismiss }, "Close"));
  const toasts = document.getElementById("toasts");
  toasts.append(toast);
  if (toasts.children.length > mostToasts) toasts.firstElementChild.remove();
}

/** Runs what a person asked for; a button is out of use meanwhile, and a failure is shown. */
export async function act(button, work) {
  if (button) button.disabled = true;
  try {
    return await work();
  } catch (error) {
    complain(error);
    return undefined;
  } finally {
    if (button) button.disabled = false;
  }
}
