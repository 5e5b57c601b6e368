// What a stream holds and does: a line for each figure, with its course during the last updates.
const WIDE = 120;
const HIGH = 18;

// Return the course of a figure as a line from the left to the right; the highest value is at the top.
function courseLine(values) {
  const svg = shape("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "course", "aria-hidden": "true" });
  const top = Math.max(...values, 1e-12);
  const place = (value, k) => [
    1 + (k * (WIDE - 2)) / Math.max(values.length - 1, 1),
    HIGH - 2 - clamp(value / top, 0, 1) * (HIGH - 4),
  ];
  const points = values.map(place).map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`);
  if (values.length > 1) shape("polyline", { points: points.join(" ") }, svg);
  return svg;
}

function render({ model, el }) {
  const root = node("section", "cepkit-stream_board");
  root.setAttribute("aria-label", "Stream");
  const title = node("h4", "title");
  const table = node("table", "figures");
  const note = node("p", "note");
  table.tabIndex = 0; // so that a keyboard reaches it, and a screen reader reads it
  table.setAttribute("aria-label", "Figures");
  root.append(title, table, note);
  el.append(root);

  const paint = () => {
    title.textContent = title.title = model.get("title");
    note.textContent = model.get("note");
    table.replaceChildren(
      ...model.get("figures").map(({ label, now, course }) => {
        const row = node("tr");
        const head = node("th", "", label);
        const cell = node("td", "course");
        head.scope = "row";
        cell.append(courseLine(course));
        row.append(head, node("td", "now", now), cell);
        return row;
      }),
    );
  };
  const unwatch = watch(model, { title: paint, figures: paint, note: paint });
  paint();
  return () => {
    unwatch();
    root.remove();
  };
}

export default { render };
