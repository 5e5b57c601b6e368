// Partial matches that reach each step of a query: a bar, the count, and the share that the step keeps.
const QUICK_MS = 400; // a shorter count is not told
const percent = (share) =>
  share > 0 && share < 0.0005 ? "< 0.1 %" : `${Number((100 * share).toPrecision(3))} %`;

function render({ model, el }) {
  const root = node("section", "cepkit-funnel_view");
  const head = node("div", "head");
  const list = node("div", "list");
  const note = node("p", "note");
  const id = `funnel-${Math.random().toString(36).slice(2)}`;
  root.setAttribute("aria-label", "Funnel of partial matches");
  list.tabIndex = 0;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Steps; arrow keys choose one");
  note.setAttribute("aria-live", "polite");
  head.append(
    node("h4", "", "Funnel"),
    ...["partial matches", "of first", "of before"].map((text) => node("span", "", text)),
  );
  head.children[2].title = "ratio to the first step";
  head.children[3].title = "ratio to the step before";
  root.append(head, list, note);
  el.append(root);

  const choose = (k) => send(model, { selected: k });
  const build = (stage, k, longest) => {
    const row = node("div", "step");
    const bar = node("span", "bar");
    const fill = node("span", "fill");
    fill.style.width = `${(100 * Math.max(0, stage.share)) / longest}%`;
    fill.classList.toggle("none", !(stage.share > 0));
    bar.append(fill);
    const amount = node("span", "amount");
    amount.append(bar, node("span", "n", stage.n));
    const kept = stage.kept == null ? "" : percent(stage.kept);
    row.append(
      node("span", "label", stage.label),
      amount,
      node("span", "share", percent(stage.share)),
      node("span", "kept", kept),
    );
    row.title = stage.note;
    row.id = `${id}-${k}`;
    row.setAttribute("role", "option");
    row.onclick = () => choose(model.get("selected") === k ? null : k);
    return row;
  };
  let running = ""; // how long the steps are being counted
  const mark = () => {
    const chosen = model.get("selected");
    const stage = model.get("stages")[chosen];
    [...list.children].forEach((row, k) => row.setAttribute("aria-selected", k === chosen));
    if (stage) list.setAttribute("aria-activedescendant", `${id}-${chosen}`);
    else list.removeAttribute("aria-activedescendant");
    const words = stage ? `${stage.label}: ${stage.note || "nothing more to say"}` : "";
    note.textContent = note.title = [running, words].filter(Boolean).join(" · ");
  };
  const paint = () => {
    const stages = model.get("stages");
    const longest = Math.max(1, ...stages.map((stage) => stage.share));
    list.replaceChildren(...stages.map((stage, k) => build(stage, k, longest)));
    if (!stages.length)
      list.append(node("p", "hint", "No steps yet. When the query has run, each step has a bar here."));
    mark();
  };
  let began = 0;
  let timer = 0;
  const tick = () => {
    const passed = Math.floor((performance.now() - began) / 1000);
    running = `Counting the steps …${passed ? ` ${passed.toLocaleString("en")} s` : ""}`;
    mark();
    timer = setTimeout(tick, 500);
  };
  const busy = () => {
    const isBusy = model.get("busy");
    root.setAttribute("aria-busy", isBusy);
    if (isBusy && timer) return;
    clearTimeout(timer);
    began = performance.now();
    timer = isBusy ? setTimeout(tick, QUICK_MS) : 0;
    running = "";
    mark();
  };
  list.onkeydown = (event) => {
    const last = model.get("stages").length - 1;
    const now = model.get("selected");
    const to = {
      ArrowDown: Math.min(last, (now ?? -1) + 1),
      ArrowUp: Math.max(0, (now ?? last + 1) - 1),
      Home: 0,
      End: last,
      Escape: null,
    }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    choose(to);
    if (to != null) list.children[to].scrollIntoView({ block: "nearest" });
  };

  const unwatch = watch(model, { stages: paint, selected: mark, busy });
  paint();
  busy();
  return () => {
    unwatch();
    clearTimeout(timer);
    root.remove();
  };
}

export default { render };
