// What the user asked for, on a timeline: the selected match as a flag, and partial matches as bars up to the
// event where they ended. Python puts this text before timeline_view.js.
const SHORT = 14; // a match of fewer pixels gets a flag

// Paint a flag for a match that is too short to be seen. Its pole is where the match is.
function paintFlag(pen, box, at, text, hue, paper) {
  const width = pen.measureText(text).width + 12;
  const isLeft = at + width > box.right;
  const cloth = new Path2D(`M${at},2h${isLeft ? -width : width}v15h${isLeft ? width : -width}z`);
  Object.assign(pen, { globalAlpha: 1, strokeStyle: hue, fillStyle: hue, lineWidth: 2 }).setLineDash([]);
  pen.stroke(new Path2D(`M${at},2V${box.bottom}`));
  pen.fill(cloth);
  Object.assign(pen, { fillStyle: paper, textAlign: "left" });
  pen.fillText(text, isLeft ? at - width + 6 : at + 6, 14);
}

const BAR = 6; // height of a partial match, in px
const LINE = 15; // of text
const MARKS = { failed: "✗", matched: "✓", replaced: "→", open: "…" };

// Paint partial matches as bars from the bottom up. The first one has its failed conditions on a card.
function paintPartials(pen, box, bars, hueOf, ink, paper, ring) {
  const all = bars.map((bar, row) => ({
    ...bar,
    row,
    from: Math.min(bar.end, ...bar.events.map(({ x }) => x)),
  }));
  for (const { events, from: first, end, outcome, text, row } of all.reverse()) {
    const level = box.bottom - 12 - row * 18;
    const [from, to] = [box.toX(first), box.toX(end)];
    if (to < box.left - 1 || from > box.right + 1) continue;
    const hue = hueOf(outcome);
    Object.assign(pen, { globalAlpha: 1, lineCap: "round", lineJoin: "round" });
    if (!row) {
      Object.assign(pen, { lineWidth: 1.5, strokeStyle: hue }).setLineDash([2, 3]);
      pen.stroke(new Path2D(`M${to},${TOP}V${level}`));
      pen.setLineDash([]);
    }
    const bar = new Path2D(`M${from},${level}H${Math.max(to, from + 0.1)}`);
    pen.lineWidth = BAR + 4;
    pen.strokeStyle = paper;
    pen.stroke(bar);
    pen.lineWidth = BAR;
    pen.strokeStyle = hue;
    pen.stroke(bar);
    pen.fillStyle = paper;
    for (const { x } of events)
      pen.fill(new Path2D(`M${box.toX(x) - 2},${level}a2,2 0 1 0 4,0a2,2 0 1 0-4,0`));
    halo(pen, MARKS[outcome], to, level + 5, "center", hue, paper, true);
    for (const { x, label } of events)
      if (label) halo(pen, label, box.toX(x), level - 8, "center", ink, paper, true);
    if (row) halo(pen, text[0] ?? "", to + 12, level + 4, "left", ink, paper);
    else if (text.length) paintCard(pen, box, from, to, level, text, hue, ink, paper, ring);
  }
}

// Paint lines of text on a card beside a bar where there is room, otherwise away from the ring of the event.
function paintCard(pen, box, from, to, level, lines, hue, ink, paper, ring) {
  const width = Math.min(Math.max(...lines.map((line) => pen.measureText(line).width)) + 16, box.width - 8);
  const height = lines.length * LINE + 6;
  const isRight = to + 14 + width <= box.right;
  const isBeside = isRight || from - 14 - width >= box.left;
  const x = isRight
    ? to + 14
    : isBeside
      ? from - 14 - width
      : clamp(to - width, box.left + 4, box.right - width - 4);
  const isLow = ring < TOP + box.height / 2;
  const y = isBeside ? level + 8 - height : isLow ? level - 12 - height : TOP + 6;
  Object.assign(pen, { fillStyle: paper, strokeStyle: hue, lineWidth: 1, globalAlpha: 0.94 });
  const card = new Path2D(`M${x},${y}h${width}v${height}h${-width}z`);
  pen.fill(card);
  pen.globalAlpha = 1;
  pen.stroke(card);
  Object.assign(pen, { fillStyle: ink, textAlign: "left" });
  lines.forEach((line, k) => pen.fillText(line, x + 8, y + LINE - 1 + k * LINE, width - 16));
}

function halo(pen, words, at, base, textAlign, fillStyle, paper, isBold = false) {
  const font = pen.font;
  Object.assign(pen, { lineWidth: 4, strokeStyle: paper, fillStyle, textAlign, globalAlpha: 1 });
  if (isBold) pen.font = `bold ${font}`;
  pen.strokeText(words, at, base);
  pen.fillText(words, at, base);
  pen.font = font;
}
