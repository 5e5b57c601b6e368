// A page of matches. Numbers of pages and matches are texts, because they may exceed what a browser can count.
const grouped = (digits) => digits.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
const isNumber = (text) => /^\d+$/.test(text);

function render({ model, el }) {
  const root = node("section", "cepkit-match_table");
  const id = `match-${Math.random().toString(36).slice(2)}`;
  root.setAttribute("aria-label", "Matches");

  const head = node("div", "head");
  const total = node("span", "total");
  const order = node("select", "order");
  order.setAttribute("aria-label", "Order of the matches");
  const note = node("p", "note");
  head.append(node("h4", "title", "Matches"), total, order);

  const frame = node("div", "frame");
  frame.tabIndex = 0;
  const table = node("table");
  const header = node("tr");
  const body = node("tbody");
  const top = node("thead");
  table.setAttribute("role", "grid");
  table.setAttribute("aria-label", "Matches; up and down choose one, page keys turn the page");
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
  root.append(head, frame, foot, note);
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
  const rowOf = () => model.get("numbers").indexOf(model.get("selected"));
  const choose = (k) => send(model, { selected: k == null ? null : model.get("numbers")[k] });
  frame.onkeydown = (event) => {
    if (event.target !== frame) return;
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

  const hasNumbers = () => Boolean(model.get("numbers")[0]); // a first part of the matches has none
  const drawHead = () => {
    const sortable = new Set(model.get("sortable"));
    const now = model.get("order");
    header.replaceChildren(
      ...(hasNumbers() ? [node("th", "right number", "match")] : []),
      ...model.get("columns").map(({ name, align }) => {
        const cell = node("th", align === "right" ? "right" : "");
        const way = { [`${name} up`]: "ascending", [`${name} down`]: "descending" }[now] ?? "none";
        cell.scope = "col";
        if (!sortable.has(name)) cell.append(node("span", "", name));
        else {
          const made = node("button", "sort", name);
          Object.assign(made, { type: "button", title: `Sort by ${name}`, onclick: () => sort(name) });
          made.append(node("span", "way", { ascending: "▲", descending: "▼", none: "↕" }[way]));
          cell.setAttribute("aria-sort", way);
          cell.append(made);
        }
        return cell;
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
  };
  const drawRows = () => {
    const columns = model.get("columns");
    const rows = model.get("rows");
    body.replaceChildren(
      ...rows.map((cells, k) => {
        const row = node("tr");
        row.id = `${id}-${k}`;
        if (hasNumbers()) row.append(node("td", "right number", grouped(model.get("numbers")[k] ?? "")));
        row.append(
          ...cells.map((text, c) => {
            const cell = node("td", columns[c]?.align === "right" ? "right" : "", text);
            cell.title = text;
            return cell;
          }),
        );
        row.onclick = () => choose(k === rowOf() ? null : k);
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
    total.textContent = isNumber(n) ? grouped(n) : n;
    const isFound = n !== "" && n !== "0";
    const empty = n === "0" ? "No matches." : isFound ? "" : "The matches of the query appear here.";
    frame.lastChild.textContent = model.get("rows").length ? "" : empty;
    const ending = last();
    of.textContent = `of ${ending == null ? model.get("n_pages") : grouped(`${ending}`)}`;
    if (document.activeElement !== field) field.value = model.get("page");
    field.style.width = `${Math.max(4, model.get("page").length) + 3}ch`;
    note.textContent = note.title = model.get("limit_note");
    back.forEach((button) => (button.disabled = page() <= 1n));
    on.forEach((button) => (button.disabled = ending != null && page() >= ending));
    on[1].disabled ||= ending == null;
    frame.setAttribute("aria-busy", model.get("busy"));
  };

  const drawAll = () => {
    drawHead();
    drawRows();
  };
  const unwatch = watch(model, {
    columns: drawAll,
    numbers: drawAll,
    sortable: drawHead,
    order: drawHead,
    rows: () => (drawRows(), drawFoot()),
    selected: mark,
    page: drawFoot,
    n_pages: drawFoot,
    total: drawFoot,
    limit_note: drawFoot,
    busy: drawFoot,
  });
  drawAll();
  drawFoot();
  return () => {
    unwatch();
    root.remove();
  };
}

export default { render };
