// Lengths of queues and buffers over time: one panel each, with a line per agent and a level line per model.
const LEFT = 58;
const RIGHT = 42;
const TOP = 22;
const PANEL = 150;
const BELOW = 40;
const DRAG = 4;
const DASHES = ["", "7 4", "2 3", "8 3 2 3", "11 4", "11 3 2 3"];
const FIRST_PANEL = 2; // selected first: events in buffers
const HINT =
  "Drag to look closer, double-click to see all. Point at a line or press arrow keys to read it. " +
  "Areas reach from least to greatest.";
let instances = 0;

function render({ model, el }) {
  const id = `cepkit-buffers-${++instances}`;
  const root = make("div", "cepkit-buffer_view", el);
  const head = make("div", "head", root);
  const title = make("div", "title", head);
  const svg = surface(root, "time");
  const said = make("div", "said", root);
  const table = make("table", "", root);
  const note = make("p", "note", root);
  said.setAttribute("aria-live", "polite");
  let data;
  let drag = null;
  let brushes = [];
  let cursors = [];
  let boxes = [];

  const part = timeWindow(
    model,
    () => paint(),
    () => model.get("selected")?.start ?? null,
  );
  make("div", "tools", head).append(...part.buttons);
  const width = () => Math.max(420, root.clientWidth || 900);
  const value = (of, p, a, b) => data[of][(p * model.get("agents").length + a) * model.get("n_bins") + b];
  const agentOf = (one) => model.get("agents").findIndex((agent) => agent.name === one.agent);
  const panelOf = (one) =>
    one ? model.get("panels").findIndex((panel) => panel.length === one.length) : FIRST_PANEL;
  const edge = (b) => {
    const [low, high] = model.get("shown");
    return low + ((high - low) * b) / model.get("n_bins");
  };
  const binAt = (t) => {
    const [low, high] = model.get("shown");
    const n = model.get("n_bins");
    return clamp(Math.floor(((t - low) / (high - low || 1)) * n), 0, n - 1);
  };
  const x = (box, t) => box.x + ((t - part.shown[0]) / (part.shown[1] - part.shown[0])) * box.w;
  const time = (box, px) =>
    part.shown[0] + ((clamp(px, box.x, box.x + box.w) - box.x) / box.w) * (part.shown[1] - part.shown[0]);

  function read() {
    data = Object.fromEntries(["mean", "least", "greatest"].map((name) => [name, column(model.get(name))]));
    part.read();
    title.textContent = model.get("title");
    note.textContent = model.get("note");
    paint();
  }
  function paint() {
    const w = width() / 2;
    const tall = TOP + PANEL + BELOW;
    const chosen = model.get("selected");
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width()} ${2 * tall}`);
    svg.style.height = `${2 * tall}px`;
    svg.setAttribute(
      "aria-label",
      "lengths of queues and buffers; arrow keys read values, p changes the panel, plus and minus zoom",
    );
    [boxes, brushes, cursors] = [[], [], []];
    model.get("panels").forEach((panel, p) => {
      const levels = model.get("models").filter((one) => one.length === panel.length);
      const most = Math.max(1, ...panel.most, ...inView(p));
      const fitting = levels.filter((one) => one.value <= 4 * most);
      const high = 1.06 * Math.max(most, ...fitting.map((one) => one.value));
      const box = {
        p,
        x: (p % 2) * w + LEFT,
        y: Math.floor(p / 2) * tall + TOP,
        w: w - LEFT - RIGHT,
        scale: PANEL / high,
      };
      boxes.push(box);
      frame(box, panel, high);
      const clip = shape("clipPath", { id: `${id}-${p}` }, svg);
      const body = shape("g", { "clip-path": `url(#${id}-${p})` }, svg);
      shape("rect", { x: box.x, y: box.y - 2, width: box.w, height: PANEL + 4 }, clip);
      model.get("agents").forEach((agent, a) => line(box, body, p, a, chosen));
      ends(box, p);
      for (const one of fitting) level(box, body, one);
      const wordsOf = (one) =>
        `${model.get("agents")[agentOf(one)].mark} ${number(one.value)}${fitting.includes(one) ? "" : " (above)"}`;
      const words = levels.map(wordsOf).join(", ");
      if (words) {
        const room = (box.w - 7.5 * panel.label.length) / 6.2;
        write(svg, "level", box.x + box.w, box.y - 8, `${levels[0].model}: ${words}`.slice(0, room));
      }
      brushes.push(shape("rect", { y: box.y, height: PANEL, width: 0, class: "brush" }, svg));
      cursors.push(shape("path", { class: "cursor" }, svg));
    });
    if (!Math.max(...model.get("panels").flatMap((panel) => panel.most), 0))
      write(svg, "empty", width() / 2, tall, "All queues and buffers were empty.");
    point(chosen?.start, chosen);
    below(chosen);
  }
  const inView = (p) => {
    const n = model.get("agents").length * model.get("n_bins");
    return data.greatest.slice(p * n, (p + 1) * n);
  };
  function frame(box, panel, high) {
    write(svg, "label", box.x, box.y - 8, panel.label);
    for (const v of ticks(0, high, 4)) {
      shape("path", { d: `M${box.x},${box.y + PANEL - v * box.scale}h${box.w}`, class: "rule" }, svg);
      write(svg, "tick y", box.x - 6, box.y + PANEL - v * box.scale + 4, number(v, 8));
    }
    const unit = model.get("unit_ns");
    for (const v of ticks(part.shown[0] / unit, part.shown[1] / unit, 4))
      write(svg, "tick", x(box, v * unit), box.y + PANEL + 14, number(v, 8));
    write(svg, "tick", box.x + box.w / 2, box.y + PANEL + 29, model.get("x_label"));
  }
  function line(box, body, p, a, chosen) {
    const up = [];
    const down = [];
    const mid = [];
    const y = (v) => (box.y + PANEL - v * box.scale).toFixed(1);
    const n = model.get("n_bins");
    for (let b = 0; b < n; b++) {
      const [x0, x1] = [x(box, edge(b)), x(box, edge(b + 1))].map((px) => px.toFixed(1));
      up.push(`${x0},${y(value("greatest", p, a, b))}L${x1},${y(value("greatest", p, a, b))}`);
      down.unshift(`${x1},${y(value("least", p, a, b))}L${x0},${y(value("least", p, a, b))}`);
      mid.push(`${x0},${y(value("mean", p, a, b))}L${x1},${y(value("mean", p, a, b))}`);
    }
    const dim = chosen && chosen.agent !== model.get("agents")[a].name ? " dim" : "";
    shape("path", { d: `M${up.join("L")}L${down.join("L")}Z`, class: `range a${a % 7}${dim}` }, body);
    shape(
      "path",
      {
        d: `M${mid.join("L")}`,
        class: `line a${a % 7}${dim}`,
        "stroke-dasharray": DASHES[a % DASHES.length],
      },
      body,
    );
  }
  // Write the agents' marks at the ends of their lines, without overlaps.
  function ends(box, p) {
    const last = binAt(part.shown[1] - 1e-9 * (part.shown[1] - part.shown[0]));
    const marks = model
      .get("agents")
      .map((agent, a) => ({ a, text: agent.mark, y: box.y + PANEL - value("mean", p, a, last) * box.scale }));
    marks
      .sort((one, other) => other.y - one.y)
      .forEach((one, i) => {
        if (i) one.y = Math.min(one.y, marks[i - 1].y - 11);
      });
    for (const one of marks) write(svg, `end a${one.a % 7}`, box.x + box.w + 5, one.y + 4, one.text);
  }
  function level(box, body, one) {
    const a = agentOf(one);
    const y = box.y + PANEL - one.value * box.scale;
    shape(
      "title",
      {},
      shape("path", { d: `M${box.x},${y}h${box.w}`, class: `model a${a % 7}` }, body),
      `${one.model} of ${one.agent}: ${number(one.value)}`,
    );
    write(body, `end a${a % 7}`, box.x + 8 + 18 * a, y - 3, model.get("agents")[a].mark);
  }
  function below(chosen) {
    table.replaceChildren();
    const top = make("tr", "", table);
    for (const words of ["agent", ...model.get("panels").map((panel) => `${panel.label}: mean, most`)])
      make("th", "", top, words);
    model.get("agents").forEach(({ name, mark }, a) => {
      const row = make("tr", "", table);
      const isOn = chosen?.agent === name;
      const act = () => choose(isOn ? null : told(panelOf(chosen), a, binAt(chosen?.start ?? part.shown[0])));
      const made = button("", `agent ${name}`, act, isOn ? "agent on" : "agent");
      make("th", "", row).append(made);
      made.setAttribute("aria-pressed", String(isOn));
      shape(
        "path",
        { d: "M0,7h28", class: `line a${a % 7}`, "stroke-dasharray": DASHES[a % DASHES.length] },
        shape("svg", { width: 28, height: 13 }, made),
      );
      make("span", "", made, mark === name ? name : `${mark} = ${name}`);
      for (const panel of model.get("panels")) {
        const levels = model.get("models").filter((one) => one.length === panel.length && one.agent === name);
        const modelled = levels.map((one) => ` (${one.model} ${number(one.value)})`).join("");
        make("td", "", row, `${number(panel.mean[a])}, ${number(panel.most[a], 9)}${modelled}`);
      }
    });
  }
  const told = (p, a, b) => ({
    length: model.get("panels")[p].length,
    agent: model.get("agents")[a].name,
    start: edge(b),
    end: edge(b + 1),
    mean: value("mean", p, a, b),
    least: value("least", p, a, b),
    greatest: value("greatest", p, a, b),
  });
  function point(t, one) {
    boxes.forEach((box, p) =>
      cursors[p].setAttribute(
        "d",
        t == null || t < part.shown[0] || t > part.shown[1] ? "" : `M${x(box, t)},${box.y}v${PANEL}`,
      ),
    );
    const label = one && model.get("panels")[panelOf(one)].label;
    const range = one && `${number(one.least, 9)} to ${number(one.greatest, 9)}`;
    const time = one && `from ${part.length(one.start)} for ${part.length(one.end - one.start)}`;
    said.textContent = one
      ? `agent ${one.agent}, ${label}: ${number(one.mean)} on average, ${range}, ${time}`
      : HINT;
  }
  const choose = (one) => send(model, { selected: one });

  // Return the line nearest to the pointer in its panel.
  function hit(px, py) {
    const box = boxes.find((b) => px >= b.x && px <= b.x + b.w && py >= b.y - 4 && py <= b.y + PANEL + 4);
    if (!box || !model.get("agents").length) return null;
    const b = binAt(time(box, px));
    const off = (a) => Math.abs(box.y + PANEL - value("mean", box.p, a, b) * box.scale - py);
    const a = model
      .get("agents")
      .map((_, own) => own)
      .sort((one, other) => off(one) - off(other))[0];
    return { box, t: time(box, px), one: told(box.p, a, b) };
  }
  svg.onpointerdown = (event) => {
    const found = hit(...placeIn(svg, event));
    if (event.button === 0 && found) drag = { ...found, px: placeIn(svg, event)[0] };
  };
  svg.onpointermove = (event) => {
    const [px, py] = placeIn(svg, event);
    const found = hit(px, py);
    if (!drag)
      return found ? point(found.t, found.one) : point(model.get("selected")?.start, model.get("selected"));
    brushes[drag.box.p].setAttribute("x", Math.min(px, drag.px));
    brushes[drag.box.p].setAttribute("width", Math.abs(px - drag.px));
  };
  svg.onpointerup = (event) => {
    const [px] = placeIn(svg, event);
    const from = drag;
    drag = null;
    if (from && Math.abs(px - from.px) > DRAG)
      part.show(...[time(from.box, px), from.t].sort((one, other) => one - other));
    else if (from) choose(from.one);
  };
  svg.onpointerleave = () => {
    drag = null;
    point(model.get("selected")?.start, model.get("selected"));
  };
  svg.ondblclick = part.showAll;
  svg.onkeydown = (event) => {
    const one = model.get("selected");
    const n = model.get("agents").length;
    const name = event.key;
    const act = { ...part.keys, Escape: () => choose(null) }[name];
    if (!n || (!act && !["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "p"].includes(name))) return;
    event.preventDefault();
    if (act) return act();
    const p = panelOf(one);
    const a = one ? agentOf(one) : 0;
    const b = one ? binAt((one.start + one.end) / 2) : 0;
    const aside = one ? ({ ArrowRight: 1, ArrowLeft: -1 }[name] ?? 0) : 0;
    const down = one ? ({ ArrowDown: 1, ArrowUp: -1 }[name] ?? 0) : 0;
    const next = clamp(b + aside, 0, model.get("n_bins") - 1);
    choose(told((p + (one && name === "p")) % 4, (a + down + n) % n, next));
  };
  const unwatch = watch(model, { version: read, title: read, selected: paint });
  read();
  const sizes = new ResizeObserver(paint);
  sizes.observe(root);
  return () => {
    part.stop();
    sizes.disconnect();
    unwatch();
    root.remove();
  };
}
export default { render };
