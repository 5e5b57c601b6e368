// Lanes of threads over time: rectangles by agent and kind of work, a zoom, one selection, threads by agent.
const LEFT = 132, RIGHT = 12, TOP = 6, AXIS = 38, DRAG = 4, WAIT = 150;
const ACTIONS = ["source", "events", "partials", "removal"], WORDS = { modelled: "cost model", busy: "busy, on average", home: "at home" };
const COLUMNS = ["lane", "agent", "action", "start", "end", "low", "high", "items"];
let instances = 0;

function draw(tag, attributes, parent, text = "", space = "http://www.w3.org/2000/svg") {
  const made = parent.appendChild(document.createElementNS(space, tag));
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}
const make = (tag, name, parent, text) => draw(tag, { class: name, "data-lm-suppress-shortcuts": "true" }, parent, text, "http://www.w3.org/1999/xhtml");
function column(sent) { // bytes may arrive at any offset
  const bytes = ArrayBuffer.isView(sent) ? sent : new Uint8Array(sent);
  return new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
}
const number = (value, digits = 4) => Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 12 });

function render({ model, el }) {
  const id = `cepkit-threads-${++instances}`, root = make("div", "cepkit-thread_view", el);
  const head = make("div", "head", root), title = make("div", "title", head), tools = make("div", "tools", head);
  const svg = draw("svg", { tabindex: 0, role: "application", "data-lm-suppress-shortcuts": "true" }, root), said = make("div", "said", root);
  const legend = make("div", "legend", root), table = make("table", "", root);
  said.setAttribute("aria-live", "polite");
  let data, lanes, height, shown, at = -1, timer = 0, drag = null, brush, body;

  const look = (a, k) => ({ class: `a${a < 0 ? "n" : a % 7} k${k}`, style: k === 1 ? "" : `fill:url(#${id}-${a < 0 ? "n" : a % 7}-${k})` });
  const width = () => Math.max(320, root.clientWidth || 900);
  const scale = () => (width() - LEFT - RIGHT) / (shown[1] - shown[0]);
  const x = (t) => LEFT + (t - shown[0]) * scale();
  const time = (px) => shown[0] + (Math.max(LEFT, px) - LEFT) / scale();
  const length = (ns) => `${number(ns / model.get("unit_ns"))} ${model.get("unit")}`;
  const button = (name, words, label, parent, act) =>
    Object.assign(make("button", name, parent, words), { type: "button", title: label, ariaLabel: label, onclick: act });

  function read() {
    data = Object.fromEntries(COLUMNS.map((name) => [name, column(model.get(name))]));
    lanes = model.get("lanes");
    height = Math.max(10, Math.min(22, Math.floor(420 / Math.max(1, lanes.length))));
    const [low, high] = model.get("window").length ? model.get("window") : model.get("extent");
    [shown, at] = [[low, high > low ? high : low + 1], -1];
    paint();
  }
  function paint() {
    const right = width() - RIGHT, bottom = TOP + lanes.length * height, chosen = model.get("selected");
    svg.replaceChildren();
    title.textContent = model.get("title");
    const about = `${lanes.length} threads over time; arrow keys select, plus and minus zoom, 0 shows all`;
    const own = { viewBox: `0 0 ${width()} ${bottom + AXIS}`, style: `height:${bottom + AXIS}px`, "aria-label": about };
    for (const [name, value] of Object.entries(own)) svg.setAttribute(name, value);
    const defs = draw("defs", {}, svg), colours = [-1, ...model.get("agents").keys()].slice(0, 8);
    for (const [a, k] of colours.flatMap((a) => [0, 2, 3].map((k) => [a, k]))) {
      const own = { id: `${id}-${a < 0 ? "n" : a}-${k}`, width: 6, height: 6, patternUnits: "userSpaceOnUse", class: look(a, k).class };
      const pattern = draw("pattern", own, defs);
      draw("rect", { width: 6, height: 6, class: "ground" }, pattern);
      draw("path", { d: ["M2,3h2", "", "M0,6L6,0", "M0,0L6,6M0,6L6,0"][k], class: "hatch" }, pattern);
    }
    draw("rect", { x: LEFT, width: right - LEFT, height: bottom }, draw("clipPath", { id: `${id}-clip` }, defs));
    axis(bottom, right);
    lanes.forEach((lane, i) => {
      const y = TOP + (i + 1) * height, own = { x: LEFT - 8, y: y - height / 2 + 4, class: "lane", style: `font-size:${Math.min(11, height)}px` };
      draw("path", { d: `M${LEFT},${y - 0.5}H${right}`, class: "rule" }, svg);
      draw("title", {}, draw("text", own, svg, lane.label.slice(0, 18)), lane.note);
    });
    body = draw("g", { "clip-path": `url(#${id}-clip)` }, svg);
    segments(right, chosen?.thread == null ? chosen?.agent : null);
    const lane = lanes.findIndex((one) => one.thread === chosen?.thread), box = { y: TOP - 1 + lane * height, height: height + 1, class: "chosen" };
    if (lane >= 0) draw("rect", { ...box, x: x(chosen.start) - 1, width: Math.max(3, x(chosen.end) - x(chosen.start)) + 2 }, body);
    brush = draw("rect", { class: "brush", height: bottom, width: 0 }, svg);
    if (!data.lane.length) draw("text", { x: (LEFT + right) / 2, y: bottom / 2 + 4, class: "empty" }, svg, "no thread did anything in this time");
    say(now());
    below(chosen);
  }
  function segments(right, alone) {
    const paths = new Map();
    for (let i = 0; i < data.lane.length; i++) {
      if (data.end[i] < shown[0] || data.start[i] > shown[1]) continue;
      const x0 = Math.max(x(data.start[i]), LEFT), x1 = Math.max(Math.min(x(data.end[i]), right), x0 + 0.4), h = height - 2;
      const y = TOP - 1 + (data.lane[i] + 1) * height, key = data.agent[i] * 4 + data.action[i];
      const [top, low, l, r] = [y - data.high[i] * h, y - data.low[i] * h, x0, x1].map((v) => v.toFixed(2));
      (paths.get(key) ?? paths.set(key, []).get(key)).push(`M${l},${top}H${r}V${low}H${l}Z`);
    }
    for (const [key, d] of paths) {
      const a = Math.floor(key / 4), own = look(a, key - 4 * a), dim = alone && alone !== model.get("agents")[a]?.name;
      draw("path", { d: d.join(""), ...own, class: own.class + (dim ? " dim" : "") }, body);
    }
    for (const one of model.get("marks")) {
      const own = { x: x(one.time), y: TOP + (one.lane + 0.5) * height + 3.5, class: "mark", style: `font-size:${Math.min(11, height - 1)}px` };
      draw("text", own, body, model.get("agents")[one.agent].mark);
    }
  }
  function axis(bottom, right) {
    const unit = model.get("unit_ns"), [low, high] = shown.map((t) => t / unit), raw = (high - low) / 6;
    const base = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find((f) => raw <= f * base * 1.0001) * base;
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-9); k++) {
      draw("path", { d: `M${x(k * step * unit)},2V${bottom + 4}`, class: "rule" }, svg);
      draw("text", { x: x(k * step * unit), y: bottom + 16, class: "tick" }, svg, number(k * step, 8));
    }
    draw("text", { x: (LEFT + right) / 2, y: bottom + 33, class: "axis" }, svg, model.get("x_label"));
  }
  function below(chosen) { // what the patterns mean, and a row per agent: its colour, its threads
    const swatch = (a, k, parent) => draw("rect", { width: 13, height: 13, ...look(a, k) }, draw("svg", { width: 13, height: 13 }, parent));
    const rows = model.get("allocation"), names = Object.keys(WORDS).filter((name) => rows.some((row) => row[name] != null));
    const most = Math.max(1e-9, ...rows.flatMap((row) => names.map((name) => row[name] ?? 0)));
    for (const part of [legend, table]) part.replaceChildren();
    model.get("actions").forEach((words, k) => {
      const made = make("span", "kind", legend);
      swatch(-1, k, made);
      made.append(words);
    });
    const top = make("tr", "", table);
    for (const words of ["agent", ...names.map((name) => `threads: ${WORDS[name]}`)]) make("th", "", top, words);
    rows.forEach((row, a) => {
      const isAlone = chosen?.agent === row.agent && chosen.thread == null, { mark } = model.get("agents")[a], line = make("tr", "", table);
      const act = () => choose(isAlone ? {} : { agent: row.agent }), first = make("th", "", line);
      const made = button(isAlone ? "agent on" : "agent", "", `show agent ${row.agent} alone`, first, act);
      made.setAttribute("aria-pressed", String(isAlone));
      swatch(a, 1, made);
      made.append(mark === row.agent ? mark : `${mark} = ${row.agent}`);
      for (const name of names) {
        const bar = make("div", `bar a${a % 7} ${name}`, make("td", "", line));
        make("i", "", bar).style.width = `${(62 * (row[name] ?? 0)) / most}%`;
        make("b", "", bar, row[name] == null ? "–" : number(row[name], 3));
      }
    });
  }
  function say(one) {
    const busy = model.get("allocation").find((row) => row.agent === one?.agent)?.busy ?? 0, n = model.get("n_bins");
    const hint = `Drag to look closer, double-click for all; point, click or press arrow keys for a segment.${n ? ` Heights are shares of ${n} bins.` : ""}`;
    if (one?.thread == null) return (said.textContent = one ? `agent ${one.agent}: ${number(busy, 3)} threads busy for it on average` : hint);
    const share = one.share < 0.9995 ? `, ${number(100 * one.share, 3)} % of this bin` : "", took = one.items >= 0 ? `, ${number(one.items, 9)} taken` : "";
    const who = `${one.thread < 0 ? "source" : `thread ${one.thread}`}: ${one.agent ? `agent ${one.agent}, ` : ""}${model.get("actions")[ACTIONS.indexOf(one.action)]}`;
    said.textContent = `${who}, from ${length(one.start)} for ${length(one.end - one.start)}${share}${took}`;
  }
  const told = (i) => ({ thread: lanes[data.lane[i]].thread, agent: model.get("agents")[data.agent[i]]?.name ?? null, action: ACTIONS[data.action[i]],
    start: data.start[i], end: data.end[i], share: data.high[i] - data.low[i], items: data.items[i] });
  const now = () => (at >= 0 ? told(at) : model.get("selected"));
  const save = (name, value) => { model.set(name, value); model.save_changes(); };
  const choose = ({ share, items, ...one } = {}, i = -1) => { at = i; save("selected", "agent" in one ? one : null); };
  function show(low, high) {
    const [first, last] = model.get("extent"), all = last - first || 1, span = Math.min(Math.max(high - low, all * 1e-7), all);
    const from = Math.max(first, Math.min(low, first + all - span));
    shown = [from, from + span];
    clearTimeout(timer);
    paint();
    timer = setTimeout(() => save("window", shown), WAIT);
  }
  const zoom = (factor) => {
    const one = model.get("selected"), middle = one?.thread == null ? (shown[0] + shown[1]) / 2 : (one.start + one.end) / 2;
    show(middle - (middle - shown[0]) * factor, middle + (shown[1] - middle) * factor);
  };
  const all = () => show(...model.get("extent"));
  const doors = { "−": ["zoom out", () => zoom(2)], "+": ["zoom in", () => zoom(0.5)], all: ["show all of the time", all] };
  for (const [words, [label, act]] of Object.entries(doors)) button("", words, label, tools, act);

  const place = (event) => { const box = svg.getBoundingClientRect(); return [((event.clientX - box.left) * width()) / box.width, event.clientY - box.top]; };
  function hit(px, py) { // the segment under the pointer, else the nearest one of its bin
    const lane = Math.floor((py - TOP) / height), level = 1 - ((py - TOP) / height - lane), t = time(px), slack = 1.5 / scale();
    const under = [...data.lane.keys()].filter((i) => data.lane[i] === lane && data.start[i] - slack <= t && t <= data.end[i] + slack);
    const off = (i) => Math.max(0, data.low[i] - level, level - data.high[i]) + Math.max(0, data.start[i] - t, t - data.end[i]) / slack;
    return px < LEFT ? -1 : under.sort((i, j) => off(i) - off(j))[0] ?? -1;
  }
  svg.onpointerdown = (event) => { if (event.button === 0 && place(event)[0] >= LEFT) [drag] = place(event); };
  svg.onpointermove = (event) => {
    const [px, py] = place(event), i = hit(px, py);
    if (drag == null) return say(i >= 0 ? told(i) : now());
    brush.setAttribute("x", Math.max(LEFT, Math.min(px, drag))), brush.setAttribute("width", Math.abs(Math.max(px, LEFT) - drag));
  };
  svg.onpointerup = (event) => {
    const [px, py] = place(event), i = hit(px, py), from = drag;
    drag = null;
    if (from != null && Math.abs(px - from) > DRAG) show(time(Math.min(px, from)), time(Math.max(px, from)));
    else if (from != null) choose(i < 0 ? {} : told(i), i);
  };
  svg.onpointerleave = () => { drag = null; brush.setAttribute("width", 0); say(now()); };
  svg.ondblclick = all;
  svg.onkeydown = (event) => {
    const act = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: all, Escape: () => choose() }[event.key];
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (act || step) event.preventDefault();
    if (!step) return act?.();
    const isAside = event.key.endsWith("t"), lane = at < 0 ? -1 : data.lane[at] + (isAside ? 0 : step), t = at < 0 ? shown[0] : data.start[at];
    const next = [...data.lane.keys()].filter((i) => (at < 0 ? data.end[i] > t : data.lane[i] === lane && (!isAside || i === at + step)));
    const [i] = at < 0 ? next : next.sort((one, other) => Math.abs(data.start[one] - t) - Math.abs(data.start[other] - t));
    if (i != null) choose(told(i), i);
  };
  const watched = { "change:version": read, "change:title": read, "change:selected": paint, "change:allocation": paint };
  for (const [name, act] of Object.entries(watched)) model.on(name, act);
  read();
  const sizes = new ResizeObserver(paint);
  sizes.observe(root);
  return () => {
    clearTimeout(timer), sizes.disconnect();
    for (const [name, act] of Object.entries(watched)) model.off(name, act);
    root.remove();
  };
}
export default { render };
