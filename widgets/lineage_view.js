// Matches in rows, their events in columns, chains of partial matches below; pages; one selection.
const LEFT = 104, RIGHT = 14, BARS = 58, ROW = 18, LANE = 18, WIDEST = 56;

function draw(tag, attributes, parent, text = "", space = "http://www.w3.org/2000/svg") {
  const made = parent.appendChild(document.createElementNS(space, tag));
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}
// JupyterLab leaves keys to elements that say so themselves.
const make = (tag, name, parent, text) => draw(tag, { class: name, "data-lm-suppress-shortcuts": "true" }, parent, text, "http://www.w3.org/1999/xhtml");

function render({ model, el }) {
  const root = make("div", "cepkit-lineage_view", el), head = make("div", "head", root), title = make("div", "title", head);
  const note = make("div", "note", head), tools = make("div", "tools", head), svg = draw("svg", { tabindex: 0, role: "application", "data-lm-suppress-shortcuts": "true" }, root);
  const said = make("div", "said", root), legend = make("div", "legend", root);
  said.setAttribute("aria-live", "polite");
  let step = 20, top = 0, below = 0;

  const width = () => Math.max(360, root.clientWidth || 900);
  const x = (e) => LEFT + (e + 0.5) * step;
  const y = (row) => top + (row + 0.5) * ROW;
  const yLane = (lane) => below + (lane + 0.5) * LANE;
  const variableOf = (name) => model.get("variables").find((one) => one.name === name);
  const lookOf = (name) => `v${(variableOf(name)?.look ?? 6) % 7}`;
  const chainOf = (number) => model.get("chains").find((one) => one.chain === number);
  const button = (words, label, act) =>
    Object.assign(make("button", "", tools, words), { type: "button", title: label, ariaLabel: label, onclick: act });
  const turn = (by) => {
    const first = BigInt(model.get("first")), size = BigInt(model.get("size")), to = first + BigInt(by) * size;
    if ((by > 0 && !model.get("has_more")) || (by < 0 && first === 0n)) return;
    model.set("wanted", String(to < 0n ? 0n : to));
    model.save_changes();
  };
  const before = button("◂ matches before", "the matches before these (Page Up)", () => turn(-1));
  const after = button("next matches ▸", "the matches behind these (Page Down)", () => turn(1));

  function lit(chosen) { // rows, events, chains that belong to what is selected; null: everything
    const matches = model.get("matches"), events = model.get("events"), rows = new Set(), columns = new Set(), chains = new Set();
    if (!chosen) return null;
    if (chosen.match != null) matches.forEach((one, row) => { if (one.number === chosen.match) { rows.add(row); one.events.forEach((e) => columns.add(e)); } });
    if (chosen.event != null) matches.forEach((one, row) => { if (one.events.some((e) => events[e].position === chosen.event)) rows.add(row); });
    if (chosen.event != null) events.forEach((one, e) => { if (one.position === chosen.event) columns.add(e); });
    for (let one = chainOf(chosen.chain); one && !chains.has(one.chain); one = chainOf(one.before)) chains.add(one.chain);
    const chain = chainOf(chosen.chain);
    for (const number of chains) { // of a chain that others go on from, the events that they share
      const child = [...chains].map(chainOf).find((one) => one.before === number);
      chainOf(number).events.slice(0, child?.shared).forEach((e) => columns.add(e));
    }
    for (const row of chain?.matches ?? []) rows.add(row);
    model.get("chains").forEach((one) => { if (chosen.chain == null && one.matches?.some((row) => rows.has(row)) && chosen.match != null) for (let c = one; c; c = chainOf(c.before)) chains.add(c.chain); });
    return { rows, columns, chains };
  }
  function paint() {
    const events = model.get("events"), matches = model.get("matches"), lanes = model.get("lanes"), chosen = model.get("selected"), on = lit(chosen);
    step = Math.min(WIDEST, (width() - LEFT - RIGHT) / Math.max(1, events.length));
    top = BARS + 12;
    below = top + ROW * Math.max(1, model.get("n_rows")) + (lanes.length ? 30 : 0);
    const high = below + LANE * lanes.length + 34;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width()} ${high}`);
    svg.style.height = `${high}px`;
    svg.setAttribute("aria-label", `${matches.length} matches and their ${events.length} events; arrow keys select, page keys turn pages`);
    title.textContent = model.get("title");
    note.textContent = model.get("note");
    before.disabled = model.get("first") === "0";
    after.disabled = !model.get("has_more");
    const most = Math.max(1, ...events.map((one) => one.n)), right = x(events.length - 1) + step / 2, every = Math.ceil((6.4 * Math.min(24, Math.max(...events.map((one) => one.label.length), 1)) + 8) / step);
    draw("text", { x: LEFT - 10, y: 16, class: "side" }, svg, "in matches");
    draw("text", { x: LEFT - 10, y: 32, class: "side faint" }, svg, `(at most ${most})`);
    events.forEach((one, e) => {
      const bar = Math.min(14, step * 0.8), tall = (BARS - 16) * (one.n / most), isLit = on?.columns.has(e);
      if (isLit) draw("rect", { x: x(e) - step / 2, y: 0, width: step, height: high - 30, class: "column" }, svg);
      draw("rect", { x: x(e) - bar / 2, y: BARS - tall, width: bar, height: Math.max(tall, 0.5), class: `bar${on && !isLit ? " dim" : ""}` }, svg);
      if (step >= 16) draw("text", { x: x(e), y: BARS - tall - 2, class: "n" }, svg, one.n || "");
      if (e % every === 0) draw("text", { x: x(e) - Math.min(step, 14) / 2, y: high - 14, class: "label" }, svg, one.label.slice(0, 24));
    });
    draw("path", { d: `M${LEFT},${BARS + 0.5}H${right}`, class: "rule" }, svg);
    matches.forEach((one, row) => {
      const isDim = on && !on.rows.has(row) && !one.events.some((e) => chosen.event == null && chosen.chain == null && on.columns.has(e) && one.number === chosen.match);
      const group = draw("g", { class: isDim ? "dim" : "" }, svg);
      draw("text", { x: LEFT - 10, y: y(row) + 4, class: "side" }, group, `match ${one.number}`);
      if (one.events.length) draw("path", { d: `M${x(one.events[0])},${y(row)}H${x(one.events.at(-1))}`, class: "join" }, group);
      one.events.forEach((e, i) => mark(group, model.get("variables")[one.variables[i]], x(e), y(row), events[e].n > 1));
    });
    if (!matches.length) draw("text", { x: LEFT, y: top + 14, class: "empty" }, svg, "no match");
    if (lanes.length) draw("text", { x: LEFT - 10, y: below - 8, class: "side faint" }, svg, "chains");
    lanes.forEach((lane, i) => draw("text", { x: LEFT - 10, y: yLane(i) + 4, class: "side" }, svg, i && lanes[i - 1].variable === lane.variable ? "" : lane.variable));
    for (const one of model.get("chains")) chain(one, on);
    say(chosen);
    legend.replaceChildren();
    for (const one of model.get("variables")) {
      const made = make("span", "", legend);
      mark(draw("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14" }, made), one, 0, 0, false);
      make("span", "", made, one.name);
    }
    if (events.some((one) => one.n > 1)) make("span", "faint", legend, "ringed: an event that several matches share");
    if (lanes.length) make("span", "faint", legend, "dashed: from the first event of a chain to the last event that it shares of the chain before");
  }
  function mark(parent, variable, px, py, isShared) {
    const place = { transform: `translate(${px},${py})` };
    if (isShared) draw("circle", { r: 7.2, class: "ring", ...place }, parent);
    draw("path", { d: variable.path, class: `mark v${variable.look % 7}`, ...place }, parent);
  }
  function chain(one, on) {
    const from = chainOf(one.before), group = draw("g", { class: on && !on.chains.has(one.chain) ? "dim" : "" }, svg), h = yLane(one.lane);
    if (from && one.tail != null) {
      const [x0, y0, x1] = [x(one.tail), yLane(from.lane), x(one.events[0])];
      draw("path", { d: `M${x1},${h}C${x1},${(h + y0) / 2} ${x0},${(h + y0) / 2} ${x0},${y0}`, class: "pointer" }, group);
    }
    draw("path", { d: `M${x(one.events[0])},${h}H${x(one.events.at(-1))}`, class: `link ${lookOf(one.variable)}` }, group);
    for (const e of one.events) mark(group, variableOf(one.variable) ?? { path: "M-3,0A3,3 0 1 0 3,0A3,3 0 1 0 -3,0Z", look: 6 }, x(e), h, false);
  }
  function say(one) {
    const matches = model.get("matches"), events = model.get("events"), chosen = one ?? {};
    const match = matches.find((of) => of.number === chosen.match), event = events.find((of) => of.position === chosen.event), own = chainOf(chosen.chain);
    const names = model.get("variables").map((of) => of.name);
    if (match) said.textContent = `match ${match.number}: ${match.events.map((e, i) => `${names[match.variables[i]]} = ${events[e].label}`).join(", ")}`;
    else if (event) said.textContent = `event ${event.label}: in ${event.n} of the ${matches.length} matches shown`;
    else if (own) said.textContent = `chain ${own.chain} of ${own.variable}: ${own.events.length} events${own.before >= 0 ? `, behind the first ${own.shared} of chain ${own.before}` : ""}${own.matches ? `, ${own.matches.length} of the matches shown` : ""}`;
    else said.textContent = "Point at a match, an event or a chain, or click it to see what belongs to it.";
  }
  function choose(one) {
    const now = model.get("selected"), isSame = one && now && Object.keys(one).every((key) => one[key] === now[key]);
    model.set("selected", isSame ? null : one);
    model.save_changes();
  }
  function hit(event) {
    const own = svg.getBoundingClientRect(), px = ((event.clientX - own.left) * width()) / own.width, py = event.clientY - own.top;
    const e = Math.floor((px - LEFT) / step), column = model.get("events")[e], row = Math.floor((py - top) / ROW), match = model.get("matches")[row];
    const lane = Math.floor((py - below) / LANE), chains = model.get("chains").filter((one) => one.lane === lane);
    if (py < BARS + 6) return column ? { event: column.position } : null;
    if (match && py < top + ROW * model.get("matches").length) return { match: match.number };
    const found = chains.find((one) => e >= one.events[0] && e <= one.events.at(-1)) ?? null;
    return found && { chain: found.chain };
  }
  svg.onpointermove = (event) => say(hit(event) ?? model.get("selected"));
  svg.onpointerleave = () => say(model.get("selected"));
  svg.onclick = (event) => choose(hit(event));
  svg.onkeydown = (event) => {
    const matches = model.get("matches"), events = model.get("events"), one = model.get("selected"), by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    const act = { Escape: () => one && choose(one), PageDown: () => turn(1), PageUp: () => turn(-1) }[event.key];
    if (!act && (!by || !matches.length)) return;
    event.preventDefault();
    if (act) return act();
    const step_ = (list, now) => Math.max(0, Math.min(list.length - 1, now < 0 ? 0 : now + by));
    const next = event.key === "ArrowDown" || event.key === "ArrowUp" ? { match: matches[step_(matches, matches.findIndex((of) => of.number === one?.match))].number }
      : { event: events[step_(events, events.findIndex((of) => of.position === one?.event))].position };
    if (JSON.stringify(next) !== JSON.stringify(one)) choose(next);
  };
  const watched = { "change:version": paint, "change:selected": paint, "change:title": paint };
  for (const [name, act] of Object.entries(watched)) model.on(name, act);
  paint();
  const sizes = new ResizeObserver(paint);
  sizes.observe(root);
  return () => {
    sizes.disconnect();
    for (const [name, act] of Object.entries(watched)) model.off(name, act);
    root.remove();
  };
}
export default { render };
