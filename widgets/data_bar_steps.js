// Buttons that take back changes of the board, and the list of past queries. Python puts this text before
// data_bar.js.
const OF_STEPS = [
  ["undo", "↶", "Undo", "Ctrl+Z"],
  ["redo", "↷", "Redo", "Ctrl+Shift+Z"],
];
const OWN_UNDO = ".cepkit-query_editor textarea, .cepkit-slider_panel *"; // they ask Python themselves

// Return a query as an element. What differs from an older query with as many words is bold.
function changed(text, older = "") {
  const [words, before] = [text, older].map((one) =>
    one
      .trim()
      .replace(/\s*\n\s*/g, " ⏎ ")
      .split(/ +/),
  );
  const made = node("span", "query");
  words.forEach((word, k) => {
    const isNew = words.length === before.length && word !== before[k];
    made.append(isNew ? node("b", "", word) : word, " ");
  });
  return made;
}

// Return the buttons, and functions that draw them. `open` opens a popup below its button, `close` closes it.
function addSteps(model, { open, close }) {
  const box = node("div", "steps");
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "Changes");
  const buttons = OF_STEPS.map(([what, sign, word]) =>
    button(sign, word, () => model.get("steps")[what] && wishStep(model, what), `step ${what}`),
  );
  const history = button("", "History: past queries", () => open("runs", "Past queries", list), "opens");
  history.dataset.opens = "runs";
  history.setAttribute("aria-haspopup", "dialog");
  history.append(node("span", "text", "History"), node("span", "arrow", "▾"));
  box.append(...buttons, history);

  const bringBack = (number) =>
    send(model, { wanted_run: { number, n: (model.get("wanted_run").n ?? 0) + 1 } });
  const list = (panel) => {
    const rows = node("div", "list");
    rows.setAttribute("role", "group");
    rows.setAttribute("aria-label", "Past queries, the newest first");
    panel.classList.add("runs");
    panel.append(rows);
    rows.onkeydown = (event) => {
      const next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
      if (!next) return;
      event.preventDefault();
      event.target[next]?.focus();
    };
    return () => {
      const at = [...rows.children].indexOf(document.activeElement);
      rows.replaceChildren(
        ...model.get("runs").map(({ number, text, note, matches, took, at: when }, k, all) => {
          const row = button("", `Bring back: ${text}`, () => {
            close(true);
            bringBack(number);
          });
          row.className = "run";
          row.title = [text, note].filter(Boolean).join("\n\n");
          row.setAttribute("aria-label", `Bring back ${text}, ${matches}, at ${when}`);
          const told = node("span", "told");
          told.append(node("b", "", matches), node("span", "soft", took), node("span", "soft at", when));
          row.append(told, changed(text, all[k + 1]?.text));
          if (note) row.append(node("span", "soft choices", note));
          return row;
        }),
      );
      if (at >= 0) rows.children[at]?.focus();
      if (!rows.children.length)
        rows.append(
          node("p", "hint", "No query has run to the end yet. Queries appear here with their counts."),
        );
    };
  };

  const draw = () => {
    const steps = model.get("steps");
    OF_STEPS.forEach(([what, , word, keys], k) => {
      buttons[k].setAttribute("aria-disabled", !steps[what]); // a disabled button would lose the focus
      buttons[k].title = steps[what] ? `${word}: ${steps[what]} (${keys})` : `Nothing to ${what}`;
    });
  };
  // Return whether a key press in the board is a wish; a text field has its own undo.
  const press = (event) => {
    const { target } = event;
    const what = stepOf(event);
    const isField = target.matches?.("input:not([type=checkbox]):not([type=range]), textarea");
    if (!what || isField || target.closest(OWN_UNDO)) return false;
    event.preventDefault();
    event.stopPropagation();
    wishStep(model, what);
    return true;
  };
  draw();
  return { box, draw, press };
}
