// Functions that several widgets share. A module imports nothing, so Python puts this text before it.

// JupyterLab's shortcuts do not apply to a focused element with this attribute. The attribute of a parent
// does not count.
const KEEPS_KEYS = "data-lm-suppress-shortcuts";

// Return a new HTML element that has no parent yet.
function node(tag, className = "", text = "") {
  const made = Object.assign(document.createElement(tag), { className, textContent: text });
  made.setAttribute(KEEPS_KEYS, "true");
  return made;
}

// Add an HTML element to a parent and return it.
const make = (tag, className, parent, text) => parent.appendChild(node(tag, className, text));

// Return a new SVG element, added to `parent` if there is one.
function shape(tag, attributes, parent = null, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  parent?.append(made);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

// Add a text to a part of a drawing and return it; y is the text's base line.
const write = (parent, className, x, y, words) => shape("text", { x, y, class: className }, parent, words);

// Add the <svg> of a drawing, which reacts to keys, and return it.
const surface = (parent, className = "") =>
  shape("svg", { class: className, tabindex: 0, role: "application", [KEEPS_KEYS]: "true" }, parent);

// Return the place of a pointer in the units of an <svg> whose unit is a pixel.
function placeIn(svg, event) {
  const box = svg.getBoundingClientRect();
  return [((event.clientX - box.left) * svg.viewBox.baseVal.width) / box.width, event.clientY - box.top];
}

// Return a button with a label for screen readers, which is also its tooltip.
function button(text, label, act, className = "") {
  const made = Object.assign(node("button", className, text), { type: "button", title: label, onclick: act });
  made.setAttribute("aria-label", label);
  return made;
}

// Return the numbers of a column from a copy, since its bytes may begin at any offset of a message.
function column(sent, Kind = Float64Array) {
  const bytes = ArrayBuffer.isView(sent) ? sent : new Uint8Array(sent);
  return new Kind(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
}

const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

// Return a number as text, with the given number of significant digits.
const number = (value, digits = 4) =>
  Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 12 });

// Return a count with its noun in the singular or plural.
const counted = (n, noun) => `${number(n, 15)} ${noun}${n === 1 ? "" : noun.endsWith("ch") ? "es" : "s"}`;

// Return round numbers from low to high, at most one more than `most`.
function ticks(low, high, most) {
  const raw = (high - low) / most;
  if (!(raw > 0)) return [low];
  const base = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => raw <= factor * base * 1.0001) * base;
  const first = Math.ceil(low / step - 1e-9);
  const made = Array.from({ length: most + 2 }, (_, k) => (first + k) * step);
  return made.filter((value) => value <= high + step * 1e-9);
}

// Call a function whenever its trait changes. Return a function that stops this.
function watch(model, calls) {
  for (const [name, call] of Object.entries(calls)) model.on(`change:${name}`, call);
  return () => {
    for (const [name, call] of Object.entries(calls)) model.off(`change:${name}`, call);
  };
}

// Return a function that calls another one once after all changes of a message.
function together(act) {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    queueMicrotask(() => {
      waits = false;
      act();
    });
  };
}

// Set traits and send them to Python.
function send(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
}

// Return "undo" or "redo" if a key press means it, otherwise "".
function stepOf({ key, ctrlKey, metaKey, shiftKey, altKey }) {
  if (!(ctrlKey || metaKey) || altKey) return "";
  return { z: shiftKey ? "redo" : "undo", y: "redo" }[key.toLowerCase()] ?? "";
}

// Ask Python to take back a change of the board, or to make it again.
const wishStep = (model, what) =>
  send(model, { wanted_step: { what, n: (model.get("wanted_step").n ?? 0) + 1 } });
