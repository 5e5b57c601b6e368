// Sliders for the constants of a query. They report movements to Python at most once per frame of the screen.
const HINT = "No constants to move. A number in a condition, such as price > 100, gets a slider here.";

function render({ model, el }) {
  const root = node("section", "cepkit-slider_panel");
  const list = node("div", "list");
  root.setAttribute("aria-label", "Constants of the query");
  root.append(node("h4", "title", "Constants"), list);
  el.append(root);

  const rows = new Map(); // id -> its elements
  const waiting = new Map(); // id -> value to report in the next frame
  let frame = 0;
  let held = null; // id of the slider that the user drags; older values from Python do not move it

  const report = () => {
    frame = 0;
    for (const [id, value] of waiting) {
      send(model, { moved: { id, value, n: (model.get("moved").n ?? 0) + 1 } });
    }
    waiting.clear();
  };
  const shown = (slider, value) =>
    value === slider.value && slider.text ? slider.text : `${Number(value.toPrecision(6))}`;
  const say = (row, value) => {
    const { slider, input, output } = row;
    output.textContent = [shown(slider, value), slider.unit].filter(Boolean).join(" ");
    input.setAttribute("aria-valuetext", output.textContent);
    input.style.setProperty("--share", (value - slider.low) / (slider.high - slider.low || 1));
  };

  const build = (id) => {
    const box = node("label", "slider");
    const name = node("span", "name");
    const output = node("output", "value");
    const input = node("input");
    const ends = node("span", "ends");
    const low = node("span");
    const high = node("span");
    const row = { box, name, output, input, low, high, slider: null };
    input.type = "range";
    input.oninput = () => {
      held = id;
      waiting.set(id, input.valueAsNumber);
      say(row, input.valueAsNumber);
      frame ||= requestAnimationFrame(report);
    };
    input.onchange = input.onblur = () => (held = held === id ? null : held);
    ends.append(low, high);
    box.append(name, output, input, ends);
    return row;
  };

  const paint = () => {
    const sliders = model.get("sliders");
    const wanted = new Set(sliders.map((slider) => slider.id));
    for (const [id, row] of rows) {
      if (!wanted.has(id)) {
        row.box.remove();
        rows.delete(id);
      }
    }
    list.querySelector(".hint")?.remove();
    sliders.forEach((slider, k) => {
      const row = rows.get(slider.id) ?? build(slider.id);
      rows.set(slider.id, row);
      row.slider = slider;
      row.name.textContent = row.name.title = slider.label;
      Object.assign(row.input, { min: slider.low, max: slider.high, step: slider.step ?? "any" });
      if (held !== slider.id) row.input.value = slider.value;
      row.low.textContent = slider.low.toLocaleString("en");
      row.high.textContent = slider.high.toLocaleString("en");
      say(row, held === slider.id ? row.input.valueAsNumber : slider.value);
      // Keep the page in place while the user drags a slider.
      if (list.children[k] !== row.box) list.insertBefore(row.box, list.children[k] ?? null);
    });
    if (!sliders.length) list.append(node("p", "hint", HINT));
  };

  const unwatch = watch(model, { sliders: paint });
  paint();
  return () => {
    unwatch();
    cancelAnimationFrame(frame);
    root.remove();
  };
}

export default { render };
