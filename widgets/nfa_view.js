// The automaton of a query, drawn where Python placed it: live partial matches, the selected match's way.
// JupyterLab's shortcuts keep off elements that say so themselves; what stands around them does not count.
const node = (tag, className = "", text = "") => {
  const element = Object.assign(document.createElement(tag), { className, textContent: text });
  element.dataset.lmSuppressShortcuts = "true";
  return element;
};
const SVG = "http://www.w3.org/2000/svg";
const RADIUS = 17, RING = 4, START_ARROW = 26, ARROW = 7; // px, as in cepkit/widgets/nfa_view.py
const LEAST_SCALE = 0.64; // of the texts: 8 px

function shape(tag, attributes = {}, text = null) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text != null) element.textContent = text;
  return element;
}

function render({ model, el }) {
  const root = node("section", "cepkit-nfa_view");
  const frame = node("div", "frame");
  const legend = node("div", "legend");
  const says = node("p", "says");
  const headId = `cepkit-head-${Math.random().toString(36).slice(2)}`; // ids are the page's
  root.setAttribute("aria-label", "Automaton");
  says.setAttribute("aria-live", "polite");
  for (const [kind, text] of [["live", "live partial matches"], ["lit", "selected match"], ["final", "match ends"]]) {
    const item = node("span", "item");
    item.append(node("i", `key ${kind}`, kind === "live" ? "3" : ""), node("span", "", text));
    legend.append(item);
  }
  legend.title = "live partial matches: where stepping is; selected match: the states it passes; match ends: it is complete there";
  root.append(node("h4", "title", "Automaton"), frame, legend, says);
  el.append(root);

  let groups = new Map(); // id -> <g> of the state
  let svg = null;
  const choose = (id) => {
    model.set("selected", id);
    model.save_changes();
  };
  const label = (x, y, text, className) => {
    const lines = String(text).split("\n");
    const words = shape("text", { x, y: y - 16 * (lines.length - 1), class: className });
    words.append(...lines.map((line, k) => shape("tspan", { x, dy: k ? 16 : 0 }, line)));
    return words;
  };

  const drawState = (state) => {
    const { id, x, y } = state;
    const group = shape("g", { class: state.is_final ? "state final" : "state", role: "button", "data-lm-suppress-shortcuts": "true" });
    if (state.is_start) {
      const tip = x - RADIUS - RING;
      group.append(shape("path", { class: "line", d: `M${tip - START_ARROW},${y}H${tip - ARROW}`, "marker-end": `url(#${headId})` }));
    }
    if (state.tooltip) group.append(shape("title", {}, state.tooltip));
    group.append(shape("circle", { class: "halo", cx: x, cy: y, r: RADIUS + RING + 4 }));
    group.append(shape("circle", { class: "disc", cx: x, cy: y, r: RADIUS }));
    if (state.is_final) group.append(shape("circle", { class: "ring", cx: x, cy: y, r: RADIUS + RING }));
    group.append(label(x, y + 4.5, state.label ?? id, "name"));
    group.append(shape("rect", { class: "badge", y: y + RADIUS + RING + 3, height: 16, rx: 8 }));
    group.append(shape("text", { class: "count", x, y: y + RADIUS + RING + 15 }));
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

  const draw = () => {
    const states = model.get("states");
    const [width, height] = [model.get("width"), model.get("height")];
    const focused = [...groups].find(([, group]) => group === document.activeElement)?.[0];
    svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `automaton with ${states.length} states` });
    const head = shape("marker", { id: headId, markerUnits: "userSpaceOnUse", markerWidth: ARROW, markerHeight: ARROW, refX: 0, refY: ARROW / 2, orient: "auto" });
    head.append(shape("path", { class: "head", d: `M0,0L${ARROW},${ARROW / 2}L0,${ARROW}z` }));
    svg.append(head);
    for (const transition of model.get("transitions")) {
      const group = shape("g", { class: "transition" });
      group.append(shape("title", {}, transition.tooltip || `${transition.source} → ${transition.target}: ${transition.label}`));
      group.append(shape("path", { class: "line", d: transition.path, "marker-end": `url(#${headId})` }));
      group.append(label(transition.x, transition.y, transition.label ?? "", "label"));
      svg.append(group);
    }
    groups = new Map(states.map((state) => [state.id, drawState(state)]));
    svg.append(...groups.values());
    frame.replaceChildren(states.length ? svg : node("p", "hint", "No automaton yet. It is drawn once the query can be read."));
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
    more();
  };
  const more = () => frame.classList.toggle("more", frame.scrollLeft + frame.clientWidth < frame.scrollWidth - 2);
  frame.onscroll = more;
  const light = () => {
    const n = new Map(model.get("live").map((one) => [one.state, one.n]));
    const lit = new Set(model.get("lit"));
    const chosen = model.get("selected");
    const all = model.get("states");
    for (const state of all) {
      const { id, x } = state;
      const group = groups.get(id);
      if (!group) return; // states and their marks come one after the other
      const count = n.get(id) ? Number(n.get(id)).toLocaleString("en") : "";
      const width = 7 * count.length + 10;
      const [badge, text] = [group.querySelector(".badge"), group.querySelector(".count")];
      group.classList.toggle("live", count !== "");
      group.classList.toggle("lit", lit.has(id));
      group.classList.toggle("chosen", chosen === id);
      badge.setAttribute("width", width);
      badge.setAttribute("x", x - width / 2);
      text.textContent = count;
      group.setAttribute("aria-pressed", chosen === id);
      group.setAttribute("tabindex", (groups.has(chosen) ? chosen : all[0].id) === id ? 0 : -1);
      const words = [`state ${state.label ?? id}`, state.tooltip, state.is_start && "start", state.is_final && "a match ends here", count && `${count} live partial matches`, lit.has(id) && "on the way of the selected match"];
      group.setAttribute("aria-label", words.filter(Boolean).join(", "));
    }
    const group = groups.get(chosen);
    const hint = all.length ? "Click a state: its events are marked on the timeline, its names in the query." : "";
    says.textContent = says.title = group ? [model.get("told"), group.getAttribute("aria-label")].filter(Boolean).join(" · ") : hint;
  };

  const listeners = [["states", draw], ["transitions", draw], ["width", draw], ["height", draw], ["live", light], ["lit", light], ["told", light], ["selected", light]];
  listeners.forEach(([name, call]) => model.on(`change:${name}`, call));
  const size = new ResizeObserver(fit);
  draw();
  size.observe(frame);
  return () => {
    listeners.forEach(([name, call]) => model.off(`change:${name}`, call));
    size.disconnect();
    root.remove();
  };
}

export default { render };
