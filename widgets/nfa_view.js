// The automaton of a query, laid out by Python, with live partial matches and the path of a match.
// Lengths in px, the same as in cepkit/widgets/panels.py.
const RADIUS = 17;
const RING = 4;
const START_ARROW = 26;
const ARROW = 7;
const LEAST_SCALE = 0.64; // a longer automaton scrolls
const LEAST_TEXT = 10; // arrows have room for texts that shrink less than they do

function render({ model, el }) {
  const root = node("section", "cepkit-nfa_view");
  const frame = node("div", "frame");
  const legend = node("div", "legend");
  const says = node("p", "says");
  const headId = `cepkit-head-${Math.random().toString(36).slice(2)}`; // ids are unique in the whole page
  root.setAttribute("aria-label", "Automaton");
  says.setAttribute("aria-live", "polite");
  for (const [kind, text] of [
    ["live", "live partial matches"],
    ["lit", "selected match"],
    ["final", "match ends"],
  ]) {
    const item = node("span", "item");
    item.append(node("i", `key ${kind}`, kind === "live" ? "3" : ""), node("span", "", text));
    legend.append(item);
  }
  legend.title =
    "live partial matches: their number at the event that the stepper shows; " +
    "selected match: the states that it passes; match ends: a match is complete in this state";
  const conditions = node("dl", "conditions");
  root.append(node("h4", "title", "Automaton"), frame, conditions, legend, says);
  el.append(root);

  let groups = new Map(); // id -> <g> of the state
  let svg = null;
  const choose = (id) => send(model, { selected: id });
  const label = (parent, className, x, y, text) => {
    const lines = String(text).split("\n");
    const words = write(parent, className, x, y - 16 * (lines.length - 1), "");
    lines.forEach((line, k) => shape("tspan", { x, dy: k ? 16 : 0 }, words, line));
  };

  const arrow = (parent, d) => shape("path", { class: "line", d, "marker-end": `url(#${headId})` }, parent);

  const drawState = (state) => {
    const { id, x, y } = state;
    const group = shape("g", {
      class: state.is_final ? "state final" : "state",
      role: "button",
      [KEEPS_KEYS]: "true",
    });
    if (state.is_start) {
      const tip = x - RADIUS - RING;
      arrow(group, `M${tip - START_ARROW},${y}H${tip - ARROW}`);
    }
    // The name of a button has its whole text. So the tooltip and the number are outside of the button.
    group.place = shape("g", {});
    if (state.tooltip) shape("title", {}, group.place, state.tooltip);
    group.place.append(group);
    shape("circle", { class: "halo", cx: x, cy: y, r: RADIUS + RING + 4 }, group);
    shape("circle", { class: "disc", cx: x, cy: y, r: RADIUS }, group);
    if (state.is_final) shape("circle", { class: "ring", cx: x, cy: y, r: RADIUS + RING }, group);
    label(group, "name", x, y + 4.5, state.label ?? id);
    group.badge = shape("g", { class: "badges", "aria-hidden": "true" }, group.place);
    shape("rect", { class: "badge", y: y + RADIUS + RING + 3, height: 16, rx: 8 }, group.badge);
    write(group.badge, "count", x, y + RADIUS + RING + 15, "");
    group.onclick = () => choose(model.get("selected") === id ? null : id);
    group.onkeydown = (event) => {
      const ids = [...groups.keys()];
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step) groups.get(ids[(ids.indexOf(id) + step + ids.length) % ids.length]).focus();
      else if (event.key === "Enter" || event.key === " ") group.onclick();
      else if (event.key === "Escape") choose(null);
      else return;
      event.preventDefault();
    };
    return group;
  };

  const paint = () => {
    const states = model.get("states");
    const [width, height] = [model.get("width"), model.get("height")];
    const focused = [...groups].find(([, group]) => group === document.activeElement)?.[0];
    svg = shape("svg", {
      viewBox: `0 0 ${width} ${height}`,
      role: "group",
      "aria-label": `automaton with ${states.length} states`,
    });
    const size = { markerUnits: "userSpaceOnUse", markerWidth: ARROW, markerHeight: ARROW };
    const head = shape("marker", { id: headId, ...size, refX: 0, refY: ARROW / 2, orient: "auto" }, svg);
    shape("path", { class: "head", d: `M0,0L${ARROW},${ARROW / 2}L0,${ARROW}z` }, head);
    for (const transition of model.get("transitions")) {
      const group = shape("g", { class: "transition" }, svg);
      const { source, target, tooltip } = transition;
      shape("title", {}, group, tooltip || `${source} → ${target}: ${transition.label}`);
      arrow(group, transition.path);
      label(group, "label", transition.x, transition.y, transition.label ?? "");
    }
    groups = new Map(states.map((state) => [state.id, drawState(state)]));
    svg.append(...[...groups.values()].map((group) => group.place));
    frame.replaceChildren(
      states.length
        ? svg
        : node("p", "hint", "No automaton yet. Write a valid query to see its automaton here."),
    );
    conditions.replaceChildren(
      ...model.get("conditions").flatMap(({ name, text }) => [node("dt", "", name), node("dd", "", text)]),
    );
    root.classList.toggle("alone", model.get("is_alone"));
    fit();
    light();
    groups.get(focused)?.focus();
  };
  const fit = () => {
    const [width, height] = [model.get("width"), model.get("height")];
    const room = Math.min(frame.clientWidth / width, frame.clientHeight / height);
    const scale = Math.min(1, Math.max(LEAST_SCALE, room)) || 1;
    svg.setAttribute("width", width * scale);
    svg.setAttribute("height", height * scale);
    svg.style.setProperty("--least", `${LEAST_TEXT / scale}px`);
    svg.style.setProperty("--grow", Math.max(1, LEAST_TEXT / scale / 11)); // of the badges
    more();
  };
  const more = () =>
    frame.classList.toggle("more", frame.scrollLeft + frame.clientWidth < frame.scrollWidth - 2);
  frame.onscroll = more;
  const light = () => {
    const n = new Map(model.get("live").map((one) => [one.state, one.n]));
    const lit = new Set(model.get("lit"));
    const chosen = model.get("selected");
    const all = model.get("states");
    for (const state of all) {
      const { id, x } = state;
      const group = groups.get(id);
      if (!group) return; // the states come first, their marks in a later message
      const count = n.get(id) ? Number(n.get(id)).toLocaleString("en") : "";
      const width = 7 * count.length + 10;
      const [badge, text] = [...group.badge.children];
      group.classList.toggle("live", count !== "");
      group.badge.classList.toggle("live", count !== "");
      group.classList.toggle("lit", lit.has(id));
      group.classList.toggle("chosen", chosen === id);
      badge.setAttribute("width", width);
      badge.setAttribute("x", x - width / 2);
      text.textContent = count;
      group.setAttribute("aria-pressed", chosen === id);
      group.setAttribute("tabindex", (groups.has(chosen) ? chosen : all[0].id) === id ? 0 : -1);
      const words = [
        `state ${state.label ?? id}`,
        state.tooltip,
        state.is_start && "start",
        state.is_final && "a match ends here",
        n.get(id) && counted(Number(n.get(id)), "live partial match"),
        lit.has(id) && "the selected match passes it",
      ];
      group.setAttribute("aria-label", words.filter(Boolean).join(", "));
    }
    const group = groups.get(chosen);
    const act = model.get("is_alone")
      ? "Click a state to see what comes before it."
      : "Click a state to mark its events on the timeline and its names in the query.";
    const hint = all.length ? act : "";
    says.textContent = says.title = group
      ? [model.get("told"), group.getAttribute("aria-label")].filter(Boolean).join(" · ")
      : hint;
  };

  const redraw = together(paint);
  const unwatch = watch(model, {
    states: redraw,
    transitions: redraw,
    width: redraw,
    height: redraw,
    conditions: redraw,
    live: light,
    lit: light,
    told: light,
    selected: light,
  });
  const size = new ResizeObserver(fit);
  paint();
  size.observe(frame);
  return () => {
    unwatch();
    size.disconnect();
    root.remove();
  };
}

export default { render };
