// A scene of Python: panels with axes below each other, a line of words, a legend, and a table of names.
const PANEL_GAP = 6;
const AXIS = 42;
const LABEL = 20;
const DRAG = 4;
const REACH = 12; // from a pointer to the middle of a point, in pixels
const PAUSE_MS = 150; // after the last change, before the browser asks Python for finer data
const GROUNDS = { "/": 0.35, x: 0.12, ".": 0.3 };
const HATCHES = { "/": "M0,6L6,0", x: "M0,0L6,6M0,6L6,0", ".": "M2,3h2" };
const NUMBERS = ["x", "y", "x1", "y1", "least", "greatest", "opacity"];

function render({ model, el }) {
  const id = `cepkit-scene-${Math.random().toString(36).slice(2)}`; // ids are unique in the whole page
  const root = make("div", "cepkit-scene_view", el);
  const head = make("div", "head", root);
  const title = make("div", "title", head);
  const note = make("div", "note", head);
  const tools = make("div", "tools", head);
  const svg = surface(root);
  const said = make("div", "said", root);
  const legend = make("div", "legend", root);
  const table = make("table", "", root);
  const below = make("p", "below", root);
  said.setAttribute("aria-live", "polite");
  let scene;
  let shown = []; // the visible part of the first axis
  let boxes = [];
  let rows = null; // marks for the keys, made when needed
  let at = null; // the mark from which the keys move
  let drag = null;
  let timer = 0;
  let hatches = new Map();

  const isBytes = (value) => ArrayBuffer.isView(value) || value instanceof ArrayBuffer;
  const numbersOf = (value) => (isBytes(value) ? column(value) : value);
  const width = () => Math.max(420, root.clientWidth || 900);
  const zooms = () => model.get("extent").length === 2;
  const same = (a, b) => a && a.label === b.label && a.low === b.low && a.high === b.high;
  const look = ({ colour }) => `a${colour < 0 ? "n" : colour % 7}`;

  function read() {
    scene = structuredClone(model.get("scene"));
    for (const item of scene.panels.flatMap((panel) => panel.items)) {
      for (const name of NUMBERS) item[name] = numbersOf(item[name]);
      for (const name of Object.keys(item.fields)) item.fields[name] = numbersOf(item.fields[name]);
      item.row = item.kind === "cells" ? item.x.length - 1 : 0; // columns of cells
    }
    const [low, high] = model.get("window");
    shown = zooms() ? [low, high > low ? high : low + 1] : [];
    svg.classList.toggle("time", zooms());
    rows = null;
    if (at) at = [...marks()].sort((a, b) => off(a, at) - off(b, at))[0] ?? null;
    paint();
  }
  const off = (mark, other) =>
    Number(mark.p !== other.p || mark.k !== other.k) * 1e18 +
    Math.abs(mark.x - other.x) +
    Math.abs(mark.y - other.y);

  function paint() {
    const longest = Math.max(0, ...scene.panels.flatMap(levelsOf).map(([, words]) => words.length));
    const left = clamp(6.4 * longest + 16, 52, 150);
    const notes = Math.max(0, ...scene.panels.flatMap((panel) => panel.notes.map((words) => words.length)));
    const right = width() - clamp(6 * notes + 14, 14, 170);
    title.textContent = model.get("title");
    note.textContent = scene.note;
    hatches = new Map();
    svg.replaceChildren();
    let top = 4;
    boxes = scene.panels.map((panel, p) => {
      top += panel.label ? LABEL : 0;
      const axis = panel.x;
      const [low, high] = shown.length ? shown : [axis.low, axis.high];
      const step = (right - left) / (high - low);
      const tall = panel.height / (panel.y.high - panel.y.low);
      const floor = top + panel.height;
      const box = { p, panel, top, left, right, floor, step, low, high };
      box.x = (place) => left + (place - low) * step;
      box.y = (place) => floor - (place - panel.y.low) * tall;
      box.place = (px) => low + (clamp(px, left, right) - left) / step;
      box.tall = Math.abs(tall);
      box.isLast = !same(axis, scene.panels[p + 1]?.x ?? {});
      top = floor + (box.isLast ? AXIS + 14 * (linesOf(axis) - 1) : PANEL_GAP);
      return box;
    });
    svg.setAttribute("viewBox", `0 0 ${width()} ${top}`);
    svg.style.height = `${top}px`;
    svg.setAttribute(
      "aria-label",
      `${scene.about}; arrow keys select${zooms() ? ", plus and minus zoom" : ""}`,
    );
    const clips = shape("defs", {}, svg);
    for (const box of boxes) {
      const clip = shape("clipPath", { id: `${id}-${box.p}` }, clips);
      const size = { x: left, y: box.top - 6, width: right - left, height: box.panel.height + 12 };
      shape("rect", size, clip);
      frame(box);
      const body = shape("g", { "clip-path": `url(#${id}-${box.p})` }, svg);
      for (const item of box.panel.items) draw(box, item, body);
    }
    for (const [p, x0, x1, y0, y1, kind] of model.get("frames")) {
      const box = boxes[p];
      const [l, r] = [box.x(x0), box.x(x1)];
      const d = `M${l},${box.y(y0)}H${r}V${box.y(y1)}H${l}Z`;
      shape("path", { d, class: `chosen ${kind}` }, shape("g", { "clip-path": `url(#${id}-${p})` }, svg));
    }
    if (scene.empty) write(svg, "empty", (left + right) / 2, boxes[0].top + 20, scene.empty);
    for (const kind of ["brush", "cursor"]) shape("path", { class: kind }, svg);
    around();
    say();
  }
  // Return the heights of a panel that have a text at its left, and the texts.
  const levelsOf = ({ y, height }) =>
    y.names.length
      ? y.names.map((name, lane) => [lane, name])
      : ticks(...[y.low, y.high].sort((a, b) => a - b), height < 70 ? 2 : 4).map((at) => [at, number(at, 8)]);
  const linesOf = (axis) => Math.max(1, ...axis.names.map((name) => name.split("\n").length));

  // Draw the ticks, names and notes of a panel.
  function frame({ panel, top, left, right, floor, x, y, low, high, isLast, tall }) {
    if (panel.label) write(svg, "label", left, top - 7, panel.label);
    const names = panel.y.names;
    for (const [value, words] of levelsOf(panel)) {
      const line = names.length ? y(value + 0.5) : y(value);
      shape("path", { d: `M${left},${line}H${right}`, class: "rule" }, svg);
      const size = `font-size:${Math.min(11, names.length ? tall : 11)}px`;
      const written = write(
        svg,
        "side",
        left - 8,
        y(value) + 4,
        words.length > 22 ? `${words.slice(0, 21)}…` : words,
      );
      written.style = size;
      if (panel.hints[value]) shape("title", {}, written, panel.hints[value]);
    }
    const levelOf = (k) => (names.length ? y(k) + 4 : top + 12 + 14 * k);
    panel.notes.forEach((words, k) => write(svg, "noted", right + 6, levelOf(k), words));
    const places = panel.x.names.length ? [] : ticks(low / panel.x.size, high / panel.x.size, 8);
    for (const value of places) {
      shape("path", { d: `M${x(value * panel.x.size)},${top}V${floor}`, class: "rule" }, svg);
      if (isLast) write(svg, "tick", x(value * panel.x.size), floor + 14, number(value, 8));
    }
    if (!isLast) return;
    for (let line = 0; line < linesOf(panel.x); line++) {
      let free = left - 8;
      panel.x.names.forEach((name, place) => {
        const words = name.split("\n")[line] ?? "";
        const half = 3.1 * words.length + 3;
        if (!words || x(place) - half < free || x(place) + half > width()) return;
        write(svg, "tick", x(place), floor + 14 + 14 * line, words);
        free = x(place) + half;
      });
    }
    write(svg, "tick", (left + right) / 2, floor + 16 + 14 * linesOf(panel.x), panel.x.label);
  }
  // Return the attributes of bars in a look; patterns are made once.
  function filled(item) {
    const { pattern } = item.look;
    if (!pattern) return { class: `bar ${look(item.look)}` };
    const name = `${id}-${look(item.look)}-${"/x.".indexOf(pattern)}`;
    if (!hatches.has(name)) {
      const size = { id: name, width: 6, height: 6, patternUnits: "userSpaceOnUse", class: look(item.look) };
      const made = shape("pattern", size, svg);
      shape("rect", { width: 6, height: 6, class: "ground", "fill-opacity": GROUNDS[pattern] }, made);
      shape("path", { d: HATCHES[pattern], class: "hatch" }, made);
      hatches.set(name, made);
    }
    return { class: `bar ${look(item.look)}`, style: `fill:url(#${name})` };
  }
  function draw(box, item, body) {
    const { x, y } = box;
    const opacity = (i) => (typeof item.opacity === "number" ? item.opacity : item.opacity[i]);
    const rectangle = (i) => {
      const [l, r] = [x(item.x[i]), x(item.x1[i])];
      return `M${l.toFixed(2)},${y(item.y[i]).toFixed(2)}H${Math.max(r, l + 0.8).toFixed(2)}V${y(item.y1[i]).toFixed(2)}H${l.toFixed(2)}Z`;
    };
    if (item.kind === "bars") {
      const all = [...item.x.keys()];
      const isVisible = (i) => !shown.length || (item.x1[i] >= box.low && item.x[i] <= box.high);
      const groups = typeof item.opacity === "number" ? [all.filter(isVisible)] : all.map((i) => [i]);
      for (const group of groups.filter((of) => of.length))
        shape(
          "path",
          { ...filled(item), d: group.map(rectangle).join(""), opacity: opacity(group[0]) },
          body,
        );
    } else if (item.kind === "cells") {
      item.y.forEach((share, i) => {
        if (Number.isNaN(share)) return;
        const [r, c] = [Math.floor(i / item.row), i % item.row];
        const [l, wide] = [x(item.x[c]), (item.x[c + 1] - item.x[c]) * box.step];
        const place = {
          x: l,
          y: y(r - 0.5) + 1,
          width: Math.max(wide - (wide > 4), 0.8),
          height: box.tall - 2,
        };
        const shade = { class: `cell ${look(item.look)}`, "fill-opacity": (0.06 + 0.94 * share).toFixed(3) };
        shape("rect", { ...place, ...shade }, body);
        const words = item.texts[i] ?? "";
        if (words && wide >= 6.5 * words.length + 6 && box.tall >= 14)
          write(body, "value", l + wide / 2, y(r) + 3.5, words);
      });
    } else if (item.kind === "line") {
      const to = (values) => {
        let isOpen = false;
        return [...item.x.keys()].map((i) => {
          const word = Number.isNaN(values[i])
            ? ""
            : `${isOpen ? "L" : "M"}${x(item.x[i]).toFixed(1)},${y(values[i]).toFixed(1)}`;
          isOpen = word !== "";
          return word;
        });
      };
      if (item.least) {
        const back = to(item.least).reverse().join("").replaceAll("M", "L");
        shape(
          "path",
          {
            d: `${to(item.greatest).join("")}${back}Z`,
            class: `area ${look(item.look)}`,
            opacity: opacity(0),
          },
          body,
        );
      }
      const style = { "stroke-dasharray": item.look.dash, "stroke-width": item.width, opacity: opacity(0) };
      const line = shape(
        "path",
        { d: to(item.y).join(""), class: `line ${look(item.look)}`, ...style },
        body,
      );
      if (item.look.name) shape("title", {}, line, item.look.name);
    } else if (item.kind === "points") {
      const size = box.panel.x.names.length ? clamp(0.42 * box.step, 2.4, 4.2) : 4.2; // within a column
      for (const i of item.x.keys()) {
        const place = `translate(${x(item.x[i])},${y(item.y[i])}) scale(${size})`;
        shape(
          "path",
          {
            d: `${item.look.path}Z`,
            class: `mark ${look(item.look)}`,
            transform: place,
            opacity: opacity(i),
          },
          body,
        );
      }
    } else {
      item.texts.forEach((words, i) => write(body, "letter", x(item.x[i]) + 5, y(item.y[i]) + 3.5, words));
    }
  }
  // Draw the legend, the table and the notes around the picture.
  function around() {
    legend.replaceChildren();
    for (const [kind, own] of scene.legend) {
      const entry = make("span", "entry", legend);
      swatch(kind, own, entry);
      entry.append(own.name);
    }
    table.replaceChildren();
    const top = scene.header.length ? make("tr", "", table) : null;
    for (const words of scene.header) make("th", "", top, words);
    scene.table.forEach((row, r) => {
      const line = make("tr", "", table);
      const name = button(
        "",
        `show ${row.name} alone`,
        () => choose([-1, r, 0]),
        row.is_on ? "agent on" : "agent",
      );
      name.setAttribute("aria-pressed", String(row.is_on));
      make("th", "", line).append(name);
      swatch(row.kind, row.look, name);
      name.append(row.name);
      for (const cell of row.cells) {
        const td = make("td", "", line);
        if (cell.share != null) make("i", `share ${look(row.look)}`, td).style.width = `${60 * cell.share}%`;
        td.append(cell.text);
      }
    });
    below.textContent = scene.below;
    const [before, after] = tools.querySelectorAll(".turn");
    if (before) [before.disabled, after.disabled] = model.get("can_turn").map((can) => !can);
  }
  function swatch(kind, own, parent) {
    const wide = kind === "line" ? 28 : 14;
    const small = shape("svg", { width: wide, height: 14, viewBox: `0 0 ${wide} 14` }, parent);
    if (kind === "bars") shape("rect", { ...filled({ look: own }), width: 14, height: 14 }, small);
    else if (kind === "line")
      shape(
        "path",
        { d: "M0,7h28", class: `line ${look(own)}`, "stroke-dasharray": own.dash, "stroke-width": 1.8 },
        small,
      );
    else
      shape(
        "path",
        { d: `${own.path}Z`, class: `mark ${look(own)}`, transform: "translate(7,7) scale(4.2)" },
        small,
      );
  }

  // Return all marks that can be pointed at, in the order of the scene.
  function* marks() {
    for (const [p, panel] of scene.panels.entries()) {
      for (const [k, item] of panel.items.entries()) {
        if (!item.pick && !item.words) continue;
        const n = item.kind === "cells" ? item.y.length : item.x.length;
        for (let i = 0; i < n; i++) {
          const mark = markOf(p, k, i);
          if (!Number.isNaN(mark.y) && !(item.kind === "cells" && Number.isNaN(item.y[i]))) yield mark;
        }
      }
    }
  }
  function markOf(p, k, i) {
    const item = scene.panels[p].items[k];
    const middle = (one, other) => (one + (other ?? one)) / 2;
    if (item.kind !== "cells")
      return { p, k, i, x: middle(item.x[i], item.x1?.[i]), y: middle(item.y[i], item.y1?.[i]) };
    const c = i % item.row;
    return { p, k, i, x: middle(item.x[c], item.x[c + 1]), y: Math.floor(i / item.row) };
  }
  // Return the mark under a point of the drawing, or the nearest line of the panel.
  function hit([px, py]) {
    const box = boxes.find(({ top, floor }) => py >= top - 4 && py <= floor + 4);
    if (!box) return null;
    const lane = Math.round(
      ((py - box.floor) / -box.panel.height) * (box.panel.y.high - box.panel.y.low) + box.panel.y.low,
    );
    if (px < box.left)
      return box.panel.pick_lane && box.panel.y.names[lane] ? { p: box.p, k: -1, i: lane } : null;
    let best = null;
    let least = Infinity;
    box.panel.items.forEach((item, k) => {
      if (!item.pick && !item.words) return;
      const [i, far] = nearest(box, item, px, py);
      if (i >= 0 && far <= least) [best, least] = [markOf(box.p, k, i), far];
    });
    return best;
  }
  function nearest(box, item, px, py) {
    const t = box.place(px);
    let [best, least] = [-1, Infinity];
    const take = (i, far) => far < least && ([best, least] = [i, far]);
    const outside = (at, low, high) => Math.max(0, Math.min(low, high) - at, at - Math.max(low, high));
    if (item.kind === "cells") {
      const c = item.x.findLastIndex((edge) => edge <= t);
      const r = Math.round(
        box.panel.y.low + ((box.floor - py) / box.panel.height) * (box.panel.y.high - box.panel.y.low),
      );
      const i = r * item.row + Math.min(c, item.row - 1);
      return Number.isNaN(item.y[i] ?? NaN) ? [-1, 0] : [i, 0];
    }
    for (const i of item.x.keys()) {
      if (item.kind === "bars") {
        const aside = outside(px, box.x(item.x[i]), box.x(item.x1[i]));
        const away = outside(py, box.y(item.y[i]), box.y(item.y1[i]));
        if (aside <= 1.5 && away <= 1) take(i, (aside + away) / 100);
      } else if (item.kind === "points") {
        const far = Math.hypot(box.x(item.x[i]) - px, box.y(item.y[i]) - py);
        if (far <= REACH) take(i, far / 1000);
      } else if (!Number.isNaN(item.y[i])) take(i, Math.abs(item.x[i] - t));
    }
    return [best, item.kind === "line" && best >= 0 ? 1 + Math.abs(box.y(item.y[best]) - py) : least];
  }
  function wordsOf({ p, k, i }) {
    const item = scene.panels[p].items[k];
    if (!item) return scene.panels[p].hints[i] ?? scene.panels[p].y.names[i] ?? "";
    return item.words.replace(/\{(\w+)\}/g, (_, name) => {
      const values = item.fields[name];
      const value = typeof values === "string" ? values : values[i];
      return typeof value === "number" ? (Number.isNaN(value) ? "–" : number(value, 6)) : value;
    });
  }
  function say(mark = null) {
    const [p, k, i] = model.get("picked");
    const isThere = p >= 0 && (k < 0 || scene.panels[p]?.items[k]?.x.length);
    const own = mark ?? (isThere ? { p, k, i } : null);
    said.textContent = own ? wordsOf(own) : scene.hint;
    const box = mark && mark.k >= 0 && shown.length ? boxes[mark.p] : null;
    const last = boxes.at(-1);
    svg
      .querySelector(".cursor")
      ?.setAttribute("d", box ? `M${box.x(mark.x)},${boxes[0].top}V${last.floor}` : "");
  }
  function choose(picked) {
    const isSame = String(picked) === String(model.get("picked"));
    send(model, { picked: isSame ? [] : picked });
  }
  const pick = (mark) => {
    at = mark && mark.k >= 0 ? mark : null;
    if (mark || model.get("picked").length || model.get("frames").length)
      choose(mark ? [mark.p, mark.k, mark.i] : []);
  };

  // Zooming: the browser scales what it has, then Python sends finer data.
  function show(low, high) {
    const [first, last] = model.get("extent");
    const whole = last - first || 1;
    const span = clamp(high - low, whole * 1e-7, whole);
    const start = Math.max(first, Math.min(low, first + whole - span));
    shown = [start, start + span];
    clearTimeout(timer);
    paint();
    timer = setTimeout(() => send(model, { window: shown }), PAUSE_MS);
  }
  const zoom = (factor) => {
    const [low, high] = shown;
    const fixed = at && at.x >= low && at.x <= high ? at.x : (low + high) / 2;
    show(fixed - (fixed - low) * factor, fixed + (high - fixed) * factor);
  };
  const showAll = () => show(...model.get("extent"));
  const turn = (by) =>
    model.get("can_turn")[by > 0 ? 1 : 0] &&
    send(model, { turned: { by, n: (model.get("turned").n ?? 0) + 1 } });
  if (zooms())
    tools.append(
      button("−", "zoom out", () => zoom(2)),
      button("+", "zoom in", () => zoom(0.5)),
      button("all", "show all of the time", showAll),
    );
  if (model.get("can_turn").length)
    tools.append(
      button("◂ previous", "the matches before these (Page Up)", () => turn(-1), "turn"),
      button("next ▸", "the matches after these (Page Down)", () => turn(1), "turn"),
    );

  svg.onpointerdown = (event) => {
    if (event.button === 0) drag = placeIn(svg, event);
  };
  svg.onpointermove = (event) => {
    const [px] = placeIn(svg, event);
    if (!drag || !zooms()) return say(hit(placeIn(svg, event)));
    const d = `M${drag[0]},${boxes[0].top}H${px}V${boxes.at(-1).floor}H${drag[0]}Z`;
    svg.querySelector(".brush").setAttribute("d", d);
  };
  svg.onpointerup = (event) => {
    const [px, py] = placeIn(svg, event);
    const from = drag;
    drag = null;
    if (!from) return;
    if (!zooms() || Math.abs(px - from[0]) <= DRAG) return pick(hit([px, py]));
    const [box] = boxes;
    show(...[box.place(from[0]), box.place(px)].sort((one, other) => one - other));
  };
  svg.onpointerleave = () => {
    drag = null;
    svg.querySelector(".brush")?.setAttribute("d", "");
    say();
  };
  svg.ondblclick = () => zooms() && showAll();
  svg.onkeydown = (event) => {
    const zooming = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: showAll };
    const turning = { PageUp: () => turn(-1), PageDown: () => turn(1) };
    const act = { Escape: () => pick(null), ...(zooms() ? zooming : {}), ...turning }[event.key];
    const [down, aside] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[
      event.key
    ] ?? [0, 0];
    if (!act && !down && !aside) return;
    event.preventDefault();
    if (act) return act();
    rows ??= inRows();
    if (!rows.length) return;
    const r = at
      ? rows.findIndex((row) => row.some((mark) => mark.p === at.p && mark.k === at.k && mark.i === at.i))
      : -1;
    const row = rows[clamp(Math.max(r, 0) + (r < 0 ? 0 : down), 0, rows.length - 1)];
    const here = r < 0 ? 0 : row.findIndex((mark) => mark.k === at.k && mark.i === at.i && mark.p === at.p);
    const near = () =>
      [...row.keys()].sort((i, j) => Math.abs(row[i].x - at.x) - Math.abs(row[j].x - at.x))[0];
    const next = row[r < 0 ? 0 : down ? near() : clamp(here + aside, 0, row.length - 1)];
    if (String([next.p, next.k, next.i]) !== String(model.get("picked"))) pick(next);
  };
  // Return the marks in rows for the keys: a lane, or a line, or the bars of one item.
  function inRows() {
    const made = new Map();
    for (const mark of marks()) {
      const panel = scene.panels[mark.p];
      const isLane = panel.y.names.length && panel.items[mark.k].kind !== "line";
      const key = `${mark.p}:${isLane ? `lane ${Math.round(mark.y)}` : mark.k}`;
      (made.get(key) ?? made.set(key, []).get(key)).push(mark);
    }
    const list = [...made.values()];
    const place = ([mark]) => (scene.panels[mark.p].y.names.length ? Math.round(mark.y) : mark.k);
    list.sort((a, b) => a[0].p - b[0].p || place(a) - place(b));
    for (const row of list) row.sort((a, b) => a.x - b.x);
    return list;
  }
  const redraw = together(() => scene && paint());
  const unwatch = watch(model, {
    scene: read,
    title: redraw,
    frames: redraw,
    picked: redraw,
    can_turn: redraw,
  });
  read();
  const sizes = new ResizeObserver(redraw);
  sizes.observe(root);
  return () => {
    clearTimeout(timer);
    sizes.disconnect();
    unwatch();
    root.remove();
  };
}
export default { render };
