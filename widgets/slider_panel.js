// Sliders for the constants of a query. They report movements to Python at most once per frame of the screen.
const HINT = "No constants to move. A number in a condition, such as price > 100, gets a slider here.";
const PAGE = 10; // steps of Page Up and Page Down

function render({ model, el }) {
  const root = node("section", "cepkit-slider_panel");
  const head = node("div", "head");
  const list = node("div", "list");
  root.setAttribute("aria-label", "Constants of the query");
  // Few panels have more sliders than fit. This button says so.
  const more = button("", "Show more constants", () => {
    const isAtEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 2;
    list.scrollTo({ top: isAtEnd ? 0 : list.scrollTop + list.clientHeight - 20 });
  });
  more.className = "more";
  more.hidden = true;
  head.append(node("h4", "title", "Constants"), more);
  root.append(head, list);
  el.append(root);

  const rows = new Map(); // id -> its elements
  const waiting = new Map(); // id -> value to report, now or in the next frame
  let frame = 0;
  let telling = 0;
  let held = null; // id of the slider that the user drags; older values from Python do not move it
  let n_drags = 0;

  const report = () => {
    cancelAnimationFrame(frame);
    frame = waiting.size ? requestAnimationFrame(report) : 0;
    for (const [id, value] of waiting) {
      send(model, { moved: { id, value, n: (model.get("moved").n ?? 0) + 1 } });
    }
    waiting.clear();
  };
  const move = (row, value) => {
    waiting.set(row.slider.id, value);
    say(row, value);
    if (!frame) report();
  };

  // --- places on the track: values, or the numbers of the stops of a logarithmic slider

  const placeOf = ({ stops }, value) => {
    if (!stops?.length) return value;
    const above = stops.findIndex((stop) => stop >= value);
    return above < 0 ? stops.length - 1 : above;
  };
  const tidy = (value) => Number(value.toPrecision(12));
  const valueAt = ({ stops, step, low, high }, place) => {
    if (stops?.length) return stops[Math.round(place)];
    return step ? clamp(tidy(Math.round(place / step) * step), low, high) : place;
  };
  // Return the value some steps away. From a value between two steps, a step leads to the next of them.
  const stepped = (slider, value, n) => {
    const { stops, step, low, high } = slider;
    if (stops?.length) return stops[clamp(placeOf(slider, value) + n, 0, stops.length - 1)];
    const size = step || (high - low) / 100;
    const place = value / size;
    const from =
      Math.abs(place - Math.round(place)) < 1e-6
        ? Math.round(place)
        : n > 0
          ? Math.floor(place)
          : Math.ceil(place);
    return clamp(tidy((from + n) * size), low, high);
  };

  const shown = (slider, value) =>
    value === slider.value && slider.text ? slider.text : `${Number(value.toPrecision(12))}`;
  const say = (row, value) => {
    const { slider, input, field, unit } = row;
    row.value = value;
    if (!row.isTyped) field.value = shown(slider, value);
    field.style.minWidth = `${field.value.length + 3}ch`;
    field.classList.toggle("wrong", false);
    unit.textContent = slider.unit ?? "";
    const place = placeOf(slider, value);
    if (held !== slider.id) input.value = place;
    input.setAttribute("aria-valuetext", [shown(slider, value), slider.unit].filter(Boolean).join(" "));
    const [low, high] = [Number(input.min), Number(input.max)];
    input.style.setProperty("--share", (place - low) / (high - low || 1));
  };

  const build = (id) => {
    const box = node("div", "slider");
    const name = node("span", "name");
    const input = node("input", "track");
    const field = node("input", "field");
    const [unit, low, high] = ["unit", "low", "high"].map((part) => node("span", part));
    const row = { box, name, field, unit, input, low, high, slider: null, value: 0, isTyped: false };
    Object.assign(input, { type: "range" });
    Object.assign(field, { type: "text", inputMode: "decimal", autocomplete: "off", spellcheck: false });
    input.onpointerdown = () => {
      n_drags += 1;
      model.set("gesture", n_drags);
    };
    input.oninput = () => {
      held = id;
      const value = valueAt(row.slider, input.valueAsNumber);
      if (value !== row.value) move(row, value);
    };
    input.onchange = input.onblur = () => {
      report();
      if (model.get("gesture")) model.set("gesture", 0); // the next message says so
      if (held !== id) return;
      held = null;
      say(row, row.value); // the handle snaps to the step
    };
    const walk = (event) => {
      const n = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: PAGE, PageDown: -PAGE }[
        event.key
      ];
      const isOfText = event.target === field && /Left|Right/.test(event.key);
      if (!n || isOfText || event.ctrlKey || event.metaKey || event.altKey) return false;
      event.preventDefault();
      row.isTyped = false;
      const value = stepped(row.slider, row.value, n);
      if (value !== row.value) move(row, value);
      return true;
    };
    const step = (event) => {
      const what = stepOf(event);
      if (!what) return false;
      event.preventDefault();
      event.stopPropagation();
      report();
      wishStep(model, what);
      return true;
    };
    input.onkeydown = (event) => {
      if (!step(event)) walk(event);
    };
    const take = () => {
      if (!row.isTyped) return;
      const text = field.value
        .trim()
        .replace(/[,_\s]/g, "")
        .replace("−", "-");
      const value = Number(text);
      const isWrong = !text || !Number.isFinite(value);
      row.isTyped = isWrong;
      field.classList.toggle("wrong", isWrong);
      if (isWrong) return;
      if (value === row.value) return say(row, value);
      n_drags += 1; // a typed value is a step of its own
      model.set("gesture", n_drags);
      move(row, value);
      report();
      model.set("gesture", 0);
    };
    const revert = () => {
      row.isTyped = false;
      say(row, row.value);
      field.select();
    };
    field.oninput = () => (row.isTyped = true);
    field.onfocus = () => field.select();
    field.onblur = () => {
      take();
      row.isTyped = false;
      say(row, row.value);
    };
    field.onkeydown = (event) => {
      if (event.key === "Enter") take();
      else if (event.key === "Escape" && row.isTyped) revert();
      else if (stepOf(event) && row.isTyped) {
        event.preventDefault();
        revert();
      } else {
        if (!step(event)) walk(event);
        return;
      }
      event.stopPropagation();
    };
    const said = node("span", "said-value");
    said.append(field, unit);
    box.append(name, input, said, low, high);
    return row;
  };

  const paint = () => {
    const [sliders, locked] = [model.get("sliders"), model.get("locked")];
    list.classList.toggle("locked", Boolean(locked));
    list.title = locked;
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
      row.input.setAttribute("aria-label", slider.label);
      row.field.setAttribute("aria-label", `Value of ${slider.label}`);
      const { stops, low, high } = slider;
      const ends = stops?.length ? [0, stops.length - 1] : [low, high];
      Object.assign(row.input, { min: ends[0], max: ends[1], step: "any" });
      row.input.disabled = row.field.disabled = Boolean(locked);
      row.box.title = stops?.length ? "The steps of this slider grow with its value" : "";
      row.low.textContent = low.toLocaleString("en", { maximumFractionDigits: 9 });
      row.high.textContent = high.toLocaleString("en", { maximumFractionDigits: 9 });
      say(row, held === slider.id || waiting.has(slider.id) ? row.value : slider.value);
      // Keep the page in place while the user drags a slider.
      if (list.children[k] !== row.box) list.insertBefore(row.box, list.children[k] ?? null);
    });
    root.classList.toggle("none", !sliders.length);
    if (!sliders.length) list.append(node("p", "hint", HINT));
    cancelAnimationFrame(telling);
    telling = requestAnimationFrame(tellMore); // it reads places, which lays the page out
  };

  const tellMore = () => {
    const [top, bottom] = [list.scrollTop, list.scrollTop + list.clientHeight];
    const boxes = [...list.querySelectorAll(".slider")];
    const placed = boxes.map((box) => box.offsetTop - list.offsetTop);
    const below = boxes.filter((box, k) => placed[k] + box.offsetHeight > bottom + 4).length;
    const above = placed.filter((place) => place < top - 4).length;
    more.hidden = !below && !above;
    more.textContent = below ? `▾ ${below} more below` : `▴ ${above} more above`;
    list.classList.toggle("cut", below > 0);
  };
  list.onscroll = tellMore;
  const sized = new ResizeObserver(tellMore);
  sized.observe(list);

  const unwatch = watch(model, { sliders: paint, locked: paint });
  paint();
  return () => {
    unwatch();
    sized.disconnect();
    cancelAnimationFrame(frame);
    cancelAnimationFrame(telling);
    root.remove();
  };
}

export default { render };
