// A run under load: latency and backlog over time with shaded peaks, and a strip of drops per event type.
const LEFT = 130;
const RIGHT = 140;
const TOP = 22;
const PANEL = 96;
const GAP = 26;
const STRIP = 20;
const BELOW = 40;
const DRAG = 4;
const FIRST_ROW = 0; // selected first: the latency
const HINT =
  "Drag to look closer, double-click to see all. Point at a line or a strip, or press arrow keys, to read it.";
let instances = 0;

function render({ model, el }) {
  const id = `cepkit-load-${++instances}`;
  const root = make("div", "cepkit-load_view", el);
  const head = make("div", "head", root);
  const title = make("div", "title", head);
  const svg = surface(root, "time");
  const said = make("div", "said", root);
  said.setAttribute("aria-live", "polite");
  let data;
  let drag = null;
  let brush;
  let cursor;

  const part = timeWindow(
    model,
    () => paint(),
    () => model.get("selected")?.start ?? null,
  );
  make("div", "tools", head).append(...part.buttons);
  const width = () => Math.max(420, root.clientWidth || 900);
  const wide = () => width() - LEFT - RIGHT;
  const lines = () => model.get("lines");
  const types = () => model.get("types");
  const rows = () => [...lines(), ...types()];
  const rowOf = (one) => (one ? rows().findIndex((row) => row.row === one.row) : FIRST_ROW);
  const isEmpty = () => !types().some((of) => of.arrived);
  const topOf = (r) =>
    r < lines().length
      ? TOP + r * (PANEL + GAP)
      : TOP + lines().length * (PANEL + GAP) + (r - lines().length) * STRIP;
  const floor = () => topOf(rows().length);
  const value = (of, r, b) => data[of][r * model.get("n_bins") + b];
  const edge = (b) => {
    const [low, high] = model.get("shown");
    return low + ((high - low) * b) / model.get("n_bins");
  };
  const binAt = (t) => {
    const [low, high] = model.get("shown");
    const n = model.get("n_bins");
    return clamp(Math.floor(((t - low) / (high - low || 1)) * n), 0, n - 1);
  };
  const x = (t) => LEFT + ((t - part.shown[0]) / (part.shown[1] - part.shown[0])) * wide();
  const time = (px) =>
    part.shown[0] + ((clamp(px, LEFT, LEFT + wide()) - LEFT) / wide()) * (part.shown[1] - part.shown[0]);

  function read() {
    const names = ["mean", "greatest", "arrived", "dropped"];
    data = Object.fromEntries(names.map((name) => [name, column(model.get(name))]));
    part.read();
    title.textContent = model.get("title");
    paint();
  }
  function paint() {
    const chosen = model.get("selected");
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width()} ${floor() + BELOW}`);
    svg.style.height = `${floor() + BELOW}px`;
    svg.setAttribute(
      "aria-label",
      "latency, backlog and drops of a run; arrow keys read values, plus and minus zoom",
    );
    const clip = shape("clipPath", { id }, svg);
    shape("rect", { x: LEFT, y: 0, width: wide(), height: floor() }, clip);
    const body = shape("g", { "clip-path": `url(#${id})` }, svg);
    for (const [start, stop] of model.get("peaks")) {
      const shade = { x: x(start), y: TOP - 6, width: Math.max(1.5, x(stop) - x(start)) };
      const drawn = shape("rect", { ...shade, height: floor() - TOP + 6, class: "peak" }, body);
      shape("title", {}, drawn, `peak of arrivals, for ${part.length(stop - start)}`);
    }
    lines().forEach((line, r) => panel(body, line, r));
    types().forEach((of, k) => strip(body, of, lines().length + k, chosen));
    const unit = model.get("unit_ns");
    for (const v of ticks(part.shown[0] / unit, part.shown[1] / unit, 6))
      write(svg, "tick", x(v * unit), floor() + 15, number(v, 8));
    write(svg, "tick", LEFT + wide() / 2, floor() + 32, model.get("x_label"));
    if (isEmpty()) write(svg, "tick", LEFT + wide() / 2, TOP + PANEL / 2, "no event after the warm-up");
    brush = shape("rect", { y: TOP, height: floor() - TOP, width: 0, class: "brush" }, svg);
    cursor = shape("path", { class: "cursor" }, svg);
    point(chosen?.start, chosen);
  }
  function panel(body, line, r) {
    const floorOf = topOf(r) + PANEL;
    const inView = data.greatest.slice(r * model.get("n_bins"), (r + 1) * model.get("n_bins"));
    const most = Math.max(line.bound ?? 0, ...inView.filter((v) => !Number.isNaN(v))) || 1;
    const scale = PANEL / (1.06 * most);
    write(svg, "label", LEFT, topOf(r) - 7, line.label);
    for (const v of ticks(0, most, 3)) {
      shape("path", { d: `M${LEFT},${floorOf - v * scale}h${wide()}`, class: "rule" }, svg);
      write(svg, "tick y", LEFT - 6, floorOf - v * scale + 4, number(v, 8));
    }
    const pathOf = (of) => {
      let d = "";
      let isOpen = false;
      for (let b = 0; b < model.get("n_bins"); b++) {
        const v = value(of, r, b);
        if (Number.isNaN(v)) isOpen = false;
        else {
          const y = (floorOf - v * scale).toFixed(1);
          d += `${isOpen ? "L" : "M"}${x(edge(b)).toFixed(1)},${y}L${x(edge(b + 1)).toFixed(1)},${y}`;
          isOpen = true;
        }
      }
      return d;
    };
    shape("path", { d: pathOf("greatest"), class: "line most" }, body);
    shape("path", { d: pathOf("mean"), class: "line" }, body);
    write(svg, "side", LEFT + wide() + 6, floorOf - 2, `at most ${number(line.most)}`);
    if (line.bound != null) {
      shape("path", { d: `M${LEFT},${floorOf - line.bound * scale}h${wide()}`, class: "bound" }, body);
      write(svg, "side", LEFT + wide() + 6, floorOf - line.bound * scale + 4, `bound ${number(line.bound)}`);
    }
  }
  function strip(body, of, r, chosen) {
    const y = topOf(r);
    write(svg, chosen?.row === of.row ? "name on" : "name", LEFT - 8, y + 14, of.row.slice(0, 18));
    shape("path", { d: `M${LEFT},${y + STRIP - 1}h${wide()}`, class: "rule" }, svg);
    for (let b = 0; b < model.get("n_bins"); b++) {
      const dropped = value("dropped", r - lines().length, b);
      if (!dropped) continue;
      const share = dropped / Math.max(dropped, value("arrived", r - lines().length, b));
      const at = { x: x(edge(b)), y: y + 2, width: Math.max(1.5, x(edge(b + 1)) - x(edge(b))) };
      shape("rect", { ...at, height: STRIP - 5, class: "drop", "fill-opacity": 0.15 + 0.85 * share }, body);
    }
    const words = `${number(of.dropped, 9)} of ${number(of.arrived, 9)} dropped`;
    write(svg, "side", LEFT + wide() + 6, y + 14, words);
  }
  // Return what the view reports about a bin of a row.
  const told = (r, b) => {
    const own = { row: rows()[r].row, start: edge(b), end: edge(b + 1) };
    const k = r - lines().length;
    const known = (v) => (Number.isNaN(v) ? null : v);
    return k < 0
      ? { ...own, mean: known(value("mean", r, b)), greatest: known(value("greatest", r, b)) }
      : { ...own, arrived: value("arrived", k, b), dropped: value("dropped", k, b) };
  };
  function point(t, one) {
    const isShown = t != null && t >= part.shown[0] && t <= part.shown[1];
    cursor.setAttribute("d", isShown ? `M${x(t)},${TOP - 6}V${floor()}` : "");
    said.textContent = one ? inWords(one) : HINT;
  }
  function inWords(one) {
    const when = `from ${part.length(one.start)} for ${part.length(one.end - one.start)}`;
    const label = lines().find((line) => line.row === one.row)?.label;
    if (label === undefined)
      return `type ${one.row}: ${number(one.dropped, 9)} of ${number(one.arrived, 9)} dropped, ${when}`;
    if (one.mean == null) return `${label}: nothing, ${when}`;
    return `${label}: ${number(one.mean)} on average, at most ${number(one.greatest)}, ${when}`;
  }
  const choose = (one) => send(model, { selected: one });

  // Return the row and the bin under the pointer.
  function hit(px, py) {
    if (isEmpty() || px < LEFT || px > LEFT + wide()) return null;
    const r = rows().findIndex((_, k) => py >= topOf(k) - 4 && py < topOf(k + 1) - 4);
    return r < 0 ? null : { t: time(px), one: told(r, binAt(time(px))) };
  }
  const rest = () => point(model.get("selected")?.start, model.get("selected"));
  svg.onpointerdown = (event) => {
    const found = hit(...placeIn(svg, event));
    if (event.button === 0 && found) drag = { ...found, px: placeIn(svg, event)[0] };
  };
  svg.onpointermove = (event) => {
    const [px, py] = placeIn(svg, event);
    const found = hit(px, py);
    if (!drag) return found ? point(found.t, found.one) : rest();
    brush.setAttribute("x", Math.min(px, drag.px));
    brush.setAttribute("width", Math.abs(px - drag.px));
  };
  svg.onpointerup = (event) => {
    const [px] = placeIn(svg, event);
    const from = drag;
    drag = null;
    if (from && Math.abs(px - from.px) > DRAG)
      part.show(...[time(px), from.t].sort((one, other) => one - other));
    else if (from) choose(from.one);
  };
  svg.onpointerleave = () => {
    drag = null;
    brush.setAttribute("width", 0);
    rest();
  };
  svg.ondblclick = part.showAll;
  svg.onkeydown = (event) => {
    const one = model.get("selected");
    const name = event.key;
    const act = { ...part.keys, Escape: () => choose(null) }[name];
    const isArrow = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(name);
    if (isEmpty() || (!act && !isArrow)) return;
    event.preventDefault();
    if (act) return act();
    const b = one ? binAt((one.start + one.end) / 2) : 0;
    const aside = one ? ({ ArrowRight: 1, ArrowLeft: -1 }[name] ?? 0) : 0;
    const down = one ? ({ ArrowDown: 1, ArrowUp: -1 }[name] ?? 0) : 0;
    const n = rows().length;
    choose(told((rowOf(one) + down + n) % n, clamp(b + aside, 0, model.get("n_bins") - 1)));
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
