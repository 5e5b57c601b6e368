// The strip of a timeline: the numbers of all matches over the whole time, with a brush for the part that is
// shown. Python puts this text before timeline_view.js.
const STRIP = 34; // height, in px
const GRIP = 6; // largest distance of the pointer from an edge of the brush, in px
const BRUSH_KEYS =
  "Arrow keys move the shown part, with Shift its end. Plus and minus change its length, 0 shows all.";

// Return the strip. `time` has the functions width, shown, extent, look, report, text and keys of the timeline; `tell`
// shows a text. `place` draws the brush; `read` draws the bars between the left and the right edge of the plot.
function timeStrip(parent, model, time, tell) {
  const svg = surface(parent);
  const label = (words, y) => write(svg, "name", 0, y, words);
  let edges = [0, 1]; // of the plot, in px
  let counts = []; // rows of the strip: { name, numbers }
  let drag = null;

  const view = () => (model.get("strip_view").length ? model.get("strip_view") : time.extent());
  const scale = () => (edges[1] - edges[0]) / (view()[1] - view()[0] || 1);
  const toX = (at) => edges[0] + (at - view()[0]) * scale();
  const toTime = (x) => view()[0] + (clamp(x, ...edges) - edges[0]) / scale();
  const isWhole = () => time.shown()[0] <= time.extent()[0] && time.shown()[1] >= time.extent()[1];
  const total = (numbers) => numbers.reduce((sum, n) => sum + n, 0);
  const matches = (n) => counted(n, "match");

  const brush = [];
  const place = () => {
    const [from, to] = time.shown().map((at) => clamp(toX(at), ...edges));
    brush.splice(0).forEach((part) => part.remove());
    const add = (className, x, width) =>
      width > 0 &&
      brush.push(shape("rect", { class: className, x, y: 0.5, width, height: STRIP - 1, rx: 2 }, svg));
    const [first, last] = view();
    if (from > toX(first) + 1) add("outside", edges[0], from - edges[0]);
    if (to < toX(last) - 1) add("outside", to, edges[1] - to);
    if (brush.length) add("brush", from, Math.max(3, to - from));
    const said = counts.map(({ name, numbers }) => `${name}: ${matches(total(numbers))}`);
    const part = time.shown().map(time.text).join(" to ");
    svg.setAttribute(
      "aria-label",
      `Matches over time. ${said.join(", ") || "None counted yet"}. Shown: ${part}. ${BRUSH_KEYS}`,
    );
  };
  const read = (left, right) => {
    edges = [left, Math.max(left + 1, right)];
    const [all, own] = ["strip_all", "strip_key"].map((name) => column(model.get(name)));
    counts = [
      { name: own.length ? "all keys" : "matches", numbers: all, kind: "all" },
      { name: "this key", numbers: own, kind: "own" },
    ].filter(({ numbers }) => numbers.length);
    brush.splice(0);
    svg.setAttribute("viewBox", `0 0 ${Math.max(1, time.width())} ${STRIP}`);
    svg.replaceChildren();
    const tall = STRIP / Math.max(1, counts.length);
    counts.forEach(({ name, numbers, kind }, row) => {
      const base = Math.round((row + 1) * tall) - 1;
      const width = (edges[1] - edges[0]) / numbers.length;
      const most = numbers.reduce((a, b) => Math.max(a, b), 1);
      let path = "";
      numbers.forEach((n, k) => {
        const height = n ? Math.max(2, (n / most) * (tall - 4)) : 0;
        const thick = Math.max(1, width - (width > 3 ? 1 : 0));
        if (n)
          path += `M${(edges[0] + k * width).toFixed(1)},${base}v${(-height).toFixed(1)}h${thick.toFixed(1)}V${base}z`;
      });
      shape("path", { class: `ground`, d: `M${edges[0]},${base + 0.5}H${edges[1]}` }, svg);
      shape("path", { class: kind, d: path }, svg);
      label(name, base - tall / 2 + 5).setAttribute("x", edges[0] - 8);
    });
    if (!counts.length) write(svg, "soft", edges[0], 21, "All matches over time, when they are counted.");
    place();
  };

  svg.onpointerdown = (event) => {
    if (event.button) return;
    const [x] = placeIn(svg, event);
    const [from, to] = time.shown().map(toX);
    const isInside = !isWhole() && x > from && x < to;
    const near = isWhole() ? -1 : [from, to].findIndex((edge) => Math.abs(x - edge) <= GRIP);
    drag = { x, shown: time.shown(), isMoved: false, kind: near >= 0 ? near : isInside ? "move" : "new" };
    svg.setPointerCapture(event.pointerId);
  };
  svg.onpointermove = (event) => {
    const [x] = placeIn(svg, event);
    if (!drag) {
      const part = counts.length ? (x - edges[0]) / (edges[1] - edges[0]) : -1;
      if (part < 0 || part >= 1) return;
      const n = counts[0].numbers.length;
      const k = Math.floor(part * n);
      const [low, high] = [k, k + 1].map((bin) => time.text(view()[0] + (bin / n) * (view()[1] - view()[0])));
      const said = counts.map(({ name, numbers }) =>
        counts.length > 1 ? `${name} ${matches(numbers[k])}` : matches(numbers[k]),
      );
      tell(`${low} to ${high}: ${said.join(", ")}`);
      return;
    }
    drag.isMoved ||= Math.abs(x - drag.x) > 3;
    if (!drag.isMoved) return;
    const moved = (x - drag.x) / scale();
    const [low, high] = drag.shown;
    if (drag.kind === "move") time.look(low + moved, high + moved);
    else {
      const fixed = drag.kind === "new" ? toTime(drag.x) : drag.shown[1 - drag.kind];
      time.look(Math.min(fixed, toTime(x)), Math.max(fixed, toTime(x)));
    }
  };
  svg.onpointerup = () => {
    const now = drag;
    drag = null;
    if (now?.isMoved) time.report();
    if (!now || now.isMoved || now.kind === "move") return;
    const [first, last] = time.extent();
    const half = (isWhole() ? (last - first) / 10 : now.shown[1] - now.shown[0]) / 2;
    time.look(toTime(now.x) - half, toTime(now.x) + half);
  };
  svg.onpointercancel = () => (drag = null);
  svg.ondblclick = () => time.look(...time.extent());
  svg.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [low, high] = time.shown();
    const step = (event.key === "ArrowLeft" ? -1 : 1) * 0.1 * (high - low);
    if (event.shiftKey && event.key.startsWith("Arrow")) time.look(low, Math.max(low, high + step));
    else if (time.keys[event.key]) time.keys[event.key]();
    else return;
    event.preventDefault();
  };
  return { place, read, isDragged: () => drag !== null };
}
