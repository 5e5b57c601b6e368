// Matches in rows and their events in columns; chains of partial matches below. Matches are shown in pages.
const LEFT = 104;
const RIGHT = 14;
const BARS = 58;
const ROW = 18;
const LANE = 18;
const WIDEST = 56;
const OTHER = { path: "M-3,0A3,3 0 1 0 3,0A3,3 0 1 0 -3,0Z", look: 6 }; // a variable of no match on this page
const LINE = 14;

function render({ model, el }) {
  const root = make("div", "cepkit-lineage_view", el);
  const head = make("div", "head", root);
  const title = make("div", "title", head);
  const note = make("div", "note", head);
  const svg = surface(root);
  const said = make("div", "said", root);
  const legend = make("div", "legend", root);
  said.setAttribute("aria-live", "polite");
  let step = 20;
  let top = 0;
  let below = 0;

  const width = () => Math.max(360, root.clientWidth || 900);
  const x = (e) => LEFT + (e + 0.5) * step;
  const y = (row) => top + (row + 0.5) * ROW;
  const yLane = (lane) => below + (lane + 0.5) * LANE;
  const variableOf = (name) => model.get("variables").find((one) => one.name === name);
  const lookOf = (name) => `a${(variableOf(name)?.look ?? 6) % 7}`;
  const chainOf = (number) => model.get("chains").find((one) => one.chain === number);
  const turn = (by) => {
    const first = BigInt(model.get("first"));
    const size = BigInt(model.get("size"));
    const to = first + BigInt(by) * size;
    if ((by > 0 && !model.get("has_more")) || (by < 0 && first === 0n)) return;
    send(model, { wanted: String(to < 0n ? 0n : to) });
  };
  const before = button("◂ previous", "the matches before these (Page Up)", () => turn(-1));
  const after = button("next ▸", "the matches after these (Page Down)", () => turn(1));
  make("div", "tools", head).append(before, after);

  // Return the rows, columns and chains of the selection, or null when nothing is selected.
  function lit(chosen) {
    const matches = model.get("matches");
    const events = model.get("events");
    const rows = new Set();
    const columns = new Set();
    const chains = new Set();
    if (!chosen) return null;
    matches.forEach((one, row) => {
      if (one.number === chosen.match) {
        rows.add(row);
        one.events.forEach((e) => columns.add(e));
      }
      if (one.events.some((e) => events[e].position === chosen.event)) rows.add(row);
    });
    events.forEach((one, e) => {
      if (one.position === chosen.event) columns.add(e);
    });
    for (let one = chainOf(chosen.chain); one && !chains.has(one.chain); one = chainOf(one.before))
      chains.add(one.chain);
    const chain = chainOf(chosen.chain);
    for (const number of chains) {
      // The next chain continues this one: only the events that it shares belong to the selection.
      const child = [...chains].map(chainOf).find((one) => one.before === number);
      chainOf(number)
        .events.slice(0, child?.shared)
        .forEach((e) => columns.add(e));
    }
    for (const row of chain?.matches ?? []) rows.add(row);
    if (chosen.match != null) {
      for (const one of model.get("chains").filter((own) => own.matches?.some((row) => rows.has(row))))
        for (let own = one; own; own = chainOf(own.before)) chains.add(own.chain);
    }
    return { rows, columns, chains };
  }
  function paint() {
    const events = model.get("events");
    const matches = model.get("matches");
    const lanes = model.get("lanes");
    const axes = model.get("axes");
    const chosen = model.get("selected");
    const on = lit(chosen);
    step = Math.min(WIDEST, (width() - LEFT - RIGHT) / Math.max(1, events.length));
    top = BARS + 12;
    below = top + ROW * Math.max(1, model.get("n_rows")) + (lanes.length ? 30 : 0);
    const floor = below + LANE * lanes.length;
    const high = floor + 8 + LINE * axes.length;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width()} ${high}`);
    svg.style.height = `${high}px`;
    svg.setAttribute(
      "aria-label",
      `${matches.length} matches and their ${events.length} events; arrow keys select, page keys turn pages`,
    );
    title.textContent = model.get("title");
    note.textContent = model.get("note");
    before.disabled = model.get("first") === "0";
    after.disabled = !model.get("has_more");
    const most = Math.max(1, ...events.map((one) => one.n));
    const right = x(events.length - 1) + step / 2;
    write(svg, "side", LEFT - 10, 16, "in matches");
    write(svg, "side faint", LEFT - 10, 32, `(at most ${most})`);
    events.forEach((one, e) => {
      const bar = Math.min(14, step * 0.8);
      const tall = (BARS - 16) * (one.n / most);
      const isLit = on?.columns.has(e);
      if (isLit)
        shape("rect", { x: x(e) - step / 2, y: 0, width: step, height: floor + 4, class: "column" }, svg);
      shape(
        "rect",
        {
          x: x(e) - bar / 2,
          y: BARS - tall,
          width: bar,
          height: Math.max(tall, 0.5),
          class: `bar${on && !isLit ? " dim" : ""}`,
        },
        svg,
      );
      if (step >= 16) write(svg, "n", x(e), BARS - tall - 2, one.n || "");
    });
    shape("path", { d: `M${LEFT},${BARS + 0.5}H${right}`, class: "rule" }, svg);
    matches.forEach((one, row) => {
      const isDim = on && !on.rows.has(row);
      const group = shape("g", { class: isDim ? "dim" : "" }, svg);
      write(group, "side", LEFT - 10, y(row) + 4, `match ${one.number}`);
      if (one.events.length)
        shape("path", { d: `M${x(one.events[0])},${y(row)}H${x(one.events.at(-1))}`, class: "join" }, group);
      one.events.forEach((e, i) =>
        mark(group, model.get("variables")[one.variables[i]], x(e), y(row), events[e].n > 1),
      );
    });
    if (!matches.length) write(svg, "empty", LEFT, top + 14, "no match");
    if (lanes.length) write(svg, "side faint", LEFT - 10, below - 8, "chains");
    lanes.forEach((lane, i) =>
      write(
        svg,
        "side",
        LEFT - 10,
        yLane(i) + 4,
        i && lanes[i - 1].variable === lane.variable ? "" : lane.variable,
      ),
    );
    for (const one of model.get("chains")) chain(one, on);
    axes.forEach((one, line) => axis(one, floor + LINE * (line + 1)));
    say(chosen);
    legend.replaceChildren();
    for (const one of model.get("variables")) {
      const made = make("span", "", legend);
      mark(shape("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14" }, made), one, 0, 0, false);
      make("span", "", made, one.name);
    }
    if (events.some((one) => one.n > 1))
      make("span", "faint", legend, "ringed: an event that several matches share");
    if (lanes.length)
      make(
        "span",
        "faint",
        legend,
        "dashed: from the first event of a chain to the last event that it shares with the chain before",
      );
  }
  // Write the texts below the columns, except those for which there is no room.
  function axis({ name, texts }, base) {
    write(svg, "side faint", LEFT - 10, base, name);
    let free = LEFT - 8;
    texts.forEach((text, e) => {
      const half = 3.1 * text.length + 3;
      if (!text || x(e) - half < free || x(e) + half > width()) return;
      write(svg, "n", x(e), base, text);
      free = x(e) + half;
    });
  }
  function mark(parent, variable, px, py, isShared) {
    const place = { transform: `translate(${px},${py})` };
    if (isShared) shape("circle", { r: 7.2, class: "ring", ...place }, parent);
    shape("path", { d: variable.path, class: `mark a${variable.look % 7}`, ...place }, parent);
  }
  function chain(one, on) {
    const from = chainOf(one.before);
    const group = shape("g", { class: on && !on.chains.has(one.chain) ? "dim" : "" }, svg);
    const h = yLane(one.lane);
    if (from && one.tail != null) {
      const [x0, y0, x1] = [x(one.tail), yLane(from.lane), x(one.events[0])];
      shape(
        "path",
        { d: `M${x1},${h}C${x1},${(h + y0) / 2} ${x0},${(h + y0) / 2} ${x0},${y0}`, class: "pointer" },
        group,
      );
    }
    shape(
      "path",
      { d: `M${x(one.events[0])},${h}H${x(one.events.at(-1))}`, class: `link ${lookOf(one.variable)}` },
      group,
    );
    for (const e of one.events) mark(group, variableOf(one.variable) ?? OTHER, x(e), h, false);
  }
  function say(one) {
    const matches = model.get("matches");
    const events = model.get("events");
    const chosen = one ?? {};
    const match = matches.find((of) => of.number === chosen.match);
    const event = events.find((of) => of.position === chosen.event);
    const own = chainOf(chosen.chain);
    const names = model.get("variables").map((of) => of.name);
    const parts = model.get("lanes").length ? "a match, an event or a chain" : "a match or an event";
    said.textContent = `Point at ${parts}, or click it, to see what belongs to it.`;
    if (match) {
      const named = match.events.map((e, i) => `${names[match.variables[i]]} = ${events[e].label}`);
      said.textContent = `match ${match.number}: ${named.join(", ")}`;
    } else if (event) {
      said.textContent = `event ${event.label}: in ${event.n} of the ${matches.length} matches shown`;
    } else if (own) {
      const before = own.before >= 0 ? `, after the first ${own.shared} of chain ${own.before}` : "";
      const within = own.matches ? `, in ${own.matches.length} of the matches shown` : "";
      said.textContent = `chain ${own.chain} of ${own.variable}: ${own.events.length} events${before}${within}`;
    }
  }
  function choose(one) {
    const now = model.get("selected");
    const isSame = one && now && Object.keys(one).every((key) => one[key] === now[key]);
    send(model, { selected: isSame ? null : one });
  }
  function hit(event) {
    const [px, py] = placeIn(svg, event);
    const e = Math.floor((px - LEFT) / step);
    const above = model.get("events")[e];
    const row = Math.floor((py - top) / ROW);
    const match = model.get("matches")[row];
    const lane = Math.floor((py - below) / LANE);
    const chains = model.get("chains").filter((one) => one.lane === lane);
    if (py < BARS + 6) return above ? { event: above.position } : null;
    if (match && py < top + ROW * model.get("matches").length) return { match: match.number };
    const found = chains.find((one) => e >= one.events[0] && e <= one.events.at(-1)) ?? null;
    return found && { chain: found.chain };
  }
  svg.onpointermove = (event) => say(hit(event) ?? model.get("selected"));
  svg.onpointerleave = () => say(model.get("selected"));
  svg.onclick = (event) => choose(hit(event));
  svg.onkeydown = (event) => {
    const matches = model.get("matches");
    const events = model.get("events");
    const one = model.get("selected");
    const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    const acts = { Escape: () => one && choose(one), PageDown: () => turn(1), PageUp: () => turn(-1) };
    const act = acts[event.key];
    if (!act && (!by || !matches.length)) return;
    event.preventDefault();
    if (act) return act();
    // Return the item after or before the selected one, or the first one without a selection.
    const neighbour = (list, now) => list[now < 0 ? 0 : clamp(now + by, 0, list.length - 1)];
    const isRow = event.key === "ArrowDown" || event.key === "ArrowUp";
    const row = matches.findIndex((own) => own.number === one?.match);
    const place = events.findIndex((own) => own.position === one?.event);
    const next = isRow
      ? { match: neighbour(matches, row).number }
      : { event: neighbour(events, place).position };
    if (JSON.stringify(next) !== JSON.stringify(one)) choose(next);
  };
  const unwatch = watch(model, { version: paint, selected: paint, title: paint });
  paint();
  const sizes = new ResizeObserver(paint);
  sizes.observe(root);
  return () => {
    sizes.disconnect();
    unwatch();
    root.remove();
  };
}
export default { render };
