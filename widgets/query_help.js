// The side of the query editor: columns, examples and the cheat sheet. Python puts this text before
// query_editor.js.
const TABS = [
  ["columns", "Columns"],
  ["examples", "Examples"],
  ["sheet", "Cheat sheet"],
];

// Put the columns of the editor into a side with tabs. `insert` writes a text at the caret, `replace` writes
// a whole query, `group` returns the number of the group of the cheat sheet for the language of the query.
function addSide(root, columns, model, { insert, replace, isEmpty, group }) {
  const side = node("div", "side");
  const top = make("div", "top", side);
  const tabs = make("div", "tabs", root.querySelector(".head"));
  tabs.setAttribute("role", "tablist");
  tabs.setAttribute("aria-label", "Help");
  columns.replaceWith(side);
  const examples = node("div", "examples");
  const sheet = node("div", "sheet");
  const find = make("input", "find", top);
  Object.assign(find, { type: "search", placeholder: "Find in the cheat sheet" });
  find.setAttribute("aria-label", "Find in the cheat sheet");
  const entries = make("div", "entries", sheet);
  const panels = { columns, examples, sheet };
  side.append(columns, examples, sheet);
  let wanted = null; // the tab that the person chose, or "none"; null follows the text
  let now = "none"; // the tab that is open

  const buttons = Object.fromEntries(
    TABS.map(([name, title]) => {
      const tab = make("button", "tab", tabs, title);
      Object.assign(tab, { type: "button" });
      tab.setAttribute("role", "tab");
      tab.onclick = () => {
        wanted = now === name ? "none" : name;
        show();
        const own = entries.children[group()];
        if (own) entries.scrollTop = own.offsetTop - entries.offsetTop;
      };
      return [name, tab];
    }),
  );
  tabs.onkeydown = ({ key, target }) => {
    const step = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[key];
    let next = step && target[step];
    while (next?.hidden) next = next[step];
    next?.click();
    next?.focus();
  };

  const show = () => {
    const has = {
      columns: true,
      examples: model.get("examples").length > 0,
      sheet: model.get("sheet").length > 0,
    };
    const own = isEmpty() && has.examples ? "examples" : "none";
    now = wanted === "none" || has[wanted] ? wanted : own;
    for (const [name] of TABS) {
      panels[name].hidden = name !== now;
      buttons[name].hidden = !has[name];
      buttons[name].setAttribute("aria-selected", name === now);
      buttons[name].tabIndex = name === (now === "none" ? "columns" : now) ? 0 : -1;
    }
    side.hidden = now === "none";
    top.hidden = now !== "sheet";
    root.classList.toggle("helping", now !== "none");
    root.classList.toggle("reading", now === "sheet");
  };
  const walks = (panel) =>
    (panel.onkeydown = ({ key, target }) => {
      const items = [...panel.querySelectorAll("button")].filter((item) => !item.hidden);
      const step = { ArrowDown: 1, ArrowUp: -1 }[key];
      if (step && items.includes(target)) items[items.indexOf(target) + step]?.focus();
    });
  walks(examples);
  walks(entries);

  const row = (parent, className, head, tail, title, act) => {
    const made = make("button", className, parent);
    Object.assign(made, { type: "button", title, onclick: act });
    made.onmousedown = (event) => event.preventDefault(); // the focus stays in the text
    make("span", "first", made, head);
    make("span", "second", made, tail);
    return made;
  };
  const drawExamples = () => {
    examples.replaceChildren();
    for (const { title, text, sentence } of model.get("examples"))
      row(examples, "example", title, text.replace(/\s*\n\s*/g, "  ⏎  "), `${text}\n\n${sentence}`, () => {
        wanted = null;
        replace(text);
      });
    show();
  };
  const drawSheet = () => {
    entries.replaceChildren();
    for (const { title, entries: own } of model.get("sheet")) {
      const group = make("div", "group", entries);
      make("h5", "", group, title);
      for (const { text, meaning, kind } of own)
        row(group, "entry", text, meaning, `${text}: ${meaning}. Click to insert it.`, () =>
          insert(text, kind),
        );
    }
    narrow();
    show();
  };
  const narrow = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const group of entries.children) {
      const rows = [...group.querySelectorAll(".entry")];
      for (const one of rows)
        one.hidden = !words.every((word) => one.textContent.toLowerCase().includes(word));
      group.hidden = rows.every((one) => one.hidden);
    }
  };
  find.oninput = narrow;
  drawExamples();
  drawSheet();
  return { show, unwatch: watch(model, { examples: drawExamples, sheet: drawSheet }) };
}

// Return a text of the cheat sheet with the blanks or the line break that it needs at the caret.
function fitted(text, kind, before) {
  const isLine = ["line", "clause", "sql clause"].includes(kind);
  if (isLine) return before && !before.endsWith("\n") ? `\n${text}` : text;
  return /[^\s([!~]$/.test(before) ? ` ${text}` : text;
}
