// Utilities: rows of types or states in shades by position, their distribution below, one selection.
const LEFT = 150, RIGHT = 44, TOP = 6, AXIS = 40, TALL = 150, GAP = 26;

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
  if (!(raw > 0)) return [low];
  const step = [1, 2, 5, 10].find((f) => raw <= f * base * 1.0001) * base;
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) made.push(k * step);
  return made;
}

function render({ model, el }) {
  const root = make("div", "cepkit-utility_view", el), head = make("div", "head", root), title = make("div", "title", head);
  const note = make("div", "note", head), svg = draw("svg", { tabindex: 0, role: "application", "data-lm-suppress-shortcuts": "true" }, root), said = make("div", "said", root);
  said.setAttribute("aria-live", "polite");
  let data, height = 20, step = 10, floor = 0, wide = 10, cells = 1, bars = 1;

  const width = () => Math.max(420, root.clientWidth || 900);
  const rows = () => model.get("rows");
  const most = () => model.get("utility_edges").at(-1) || 1;
  const rowOf = (one) => rows().findIndex((row) => row.label === one?.row);
  const positionAt = (b) => model.get("position_edges").slice(b, b + 2);
  const cell = (r, b) => ({ row: rows()[r].label, ...Object.fromEntries(["state", "event_type"].filter((k) => k in rows()[r]).map((k) => [k, rows()[r][k]])),
    position: positionAt(b), utility: data.mean[r * cells + b], n: data.n[r * cells + b] });
  const binOf = (utility) => Math.min(bars - 1, Math.floor((utility / most()) * bars + 1e-9));

  function read() {
    data = Object.fromEntries(["mean", "n", "n_of_utility"].map((name) => [name, column(model.get(name))]));
    paint();
  }
  function paint() {
    const chosen = model.get("selected");
    [cells, bars] = [model.get("position_edges").length - 1, model.get("utility_edges").length - 1];
    height = Math.max(12, Math.min(24, Math.floor(420 / Math.max(1, rows().length))));
    step = (width() - LEFT - RIGHT) / Math.max(1, cells);
    wide = (width() - LEFT - RIGHT) / Math.max(1, bars);
    const bottom = TOP + height * Math.max(1, rows().length);
    floor = bottom + AXIS + GAP + TALL;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width()} ${floor + AXIS}`);
    svg.style.height = `${floor + AXIS}px`;
    svg.setAttribute("aria-label", `utilities of ${rows().length} rows by position, and their distribution; arrow keys go from cell to cell`);
    title.textContent = model.get("title");
    note.textContent = model.get("note");
    table(chosen);
    scale(bottom);
    distribution(chosen);
    say(chosen);
  }
  function table(chosen) {
    const bar = Array.isArray(chosen?.utility) ? chosen.utility : null, lit = rowOf(chosen);
    rows().forEach((row, r) => {
      const y = TOP + r * height;
      draw("text", { x: LEFT - 8, y: y + height / 2 + 4, class: `side${r === lit ? " on" : ""}` }, svg, row.label.length > 22 ? `${row.label.slice(0, 21)}…` : row.label);
      for (let b = 0; b < cells; b++) {
        const value = data.mean[r * cells + b], x = LEFT + b * step;
        if (Number.isNaN(value)) { draw("path", { d: `M${x + 1},${y + height - 2}L${x + Math.min(step, height) - 1},${y + 1}`, class: "none" }, svg); continue; }
        const share = value / most(), isOn = (bar && value >= bar[0] && (value < bar[1] || bar[1] >= most())) || (r === lit && chosen.position?.[0] === positionAt(b)[0]);
        draw("rect", { x, y, width: Math.max(step - (step > 4), 0.5), height: height - 1, class: "cell", "fill-opacity": (0.06 + 0.94 * share).toFixed(3) }, svg);
        if (isOn) draw("rect", { x: x + 0.5, y: y + 0.5, width: Math.max(step - 2, 1), height: height - 2, class: "chosen" }, svg);
        const words = number(value < most() * 5e-4 ? 0 : value, 2);
        if (step >= 6.5 * words.length + 6 && height >= 14) draw("text", { x: x + step / 2, y: y + height / 2 + 3.5, class: share > 0.55 ? "value over" : "value" }, svg, words);
      }
    });
    if (!rows().length) draw("text", { x: LEFT, y: TOP + 14, class: "empty" }, svg, "no utilities");
  }
  function scale(bottom) {
    const [low, high] = [model.get("position_edges")[0], model.get("position_edges").at(-1)];
    if (model.get("has_position"))
      for (const v of ticks(low, high, 8)) draw("text", { x: LEFT + ((v - low) / (high - low)) * step * cells, y: bottom + 13, class: "tick" }, svg, number(v, 8));
    draw("text", { x: LEFT + (step * cells) / 2, y: bottom + 29, class: "tick" }, svg, model.get("position_label"));
    for (let k = 0; k <= 20; k++) draw("rect", { x: k * 4.4, y: bottom + 20, width: 4.4, height: 9, class: "cell", "fill-opacity": 0.06 + 0.047 * k }, svg);
    draw("text", { x: 0, y: bottom + 14, class: "key" }, svg, "utility 0");
    draw("text", { x: 92, y: bottom + 14, class: "key last" }, svg, number(most()));
  }
  function distribution(chosen) {
    const one = rowOf(chosen), own = Array.from({ length: bars }, (_, k) => rows().reduce((sum, _, r) => sum + (one < 0 || r === one ? data.n_of_utility[r * bars + k] : 0), 0));
    const high = Math.max(...own, 0), total = own.reduce((a, b) => a + b, 0), top = floor - TALL;
    const bar = Array.isArray(chosen?.utility) ? binOf((chosen.utility[0] + chosen.utility[1]) / 2) : -1;
    for (const v of ticks(0, high || 1, 3)) {
      draw("path", { d: `M${LEFT},${floor - (v / (high || 1)) * TALL}h${wide * bars}`, class: "rule" }, svg);
      draw("text", { x: LEFT - 8, y: floor - (v / (high || 1)) * TALL + 4, class: "tick y" }, svg, number(v, 8));
    }
    own.forEach((n, k) => draw("rect", { x: LEFT + k * wide, y: floor - (n / (high || 1)) * TALL, width: wide - 1, height: (n / (high || 1)) * TALL, class: `bar${k === bar ? " on" : ""}` }, svg));
    let sum = 0;
    const points = own.map((n, k) => `${(LEFT + (k + 1) * wide).toFixed(1)},${(floor - ((sum += n) / (total || 1)) * TALL).toFixed(1)}`);
    if (total) draw("path", { d: `M${LEFT},${floor}L${points.join("L")}`, class: "sum" }, svg);
    for (const part of [0, 0.5, 1]) draw("text", { x: LEFT + wide * bars + 6, y: floor - part * TALL + 4, class: "tick end" }, svg, `${100 * part} %`);
    for (const v of ticks(0, most(), 8)) draw("text", { x: LEFT + (v / most()) * wide * bars, y: floor + 14, class: "tick" }, svg, number(v, 8));
    draw("text", { x: LEFT + (wide * bars) / 2, y: floor + 31, class: "tick" }, svg, "utility");
    draw("text", { x: LEFT, y: top - 8, class: "label" }, svg, `${one < 0 ? "all rows" : rows()[one].label}: how many are seen with a utility (bars), and the share up to it (line)`);
    const at = model.get("threshold");
    if (at == null) return;
    const x = LEFT + (Math.min(at, most()) / most()) * wide * bars, isRight = x > LEFT + (wide * bars) / 2;
    draw("path", { d: `M${x},${top}V${floor}`, class: "threshold" }, svg);
    draw("text", { x: x + (isRight ? -5 : 5), y: top + 12, class: `label${isRight ? " last" : ""}` }, svg, `${number(100 * model.get("share"), 3)} % of all up to ${number(at)}`);
  }
  function say(one) {
    if (!one) said.textContent = "Point at a cell or a bar; click it or press arrow keys to keep it.";
    else if (Array.isArray(one.utility)) said.textContent = `utility from ${number(one.utility[0])} to ${number(one.utility[1])}: ${number(one.n, 6)} seen`;
    else if (!one.position) said.textContent = `${one.row}: ${number(one.n, 6)} seen`;
    else said.textContent = `${one.row}${model.get("has_position") ? `, position from ${number(one.position[0], 6)} to ${number(one.position[1], 6)}` : ""}: ${one.utility == null || Number.isNaN(one.utility) ? "no such cell" : `utility ${number(one.utility)}, ${number(one.n, 6)} seen`}`;
  }
  function choose(one) {
    const now = model.get("selected");
    model.set("selected", one && now && JSON.stringify(one) === JSON.stringify(now) ? null : one);
    model.save_changes();
  }
  function hit(event) {
    const box = svg.getBoundingClientRect(), px = ((event.clientX - box.left) * width()) / box.width - LEFT, py = event.clientY - box.top;
    const r = Math.floor((py - TOP) / height), b = Math.floor(px / step), k = Math.floor(px / wide);
    if (r >= 0 && r < rows().length && b < cells) {
      if (px >= 0) return Number.isNaN(data.mean[r * cells + b]) ? null : cell(r, b);
      const { position, utility, ...row } = cell(r, 0);
      return { ...row, n: data.n.slice(r * cells, (r + 1) * cells).reduce((a, c) => a + c, 0) };
    }
    if (py < floor - TALL - 4 || py > floor + 4 || k < 0 || k >= bars) return null;
    const one = rowOf(model.get("selected")), [low, high] = model.get("utility_edges").slice(k, k + 2);
    return { utility: [low, high], n: rows().reduce((sum, _, r) => sum + (one < 0 || r === one ? data.n_of_utility[r * bars + k] : 0), 0) };
  }
  svg.onpointermove = (event) => say(hit(event) ?? model.get("selected"));
  svg.onpointerleave = () => say(model.get("selected"));
  svg.onclick = (event) => {
    const one = hit(event);
    if (one && !one.row) one.n = rows().reduce((sum, _, r) => sum + data.n_of_utility[r * bars + binOf((one.utility[0] + one.utility[1]) / 2)], 0);
    choose(one);
  };
  svg.onkeydown = (event) => {
    const [down, aside] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] ?? [0, 0], one = model.get("selected");
    if (event.key === "Escape" && one) choose(null);
    if (!rows().length || (!down && !aside)) return;
    event.preventDefault();
    const r = rowOf(one), b = r < 0 || !one.position ? -1 : model.get("position_edges").indexOf(one.position[0]);
    const next = b < 0 ? cell(Math.max(r, 0), 0) : cell(Math.max(0, Math.min(rows().length - 1, r + down)), Math.max(0, Math.min(cells - 1, b + aside)));
    if (Number.isNaN(next.utility)) next.utility = null;
    if (JSON.stringify(next) !== JSON.stringify(one)) choose(next);
  };
  const watched = { "change:version": read, "change:selected": paint, "change:threshold": paint, "change:share": paint, "change:title": paint };
  for (const [name, act] of Object.entries(watched)) model.on(name, act);
  read();
  const sizes = new ResizeObserver(paint);
  sizes.observe(root);
  return () => {
    sizes.disconnect();
    for (const [name, act] of Object.entries(watched)) model.off(name, act);
    root.remove();
  };
}
export default { render };
