// The elements of a timeline, its margins and its events. Python puts this text before timeline_view.js.
const SKELETON = `
  <div class="head"><h4>Timeline</h4><label class="value">of <select aria-label="Column that is drawn"></select></label><span class="legend"><i class="key band"></i>match
    <i class="key chosen"></i>selected match <i class="key cursor"></i>stepping</span> <span class="marked"><i class="key mark"></i><b></b></span><span class="readout" role="status"></span><span class="note"></span><span class="controls"><button type="button" data-zoom="1.6" aria-label="Zoom out"
    title="Zoom out (-)">−</button><button type="button" data-zoom="0.625" aria-label="Zoom in" title="Zoom in (+)">+</button
    ><button type="button" data-zoom="1e99" title="Show all there is (0, or double click)">Whole</button
    ><button type="button" class="closer" title="Zoom to the selected match, and back (Z or Enter)">Match</button></span></div>
  <div class="stage"><canvas tabindex="0" role="application" aria-roledescription="timeline"></canvas><p class="hint"></p></div>
  <div class="strip"></div>`;
// Margins around the events, in px.
const TOP = 20;
const BOTTOM = 38;
const RIGHT = 14;
const NEAR = 8; // largest distance of a click from its event, in px
const HINT = "Click an event to see why it is in no match.";
const HINT_OF_MATCH = "Z zooms to the selected match and back.";
const HINT_OF_PARTIAL = "Z zooms to the partial match and back.";

// Return the scales: times from left to right, values from the bottom up, lanes from the top down.
function placed(width, height, left, [first, last], lanes, [low, high]) {
  const box = {
    left,
    right: width - RIGHT,
    bottom: height - BOTTOM,
    width: width - RIGHT - left,
    height: height - BOTTOM - TOP,
    low: first,
    lanes,
  };
  box.scale = box.width / (last - first);
  box.toX = (time) => left + (time - first) * box.scale;
  box.toTime = (pixel) => first + (pixel - left) / box.scale;
  box.toY = lanes
    ? (lane) => TOP + ((lane + 0.5) / lanes.length) * box.height
    : (value) => box.bottom - 6 - ((value - low) / (high - low)) * (box.height - 12);
  return box;
}

// Paint matches as bands. Events stay visible below many overlapping bands. A strip at the top
// shows even the thinnest band.
function paintBands(pen, box, spans, fillStyle) {
  const depth = new Float64Array(Math.ceil(box.width) + 2);
  for (let k = 0; k + 1 < spans.length; k += 2) {
    const [from, to] = [spans[k], spans[k + 1]].map((time) =>
      clamp(Math.floor(box.toX(time) - box.left), -1, depth.length - 2),
    );
    if (to < 0) continue;
    depth[Math.max(0, from)]++;
    depth[to + 1]--;
  }
  depth.forEach((change, k) => (depth[k] = change + (depth[k - 1] ?? 0)));
  const most = Math.log(Math.max(2, ...depth));
  depth.forEach((n, k) => {
    if (n < 1) return;
    Object.assign(pen, { fillStyle, globalAlpha: 0.16 + (0.2 * Math.log(n)) / most }).fillRect(
      box.left + k,
      TOP,
      1,
      box.height,
    );
    Object.assign(pen, { globalAlpha: 1 }).fillRect(box.left + k, TOP, 1, 3);
  });
}

// Paint matches that are too many for bands: columns are darker where more of them end.
function paintCrowd(pen, box, crowd, [first, last], fillStyle) {
  const width = (last - first) / crowd.length || 1;
  const most = crowd.reduce((a, b) => Math.max(a, b), 1);
  for (let k = 0; k < box.width; k++) {
    const n = crowd[Math.floor((box.toTime(box.left + k + 0.5) - first) / width)] ?? 0;
    Object.assign(pen, { fillStyle, globalAlpha: n && 0.05 + (0.25 * n) / most });
    pen.fillRect(box.left + k, TOP, 1, box.height);
  }
}

// Paint events as a line. In a column of pixels, an event is drawn only if it reaches beyond the events before
// it, so 100,000 events are a few thousand lines.
function paintLine(pen, box, x, y, strokeStyle) {
  const [low, high, end] = [box.low, box.toTime(box.right), x.length - 1];
  const isSparse = x.length < box.width / 6;
  let [column, top, base] = [NaN, 0, 0];
  pen.beginPath();
  for (let k = 0; k <= end; k++) {
    if (x[Math.min(k + 1, end)] < low || x[Math.max(k - 1, 0)] > high) continue;
    const [at, level] = [box.toX(x[k]), box.toY(y[k])];
    const isSame = Math.floor(at) === column;
    if (level !== level)
      column = NaN; // a gap
    else if (!isSame || level < top || level > base) {
      if (column !== column) pen.moveTo(at - 0.1, level);
      pen.lineTo(at, level);
      [top, base] = isSame ? [Math.min(top, level), Math.max(base, level)] : [level, level];
      column = Math.floor(at);
    }
    if (isSparse && level === level) (pen.roundRect(at - 2, level - 2, 4, 4, 2), pen.moveTo(at, level));
  }
  Object.assign(pen, {
    strokeStyle,
    lineWidth: 1.25,
    lineJoin: "round",
    lineCap: "round",
    globalAlpha: 0.85,
  }).stroke();
}

