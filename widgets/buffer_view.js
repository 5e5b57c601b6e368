// Lengths of queues and buffers over time: a panel each, a line per agent, level lines of models, one selection.
const LEFT = 58, RIGHT = 42, TOP = 22, PANEL = 150, BELOW = 40, WAIT = 150, DRAG = 4;
const DASHES = ["", "7 4", "2 3", "8 3 2 3", "11 4", "11 3 2 3"];
let instances = 0;

function draw(tag, attributes, parent, text = "", space = "http://www.w3.org/2000/svg") {
  const made = parent.appendChild(document.createElementNS(space, tag));
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}
// JupyterLab leaves keys to elements that say so themselves.
const make = (tag, name, parent, text) => draw(tag, { class: name, "data-lm-suppress-shortcuts": "true" }, parent, text, "http://www.w3.org/1999/xhtml");
function column(sent) { // bytes may arrive at any offset
  const bytes = ArrayBuffer.isView(sent) ? sent : new Uint8Array(sent);
  return new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
}
const number = (value, digits = 4) => Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 12 });
function ticks(low, high, most) {
  const raw = (high - low) / most, base = 10 ** Math.floor(Math.log10(raw)), made = [];
  const step = [1, 2, 5, 10].find((f) => raw <= f * base * 1.0001) * base;
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-9); k++) made.push(k * step);
  return made;
}

