// Kept cases: rows that must match or must not match, each with a tick or a cross.
const VERDICTS = new Map([
  [true, ["✓", "held", "holds"]],
  [false, ["✗", "lost", "fails"]],
  [null, ["?", "open", "not known"]],
]);
const WISHES = { true: "match", false: "no match" };
const KEYS = { k: true, K: false };
const CHOOSE = "Select a match, click an event or zoom in. Then keep it as a case.";
const KEEP =
  "✓ keeps it as a case that must match, ✗ as one that must not. Each edit of the query tests the cases.";
const COPIED_MS = 2000;

function render({ model, el }) {
  const root = node("section", "cepkit-case_view");
  const by = Math.random().toString(36).slice(2);
  root.setAttribute("aria-label", "Kept cases");
  const head = node("div", "head");
  const title = node("h4", "title", "Cases");
  const tally = node("span", "tally");
  const what = node("select", "what");
  what.setAttribute("aria-label", "What to keep");
  const hint = node("p", "hint");
  const keepers = [
    button("✓", "Keep it as a case that must match (key K)", () => keep(true), "keep"),
    button("✗", "Keep it as a case that must not match (keys Shift+K)", () => keep(false), "keep"),
  ];
  [" must match", " must not"].forEach((words, k) => keepers[k].append(node("span", "words", words)));
  const list = node("ul", "list");
  const told = node("p", "told");
  list.setAttribute("aria-label", "Cases");
  told.setAttribute("role", "status");
  told.hidden = true;
  head.append(title, tally, what, ...keepers);
  root.append(head, hint, list, told);
  el.append(root);

  let n = 0;
  let timer = 0;
  let copying = null; // the button of the test that Python writes
  const wish = (values) => {
    tell("");
    n += 1;
    send(model, { wanted: { ...values, by, n } });
  };
  const tell = (text) => {
    told.textContent = text;
    told.hidden = !text;
  };
  const keep = (must) => what.value && wish({ act: "keep", what: what.value, must });
  const copyTest = (number, from) => {
    copying = from;
    from.textContent = "…";
    wish({ act: "test", number });
  };

  const row = ({ must, label, holds, text }, k) => {
    const [mark, name, word] = VERDICTS.get(holds);
    const item = node("li", name);
    const show = button(
      "",
      `${word}: ${text} Click to zoom to it.`,
      () => wish({ act: "show", number: k }),
      "show",
    );
    show.append(node("span", "mark", mark), node("span", "wish", WISHES[must]), node("span", "label", label));
    show.removeAttribute("aria-label"); // its text is its name
    show.onkeydown = ({ key }) => {
      if (key === "Delete") wish({ act: "drop", number: k }); // false would take other keys away
    };
    const test = button("test", "Copy a pytest test of this case", () => copyTest(k, test), "test");
    const drop = button("×", "Remove this case", () => wish({ act: "drop", number: k }), "drop");
    item.append(show, test, drop);
    return item;
  };
  const draw = () => {
    const cases = model.get("cases");
    const focused = [...list.querySelectorAll("button")].indexOf(document.activeElement);
    list.replaceChildren(...cases.map(row));
    list.hidden = !cases.length;
    if (focused >= 0)
      (list.querySelectorAll("button")[focused] ?? list.querySelector("button:last-child"))?.focus();
    const nHeld = cases.filter(({ holds }) => holds === true).length;
    tally.textContent = cases.length ? `${nHeld} of ${cases.length} hold` : "";
    root.classList.toggle("all", cases.length > 0 && nHeld === cases.length);
    root.classList.toggle("stale", model.get("stale"));
    offer();
  };
  const offer = () => {
    const offers = model.get("offers");
    const before = what.value;
    const isChosen = what.dataset.chosen && offers.some(({ id }) => id === before);
    what.replaceChildren(...offers.map(({ id, text }) => new Option(text, id)));
    if (isChosen) what.value = before;
    else delete what.dataset.chosen;
    what.hidden = !offers.length;
    hint.hidden = model.get("cases").length > 0;
    hint.textContent = offers.length ? KEEP : CHOOSE;
    keepers.forEach((one) => {
      one.disabled = !offers.length;
      one.hidden = !offers.length && !hint.hidden;
    });
  };
  what.onchange = () => (what.dataset.chosen = "true");

  const receive = (answer) => {
    if (answer.by !== by || answer.n !== n) return;
    const from = copying;
    copying = null;
    if (answer.error) tell(answer.error);
    if (!from) return;
    const isCopied = answer.text !== undefined && copyText(root, answer.text);
    if (answer.text !== undefined && !isCopied)
      tell("The browser does not let this page copy. Use explorer.write_test().");
    from.textContent = isCopied ? "copied" : "test";
    clearTimeout(timer);
    timer = setTimeout(() => (from.textContent = "test"), COPIED_MS);
  };
  // The keys work in the whole board, except where a person types.
  const board = root.closest(".cepkit-board");
  const press = (event) => {
    const isTyped = event.target.closest?.("input, textarea, select");
    if (isTyped || event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
    event.preventDefault();
    keep(KEYS[event.key]);
  };
  let listened = board ?? root;
  listened.addEventListener("keydown", press);
  const late = requestAnimationFrame(() => {
    // Jupyter may attach the board after its parts.
    const found = root.closest(".cepkit-board");
    if (!found || found === listened) return;
    listened.removeEventListener("keydown", press);
    listened = found;
    listened.addEventListener("keydown", press);
  });
  root.onfocusout = ({ relatedTarget }) => {
    if (!root.contains(relatedTarget)) tell("");
  };
  told.onclick = () => tell("");
  model.on("msg:custom", receive);
  const unwatch = watch(model, { cases: draw, stale: draw, offers: offer });
  draw();
  return () => {
    unwatch();
    model.off("msg:custom", receive);
    listened.removeEventListener("keydown", press);
    cancelAnimationFrame(late);
    clearTimeout(timer);
    root.remove();
  };
}

export default { render };
