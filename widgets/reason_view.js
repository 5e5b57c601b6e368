// Why an event is in no match: a list of conditions, each of them met or not.
const WORD = new Map([
  [true, "met"],
  [false, "not met"],
]);
const HINT =
  "Click an event that is in no match to see which conditions it meets and which it does not meet.";

function render({ model, el }) {
  const root = node("section", "cepkit-reason_view");
  const head = node("div", "head");
  const title = node("h4", "title");
  const tally = node("span", "tally");
  const list = node("ul", "lines");
  const note = node("p", "note");
  root.setAttribute("aria-label", "Reasons");
  list.tabIndex = 0; // it scrolls
  list.setAttribute("aria-label", "Conditions");
  root.setAttribute("aria-live", "polite");
  head.append(title, tally);
  root.append(head, list, note);
  el.append(root);

  const paint = () => {
    const lines = model.get("lines");
    const asked = lines.filter((line) => WORD.has(line.is_met));
    const nMet = asked.filter((line) => line.is_met).length;
    title.textContent = title.title = model.get("title") || "Why not?";
    tally.textContent = asked.length ? `${nMet} of ${asked.length} met` : "";
    note.textContent = note.title = model.get("note");
    list.replaceChildren(
      ...lines.map((line) => {
        const word = WORD.get(line.is_met);
        const item = node("li", word ? word.replace(" ", "-") : "plain");
        if (word) item.append(node("span", "mark", line.is_met ? "✓" : "✗"), node("span", "word", word));
        item.append(node("span", "text", line.text));
        return item;
      }),
    );
    const isEmpty = !lines.length && !model.get("title");
    if (isEmpty) list.append(node("li", "hint", HINT));
  };

  const unwatch = watch(model, { title: paint, lines: paint, note: paint });
  paint();
  return () => {
    unwatch();
    root.remove();
  };
}

export default { render };
