// Events over time on a canvas, with matches as bands. Wheel and keys zoom, dragging pans, a click selects.
const DRAWN =
  "time_kind form x y lane_names lane_colours x_label y_label spans span_ids points asked marks mark_label choices value " +
  "span_note sampled cursor busy origin ticks selected zone_offsets strip_view strip_all strip_key crowd crowd_view";
// Python hears of the window after a time without a movement, or when a drag ends.
const PAUSE_MS = 100;
const PAUSE_OF_DRAG_MS = 150;
const KEYS =
  "Arrow keys pan, plus and minus zoom, 0 shows all, Z or Enter zooms to the selected match and back, " +
  "N and P select the next and the previous match. E and Shift+E point at the next and the previous event, " +
  "and W says why it is in no match.";

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
  let [x, y, spans, ids, marks, zone, crowd] = [[], [], [], [], [], [], []]; // columns that Python sent
  let ticks = []; // exact times of the events
  let base = 0n; // what all numbers of the axis are after
  let range = [0, 1]; // of the values
  let win = null; // first and last time shown; null: all
  let before = null; // the window before the zoom to a match, and the window of that zoom
  let drag = null;
  let pointed = -1; // the event that the keyboard points at
  let isArmed = false; // whether the pointer moved over the timeline
  let area = [0, 0]; // width and height in px; reading them from the page would lay it out for every message
  let frame = 0;
  let timer = 0;
  let box = placed(1, 1, 0, [0, 1], null, [0, 1]);

  const get = (name) => model.get(name);
  const extent = () => (get("view").length ? get("view") : x.length ? [x[0], x.at(-1)] : [0, 1]);
  const shown = () => win ?? (extent()[1] > extent()[0] ? extent() : [extent()[0] - 0.5, extent()[0] + 0.5]);
  const isClock = () => get("time_kind") === "datetime";
  const timeText = (time) =>
    isClock()
      ? clockText(time, zone)
      : base
        ? (base + BigInt(Math.round(time))).toLocaleString("en")
        : numberText(time);
  const eventText = (k) => (k in ticks ? tickText(ticks[k], isClock(), zone) : timeText(x[k]));
  const eventKey = (k) => (k in ticks ? `${ticks[k]}` : x[k]); // Python finds the event by it
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
    timer = setTimeout(report, drag || strip.isDragged() ? PAUSE_OF_DRAG_MS : PAUSE_MS);
    later();
  };
  const report = () => {
    clearTimeout(timer);
    if (timer) send(model, { window: shown() });
    timer = 0;
  };
  const zoom = (factor, at = (shown()[0] + shown()[1]) / 2) =>
    look(...shown().map((time) => at + (time - at) * factor));
  const partials = () => get("asked").flatMap((one) => one.partials ?? []);
  // Return the first and the last time of the selected match or of the partial matches; null without one.
  const wanted = () => {
    const k = ids.indexOf(get("selected") ?? NaN);
    if (k >= 0) return [spans[2 * k], spans[2 * k + 1]];
    const at =
      get("selected") == null
        ? partials().flatMap(({ events, end }) => [end, ...events.map((one) => one.x)])
        : get("points").map((one) => one.x);
    return at.length ? [Math.min(...at), Math.max(...at)] : null;
  };
  const closer = () => {
    if (before && shown().every((time, k) => time === before.zoomed[k])) {
      const [low, high] = before.shown;
      before = null;
      return look(low, high);
    }
    if (!wanted()) return;
    const [from, to] = wanted();
    const now = shown();
    look(from - (to - from || 1), to + (to - from || 1));
    before = { shown: now, zoomed: shown() };
  };
  const pan = (share) => look(...shown().map((time) => time + share * (shown()[1] - shown()[0])));

  function paint() {
    cancelAnimationFrame(frame);
    frame = 0;
    if (!area[0]) area = [stage.clientWidth, stage.clientHeight];
    const [width, height] = area;
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
    const least = root.closest(".cepkit-board") ? 128 : 150;
    stage.style.setProperty("--stage", `${Math.max(least, TOP + BOTTOM + 20 * (lanes?.length ?? 0))}px`);
    const isEmpty = !x.length && !ids.length;
    const levels = lanes ? lanes.map((text, at) => ({ text, at })) : isEmpty ? [] : numberTicks(...range, 5);
    const left = clamp(Math.max(0, ...levels.map(({ text }) => pen.measureText(text).width)) + 18, 58, 190);
    box = placed(width, height, left, shown(), lanes, range);
    const { right, bottom, toX, toY } = box;
    const places = freePlaces(box);
    for (const { text, at } of levels) {
      rule(`M${left},${Math.round(toY(at)) + 0.5}H${right}`, 0.14);
      words(text, left - 8, toY(at) + 4, "right", 0.85, left - 14);
    }
    const unitOfLevels = isEmpty ? "" : numberScale(...range).note;
    if (!lanes) {
      words(get("y_label") + unitOfLevels, 4, 12, "left");
      places.take({
        left: 4,
        right: 4 + pen.measureText(get("y_label") + unitOfLevels).width,
        top: 0,
        bottom: 16,
      });
    }
    const most = Math.max(2, Math.floor(box.width / 110));
    const times = isEmpty
      ? []
      : isClock()
        ? timeTicks(...shown(), most, zone)
        : numberTicks(...shown(), most, base);
    const unit = isClock() || isEmpty ? "" : numberScale(...shown(), base).note;
    const axis = get("x_label") + unit;
    const widthOfAxis = pen.measureText(axis).width;
    for (const { at, text, sub } of times) {
      rule(`M${Math.round(toX(at)) + 0.5},${TOP}V${bottom + 4}`, 0.14);
      const half = Math.max(...[text, sub].map((one) => pen.measureText(one).width)) / 2;
      const middle = clamp(toX(at), half, width - half);
      words(text, middle, bottom + 17, "center");
      if (middle + half < right - widthOfAxis - 8) words(sub, middle, bottom + 32, "center", 0.75);
    }
    rule(`M${left},${bottom + 0.5}H${right}`, 0.5);
    words(axis, right, height - 6, "right", 0.75);

    pen.save();
    pen.clip(new Path2D(`M${left},0H${right}V${bottom + 1}H${left}z`));
    if (crowd.length) paintCrowd(pen, box, crowd, get("crowd_view"), colour("accent"));
    else paintBands(pen, box, spans, colour("accent"));
    const hueOf = (lane) => {
      const place = get("lane_colours")[lane] ?? lane;
      return colour(place < 0 ? "an" : `a${place % 7}`);
    };
    if (lanes) paintArrows(pen, box, get("points"), ink);
    if (lanes) paintLanes(pen, box, x, y, hueOf);
    else paintLine(pen, box, x, y, ink);
    const match = get("selected") == null ? null : wanted();
    toMatch.disabled = !wanted();
    const [from, to] = match ? match.map(toX) : [0, 0];
    const isShort = match && to - from < SHORT && from >= left - 1 && to <= right + 1;
    if (match && !isShort) {
      rule(`M${from - 1},${TOP - 1}H${Math.max(from + 1, to) + 1}V${bottom}H${from - 1}z`, 1, 2);
      const text = `${to < left ? "◀ " : ""}match ${number(get("selected"), 15)}${from > right ? " ▶" : ""}`;
      const half = pen.measureText(text).width / 2 + 4;
      const at = clamp((from + to) / 2, left + half, right - half);
      const isFree = places.find([at, left + half, right - half].map((x) => placeOfText(pen, text, x, 13)));
      if (isFree) words(text, isFree.middle, 13, "center", 1);
    }
    // The lines of the stepper and of a flag would be one thick line.
    const isApart =
      get("cursor") != null && !(isShort && Math.abs(toX(get("cursor")) - (from + to) / 2) < SHORT);
    if (isApart) rule(`M${toX(get("cursor"))},${TOP}V${bottom}`, 1, 1.5, [5, 3]);
    if (pointed in x) rule(`M${toX(x[pointed])},${TOP - 6}V${bottom + 4}`, 1, 2, [2, 3]);
    pen.setLineDash([]);
    const paper = colour("paper");
    if (isShort) {
      const n = get("points").length;
      const text = `match ${number(get("selected"), 15)}${n ? `, ${n} event${n === 1 ? "" : "s"}` : ""} (Z)`;
      places.take(paintFlag(pen, box, (from + to) / 2, text, ink, paper));
    }
    paintMarks(pen, box, marks, colour("mark"), paper);
    placeRings(box, get("asked"), places);
    const bars = placeBars(pen, box, partials(), places);
    const hues = { failed: colour("bad"), matched: colour("good") };
    paintPartials(pen, box, bars, (outcome) => hues[outcome] ?? colour("soft"), ink, paper);
    paintAsked(pen, box, get("asked"), colour("bad"), paper, bars.places);
    if (!isShort) paintPoints(pen, box, get("points"), ink, paper, bars.places);
    pen.restore();
    if (edges[0] !== left || edges[1] !== right) strip.read(...(edges = [left, right]));
    else strip.place();
    const n = crowd.length ? crowd.reduce((sum, one) => sum + one, 0) : ids.length;
    const counts = `${counted(x.length, "event")}, ${counted(n, "match")}`;
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
    if (event >= 0 && eventKey(event) === get("clicked")) send(model, { clicked: null }); // then a second click on the event is a change
    send(model, {
      selected: next === undefined ? null : ids[next],
      ...(event < 0 ? {} : { clicked: eventKey(event) }),
    });
  };
  const walk = (step) => {
    const now = ids.indexOf(get("selected") ?? NaN);
    const to = now < 0 ? (step > 0 ? 0 : ids.length - 1) : clamp(now + step, 0, ids.length - 1);
    if (ids.length) send(model, { selected: ids[to] });
  };
  // Point at the next event in view with the keyboard.
  const point = (step) => {
    const inView = [...x.keys()].filter((k) => x[k] >= shown()[0] && x[k] <= shown()[1]);
    if (!inView.length) return;
    const now = inView.indexOf(pointed);
    const to = now < 0 ? (step > 0 ? 0 : inView.length - 1) : clamp(now + step, 0, inView.length - 1);
    pointed = inView[to];
    tellEvent(pointed);
    later();
  };
  const ask = () => {
    if (!(pointed in x)) return;
    if (eventKey(pointed) === get("clicked")) send(model, { clicked: null });
    send(model, { clicked: eventKey(pointed) });
  };
  const keys = {
    e: () => point(1),
    E: () => point(-1),
    w: ask,
    ArrowLeft: () => pan(-0.2),
    ArrowRight: () => pan(0.2),
    "+": () => zoom(0.625),
    "=": () => zoom(0.625),
    "-": () => zoom(1.6),
    0: () => zoom(1e99),
    n: () => walk(1),
    p: () => walk(-1),
    z: closer,
    Enter: closer,
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
    if (k < 0) tellHint();
    else tellEvent(k);
  };
  canvas.onpointerleave = () => (isArmed = false);
  choice.onchange = () => send(model, { value: choice.value });
  canvas.onpointercancel = () => (drag = null);
  canvas.onclick = (event) => {
    if (drag?.isMoved) report();
    else if (event.detail < 2) pick(event.offsetX, event.offsetY);
    drag = null;
  };
  canvas.ondblclick = () => zoom(1e99);
  for (const made of root.querySelectorAll("[data-zoom]"))
    made.onclick = () => zoom(Number(made.dataset.zoom));
  toMatch.onclick = closer;

  const tellEvent = (k) => {
    const level = get("form") === "lanes" ? get("lane_names")[y[k]] : numberText(y[k] ?? NaN);
    readout.textContent = `${eventText(k)}   ${level}`;
  };
  const tellHint = () =>
    (readout.textContent =
      get("selected") != null ? HINT_OF_MATCH : partials().length ? HINT_OF_PARTIAL : HINT);
  let edges = [58, 59]; // of the plot, in px
  const time = { width: () => area[0], shown, extent, look, report, text: timeText, keys };
  const strip = timeStrip(root.querySelector(".strip"), model, time, (text) => (readout.textContent = text));
  const read = () => {
    [x, y, spans, ids, marks, zone, crowd] = "x y spans span_ids marks zone_offsets crowd"
      .split(" ")
      .map((name) => column(get(name)));
    ticks = column(get("ticks"), BigInt64Array);
    base = BigInt(get("origin"));
    let [low, high] = [Infinity, -Infinity];
    for (const level of y)
      if (!Number.isNaN(level)) [low, high] = [Math.min(low, level), Math.max(high, level)];
    range = low > high ? [0, 1] : low === high ? [low - 1, high + 1] : [low, high];
    const empty = get("busy") ? "Reading the events …" : get("sampled") || "No events to draw.";
    hint.textContent = x.length || ids.length ? "" : empty;
    note.title = [get("span_note"), get("sampled")].filter(Boolean).join(" · ");
    note.textContent = note.title.split(":")[0]; // how events are left out is a detail
    root.setAttribute("aria-busy", get("busy"));
    strip.read(...edges);
    if (!drag) tellHint();
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
    if (!drag && !timer && !strip.isDragged()) win = get("window").length ? get("window") : null;
    if (win && (win[0] >= last || win[1] <= first || (win[0] <= first && win[1] >= last))) win = null;
    later();
  };
  const redraw = together(read); // a message changes up to twenty traits
  const move = together(follow);
  const unwatch = watch(model, {
    ...Object.fromEntries(DRAWN.split(" ").map((name) => [name, redraw])),
    window: move,
    view: move,
  });
  const size = new ResizeObserver(([{ contentRect }]) => {
    area = [contentRect.width, contentRect.height].map(Math.round);
    edges = [0, 0];
    later();
  });
  const theme = new MutationObserver(later);
  size.observe(stage);
  theme.observe(document.body, { attributes: true });
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
