// Utilities: a row per event type or state, shaded by position in the window; their distribution below.
const LEFT = 150;
const RIGHT = 44;
const TOP = 6;
const AXIS = 40;
const TALL = 150;
const GAP = 26;
const STEPS = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
const HINT = "Point at a cell or a bar to read it. Click it or press arrow keys to select it.";

function render({ model, el }) {
  const root = make("div", "cepkit-utility_view", el);
  const head = make("div", "head", root);
  const title = make("div", "title", head);
  const note = make("div", "note", head);
  const svg = surface(root);
  const said = make("div", "said", root);
  said.setAttribute("aria-live", "polite");
  let data;
  let height = 20;
  let step = 10;
  let floor = 0;
  let wide = 10;
  let cells = 1;
  let bars = 1;

  const width = () => Math.max(420, root.clientWidth || 900);
  const rows = () => model.get("rows");
  const most = () => model.get("utility_edges").at(-1) || 1;
  const rowOf = (one) => rows().findIndex((row) => row.label === one?.row);
  const positionAt = (b) => model.get("position_edges").slice(b, b + 2);
  const cell = (r, b) => ({
    row: rows()[r].label,
    ...Object.fromEntries(
      ["state", "event_type"].filter((k) => k in rows()[r]).map((k) => [k, rows()[r][k]]),
    ),
    position: positionAt(b),
    utility: data.mean[r * cells + b],
    n: data.n[r * cells + b],
  });
  // Return the number of values in a bin, in one row or in all rows.
  const seenIn = (k, row = -1, of = "n_of_utility") =>
    rows().reduce((sum, _, r) => sum + (row < 0 || r === row ? data[of][r * bars + k] : 0), 0);
  const binOf = (utility) => Math.min(bars - 1, Math.floor((utility / most()) * bars + 1e-9));

  function read() {
    const names = ["mean", "n", "n_of_utility", "n_dropped"];
    data = Object.fromEntries(names.map((name) => [name, column(model.get(name))]));
    paint();
  }
  function paint() {
    const chosen = model.get("selected");
    [cells, bars] = [model.get("position_edges").length - 1, model.get("utility_edges").length - 1];
    height = clamp(Math.floor(420 / Math.max(1, rows().length)), 12, 24);
    step = (width() - LEFT - RIGHT) / Math.max(1, cells);
    wide = (width() - LEFT - RIGHT) / Math.max(1, bars);
    const bottom = TOP + height * Math.max(1, rows().length);
    floor = bottom + AXIS + GAP + TALL;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width()} ${floor + AXIS}`);
    svg.style.height = `${floor + AXIS}px`;
    svg.setAttribute(
      "aria-label",
      `utilities of ${rows().length} rows by position, and their distribution; arrow keys go from cell to cell`,
    );
    title.textContent = model.get("title");
    note.textContent = model.get("note");
    table(chosen);
    scale(bottom);
    distribution(chosen);
    say(chosen);
  }
  function table(chosen) {
    const bar = Array.isArray(chosen?.utility) ? chosen.utility : null;
    const lit = rowOf(chosen);
    rows().forEach((row, r) => {
      const y = TOP + r * height;
      write(
        svg,
        `side${r === lit ? " on" : ""}`,
        LEFT - 8,
        y + height / 2 + 4,
        row.label.length > 22 ? `${row.label.slice(0, 21)}…` : row.label,
      );
      for (let b = 0; b < cells; b++) {
        const value = data.mean[r * cells + b];
        const x = LEFT + b * step;
        if (Number.isNaN(value)) {
          shape(
            "path",
            { d: `M${x + 1},${y + height - 2}L${x + Math.min(step, height) - 1},${y + 1}`, class: "none" },
            svg,
          );
          continue;
        }
        const share = value / most();
        const isOn =
          (bar && value >= bar[0] && (value < bar[1] || bar[1] >= most())) ||
          (r === lit && chosen.position?.[0] === positionAt(b)[0]);
        shape(
          "rect",
          {
            x,
            y,
            width: Math.max(step - (step > 4), 0.5),
            height: height - 1,
            class: "cell",
            "fill-opacity": (0.06 + 0.94 * share).toFixed(3),
          },
          svg,
        );
        if (isOn)
          shape(
            "rect",
            { x: x + 0.5, y: y + 0.5, width: Math.max(step - 2, 1), height: height - 2, class: "chosen" },
            svg,
          );
        const words = number(value < most() * 5e-4 ? 0 : value, 2);
        if (step >= 6.5 * words.length + 6 && height >= 14)
          write(svg, share > 0.55 ? "value over" : "value", x + step / 2, y + height / 2 + 3.5, words);
      }
    });
    if (!rows().length) write(svg, "empty", LEFT, TOP + 14, "no utilities");
  }
  function scale(bottom) {
    const [low, high] = [model.get("position_edges")[0], model.get("position_edges").at(-1)];
    if (model.get("has_position"))
      for (const v of ticks(low, high, 8))
        write(svg, "tick", LEFT + ((v - low) / (high - low)) * step * cells, bottom + 13, number(v, 8));
    write(svg, "tick", LEFT + (step * cells) / 2, bottom + 29, model.get("position_label"));
    for (let k = 0; k <= 20; k++)
      shape(
        "rect",
        {
          x: k * 4.4,
          y: bottom + 20,
          width: 4.4,
          height: 9,
          class: "cell",
          "fill-opacity": 0.06 + 0.047 * k,
        },
        svg,
      );
    write(svg, "key", 0, bottom + 14, "utility 0");
    write(svg, "key last", 92, bottom + 14, number(most()));
  }
  function distribution(chosen) {
    const one = rowOf(chosen);
    const own = Array.from({ length: bars }, (_, k) => seenIn(k, one));
    const high = Math.max(...own, 0);
    const total = own.reduce((a, b) => a + b, 0);
    const top = floor - TALL;
    const bar = Array.isArray(chosen?.utility) ? binOf((chosen.utility[0] + chosen.utility[1]) / 2) : -1;
    for (const v of ticks(0, high || 1, 3)) {
      shape("path", { d: `M${LEFT},${floor - (v / (high || 1)) * TALL}h${wide * bars}`, class: "rule" }, svg);
      write(svg, "tick y", LEFT - 8, floor - (v / (high || 1)) * TALL + 4, number(v, 8));
    }
    own.forEach((n, k) =>
      shape(
        "rect",
        {
          x: LEFT + k * wide,
          y: floor - (n / (high || 1)) * TALL,
          width: wide - 1,
          height: (n / (high || 1)) * TALL,
          class: `bar${k === bar ? " on" : ""}`,
        },
        svg,
      ),
    );
    const lost = own.map((_, k) => seenIn(k, one, "n_dropped"));
    lost.forEach((n, k) => {
      if (!n) return;
      const tall = (n / (high || 1)) * TALL;
      shape(
        "rect",
        { x: LEFT + k * wide, y: floor - tall, width: wide - 1, height: tall, class: "lost" },
        svg,
      );
    });
    let sum = 0;
    const points = own.map(
      (n, k) =>
        `${(LEFT + (k + 1) * wide).toFixed(1)},${(floor - ((sum += n) / (total || 1)) * TALL).toFixed(1)}`,
    );
    if (total) shape("path", { d: `M${LEFT},${floor}L${points.join("L")}`, class: "sum" }, svg);
    for (const part of [0, 0.5, 1])
      write(svg, "tick end", LEFT + wide * bars + 6, floor - part * TALL + 4, `${100 * part} %`);
    for (const v of ticks(0, most(), 8))
      write(svg, "tick", LEFT + (v / most()) * wide * bars, floor + 14, number(v, 8));
    write(svg, "tick", LEFT + (wide * bars) / 2, floor + 31, "utility");
    write(
      svg,
      "label",
      LEFT,
      top - 8,
      `${one < 0 ? "all rows" : rows()[one].label}: number per utility (bars${lost.some((n) => n) ? ", orange: dropped" : ""}) and share up to it (line)`,
    );
    const at = model.get("threshold");
    if (at == null) return;
    const x = LEFT + (Math.min(at, most()) / most()) * wide * bars;
    const isRight = x > LEFT + (wide * bars) / 2;
    shape("path", { d: `M${x},${top}V${floor}`, class: "threshold" }, svg);
    write(
      svg,
      `label${isRight ? " last" : ""}`,
      x + (isRight ? -5 : 5),
      top + 12,
      `${number(100 * model.get("share"), 3)} % of all up to ${number(at)}`,
    );
  }
  function say(one) {
    const seen = one && `${number(one.n, 6)} seen`;
    if (!one) said.textContent = HINT;
    else if (Array.isArray(one.utility))
      said.textContent = `utility from ${number(one.utility[0])} to ${number(one.utility[1])}: ${seen}`;
    else if (!one.position) said.textContent = `${one.row}: ${seen}`;
    else {
      const [low, high] = one.position.map((value) => number(value, 6));
      const where = model.get("has_position") ? `, position from ${low} to ${high}` : "";
      const isCell = one.utility != null && !Number.isNaN(one.utility);
      said.textContent = `${one.row}${where}: ${isCell ? `utility ${number(one.utility)}, ${seen}` : "no such cell"}`;
    }
  }
  function choose(one) {
    const now = model.get("selected");
    const isSame = one && JSON.stringify(one) === JSON.stringify(now);
    send(model, { selected: isSame ? null : one });
  }
  function hit(event) {
    const [x, py] = placeIn(svg, event);
    const px = x - LEFT;
    const r = Math.floor((py - TOP) / height);
    const b = Math.floor(px / step);
    const k = Math.floor(px / wide);
    if (r >= 0 && r < rows().length && b < cells) {
      if (px >= 0) return Number.isNaN(data.mean[r * cells + b]) ? null : cell(r, b);
      const { position, utility, ...row } = cell(r, 0);
      return { ...row, n: data.n.slice(r * cells, (r + 1) * cells).reduce((a, c) => a + c, 0) };
    }
    if (py < floor - TALL - 4 || py > floor + 4 || k < 0 || k >= bars) return null;
    const one = rowOf(model.get("selected"));
    const [low, high] = model.get("utility_edges").slice(k, k + 2);
    return { utility: [low, high], n: seenIn(k, one) };
  }
  svg.onpointermove = (event) => say(hit(event) ?? model.get("selected"));
  svg.onpointerleave = () => say(model.get("selected"));
  svg.onclick = (event) => {
    const one = hit(event);
    if (one && !one.row) one.n = seenIn(binOf((one.utility[0] + one.utility[1]) / 2));
    choose(one);
  };
  svg.onkeydown = (event) => {
    const [down, aside] = STEPS[event.key] ?? [0, 0];
    const one = model.get("selected");
    if (event.key === "Escape" && one) choose(null);
    if (!rows().length || (!down && !aside)) return;
    event.preventDefault();
    const r = rowOf(one);
    const b = r < 0 || !one.position ? -1 : model.get("position_edges").indexOf(one.position[0]);
    const next =
      b < 0
        ? cell(Math.max(r, 0), 0)
        : cell(clamp(r + down, 0, rows().length - 1), clamp(b + aside, 0, cells - 1));
    if (Number.isNaN(next.utility)) next.utility = null;
    if (JSON.stringify(next) !== JSON.stringify(one)) choose(next);
  };
  const unwatch = watch(model, {
    version: read,
    selected: paint,
    threshold: paint,
    share: paint,
    title: paint,
  });
  read();
  const sizes = new ResizeObserver(paint);
  sizes.observe(root);
  return () => {
    sizes.disconnect();
    unwatch();
    root.remove();
  };
}
export default { render };
