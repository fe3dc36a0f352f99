// What holds of the page in every state: a function that returns what does not, as sentences. A test
// evaluates it in the page.
() => {
  const faults = [];
  const describe = (node) => `${node.localName}${node.id ? `#${node.id}` : ""}${node.className ? `.${String(node.className).replaceAll(" ", ".")}` : ""} ${JSON.stringify((node.innerText ?? "").slice(0, 30))}`;
  const root = document.querySelector("dialog[open]") ?? document.body;
  const seen = (node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const all = [...root.querySelectorAll("*")].filter(seen);

  // Whatever can be used has a name, and can be reached by Tab.
  for (const node of all.filter((n) => n.matches("a[href], button, input, select, textarea, summary, [tabindex='0']"))) {
    const field = node.matches("input, select, textarea");
    const name = node.getAttribute("aria-label") ?? (field ? node.labels?.[0]?.textContent : node.textContent);
    if (!name?.trim()) faults.push(`${describe(node)} has no ${field ? "label" : "name"}`);
    if (node.tabIndex < 0) faults.push(`${describe(node)} can't be reached`);
  }

  // Ids are unique, landmarks are there once, what is shown fits.
  const ids = [...document.querySelectorAll("[id]")].map((n) => n.id);
  for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) faults.push(`the id ${id} is there twice`);
  for (const mark of ["main", "nav", "h1"]) if (document.querySelectorAll(mark).length !== 1) faults.push(`there is not one ${mark}`);
  for (const node of [document.documentElement, document.getElementById("main"), document.querySelector(".transcript"), document.querySelector("dialog[open]")]) {
    if (node && node.scrollWidth > node.clientWidth + 1) faults.push(`${describe(node)} is wider than the page: ${node.scrollWidth} of ${node.clientWidth}`);
  }

  // Text stands out from what is behind it, by 4.5 to 1.
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const behind = (node) => {
    const layers = [];
    for (let n = node; n; n = n.parentElement) {
      const color = rgba(getComputedStyle(n).backgroundColor);
      if (color[3] > 0) layers.push(color);
      if (color[3] === 1) break;
    }
    return layers.reduceRight((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const light = (color) => {
    const [r, g, b] = color.slice(0, 3).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  for (const node of all) {
    const words = [...node.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim());
    const hollow = node.matches("input, textarea") && node.placeholder && !node.value;
    if (!words && !hollow || node.matches(".unseen, .skip, option, :disabled, optgroup")) continue;
    const ground = behind(node);
    let opacity = 1;
    for (let n = node; n; n = n.parentElement) opacity *= Number(getComputedStyle(n).opacity);
    const ink = rgba(getComputedStyle(node, hollow ? "::placeholder" : undefined).color);
    ink[3] *= opacity;
    const [a, b] = [light(over(ink, ground)), light(ground)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faults.push(`${describe(node)} has a contrast of ${contrast.toFixed(2)}`);
  }
  return faults;
}
