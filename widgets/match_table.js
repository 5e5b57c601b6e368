// A page of matches. Numbers of pages and matches are texts, because they may exceed what a browser can count.
const grouped = (digits) => digits.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
const isNumber = (text) => /^\d+$/.test(text);
const DATE = 10; // letters of the date at the beginning of a time
const LONG = 64; // letters of a text that is shown in several lines

function render({ model, el }) {
  const root = node("section", "cepkit-match_table");
  const id = `match-${Math.random().toString(36).slice(2)}`;
  root.setAttribute("aria-label", "Matches");

  const head = node("div", "head");
  const total = node("span", "total");
  const zone = node("span", "zone"); // of all times
  const outdated = node("span", "outdated");
  const order = node("select", "order");
  order.setAttribute("aria-label", "Order of the matches");
  total.setAttribute("role", "status");
  const note = node("p", "note");
  const clear = button("Clear filters", "Remove all filters", () => filterAll({}), "clear");
  const chooser = button("Columns", "Choose the shown columns", () => toggleMenu(), "chooser");
  chooser.setAttribute("aria-haspopup", "dialog");
  head.append(node("h4", "title", "Matches"), total, outdated, note, zone, clear, chooser, order);

  const frame = node("div", "frame");
  frame.tabIndex = 0;
  frame.setAttribute("role", "group");
  frame.setAttribute("aria-label", "Matches; up and down choose one, page keys turn the page");
  const table = node("table");
  const header = node("tr");
  const body = node("tbody");
  const top = node("thead");
  table.setAttribute("role", "grid");
  table.setAttribute("aria-label", "Matches");
  top.append(header);
  table.append(top, body);
  frame.append(table, node("p", "hint"));

  const foot = node("div", "foot");
  const go = (text, label, to) => button(text, label, () => turn(to()), "go");
  const page = () => BigInt(model.get("page"));
  const last = () => (isNumber(model.get("n_pages")) ? BigInt(model.get("n_pages")) : null);
  const back = [go("|◀", "First page", () => 1n), go("◀", "Previous page", () => page() - 1n)];
  const on = [go("▶", "Next page", () => page() + 1n), go("▶|", "Last page", last)];
  const field = node("input", "field");
  const of = node("span", "of");
  Object.assign(field, { type: "text", inputMode: "numeric" });
  field.setAttribute("aria-label", "Page");
  foot.append(...back, field, of, ...on);
  head.append(foot);
  root.append(head, frame);
  el.append(root);

  const turn = (to) => {
    if (to == null || to < 1n || (last() != null && to > last()) || to === page()) return;
    send(model, { wanted_page: `${to}` });
  };
  field.onchange = () => {
    const typed = field.value.replace(/[,\s]/g, "");
    if (isNumber(typed)) turn(BigInt(typed));
    field.value = model.get("page");
  };
  order.onchange = () => send(model, { wanted_order: order.value });
  const sort = (name) => {
    // The last request counts: a second click may come before the answer to the first.
    const next =
      { [`${name} up`]: `${name} down`, [`${name} down`]: "canonical" }[model.get("wanted_order")] ??
      `${name} up`;
    send(model, { wanted_order: next });
  };
  const filterAll = (filters) => send(model, { wanted_filters: filters });
  const filter = (name, text) => {
    const { [name]: before = "", ...others } = model.get("wanted_filters");
    if (text !== before) filterAll(text ? { ...others, [name]: text } : others);
  };
  const rowOf = () => model.get("numbers").indexOf(model.get("selected"));
  const choose = (k) => send(model, { selected: k == null ? null : model.get("numbers")[k] });
  frame.onkeydown = (event) => {
    if (event.target !== frame || event.ctrlKey || event.metaKey) return;
    const end = model.get("rows").length - 1;
    const now = rowOf();
    const rows = {
      ArrowDown: Math.min(end, now + 1),
      ArrowUp: now < 0 ? end : Math.max(0, now - 1),
      Home: 0,
      End: end,
      Escape: null,
    };
    if (event.key === "PageDown") turn(page() + 1n);
    else if (event.key === "PageUp") turn(page() - 1n);
    else if (!(event.key in rows) || end < 0) return;
    else choose(rows[event.key]);
    event.preventDefault();
  };

  // --- copies have the full values: the marked cells, or the selected match with the names of its columns

  const fullOf = (cell) => cell.dataset.full ?? cell.textContent;
  frame.oncopy = (event) => {
    const marked = document.getSelection();
    const isOver = (part) => !marked.isCollapsed && marked.containsNode(part, true);
    let lines = [...body.rows].map((row) => [...row.cells].filter(isOver).map(fullOf));
    lines = lines.filter((cells) => cells.length);
    if (lines.length === 1 && lines[0].length === 1) {
      const cell = [...body.rows].flatMap((row) => [...row.cells]).find(isOver);
      if (marked.toString().trim() !== cell.innerText.trim()) return; // a part of a value
    }
    if (!lines.length) {
      const chosen = body.rows[rowOf()];
      if (!chosen || event.target.closest?.("input")) return;
      const names = shownColumns().map(({ column }) => column.name);
      lines = [[...(hasNumbers() ? ["match"] : []), ...names], [...chosen.cells].map(fullOf)];
    }
    event.clipboardData.setData("text/plain", lines.map((cells) => cells.join("\t")).join("\n"));
    event.preventDefault();
  };

  // --- the menu of columns

  let menu = null;
  const closeMenu = (isFocused = false) => {
    menu?.remove();
    menu = null;
    chooser.setAttribute("aria-expanded", "false");
    if (isFocused) chooser.focus();
  };
  const toggleMenu = () => {
    if (menu) return closeMenu();
    menu = node("div", "menu");
    menu.setAttribute("role", "dialog");
    menu.setAttribute("aria-label", "Shown columns");
    menu.onkeydown = (event) => {
      const boxes = [...menu.querySelectorAll("input")];
      const k = boxes.indexOf(document.activeElement);
      const to = { ArrowDown: k + 1, ArrowUp: k - 1, Home: 0, End: boxes.length - 1 }[event.key];
      if (event.key === "Escape") closeMenu(true);
      else if (to == null) return;
      else boxes[clamp(to, 0, boxes.length - 1)]?.focus();
      event.preventDefault();
      event.stopPropagation();
    };
    drawMenu();
    root.append(menu);
    chooser.setAttribute("aria-expanded", "true");
    menu.querySelector("input")?.focus();
  };
  const drawMenu = () => {
    if (!menu) return;
    const hidden = model.get("hidden");
    const focused = menu.contains(document.activeElement) && document.activeElement.value;
    menu.replaceChildren(
      ...model.get("columns").map(({ name }) => {
        const row = node("label", "box");
        const tick = Object.assign(node("input"), { type: "checkbox", value: name });
        tick.checked = !hidden.includes(name);
        tick.onchange = () => {
          const others = model.get("hidden").filter((one) => one !== name);
          send(model, { hidden: tick.checked ? others : [...others, name] });
        };
        row.append(tick, node("span", "", name));
        return row;
      }),
    );
    if (focused) [...menu.querySelectorAll("input")].find((one) => one.value === focused)?.focus();
  };
  const closeOutside = (event) => {
    if (menu && !event.composedPath().some((one) => one === menu || one === chooser)) closeMenu();
  };
  document.addEventListener("pointerdown", closeOutside, true);

  // --- heads

  const hasNumbers = () => Boolean(model.get("numbers")[0]); // a first part of the matches has none
  const shownColumns = () => {
    const hidden = new Set(model.get("hidden"));
    const all = model.get("columns").map((column, c) => ({ column, c }));
    return all.filter(({ column }) => !hidden.has(column.name));
  };
  const corner = node("th", "right number");
  corner.append(node("div", "top", "match"));
  const known = new Map(); // heads by all that they consist of
  let dates = {}; // of columns whose values all have one date
  const say = (text) => {
    const [mistake] = Object.entries(model.get("mistakes")).map(([name, told]) => `${name}: ${told}`);
    note.textContent = note.title = text || mistake || model.get("limit_note");
  };
  const drawHead = () => {
    const sortable = new Set(model.get("sortable"));
    const now = model.get("order");
    const columns = shownColumns();
    const keyOf = ({ name, align, kind, zone }) => [name, align, kind, zone].join("\n");
    const heads = columns.map(({ column }) => {
      const key = keyOf(column);
      if (!known.has(key)) known.set(key, columnHead(column, { sort, filter, say }));
      return known.get(key);
    });
    const wanted = new Set(columns.map(({ column }) => keyOf(column)));
    for (const [key, made] of known) if (!wanted.has(key)) (made.drop(), known.delete(key));
    const cells = [...(hasNumbers() ? [corner] : []), ...heads.map(({ cell }) => cell)];
    // A head that stays keeps the keyboard's focus.
    if (cells.length !== header.cells.length || cells.some((cell, k) => cell !== header.cells[k]))
      header.replaceChildren(...cells);
    cells.forEach((cell, k) => cell.classList.toggle("first", k === 0));
    const zones = new Set(
      columns.filter(({ column }) => column.kind === "time").map(({ column }) => column.zone),
    );
    const isZoneSaid = zones.size === 1 && !zones.has("");
    zone.textContent = zone.title = isZoneSaid ? `times in ${[...zones][0]}` : "";
    columns.forEach(({ column: { name } }, k) =>
      heads[k].update({
        way: { [`${name} up`]: "ascending", [`${name} down`]: "descending" }[now] ?? "none",
        isSortable: sortable.has(name),
        date: dates[name] ?? "",
        isZoneSaid,
        head: model.get("heads")[name] ?? null,
        isBusy: model.get("heads_busy"),
        canFilter: model.get("can_filter"),
        text: model.get("filters")[name] ?? "",
        mistake: model.get("mistakes")[name] ?? "",
      }),
    );
    const orders = [
      ["canonical", "in stream order"],
      ["reverse", "latest first"],
    ];
    for (const name of sortable)
      orders.push([`${name} up`, `${name}, smallest first`], [`${name} down`, `${name}, largest first`]);
    order.replaceChildren(
      ...orders.map(([value, text]) => Object.assign(node("option", "", text), { value })),
    );
    order.value = now;
    const n = model.get("columns").length;
    chooser.textContent = columns.length < n ? `Columns ${columns.length}/${n}` : "Columns";
    chooser.disabled = !n;
    clear.hidden = !Object.keys(model.get("filters")).length;
  };

  // --- rows

  // Return the date that all values of a column share; empty if they share none.
  const dateOf = (column, texts) => {
    const own = texts.filter(Boolean);
    const first = own[0]?.slice(0, DATE) ?? "";
    const isShared = own.every((text) => text.length > DATE && text.startsWith(first));
    return column.kind === "time" && isShared ? first : "";
  };
  // Places after the decimal point, with the point.
  const decimals = (text) => (text.includes(".") ? text.length - text.indexOf(".") : 0);
  const drawCell = (cell, { column, shared, most }, text, before) => {
    if (column.kind === "time" && text.length > DATE) {
      const isSame = shared || before?.slice(0, DATE) === text.slice(0, DATE);
      if (!shared) cell.append(node("span", isSame ? "day same" : "day", text.slice(0, DATE + 1)));
      cell.append(text.slice(DATE + 1));
    } else cell.append(text);
    if (column.kind === "number" && text && most)
      cell.style.paddingRight = `calc(9px + ${most - decimals(text)}ch)`;
    cell.classList.toggle("long", text.length > LONG);
  };
  const drawRows = () => {
    const rows = model.get("rows");
    const full = model.get("full");
    const columns = shownColumns().map(({ column, c }) => {
      const texts = rows.map((cells) => cells[c]);
      return { column, c, shared: dateOf(column, texts), most: Math.max(0, ...texts.map(decimals)) };
    });
    dates = Object.fromEntries(columns.map(({ column, shared }) => [column.name, shared]));
    body.replaceChildren(
      ...rows.map((cells, k) => {
        const row = node("tr");
        row.id = `${id}-${k}`;
        if (hasNumbers()) row.append(node("td", "right number", grouped(model.get("numbers")[k] ?? "")));
        row.append(
          ...columns.map((own) => {
            const cell = node("td", own.column.align === "right" ? "right" : "");
            drawCell(cell, own, cells[own.c], rows[k - 1]?.[own.c]);
            cell.title = cell.dataset.full = full[k]?.[own.c] ?? cells[own.c];
            return cell;
          }),
        );
        row.firstChild?.classList.add("first");
        if (hasNumbers()) row.firstChild.dataset.full = model.get("numbers")[k] ?? "";
        row.onclick = () => document.getSelection().isCollapsed && choose(k === rowOf() ? null : k);
        return row;
      }),
    );
    mark();
  };
  const mark = () => {
    const chosen = rowOf();
    [...body.children].forEach((row, k) => row.setAttribute("aria-selected", k === chosen));
    body.children[chosen]?.scrollIntoView?.({ block: "nearest", inline: "nearest" });
    if (chosen < 0) frame.removeAttribute("aria-activedescendant");
    else frame.setAttribute("aria-activedescendant", `${id}-${chosen}`);
  };
  const drawFoot = () => {
    const n = model.get("total");
    const filtered = model.get("filtered");
    total.textContent = filtered || (isNumber(n) ? grouped(n) : n);
    total.title = total.textContent;
    outdated.textContent = outdated.title = model.get("outdated");
    outdated.hidden = !outdated.textContent;
    const without = model.get("busy") ? "Running …" : "Not run yet.";
    const none = model.get("outdated") ? "No match." : "No match. Click an event on the timeline to ask why.";
    const empty = n === "0" ? none : n === "" ? without : "";
    frame.classList.toggle("bare", n === "0" && !Object.keys(model.get("filters")).length);
    const hint = filtered && n !== "0" ? "No match passes the filters. Change or clear them." : empty;
    frame.lastChild.textContent = model.get("rows").length ? "" : hint;
    const ending = last();
    of.textContent = `of ${ending == null ? model.get("n_pages") : grouped(`${ending}`)}`;
    if (document.activeElement !== field) field.value = model.get("page");
    field.style.width = `${Math.max(4, model.get("page").length) + 3}ch`;
    say("");
    back.forEach((button) => (button.disabled = page() <= 1n));
    on.forEach((button) => (button.disabled = ending != null && page() >= ending));
    on[1].disabled ||= ending == null;
    frame.setAttribute("aria-busy", model.get("busy"));
  };

  const drawAll = () => {
    drawRows();
    drawHead();
    drawMenu();
  };
  // One message may bring many traits; everything is drawn once after it.
  const later = new Set();
  const soon = (draw) => () => {
    if (!later.size) queueMicrotask(() => root.isConnected && flush());
    later.add(draw);
  };
  const flush = () => {
    const draws = [...later];
    later.clear();
    const isAll = draws.includes(drawAll);
    for (const draw of draws) if (draw === drawAll || !isAll || (draw !== drawHead && draw !== mark)) draw();
  };
  const unwatch = watch(model, {
    columns: soon(drawAll),
    numbers: soon(drawAll),
    full: soon(drawAll),
    hidden: soon(drawAll),
    sortable: soon(drawHead),
    order: soon(drawHead),
    filters: () => (soon(drawHead)(), soon(drawFoot)()),
    mistakes: () => (soon(drawHead)(), soon(drawFoot)()),
    can_filter: soon(drawHead),
    heads: soon(drawHead),
    heads_busy: soon(drawHead),
    rows: () => (soon(drawAll)(), soon(drawFoot)()),
    selected: soon(mark),
    page: soon(drawFoot),
    n_pages: soon(drawFoot),
    total: soon(drawFoot),
    filtered: soon(drawFoot),
    outdated: soon(drawFoot),
    limit_note: soon(drawFoot),
    busy: soon(drawFoot),
  });
  drawAll();
  drawFoot();
  return () => {
    unwatch();
    document.removeEventListener("pointerdown", closeOutside, true);
    for (const made of known.values()) made.drop();
    root.remove();
  };
}

export default { render };
