// Events over time on a canvas, with matches as bands. Wheel and keys zoom, dragging pans, a click selects.
const DRAWN =
  "time_kind form x y lane_names x_label y_label spans span_ids points asked marks mark_label choices value " +
  "span_note sampled cursor busy selected";
const KEYS =
  "Arrow keys pan, plus and minus zoom, 0 shows all, M shows the selected match, " +
  "N and P select the next and the previous match.";

function render({ model, el }) {
  const root = Object.assign(document.createElement("section"), {
    className: "cepkit-timeline_view",
    innerHTML: SKELETON,
  });
  root.setAttribute("aria-label", "Timeline");
  for (const part of root.querySelectorAll("canvas, button, select")) part.setAttribute(KEEPS_KEYS, "true");
  el.append(root);
  const [stage, canvas, hint, readout, note, value, choice, marked, toMatch] =
    ".stage canvas .hint .readout .note .value select .marked .closer"
      .split(" ")
      .map((name) => root.querySelector(name));
  let [x, y, spans, ids, marks] = [[], [], [], [], []]; // columns that Python sent
  let range = [0, 1]; // of the values
  let win = null; // first and last time shown; null: all
  let drag = null;
  let isArmed = false; // whether the pointer moved over the timeline
  let frame = 0;
  let timer = 0;
  let box = placed(1, 1, 0, [0, 1], null, [0, 1]);

  const get = (name) => model.get(name);
  const extent = () => (get("view").length ? get("view") : x.length ? [x[0], x.at(-1)] : [0, 1]);
  const shown = () => win ?? (extent()[1] > extent()[0] ? extent() : [extent()[0] - 0.5, extent()[0] + 0.5]);
  const isClock = () => get("time_kind") === "datetime";
  const clockText = (time) =>
    new Date(time)
      .toISOString()
      .replace("T", " ")
      .replace(/(\.000)?Z$/, "");
  const timeText = (time) => (isClock() ? clockText(time) : numberText(time));
  const later = () => (frame ||= requestAnimationFrame(paint));
  const look = (low, high) => {
    const [first, last] = extent();
    const width = clamp(
      high - low,
      Math.min(last - first, Math.max((last - first) * 1e-9, isClock() ? 2 : 0)),
      last - first,
    );
    const start = clamp(low, first, last - width);
    win = width < last - first ? [start, start + width] : null;
    readout.textContent = shown().map(timeText).join(" to ");
    clearTimeout(timer);
    timer = setTimeout(() => ((timer = 0), send(model, { window: shown() })), 150);
    later();
  };
  const zoom = (factor, at = (shown()[0] + shown()[1]) / 2) =>
    look(...shown().map((time) => at + (time - at) * factor));
  const closer = () => {
    const k = ids.indexOf(get("selected") ?? NaN);
    const [from, to] = [spans[2 * k], spans[2 * k + 1]];
    if (k >= 0) look(from - (to - from || 1), to + (to - from || 1));
  };
  const pan = (share) => look(...shown().map((time) => time + share * (shown()[1] - shown()[0])));

  function paint() {
    cancelAnimationFrame(frame);
    frame = 0;
    const [width, height] = [stage.clientWidth, stage.clientHeight];
    if (!width) return; // not in a page, or hidden
    Object.assign(canvas, { width: width * devicePixelRatio, height: height * devicePixelRatio });
    const pen = canvas.getContext("2d");
    pen.scale(devicePixelRatio, devicePixelRatio);
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(`--${name}`);
    const ink = colour("ink");
    pen.font = `12px ${style.fontFamily}`;
    const words = (text, at, base, textAlign, globalAlpha = 0.85, most = undefined) =>
      Object.assign(pen, { textAlign, globalAlpha, fillStyle: ink }).fillText(text, at, base, most);
    const rule = (path, globalAlpha, lineWidth = 1, dash = []) => {
      Object.assign(pen, { globalAlpha, lineWidth, strokeStyle: ink }).setLineDash(dash);
      pen.stroke(new Path2D(path));
    };
    const lanes = get("form") === "lanes" ? get("lane_names") : null;
    const isEmpty = !x.length && !ids.length;
    const levels = lanes ? lanes.map((text, at) => ({ text, at })) : isEmpty ? [] : numberTicks(...range, 5);
    const left = clamp(Math.max(0, ...levels.map(({ text }) => pen.measureText(text).width)) + 18, 58, 190);
    box = placed(width, height, left, shown(), lanes, range);
    const { right, bottom, toX, toY } = box;
    for (const { text, at } of levels) {
      rule(`M${left},${Math.round(toY(at)) + 0.5}H${right}`, 0.14);
      words(text, left - 8, toY(at) + 4, "right", 0.85, left - 14);
    }
    if (!lanes) words(get("y_label"), 4, 12, "left");
    const most = Math.max(2, Math.floor(box.width / 110));
    const times = isEmpty ? [] : (isClock() ? timeTicks : numberTicks)(...shown(), most);
    for (const { at, text, sub } of times) {
      rule(`M${Math.round(toX(at)) + 0.5},${TOP}V${bottom + 4}`, 0.14);
      words(text, toX(at), bottom + 17, "center");
      words(sub, toX(at), bottom + 31, "center", 0.7);
    }
    rule(`M${left},${bottom + 0.5}H${right}`, 0.5);
    words(get("x_label"), right, height - 3, "right", 0.7);

    pen.save();
    pen.clip(new Path2D(`M${left},0H${right}V${bottom + 1}H${left}z`));
    paintBands(pen, box, spans, colour("accent"));
    if (lanes) paintLanes(pen, box, x, y, (lane) => colour(`lane-${lane % 6}`));
    else paintLine(pen, box, x, y, ink);
    const chosen = ids.indexOf(get("selected") ?? NaN);
    toMatch.disabled = chosen < 0;
    if (chosen >= 0) {
      const [from, to] = [toX(spans[2 * chosen]), toX(spans[2 * chosen + 1])];
      rule(`M${from - 1},${TOP - 1}H${Math.max(from + 1, to) + 1}V${bottom}H${from - 1}z`, 1, 2);
      const text = `${to < left ? "◀ " : ""}match ${get("selected")}${from > right ? " ▶" : ""}`;
      words(text, clamp((from + to) / 2, left + 45, right - 45), 13, "center", 1);
    }
    if (get("cursor") != null) rule(`M${toX(get("cursor"))},${TOP}V${bottom}`, 1, 1.5, [5, 3]);
    pen.setLineDash([]);
    paintPoints(pen, box, get("points"), ink, colour("paper"));
    paintMarks(pen, box, marks, colour("mark"), colour("paper"));
    paintAsked(pen, box, get("asked"), colour("bad"), colour("paper"));
    pen.restore();
    const counts = `${x.length.toLocaleString("en")} events, ${ids.length.toLocaleString("en")} matches`;
    canvas.setAttribute("aria-label", `${counts}, ${shown().map(timeText).join(" to ")}. ${KEYS}`);
  }

  // Select the shortest match at a place. Another click at the same place selects the next longer one.
  const pick = (pixel, level) => {
    const length = (k) => spans[2 * k + 1] - spans[2 * k];
    const isThere = (_, k) =>
      box.toX(spans[2 * k]) - NEAR / 2 <= pixel && pixel <= box.toX(spans[2 * k + 1]) + NEAR / 2;
    const there = [...ids.keys()].filter((k) => isThere(0, k)).sort((a, b) => length(a) - length(b));
    const next = there[(there.findIndex((k) => ids[k] === get("selected")) + 1) % there.length];
    const event = nearest(box, x, y, pixel, level);
    if (x[event] === get("clicked")) send(model, { clicked: null }); // then a second click on the event is a change
    send(model, {
      selected: next === undefined ? null : ids[next],
      ...(event < 0 ? {} : { clicked: x[event] }),
    });
  };
  const walk = (step) => {
    const now = ids.indexOf(get("selected") ?? NaN);
    const to = now < 0 ? (step > 0 ? 0 : ids.length - 1) : clamp(now + step, 0, ids.length - 1);
    if (ids.length) send(model, { selected: ids[to] });
  };
  const keys = {
    ArrowLeft: () => pan(-0.2),
    ArrowRight: () => pan(0.2),
    "+": () => zoom(0.625),
    "=": () => zoom(0.625),
    "-": () => zoom(1.6),
    0: () => zoom(1e99),
    n: () => walk(1),
    p: () => walk(-1),
    m: closer,
    Escape: () => send(model, { selected: null }),
  };
  canvas.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  };
  // The wheel zooms only after the pointer moved here, so that a page scrolls under a resting pointer.
  canvas.onwheel = (event) => {
    if (!isArmed || (event.deltaY > 0 && !win)) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / box.width);
    else zoom(Math.exp(clamp(event.deltaY, -200, 200) / 400), box.toTime(event.offsetX));
  };
  canvas.onpointerdown = (event) => {
    if (event.button) return;
    drag = { at: event.offsetX, time: shown(), isMoved: false };
    canvas.setPointerCapture(event.pointerId);
  };
  canvas.onpointermove = (event) => {
    isArmed ||= event.movementX !== 0 || event.movementY !== 0;
    const moved = drag ? event.offsetX - drag.at : 0;
    if (drag) drag.isMoved ||= Math.abs(moved) > 3;
    if (drag?.isMoved) return look(...drag.time.map((time) => time - moved / box.scale));
    const k = nearest(box, x, y, event.offsetX, event.offsetY);
    const level = get("form") === "lanes" ? get("lane_names")[y[k]] : numberText(y[k] ?? NaN);
    readout.textContent = k < 0 ? HINT : `${timeText(x[k])}   ${level}`;
  };
  canvas.onpointerleave = () => (isArmed = false);
  choice.onchange = () => send(model, { value: choice.value });
  canvas.onpointercancel = () => (drag = null);
  canvas.onclick = (event) => {
    if (!drag?.isMoved && event.detail < 2) pick(event.offsetX, event.offsetY);
    drag = null;
  };
  canvas.ondblclick = () => zoom(1e99);
  for (const made of root.querySelectorAll("[data-zoom]"))
    made.onclick = () => zoom(Number(made.dataset.zoom));
  toMatch.onclick = closer;

  const read = () => {
    [x, y, spans, ids, marks] = ["x", "y", "spans", "span_ids", "marks"].map((name) => column(get(name)));
    let [low, high] = [Infinity, -Infinity];
    for (const level of y)
      if (!Number.isNaN(level)) [low, high] = [Math.min(low, level), Math.max(high, level)];
    range = low > high ? [0, 1] : low === high ? [low - 1, high + 1] : [low, high];
    const empty = get("busy") ? "Reading the events …" : get("sampled") || "No events to draw.";
    hint.textContent = x.length || ids.length ? "" : empty;
    note.textContent = note.title = [get("span_note"), get("sampled")].filter(Boolean).join(" · ");
    root.setAttribute("aria-busy", get("busy"));
    marked.hidden = !marks.length;
    marked.lastChild.textContent = get("mark_label");
    value.hidden = get("choices").length < 2;
    choice.replaceChildren(
      ...get("choices").map((name) => new Option(name, name, false, name === get("value"))),
    );
    later();
  };
  const follow = () => {
    const [first, last] = extent();
    if (!drag && !timer) win = get("window").length ? get("window") : null;
    if (win && (win[0] >= last || win[1] <= first || (win[0] <= first && win[1] >= last))) win = null;
    later();
  };
  const unwatch = watch(model, {
    ...Object.fromEntries(DRAWN.split(" ").map((name) => [name, read])),
    window: follow,
    view: follow,
  });
  const size = new ResizeObserver(later);
  const theme = new MutationObserver(later);
  size.observe(stage);
  theme.observe(document.body, { attributes: true });
  readout.textContent = HINT;
  read();
  follow();
  return () => {
    unwatch();
    size.disconnect();
    theme.disconnect();
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    root.remove();
  };
}

export default { render };
