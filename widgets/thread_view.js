// Work of threads over time: a lane per thread, a rectangle per segment of work, a table of agents.
const LEFT = 132;
const RIGHT = 12;
const TOP = 6;
const AXIS = 38;
const DRAG = 4;
const ACTIONS = ["source", "events", "partials", "removal"];
const WORDS = { modelled: "by the cost model", busy: "busy, on average", home: "mostly for it" };
const COLUMNS = ["lane", "agent", "action", "start", "end", "low", "high", "items"];
const HINT =
  "Drag to look closer, double-click to see all. Point at a segment or press arrow keys to read it.";
let instances = 0;

function render({ model, el }) {
  const id = `cepkit-threads-${++instances}`;
  const root = make("div", "cepkit-thread_view", el);
  const head = make("div", "head", root);
  const title = make("div", "title", head);
  const svg = surface(root, "time");
  const said = make("div", "said", root);
  const legend = make("div", "legend", root);
  const table = make("table", "", root);
  said.setAttribute("aria-live", "polite");
  let data;
  let lanes;
  let height;
  let at = -1;
  let drag = null;
  let brush;
  let body;

  const look = (a, k) => ({
    class: `a${a < 0 ? "n" : a % 7} k${k}`,
    style: k === 1 ? "" : `fill:url(#${id}-${a < 0 ? "n" : a % 7}-${k})`,
  });
  const width = () => Math.max(320, root.clientWidth || 900);
  const scale = () => (width() - LEFT - RIGHT) / (part.shown[1] - part.shown[0]);
  const x = (t) => LEFT + (t - part.shown[0]) * scale();
  const time = (px) => part.shown[0] + (Math.max(LEFT, px) - LEFT) / scale();
  const middle = () => {
    const one = model.get("selected");
    return one?.thread == null ? null : (one.start + one.end) / 2;
  };
  const part = timeWindow(model, () => paint(), middle);
  make("div", "tools", head).append(...part.buttons);
  function read() {
    data = Object.fromEntries(COLUMNS.map((name) => [name, column(model.get(name))]));
    lanes = model.get("lanes");
    height = clamp(Math.floor(420 / Math.max(1, lanes.length)), 10, 22);
    at = -1;
    part.read();
    paint();
  }
  function paint() {
    const right = width() - RIGHT;
    const bottom = TOP + lanes.length * height;
    const chosen = model.get("selected");
    svg.replaceChildren();
    title.textContent = model.get("title");
    const about = `${lanes.length} threads over time; arrow keys select, plus and minus zoom, 0 shows all`;
    const own = {
      viewBox: `0 0 ${width()} ${bottom + AXIS}`,
      style: `height:${bottom + AXIS}px`,
      "aria-label": about,
    };
    for (const [name, value] of Object.entries(own)) svg.setAttribute(name, value);
    const defs = shape("defs", {}, svg);
    const colours = [-1, ...model.get("agents").keys()].slice(0, 8);
    for (const [a, k] of colours.flatMap((a) => [0, 2, 3].map((k) => [a, k]))) {
      const own = {
        id: `${id}-${a < 0 ? "n" : a}-${k}`,
        width: 6,
        height: 6,
        patternUnits: "userSpaceOnUse",
        class: look(a, k).class,
      };
      const pattern = shape("pattern", own, defs);
      shape("rect", { width: 6, height: 6, class: "ground" }, pattern);
      shape("path", { d: ["M2,3h2", "", "M0,6L6,0", "M0,0L6,6M0,6L6,0"][k], class: "hatch" }, pattern);
    }
    shape(
      "rect",
      { x: LEFT, width: right - LEFT, height: bottom },
      shape("clipPath", { id: `${id}-clip` }, defs),
    );
    axis(bottom, right);
    lanes.forEach((lane, i) => {
      const y = TOP + (i + 1) * height;
      const own = {
        x: LEFT - 8,
        y: y - height / 2 + 4,
        class: "lane",
        style: `font-size:${Math.min(11, height)}px`,
      };
      shape("path", { d: `M${LEFT},${y - 0.5}H${right}`, class: "rule" }, svg);
      shape("title", {}, shape("text", own, svg, lane.label.slice(0, 18)), lane.note);
    });
    body = shape("g", { "clip-path": `url(#${id}-clip)` }, svg);
    segments(right, chosen?.thread == null ? chosen?.agent : null);
    const lane = lanes.findIndex((one) => one.thread === chosen?.thread);
    const box = { y: TOP - 1 + lane * height, height: height + 1, class: "chosen" };
    if (lane >= 0)
      shape(
        "rect",
        { ...box, x: x(chosen.start) - 1, width: Math.max(3, x(chosen.end) - x(chosen.start)) + 2 },
        body,
      );
    brush = shape("rect", { class: "brush", height: bottom, width: 0 }, svg);
    if (!data.lane.length)
      write(svg, "empty", (LEFT + right) / 2, bottom / 2 + 4, "no thread did anything in this time");
    say(now());
    below(chosen);
  }
  function segments(right, alone) {
    const paths = new Map();
    for (let i = 0; i < data.lane.length; i++) {
      if (data.end[i] < part.shown[0] || data.start[i] > part.shown[1]) continue;
      const x0 = Math.max(x(data.start[i]), LEFT);
      const x1 = Math.max(Math.min(x(data.end[i]), right), x0 + 0.4);
      const h = height - 2;
      const y = TOP - 1 + (data.lane[i] + 1) * height;
      const key = data.agent[i] * 4 + data.action[i];
      const [top, low, l, r] = [y - data.high[i] * h, y - data.low[i] * h, x0, x1].map((v) => v.toFixed(2));
      (paths.get(key) ?? paths.set(key, []).get(key)).push(`M${l},${top}H${r}V${low}H${l}Z`);
    }
    for (const [key, d] of paths) {
      const a = Math.floor(key / 4);
      const own = look(a, key - 4 * a);
      const dim = alone && alone !== model.get("agents")[a]?.name;
      shape("path", { d: d.join(""), ...own, class: own.class + (dim ? " dim" : "") }, body);
    }
    for (const one of model.get("marks")) {
      const own = {
        x: x(one.time),
        y: TOP + (one.lane + 0.5) * height + 3.5,
        class: "mark",
        style: `font-size:${Math.min(11, height - 1)}px`,
      };
      shape("text", own, body, model.get("agents")[one.agent].mark);
    }
  }
  function axis(bottom, right) {
    const unit = model.get("unit_ns");
    for (const value of ticks(part.shown[0] / unit, part.shown[1] / unit, 6)) {
      shape("path", { d: `M${x(value * unit)},2V${bottom + 4}`, class: "rule" }, svg);
      write(svg, "tick", x(value * unit), bottom + 16, number(value, 8));
    }
    write(svg, "axis", (LEFT + right) / 2, bottom + 33, model.get("x_label"));
  }
  // Draw the key of the patterns, and for each agent a row with its colour and its threads.
  function below(chosen) {
    const swatch = (a, k, parent) =>
      shape(
        "rect",
        { width: 13, height: 13, ...look(a, k) },
        shape("svg", { width: 13, height: 13 }, parent),
      );
    const rows = model.get("allocation");
    const names = Object.keys(WORDS).filter((name) => rows.some((row) => row[name] != null));
    const most = Math.max(1e-9, ...rows.flatMap((row) => names.map((name) => row[name] ?? 0)));
    legend.replaceChildren();
    table.replaceChildren();
    model.get("actions").forEach((words, k) => {
      const made = make("span", "kind", legend);
      swatch(-1, k, made);
      made.append(words);
    });
    make("span", "kind", legend, "letters: agents");
    const top = make("tr", "", table);
    for (const words of ["agent", ...names.map((name) => `threads ${WORDS[name]}`)])
      make("th", "", top, words);
    rows.forEach((row, a) => {
      const isAlone = chosen?.agent === row.agent && chosen.thread == null;
      const { mark } = model.get("agents")[a];
      const line = make("tr", "", table);
      const act = () => choose(isAlone ? {} : { agent: row.agent });
      const made = button("", `show agent ${row.agent} alone`, act, isAlone ? "agent on" : "agent");
      make("th", "", line).append(made);
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
    const busy = model.get("allocation").find((row) => row.agent === one?.agent)?.busy ?? 0;
    const n = model.get("n_bins");
    const bins = n ? ` Heights are shares of ${n} bins.` : "";
    if (one?.thread == null)
      return (said.textContent = one
        ? `agent ${one.agent}: ${number(busy, 3)} busy threads on average`
        : HINT + bins);
    const share = one.share < 0.9995 ? `, ${number(100 * one.share, 3)} % of this bin` : "";
    const took = one.items >= 0 ? `, ${number(one.items, 9)} taken` : "";
    const thread = one.thread < 0 ? "source" : `thread ${one.thread}`;
    const agent = one.agent ? `agent ${one.agent}, ` : "";
    const work = model.get("actions")[ACTIONS.indexOf(one.action)];
    const time = `from ${part.length(one.start)} for ${part.length(one.end - one.start)}`;
    said.textContent = `${thread}: ${agent}${work}, ${time}${share}${took}`;
  }
  const told = (i) => ({
    thread: lanes[data.lane[i]].thread,
    agent: model.get("agents")[data.agent[i]]?.name ?? null,
    action: ACTIONS[data.action[i]],
    start: data.start[i],
    end: data.end[i],
    share: data.high[i] - data.low[i],
    items: data.items[i],
  });
  const now = () => (at >= 0 ? told(at) : model.get("selected"));
  const choose = ({ share, items, ...one } = {}, i = -1) => {
    at = i;
    send(model, { selected: "agent" in one ? one : null });
  };
  // Return the segment under the pointer, or the nearest one in the same bin, or -1.
  function hit(px, py) {
    const lane = Math.floor((py - TOP) / height);
    const level = 1 - ((py - TOP) / height - lane);
    const t = time(px);
    const slack = 1.5 / scale();
    const under = [...data.lane.keys()].filter(
      (i) => data.lane[i] === lane && data.start[i] - slack <= t && t <= data.end[i] + slack,
    );
    const off = (i) =>
      Math.max(0, data.low[i] - level, level - data.high[i]) +
      Math.max(0, data.start[i] - t, t - data.end[i]) / slack;
    return px < LEFT ? -1 : (under.sort((i, j) => off(i) - off(j))[0] ?? -1);
  }
  svg.onpointerdown = (event) => {
    if (event.button === 0 && placeIn(svg, event)[0] >= LEFT) [drag] = placeIn(svg, event);
  };
  svg.onpointermove = (event) => {
    const [px, py] = placeIn(svg, event);
    const i = hit(px, py);
    if (drag == null) return say(i >= 0 ? told(i) : now());
    brush.setAttribute("x", Math.max(LEFT, Math.min(px, drag)));
    brush.setAttribute("width", Math.abs(Math.max(px, LEFT) - drag));
  };
  svg.onpointerup = (event) => {
    const [px, py] = placeIn(svg, event);
    const i = hit(px, py);
    const from = drag;
    drag = null;
    if (from != null && Math.abs(px - from) > DRAG)
      part.show(time(Math.min(px, from)), time(Math.max(px, from)));
    else if (from != null) choose(i < 0 ? {} : told(i), i);
  };
  svg.onpointerleave = () => {
    drag = null;
    brush.setAttribute("width", 0);
    say(now());
  };
  svg.ondblclick = part.showAll;
  svg.onkeydown = (event) => {
    const act = { ...part.keys, Escape: () => choose() }[event.key];
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (act || step) event.preventDefault();
    if (!step) return act?.();
    const isAside = event.key.endsWith("t");
    const lane = at < 0 ? -1 : data.lane[at] + (isAside ? 0 : step);
    const t = at < 0 ? part.shown[0] : data.start[at];
    const next = [...data.lane.keys()].filter((i) =>
      at < 0 ? data.end[i] > t : data.lane[i] === lane && (!isAside || i === at + step),
    );
    const [i] =
      at < 0
        ? next
        : next.sort((one, other) => Math.abs(data.start[one] - t) - Math.abs(data.start[other] - t));
    if (i != null) choose(told(i), i);
  };
  const unwatch = watch(model, { version: read, title: read, selected: paint, allocation: paint });
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
