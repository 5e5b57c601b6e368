// What the user asked for, on a timeline: the selected match as a flag, and partial matches as bars up to the
// event where they ended. Python puts this text before timeline_view.js.
const SHORT = 14; // a match of fewer pixels gets a flag

// Paint a flag for a match that is too short to be seen, and return its place. Its pole is where the match is.
function paintFlag(pen, box, at, text, hue, paper) {
  const width = pen.measureText(text).width + 12;
  const isLeft = at + width > box.right;
  const cloth = new Path2D(`M${at},2h${isLeft ? -width : width}v15h${isLeft ? width : -width}z`);
  Object.assign(pen, { globalAlpha: 1, strokeStyle: hue, fillStyle: hue, lineWidth: 2 }).setLineDash([]);
  pen.stroke(new Path2D(`M${at},2V${box.bottom}`));
  pen.fill(cloth);
  Object.assign(pen, { fillStyle: paper, textAlign: "left" });
  pen.fillText(text, isLeft ? at - width + 6 : at + 6, 14);
  return { left: isLeft ? at - width : at, right: isLeft ? at : at + width, top: 2, bottom: 17 };
}

const BAR = 6; // height of a partial match, in px
const LINE = 15; // of text
const STEP = 12; // between two places of a card, in px
const MARKS = { failed: "✗", matched: "✓", replaced: "→", open: "…" };

// Return the places of texts and pictures that must not overlap, in px. A card may cover a part of a line.
function freePlaces(box, taken = [], lines = []) {
  const isApart = (one, other) =>
    one.right + 2 <= other.left ||
    other.right + 2 <= one.left ||
    one.bottom + 1 <= other.top ||
    other.bottom + 1 <= one.top;
  const isFree = (one, others = taken) =>
    one.left >= box.left &&
    one.right <= box.right &&
    one.top >= 0 &&
    one.bottom <= box.bottom &&
    others.every((other) => isApart(one, other));
  const take = (place) => taken.push(place);
  const takeLine = (place) => lines.push(place);
  // Take the first free place of some, and return it; undefined without one.
  const find = (places, isCard = false) => {
    const all = [...taken, ...lines];
    const found =
      places.find((one) => isFree(one, all)) ??
      (isCard ? places.find((one) => isFree(one, taken)) : undefined);
    if (found) take(found);
    return found;
  };
  return { take, takeLine, find, isFree, copy: () => freePlaces(box, [...taken], [...lines]) };
}

// Return the place of a text whose middle is at x.
function placeOfText(pen, words, middle, base) {
  const half = pen.measureText(words).width / 2 + 1;
  return { left: middle - half, right: middle + half, top: base - 11, bottom: base + 3, middle, base };
}

// Return the bars of partial matches that are in the picture, with their places, and the card of the first one.
// The card needs its room more than further bars.
function placeBars(pen, box, bars, places) {
  const ends = bars.map((bar) => {
    const first = Math.min(bar.end, ...bar.events.map(({ x }) => x));
    return { ...bar, from: box.toX(first), to: box.toX(bar.end) };
  });
  const all = ends.filter(({ from, to }) => to >= box.left - 1 && from <= box.right + 1);
  for (let n = all.length; n > 0; n--) {
    const trial = places.copy();
    const seen = [];
    let level = box.bottom - 12;
    for (const bar of all.slice(0, n)) {
      const mark = () => ({ left: bar.to - 8, right: bar.to + 8, top: level - 6, bottom: level + 8 });
      while (level > TOP && !trial.isFree(mark())) level -= 18;
      if (level <= TOP && seen.length) break; // the rings leave no room
      trial.take(mark());
      trial.takeLine({ left: bar.from - 5, right: bar.to, top: level - 6, bottom: level + 6 });
      seen.push({ ...bar, row: seen.length, level });
      level -= 18;
    }
    const [{ from, to, level: lowest, text }] = seen;
    const card =
      ends[0] === all[0] && text.length ? placeCard(pen, box, from, to, lowest, text, trial) : null;
    if (card !== undefined || n === 1) return { seen, card, places: trial };
  }
  return { seen: [], card: null, places };
}

// Paint partial matches as bars from the bottom up. The first one has its failed conditions on a card.
function paintPartials(pen, box, { seen, card, places }, hueOf, ink, paper) {
  for (const { events, from, to, level, outcome, row } of [...seen].reverse()) {
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
  }
  if (card) paintCard(pen, card, seen[0].text, hueOf(seen[0].outcome), ink, paper);
  for (const { row, text, from, to, level } of seen)
    if (row && text.length) {
      const half = pen.measureText(text[0]).width / 2;
      paintLabel(pen, text[0], [to + 12 + half, from - 10 - half], [level + 4], ink, paper, places);
    }
  // A name is above its event, or else below; then on the other side of the bars.
  for (const { events, level } of seen)
    for (const { x, label: name } of events)
      if (name)
        paintLabel(
          pen,
          name,
          [box.toX(x)],
          [-8, 17, -26, -44, -62].map((dy) => level + dy),
          ink,
          paper,
          places,
          true,
        );
}

// Paint a text at the first free place of some; without one, leave it out.
function paintLabel(pen, words, middles, bases, hue, paper, places, isBold = false) {
  const font = pen.font;
  if (isBold) pen.font = `bold ${font}`;
  const found = places.find(
    bases.flatMap((base) => middles.map((middle) => placeOfText(pen, words, middle, base))),
  );
  pen.font = font;
  if (found) halo(pen, words, found.middle, found.base, "center", hue, paper, isBold);
  return found;
}

// Return the place of a card with lines of text: beside a bar where there is room, otherwise as near as there is.
function placeCard(pen, box, from, to, level, lines, places) {
  const width = Math.min(Math.max(...lines.map((line) => pen.measureText(line).width)) + 16, box.width - 8);
  const height = lines.length * LINE + 6;
  const at = (left, top) => ({ left, right: left + width, top, bottom: top + height });
  const heights = [level + 8 - height, Math.max(0, TOP - 1 - height), level - 12 - height, TOP + 6];
  const beside = [to + 14, from - 14 - width].flatMap((left) => heights.map((top) => at(left, top)));
  const away = Array.from({ length: Math.ceil(box.width / STEP) }, (_, k) => box.left + 4 + k * STEP)
    .sort((a, b) => Math.abs(a + width - to) - Math.abs(b + width - to))
    .flatMap((left) => heights.slice(1).map((top) => at(left, top)));
  return places.find([...beside, ...away], true);
}

function paintCard(pen, { left, right, top, bottom }, lines, hue, ink, paper) {
  Object.assign(pen, { fillStyle: paper, strokeStyle: hue, lineWidth: 1, globalAlpha: 0.94 });
  const edge = new Path2D(`M${left},${top}H${right}V${bottom}H${left}z`);
  pen.fill(edge);
  pen.globalAlpha = 1;
  pen.stroke(edge);
  Object.assign(pen, { fillStyle: ink, textAlign: "left" });
  lines.forEach((line, k) => pen.fillText(line, left + 8, top + LINE - 1 + k * LINE, right - left - 16));
}

function halo(pen, words, at, base, textAlign, fillStyle, paper, isBold = false) {
  const font = pen.font;
  Object.assign(pen, { lineWidth: 4, strokeStyle: paper, fillStyle, textAlign, globalAlpha: 1 });
  if (isBold) pen.font = `bold ${font}`;
  pen.strokeText(words, at, base);
  pen.fillText(words, at, base);
  pen.font = font;
}
