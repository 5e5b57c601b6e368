// The head of the explorer: a sentence with the chosen columns, the shown key, and buttons that open parts.
const SEARCH_PAUSE_MS = 150;
const BETWEEN_MS = 2000; // a quiet time between two questions
const ASK_MS = 400; // the answer to the action itself comes first
const ANSWER_MS = 5000; // how long the kernel may take to answer an action of the user
const ORDERS = [
  ["name", "by name"],
  ["most", "most matches first"],
  ["fewest", "fewest matches first"],
];
const PARTS = [
  ["reasons", "Why not", "Why the clicked event is in no match"],
  ["nfa", "Automaton", "The states of the query"],
  ["funnel", "Funnel", "How many partial matches reach each step"],
  ["stepper", "Steps", "The stream, event by event"],
  ["cases", "Cases", "Rows that must match, or must not"],
  ["take", "Take away", "Files, pictures and code"],
];
// The words before a choice: with a chosen column, and without.
const LEADS = {
  partition_by: ["by", "by"],
  order_by: ["in order of", "in"],
  event_type: ["types from", "types from"],
  value: ["· drawn:", "· drawn:"],
};
const TAILS = { partition_by: ",", order_by: ";" };
const EMPTY = { partition_by: "no key", order_by: "the order of the rows" };
const GONE = {
  restarted: "The kernel was restarted. The board shows its last state; run the cell again to continue.",
  dead: "The kernel died. The board shows its last state; restart the kernel and run the cell again.",
  busy: "The kernel is busy, perhaps with another cell. The board answers after that.",
  silent: "The kernel does not answer. If it was restarted, run the cell again.",
};