function render({ model, el }) {
  const id = `cepkit-buffers-${++instances}`, root = make("div", "cepkit-buffer_view", el), head = make("div", "head", root);
  const title = make("div", "title", head), tools = make("div", "tools", head);
  const svg = draw("svg", { tabindex: 0, role: "application", "data-lm-suppress-shortcuts": "true" }, root), said = make("div", "said", root), table = make("table", "", root);
  said.setAttribute("aria-live", "polite");
  let data, shown, timer = 0, drag = null, brushes = [], cursors = [], boxes = [];

  const width = () => Math.max(420, root.clientWidth || 900);
  const button = (name, words, label, parent, act) =>
    Object.assign(make("button", name, parent, words), { type: "button", title: label, ariaLabel: label, onclick: act });
  const value = (of, p, a, b) => data[of][(p * model.get("agents").length + a) * model.get("n_bins") + b];
  const agentOf = (one) => model.get("agents").findIndex((agent) => agent.name === one.agent);
  const edge = (b) => { const [low, high] = model.get("shown"); return low + ((high - low) * b) / model.get("n_bins"); };
  const binAt = (t) => { const [low, high] = model.get("shown"); return Math.max(0, Math.min(model.get("n_bins") - 1, Math.floor(((t - low) / (high - low || 1)) * model.get("n_bins")))); };
  const x = (box, t) => box.x + ((t - shown[0]) / (shown[1] - shown[0])) * box.w;
  const time = (box, px) => shown[0] + ((Math.max(box.x, Math.min(px, box.x + box.w)) - box.x) / box.w) * (shown[1] - shown[0]);
  const length = (ns) => `${number(ns / model.get("unit_ns"))} ${model.get("unit")}`;

  function read() {
    data = Object.fromEntries(["mean", "least", "greatest"].map((name) => [name, column(model.get(name))]));
    const [low, high] = model.get("window").length ? model.get("window") : model.get("extent");
    shown = [low, high > low ? high : low + 1];
    title.textContent = model.get("title");
    paint();
  }
  function paint() {
    const w = width() / 2, tall = TOP + PANEL + BELOW, chosen = model.get("selected");
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width()} ${2 * tall}`);
    svg.style.height = `${2 * tall}px`;
    svg.setAttribute("aria-label", "lengths of queues and buffers; arrow keys read values, p changes the panel, plus and minus zoom");
    [boxes, brushes, cursors] = [[], [], []];
    model.get("panels").forEach((panel, p) => {
      const levels = model.get("models").filter((one) => one.length === panel.length), most = Math.max(1, ...panel.most, ...inView(p));
      const fitting = levels.filter((one) => one.value <= 4 * most), high = 1.06 * Math.max(most, ...fitting.map((one) => one.value));
      const box = { p, x: (p % 2) * w + LEFT, y: Math.floor(p / 2) * tall + TOP, w: w - LEFT - RIGHT, scale: PANEL / high };
      boxes.push(box);
      frame(box, panel, high);
      const clip = draw("clipPath", { id: `${id}-${p}` }, svg), body = draw("g", { "clip-path": `url(#${id}-${p})` }, svg);
      draw("rect", { x: box.x, y: box.y - 2, width: box.w, height: PANEL + 4 }, clip);
      model.get("agents").forEach((agent, a) => line(box, body, p, a, chosen));
      ends(box, p);
      for (const one of fitting) level(box, body, one);
      const words = levels.map((one) => `${model.get("agents")[agentOf(one)].mark} ${number(one.value)}${fitting.includes(one) ? "" : " (above)"}`).join(", ");
      if (words) draw("text", { x: box.x + box.w, y: box.y - 8, class: "level" }, svg, `${levels[0].model}: ${words}`.slice(0, box.w / 8));
      brushes.push(draw("rect", { y: box.y, height: PANEL, width: 0, class: "brush" }, svg));
      cursors.push(draw("path", { class: "cursor" }, svg));
    });
    if (!Math.max(...model.get("panels").flatMap((panel) => panel.most), 0)) draw("text", { x: width() / 2, y: tall, class: "empty" }, svg, "no queue and no buffer held anything");
    point(chosen?.start, chosen);
    below(chosen);
  }
  const inView = (p) => model.get("agents").map((_, a) => Math.max(0, ...Array.from({ length: model.get("n_bins") }, (_, b) => value("greatest", p, a, b))));
  function frame(box, panel, high) {
    draw("text", { x: box.x, y: box.y - 8, class: "label" }, svg, `${panel.label} (${panel.unit})`);
    for (const v of ticks(0, high, 4)) {
      draw("path", { d: `M${box.x},${box.y + PANEL - v * box.scale}h${box.w}`, class: "rule" }, svg);
      draw("text", { x: box.x - 6, y: box.y + PANEL - v * box.scale + 4, class: "tick y" }, svg, number(v, 8));
    }
    const unit = model.get("unit_ns");
    for (const v of ticks(shown[0] / unit, shown[1] / unit, 4)) draw("text", { x: x(box, v * unit), y: box.y + PANEL + 14, class: "tick" }, svg, number(v, 8));
    draw("text", { x: box.x + box.w / 2, y: box.y + PANEL + 29, class: "tick" }, svg, model.get("x_label"));
  }
  function line(box, body, p, a, chosen) {
    const up = [], down = [], mid = [], y = (v) => (box.y + PANEL - v * box.scale).toFixed(1), n = model.get("n_bins");
    for (let b = 0; b < n; b++) {
      const [x0, x1] = [x(box, edge(b)), x(box, edge(b + 1))].map((px) => px.toFixed(1));
      up.push(`${x0},${y(value("greatest", p, a, b))}L${x1},${y(value("greatest", p, a, b))}`);
      down.unshift(`${x1},${y(value("least", p, a, b))}L${x0},${y(value("least", p, a, b))}`);
      mid.push(`${x0},${y(value("mean", p, a, b))}L${x1},${y(value("mean", p, a, b))}`);
    }
    const dim = chosen && chosen.agent !== model.get("agents")[a].name ? " dim" : "";
    draw("path", { d: `M${up.join("L")}L${down.join("L")}Z`, class: `range a${a % 7}${dim}` }, body);
    draw("path", { d: `M${mid.join("L")}`, class: `line a${a % 7}${dim}`, "stroke-dasharray": DASHES[a % DASHES.length] }, body);
  }
  function ends(box, p) { // the agents' marks at the ends of their lines, none over another
    const last = binAt(shown[1] - 1e-9 * (shown[1] - shown[0]));
    const marks = model.get("agents").map((agent, a) => ({ a, text: agent.mark, y: box.y + PANEL - value("mean", p, a, last) * box.scale }));
    marks.sort((one, other) => other.y - one.y).forEach((one, i) => { if (i) one.y = Math.min(one.y, marks[i - 1].y - 11); });
    for (const one of marks) draw("text", { x: box.x + box.w + 5, y: one.y + 4, class: `end a${one.a % 7}` }, svg, one.text);
  }
  function level(box, body, one) {
    const a = agentOf(one), y = box.y + PANEL - one.value * box.scale;
    draw("title", {}, draw("path", { d: `M${box.x},${y}h${box.w}`, class: `model a${a % 7}` }, body), `${one.model} of ${one.agent}: ${number(one.value)}`);
    draw("text", { x: box.x + 8 + 18 * a, y: y - 3, class: `end a${a % 7}` }, body, model.get("agents")[a].mark);
  }
  function below(chosen) {
    table.replaceChildren();
    const top = make("tr", "", table);
    for (const words of ["agent", ...model.get("panels").map((panel) => `${panel.label}: mean, most`)]) make("th", "", top, words);
    model.get("agents").forEach(({ name, mark }, a) => {
      const row = make("tr", "", table), isOn = chosen?.agent === name;
      const act = () => choose(isOn ? null : told(chosen ? boxes.find((b) => model.get("panels")[b.p].length === chosen.length).p : 2, a, binAt(chosen?.start ?? shown[0])));
      const made = button(isOn ? "agent on" : "agent", "", `agent ${name}`, make("th", "", row), act);
      made.setAttribute("aria-pressed", String(isOn));
      draw("path", { d: "M0,7h28", class: `line a${a % 7}`, "stroke-dasharray": DASHES[a % DASHES.length] }, draw("svg", { width: 28, height: 13 }, made));
      make("span", "", made, mark === name ? name : `${mark} = ${name}`);
      for (const panel of model.get("panels")) {
        const levels = model.get("models").filter((one) => one.length === panel.length && one.agent === name);
        make("td", "", row, `${number(panel.mean[a])}, ${number(panel.most[a], 9)}${levels.map((one) => ` (${one.model} ${number(one.value)})`).join("")}`);
      }
    });
  }
  const told = (p, a, b) => ({ length: model.get("panels")[p].length, agent: model.get("agents")[a].name, start: edge(b), end: edge(b + 1),
    mean: value("mean", p, a, b), least: value("least", p, a, b), greatest: value("greatest", p, a, b) });
  function point(t, one) {
    boxes.forEach((box, p) => cursors[p].setAttribute("d", t == null || t < shown[0] || t > shown[1] ? "" : `M${x(box, t)},${box.y}v${PANEL}`));
    const label = one && model.get("panels").find((panel) => panel.length === one.length).label;
    said.textContent = one ? `agent ${one.agent}, ${label}: ${number(one.mean)} on average, ${number(one.least, 9)} to ${number(one.greatest, 9)}, from ${length(one.start)} for ${length(one.end - one.start)}`
      : "Drag to look closer, double-click for all; point, click or press arrow keys to read a line. Areas reach from least to greatest.";
  }
  function choose(one) { model.set("selected", one); model.save_changes(); }
  function show(low, high) {
    const [first, last] = model.get("extent"), all = last - first || 1, span = Math.min(Math.max(high - low, all * 1e-7), all);
    const from = Math.max(first, Math.min(low, first + all - span));
    shown = [from, from + span];
    clearTimeout(timer);
    paint();
    timer = setTimeout(() => { model.set("window", shown); model.save_changes(); }, WAIT);
  }
  const zoom = (factor) => { const m = model.get("selected")?.start ?? (shown[0] + shown[1]) / 2; show(m - (m - shown[0]) * factor, m + (shown[1] - m) * factor); };
  const all = () => show(...model.get("extent"));
  const doors = { "−": ["zoom out", () => zoom(2)], "+": ["zoom in", () => zoom(0.5)], all: ["show all of the time", all] };
  for (const [words, [label, act]] of Object.entries(doors)) button("", words, label, tools, act);

  const place = (event) => { const own = svg.getBoundingClientRect(); return [((event.clientX - own.left) * width()) / own.width, event.clientY - own.top]; };
  function hit(px, py) { // the line nearest to the pointer, in its panel
    const box = boxes.find((b) => px >= b.x && px <= b.x + b.w && py >= b.y - 4 && py <= b.y + PANEL + 4);
    if (!box || !model.get("agents").length) return null;
    const b = binAt(time(box, px)), off = (a) => Math.abs(box.y + PANEL - value("mean", box.p, a, b) * box.scale - py);
    const a = model.get("agents").map((_, own) => own).sort((one, other) => off(one) - off(other))[0];
    return { box, t: time(box, px), one: told(box.p, a, b) };
  }
  svg.onpointerdown = (event) => { const found = hit(...place(event)); if (event.button === 0 && found) drag = { ...found, px: place(event)[0] }; };
  svg.onpointermove = (event) => {
    const [px, py] = place(event), found = hit(px, py);
    if (!drag) return found ? point(found.t, found.one) : point(model.get("selected")?.start, model.get("selected"));
    brushes[drag.box.p].setAttribute("x", Math.min(px, drag.px));
    brushes[drag.box.p].setAttribute("width", Math.abs(px - drag.px));
  };
  svg.onpointerup = (event) => {
    const [px] = place(event), from = drag;
    drag = null;
    if (from && Math.abs(px - from.px) > DRAG) show(...[time(from.box, px), from.t].sort((one, other) => one - other));
    else if (from) choose(from.one);
  };
  svg.onpointerleave = () => { drag = null; point(model.get("selected")?.start, model.get("selected")); };
  svg.ondblclick = all;
  svg.onkeydown = (event) => {
    const one = model.get("selected"), n = model.get("agents").length, name = event.key;
    const act = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: all, Escape: () => choose(null) }[name];
    if (!n || (!act && !["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "p"].includes(name))) return;
    event.preventDefault();
    if (act) return act();
    const p = one ? model.get("panels").findIndex((panel) => panel.length === one.length) : 2;
    const a = one ? agentOf(one) : 0, b = one ? binAt((one.start + one.end) / 2) : 0;
    const aside = one ? { ArrowRight: 1, ArrowLeft: -1 }[name] ?? 0 : 0, down = one ? { ArrowDown: 1, ArrowUp: -1 }[name] ?? 0 : 0;
    choose(told((p + (one && name === "p")) % 4, (a + down + n) % n, Math.max(0, Math.min(model.get("n_bins") - 1, b + aside))));
  };
  const watched = { "change:version": read, "change:title": read, "change:selected": paint };
  for (const [name, act] of Object.entries(watched)) model.on(name, act);
  read();
  const sizes = new ResizeObserver(paint);
  sizes.observe(root);
  return () => {
    clearTimeout(timer);
    sizes.disconnect();
    for (const [name, act] of Object.entries(watched)) model.off(name, act);
    root.remove();
  };
}
export default { render };
