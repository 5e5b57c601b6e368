// A stream, event by event: the position, the event, the live partial matches and the completed matches.
const NEXT_MATCH = -1;
const PATIENCE_MS = 1000; // after that, the position from Python is shown

function render({ model, el }) {
  const root = node("section", "cepkit-stepper");
  root.setAttribute("aria-label", "Stepping through the events");
  const bar = node("div", "bar");
  const where = node("output", "where");
  const range = node("input", "range");
  const note = node("p", "note");
  range.type = "range";
  range.min = 0;
  range.setAttribute("aria-label", "Event; arrow keys go one back or forward");
  note.setAttribute("aria-live", "polite");

  let aimed = null; // the requested position, until Python reaches it
  let timer = 0;
  let frame = 0;
  const want = (to) => {
    const wanted = to === NEXT_MATCH ? to : clamp(to, 0, model.get("n_events"));
    aimed = to === NEXT_MATCH ? null : wanted;
    clearTimeout(timer);
    timer = setTimeout(() => {
      aimed = null;
      place();
    }, PATIENCE_MS);
    place();
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      send(model, { wanted: { to: aimed ?? NEXT_MATCH, n: (model.get("wanted").n ?? 0) + 1 } });
    });
  };
  const position = () => aimed ?? model.get("position");
  const back = [
    button("|◀", "Before the first event", () => want(0)),
    button("◀", "One event back", () => want(position() - 1)),
  ];
  const on = [
    button("▶", "One event forward", () => want(position() + 1)),
    button("▶▶ match", "Forward to the next event that completes a match", () => want(NEXT_MATCH)),
  ];
  bar.append(node("h4", "name-of-all", "Steps"), ...back, ...on, range, where);
  range.oninput = () => want(range.valueAsNumber);
  root.onkeydown = (event) => {
    const to = { ArrowLeft: position() - 1, ArrowRight: position() + 1 }[event.key];
    if (to === undefined || event.target === range || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    want(to);
  };

  const panels = node("div", "panels");
  const panel = (title) => {
    const box = node("div", "panel");
    const list = node("div", "list");
    list.tabIndex = 0; // it scrolls
    list.setAttribute("role", "group");
    list.setAttribute("aria-label", title);
    box.append(node("h4", "title", title), list);
    panels.append(box);
    return list;
  };
  const event = panel("Event");
  const live = panel("Live partial matches");
  const done = panel("Completed here");
  root.append(bar, panels, note);
  el.append(root);

  // Return the place in words. An event has the number of its row here as everywhere in the board.
  const placed = (end) => {
    if (!end) return "no events";
    const left = `${(end - position()).toLocaleString("en")} left`;
    const [name, row] = model.get("event")[0] ?? [];
    const isThere = position() === model.get("position");
    if (position() && name === "row") return isThere ? `row ${row}, ${left}` : left;
    return `${position().toLocaleString("en")} of ${end.toLocaleString("en")} events`;
  };
  const place = () => {
    const end = model.get("n_events");
    range.max = end;
    range.value = position();
    range.disabled = !end;
    where.textContent = placed(end);
    range.setAttribute("aria-valuetext", (where.title = where.textContent));
    back.forEach((one) => (one.disabled = position() <= 0));
    on.forEach((one) => (one.disabled = position() >= end));
    root.classList.toggle("going", aimed != null && aimed !== model.get("position"));
  };
  const fill = (list, rows, hint) =>
    list.replaceChildren(...(rows.length ? rows : [node("p", "hint", hint)]));
  const drawEvent = () => {
    const rows = model.get("event").map(([name, value]) => {
      const row = node("div", "pair");
      row.append(node("span", "name", name), node("span", "value", value));
      row.title = `${name}: ${value}`;
      return row;
    });
    fill(event, rows, model.get("n_events") ? "Before the first event." : "No events.");
  };
  const drawLive = () => {
    const rows = model.get("live").map((state) => {
      const row = node("div", "state");
      const examples = state.examples ?? [];
      row.append(node("span", "n", Number(state.n).toLocaleString("en")), node("span", "label", state.label));
      row.append(...examples.map((text) => node("span", "example", text)));
      return row;
    });
    fill(live, rows, "None. No partial match at this event can still become a match.");
  };
  const drawDone = () => {
    const rows = model.get("completed").map((text) => {
      const row = node("div", "match");
      row.append(node("span", "mark", "✓"), node("span", "", text));
      return row;
    });
    fill(done, rows, "No match ends at this event.");
  };
  const say = () => (note.textContent = note.title = model.get("note"));
  const arrive = () => {
    if (aimed === model.get("position")) aimed = null; // an answer to an earlier request does not move the handle
    place();
    drawEvent();
  };

  const unwatch = watch(model, {
    position: arrive,
    n_events: arrive,
    event: () => (place(), drawEvent()),
    live: drawLive,
    completed: drawDone,
    note: say,
  });
  arrive();
  drawLive();
  drawDone();
  say();
  return () => {
    unwatch();
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    root.remove();
  };
}

export default { render };