// Paint events in lanes. A column of pixels is darker if more events of the lane are in it.
function paintLanes(pen, box, x, y, colourOf) {
  const columns = Math.ceil(box.width) + 1;
  const wide = x.length < box.width / 6 ? 3 : 1.5;
  const tall = Math.min(40, (0.56 * box.height) / box.lanes.length);
  const counts = new Float64Array(columns * box.lanes.length);
  x.forEach((time, k) => {
    const column = Math.floor(box.toX(time) - box.left);
    if (column >= 0 && column < columns && y[k] >= 0 && y[k] < box.lanes.length)
      counts[y[k] * columns + column]++;
  });
  const most = Math.log(
    Math.max(
      2,
      counts.reduce((a, b) => Math.max(a, b), 0),
    ) + 1,
  );
  box.lanes.forEach((_, lane) => {
    pen.fillStyle = colourOf(lane);
    for (let column = 0; column < columns; column++) {
      const n = counts[lane * columns + column];
      pen.globalAlpha = 0.45 + (0.55 * Math.log(n + 1)) / most;
      if (n) pen.fillRect(box.left + column - wide / 4, box.toY(lane) - tall / 2, wide, tall);
    }
  });
}

// Return the height of an event, at the bottom without a value.
const levelOf = (box, y) => (y == null || y !== y ? box.bottom - 8 : box.toY(y));

function paintPoints(pen, box, points, ink, paper, places) {
  const width = points.length > 1 ? box.toX(points.at(-1).x) - box.toX(points[0].x) : Infinity;
  const r = clamp(width / points.length / 2, 2.5, 5);
  for (const { x, y } of points) {
    const [at, level] = [box.toX(x), levelOf(box, y)];
    Object.assign(pen, {
      globalAlpha: 1,
      lineWidth: 3,
      strokeStyle: paper,
      fillStyle: ink,
    });
    const disc = new Path2D(`M${at - r},${level}a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0-${2 * r},0`);
    pen.stroke(disc);
    pen.fill(disc);
  }
  for (const { x, y, label: name } of points) {
    const level = levelOf(box, y);
    const bases = level > TOP + 21 ? [level - 11, level + 21] : [level + 21];
    // The events of a lane are beside each other, and those of the next lane below: the name is right of its event.
    const beside = r + 4 + pen.measureText(name).width / 2;
    const middles = box.lanes ? [box.toX(x) + beside, box.toX(x) - beside] : [box.toX(x)];
    if (name) paintLabel(pen, name, middles, box.lanes ? [level + 4] : bases, ink, paper, places);
  }
}

// Paint arrows from each event of a match to the next one.
function paintArrows(pen, box, points, strokeStyle) {
  const path = new Path2D();
  points.slice(1).forEach((point, k) => {
    const [from, to] = [points[k], point].map(({ x, y }) => [box.toX(x), levelOf(box, y)]);
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    const length = Math.hypot(dx, dy);
    if (length < 16) return;
    const [ux, uy] = [dx / length, dy / length];
    const tip = [to[0] - 8 * ux, to[1] - 8 * uy];
    const wing = (side) => [tip[0] - 7 * ux - 4 * side * uy, tip[1] - 7 * uy + 4 * side * ux];
    path.moveTo(from[0] + 8 * ux, from[1] + 8 * uy);
    path.lineTo(...tip);
    path.lineTo(...wing(1));
    path.moveTo(...tip);
    path.lineTo(...wing(-1));
  });
  Object.assign(pen, { globalAlpha: 1, lineWidth: 1.5, strokeStyle }).stroke(path);
}

function paintMarks(pen, box, marks, strokeStyle, paper) {
  const path = new Path2D();
  const half = marks.length > box.width / 8 ? 3.5 : 5.5;
  for (let k = 0; k + 1 < marks.length; k += 2)
    path.rect(box.toX(marks[k]) - half, box.toY(marks[k + 1]) - half, 2 * half, 2 * half);
  Object.assign(pen, { globalAlpha: 1, lineWidth: 3, strokeStyle: paper }).stroke(path);
  Object.assign(pen, { lineWidth: 1.5, strokeStyle }).stroke(path);
}

const ringsOf = (box, asked) => asked.map(({ x, y }) => [box.toX(x), levelOf(box, y)]);

function placeRings(box, asked, places) {
  for (const [at, level] of ringsOf(box, asked))
    places.take({ left: at - 9, right: at + 9, top: level - 9, bottom: level + 9 });
}

// Paint rings around the clicked events. Without room for its question mark, a ring is alone.
function paintAsked(pen, box, asked, hue, paper, places) {
  const rings = ringsOf(box, asked);
  for (const [at, level] of rings) {
    const ring = new Path2D(`M${at - 7},${level}a7,7 0 1 0 14,0a7,7 0 1 0-14,0`);
    Object.assign(pen, { globalAlpha: 1, lineWidth: 5, strokeStyle: paper }).stroke(ring);
    Object.assign(pen, { lineWidth: 2.5, strokeStyle: hue }).stroke(ring);
  }
  for (const [at, level] of rings) {
    const bases = level > TOP + 25 ? [level - 13, level + 25] : [level + 25];
    const isMarked = paintLabel(pen, "?", [at], bases, hue, paper, places, true);
    if (!isMarked) paintLabel(pen, "?", [at - 16, at + 16], [level + 4], hue, paper, places, true);
  }
}

// Return the event nearest to a pointer, or -1 if none is near. Its time counts and, on a line, also its height:
// a user who points at a peak means the peak.
function nearest(box, x, y, pixel, level) {
  let [best, least] = [-1, Infinity];
  x.forEach((time, k) => {
    const away = Math.abs(box.toX(time) - pixel);
    const far = box.lanes ? Infinity : Math.hypot(away, box.toY(y[k]) - level);
    const rank = away >= NEAR ? Infinity : far < 2 * NEAR ? far : away + 2 * NEAR;
    if (rank < least) [best, least] = [k, rank];
  });
  return best;
}