function render({ model, el }) {
  const root = node("section", "cepkit-data_bar");
  root.setAttribute("aria-label", "Data");
  const fields = node("div", "fields");
  const line = node("div", "line");
  const gone = node("p", "gone");
  gone.setAttribute("role", "alert");
  gone.hidden = true;
  const doors = node("div", "doors");
  doors.setAttribute("role", "group");
  doors.setAttribute("aria-label", "Parts to open");
  const openPart = (id) => send(model, { opened: model.get("opened") === id ? "" : id });
  doors.append(
    ...PARTS.map(([id, title, about]) =>
      Object.assign(
        button(title, about, () => openPart(id), "door"),
        { value: id },
      ),
    ),
  );
  const drawDoors = () => {
    root.dataset.opened = model.get("opened");
    for (const door of doors.children) {
      door.removeAttribute("aria-label"); // its text is its name
      door.setAttribute("aria-pressed", door.value === model.get("opened"));
    }
  };
  root.append(fields, line, doors, gone);
  el.append(root);

  // --- one popup at a time, below the button that opened it

  let popup = null; // { name, panel, draw }
  const opener = () => popup && root.querySelector(`[data-opens="${popup.name}"]`);
  const close = (isFocused = false) => {
    if (!popup) return;
    const from = opener();
    popup.panel.remove();
    popup = null;
    from?.setAttribute("aria-expanded", "false");
    if (isFocused) from?.focus();
  };
  const place = () => {
    const from = opener();
    if (!from) return close();
    from.setAttribute("aria-expanded", "true");
    const [own, all] = [from.getBoundingClientRect(), root.getBoundingClientRect()];
    popup.panel.style.top = `${own.bottom - all.top + 2}px`;
    const most = all.width - popup.panel.offsetWidth - 8;
    popup.panel.style.left = `${Math.max(8, Math.min(own.left - all.left, most))}px`;
  };
  const open = (name, label, build) => {
    const isSame = popup?.name === name;
    close();
    if (isSame) return;
    const panel = node("div", "popup");
    panel.setAttribute("role", "dialog");
    panel.setAttribute("aria-label", label);
    panel.onkeydown = (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      close(true);
    };
    popup = { name, panel, draw: () => {} };
    popup.draw = build(panel);
    root.append(panel);
    popup.draw();
    place();
    panel.querySelector("input, .run")?.focus();
  };
  const closeOutside = (event) => {
    if (popup && !event.composedPath().some((one) => one === popup.panel || one === opener())) close();
  };

  // --- selectors

  const choose = (name, values) =>
    send(model, { chosen: { name, values, n: (model.get("chosen").n ?? 0) + 1 } });
  const fieldOf = (name) => model.get("fields").find((field) => field.name === name);

  const single = (field) => {
    const made = node("select");
    const options = field.chosen.length || field.empty === "" ? [] : [["", field.empty]];
    const known = field.choices.map(({ value, note }) => [value, note ? `${value} · ${note}` : value]);
    if (field.chosen.length && field.empty && !field.locked && field.name !== "strategy")
      options.push(["", field.empty]);
    for (const [value, title] of [...options, ...known]) {
      const option = new Option(value || field.empty, value, false, value === (field.chosen[0] ?? ""));
      option.title = title;
      made.append(option);
    }
    made.onchange = () => choose(field.name, made.value ? [made.value] : []);
    return made;
  };
  const many = (field) => {
    const text = field.chosen.join(", ") || (EMPTY[field.name] ?? field.empty);
    const made = button("", field.label, () =>
      open(field.name, field.label, (panel) => boxes(panel, field.name)),
    );
    made.append(node("span", "text", text), node("span", "arrow", "▾"));
    made.className = "opens";
    made.dataset.opens = field.name;
    made.setAttribute("aria-haspopup", "dialog");
    made.setAttribute("aria-expanded", popup?.name === field.name);
    made.setAttribute("aria-label", `${field.label}: ${text}`);
    made.title = text;
    return made;
  };
  // A list of boxes to tick. The order of the ticks is the order of the choice.
  const boxes = (panel, name) => {
    const list = node("div", "boxes");
    const add = node("input", "add");
    panel.append(list);
    if (fieldOf(name).takes_text) {
      Object.assign(add, { type: "text", placeholder: "name = expression, then Enter" });
      add.setAttribute("aria-label", "A measure of your own");
      add.onkeydown = (event) => {
        if (event.key !== "Enter" || !add.value.trim()) return;
        event.preventDefault();
        choose(name, [...fieldOf(name).chosen, add.value.trim()]);
        add.value = "";
      };
      panel.append(add);
    }
    return () => {
      const { chosen, choices } = fieldOf(name);
      const focused = panel.contains(document.activeElement) && document.activeElement.value;
      const inOrder = [...choices].sort(
        (a, b) => (chosen.indexOf(a.value) + 1 || 1e9) - (chosen.indexOf(b.value) + 1 || 1e9),
      );
      list.replaceChildren(
        ...inOrder.map(({ value, note }) => {
          const row = node("label", "box");
          const tick = Object.assign(node("input"), {
            type: "checkbox",
            value,
            checked: chosen.includes(value),
          });
          tick.onchange = () => {
            const others = fieldOf(name).chosen.filter((one) => one !== value);
            choose(name, tick.checked ? [...others, value] : others);
          };
          const place = chosen.indexOf(value);
          const role = name === "order_by" && place >= 0 ? (place ? "breaks ties" : "clock") : note;
          row.append(tick, node("span", "text", value), node("span", "kind", role));
          row.title = note ? `${value}: ${note}` : value;
          return row;
        }),
      );
      if (!choices.length) list.append(node("p", "hint", "No column fits."));
      if (focused) [...list.querySelectorAll("input")].find((one) => one.value === focused)?.focus();
    };
  };
  const options = button("⋯", "Strategy and measures", () => {
    options.ariaExpanded = root.classList.toggle("all");
  });
  options.className = "options";
  options.ariaExpanded = false;
  const drawFields = () => {
    const focused = fields.contains(document.activeElement) && document.activeElement.closest(".field");
    const name = focused && focused.dataset.name;
    const isSql = model.get("language") === "SQL";
    const isSaid = ({ locked }) => !locked || (isSql ? !/AFTER|DEFINE/.test(locked) : !/^only/.test(locked));
    const shown = model.get("fields").filter(isSaid);
    fields.replaceChildren(
      node("b", "rows", model.get("rows")),
      ...shown.map((field, k) => {
        const made = node("span", field.needed ? "field needed" : "field");
        made.classList.toggle("option", !LEADS[field.name]);
        const control = field.many ? many(field) : single(field);
        control.disabled = Boolean(field.locked);
        if (!field.many) control.setAttribute("aria-label", field.label);
        if (field.locked) control.title = `${field.label}: ${field.locked}`;
        made.dataset.name = field.name;
        const [lead, without] = LEADS[field.name] ?? [field.label, field.label];
        const tail = shown[k + 1]?.name === "value" ? "" : (TAILS[field.name] ?? "");
        made.append(
          node("span", "label", field.chosen.length ? lead : without),
          control,
          node("span", "tail", tail),
        );
        return made;
      }),
      options,
    );
    if (name) fields.querySelector(`[data-name="${name}"]`)?.querySelector("select, button")?.focus();
    if (popup && fieldOf(popup.name)) {
      popup.draw();
      place();
    }
  };

  // --- the shown key

  const go = (wish) => send(model, { wanted_key: { ...wish, n: (model.get("wanted_key").n ?? 0) + 1 } });
  const find = (wish) => send(model, { wanted_keys: { ...wish, n: (model.get("wanted_keys").n ?? 0) + 1 } });
  let timer = 0; // until a search is sent
  const keyList = (panel) => {
    const search = Object.assign(node("input", "search"), { type: "text", placeholder: "search a key" });
    search.setAttribute("aria-label", "Search a key");
    const order = node("select");
    order.setAttribute("aria-label", "Order of the keys");
    order.append(...ORDERS.map(([value, text]) => new Option(text, value)));
    order.value = model.get("found").order ?? ORDERS[0][0];
    const head = node("div", "head");
    const list = node("div", "list");
    const foot = node("div", "foot");
    const found = node("span", "found");
    const page = node("span", "page");
    const turn = (step) => ask((model.get("found").page ?? 1) + step);
    const ask = (to = 1) => find({ search: search.value, order: order.value, page: to });
    const back = button("◀", "Previous keys", () => turn(-1));
    const on = button("▶", "Next keys", () => turn(1));
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", "Keys");
    head.append(search, order);
    foot.append(found, back, page, on);
    panel.classList.add("keys");
    panel.append(head, list, foot);
    search.oninput = () => {
      clearTimeout(timer);
      timer = setTimeout(ask, SEARCH_PAUSE_MS);
    };
    order.onchange = () => ask();
    const walk = (event) => {
      const rows = [...list.children];
      const at = rows.indexOf(document.activeElement);
      if (event.key === "ArrowDown") rows[Math.min(at + 1, rows.length - 1)]?.focus();
      else if (event.key === "ArrowUp") (at > 0 ? rows[at - 1] : search).focus();
      else if (event.key === "Enter" && event.target === search) rows[0]?.click();
      else if (event.key === "PageDown" || event.key === "PageUp") turn(event.key === "PageDown" ? 1 : -1);
      else return;
      event.preventDefault();
    };
    search.onkeydown = list.onkeydown = walk;
    ask();
    return () => {
      const { rows = [], page: at = 1, n_pages: last = 1, told = "", shown } = model.get("found");
      const isFocused = list.contains(document.activeElement);
      list.replaceChildren(
        ...rows.map(({ id, text, matches }) => {
          const row = button("", text, () => {
            close(true);
            go({ id });
          });
          row.className = "key-row";
          row.setAttribute("role", "option");
          row.setAttribute("aria-selected", id === shown);
          row.append(node("span", "text", text), node("span", matches === "0" ? "n none" : "n", matches));
          row.setAttribute("aria-label", matches ? `${text}, matches: ${matches}` : text);
          return row;
        }),
      );
      if (isFocused) list.firstChild?.focus();
      found.textContent = told;
      page.textContent = `${at.toLocaleString("en")} / ${last.toLocaleString("en")}`;
      back.disabled = at <= 1;
      on.disabled = at >= last;
    };
  };
  const back = button("◀", "Previous key", () => go({ step: -1 }), "step");
  const shown = button(
    "",
    "Choose the shown key",
    () => open("key", "Choose the shown key", keyList),
    "opens",
  );
  const on = button("▶", "Next key", () => go({ step: 1 }), "step");
  const steps = addSteps(model, { open, close });
  const [matches, note] = ["matches", "note-of-choice"].map((name) => node("span", name));
  note.setAttribute("role", "status");
  shown.dataset.opens = "key";
  shown.setAttribute("aria-haspopup", "dialog");
  line.append(back, shown, on, matches, note);
  fields.after(steps.box, node("i", "break"));

  const drawLine = () => {
    const { text, place: at, n, matches: told } = model.get("key");
    const isKeyed = text !== undefined;
    for (const part of [back, shown, on]) part.hidden = !isKeyed;
    back.disabled = on.disabled = !(n > 1);
    const where = isKeyed
      ? `, ${at.toLocaleString("en")} of ${n.toLocaleString("en")} ${n === 1 ? "key" : "keys"}`
      : "";
    const name = node("span", "text");
    name.append(node("b", "", text ?? ""), where);
    shown.replaceChildren(name, node("span", "arrow", "▾"));
    shown.setAttribute("aria-label", `Shown key: ${text}${where}; choose another`);
    shown.title = `${text ?? ""}${where}`;
    matches.textContent = told ?? "";
    note.textContent = note.title = model.get("note");
    if (popup?.name === "key") isKeyed ? find(model.get("wanted_keys")) : close();
  };
  const drawKeys = () => popup?.name === "key" && popup.draw();
  const drawRuns = () => popup?.name === "runs" && popup.draw();

  // --- whether the kernel is there

  const kernel = model.widget_manager?.kernel; // JupyterLab and Notebook 7 have it
  let asked = -BETWEEN_MS; // when the newest question was sent
  let waiting = 0; // until the kernel should have answered
  let isLost = false; // the kernel of this board does not come back
  const tell = (what) => {
    gone.hidden = !what;
    line.hidden = Boolean(what);
    gone.textContent = gone.title = what ? GONE[what] : "";
    root.classList.toggle("lost", isLost);
  };
  const lose = (what) => {
    isLost = true;
    clearTimeout(waiting);
    waiting = 0;
    close();
    tell(what);
  };
  // A restart disconnects the widgets: Jupyter marks their elements with this class.
  const isDisconnected = () => Boolean(el.closest(".jupyter-widgets-disconnected"));
  const connection = new MutationObserver(() => isDisconnected() && lose("restarted"));
  connection.observe(el, { attributes: true, attributeFilter: ["class"] });
  const follow = (_, status) => {
    if (status === "dead") lose("dead");
    if (status === "autorestarting" || status === "restarting") lose("restarted");
  };
  kernel?.statusChanged?.connect(follow);
  const check = (event) => {
    if (isLost || waiting || !event.target?.closest?.(".cepkit-data_bar-board")?.contains(root)) return;
    if (isDisconnected()) return lose("restarted");
    if (performance.now() - asked < BETWEEN_MS) return;
    asked = performance.now();
    const ask = () => {
      send(model, { asked: model.get("asked") + 1 });
      waiting = setTimeout(() => {
        waiting = 0;
        tell(kernel?.status === "busy" ? "busy" : "silent");
      }, ANSWER_MS);
    };
    waiting = setTimeout(ask, ASK_MS);
  };
  const hear = () => {
    if (isLost || model.get("answered") < model.get("asked")) return;
    clearTimeout(waiting);
    waiting = 0;
    tell("");
  };
  const press = (event) => {
    check(event);
    const isHere = event.target?.closest?.(".cepkit-data_bar-board")?.contains(root);
    if (isHere && !isLost) steps.press(event);
  };
  document.addEventListener("pointerdown", check, true);
  document.addEventListener("keydown", press, true);
  document.addEventListener("pointerdown", closeOutside, true);

  const unwatch = watch(model, {
    fields: drawFields,
    key: drawLine,
    language: drawFields,
    rows: drawFields,
    opened: drawDoors,
    note: drawLine,
    found: drawKeys,
    steps: steps.draw,
    runs: drawRuns,
    answered: hear,
  });
  drawFields();
  drawLine();
  drawDoors();
  if (isDisconnected()) lose("restarted");
  return () => {
    unwatch();
    connection.disconnect();
    kernel?.statusChanged?.disconnect(follow);
    document.removeEventListener("pointerdown", check, true);
    document.removeEventListener("keydown", press, true);
    document.removeEventListener("pointerdown", closeOutside, true);
    clearTimeout(timer);
    clearTimeout(waiting);
    root.remove();
  };
}

export default { render };
