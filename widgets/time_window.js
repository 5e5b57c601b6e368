// The part of the time that a drawing shows. Python puts this text before thread_view.js and buffer_view.js.
const PAUSE_MS = 150; // after the last change, before the browser asks Python for finer data

// Return the shown part of the time, with functions that change it. `paint` draws the part; `middle` returns the
// time that stays in place while zooming, or null.
function timeWindow(model, paint, middle) {
  const part = { shown: [0, 1] };
  let timer = 0;
  part.read = () => {
    const [low, high] = model.get("window").length ? model.get("window") : model.get("extent");
    part.shown = [low, high > low ? high : low + 1];
  };
  part.show = (low, high) => {
    const [first, last] = model.get("extent");
    const whole = last - first || 1;
    const span = clamp(high - low, whole * 1e-7, whole);
    const start = Math.max(first, Math.min(low, first + whole - span));
    part.shown = [start, start + span];
    clearTimeout(timer);
    paint();
    timer = setTimeout(() => send(model, { window: part.shown }), PAUSE_MS);
  };
  part.zoom = (factor) => {
    const [low, high] = part.shown;
    const fixed = middle() ?? (low + high) / 2;
    part.show(fixed - (fixed - low) * factor, fixed + (high - fixed) * factor);
  };
  part.showAll = () => part.show(...model.get("extent"));
  part.length = (ns) => `${number(ns / model.get("unit_ns"))} ${model.get("unit")}`;
  part.keys = {
    "+": () => part.zoom(0.5),
    "=": () => part.zoom(0.5),
    "-": () => part.zoom(2),
    0: part.showAll,
  };
  part.buttons = [
    button("−", "zoom out", () => part.zoom(2)),
    button("+", "zoom in", () => part.zoom(0.5)),
    button("all", "show all of the time", part.showAll),
  ];
  part.stop = () => clearTimeout(timer);
  return part;
}
