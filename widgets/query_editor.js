// An editor for the text of a query: a plain text area over a painted copy of its text.
const STATES = { idle: ["○", "Idle"], running: ["", "Running"], done: ["✓", "Done"], failed: ["✗", "Failed"], cancelled: ["■", "Cancelled"] };
const PAUSE_MS = 200;
const MOST_OFFERS = 8;
const SKELETON = `
  <div class="head"><h4>Query</h4><span class="state" role="status"></span><button type="button" class="cancel">Cancel</button></div>
  <div class="progress" role="progressbar" aria-label="Progress of the run"></div>
  <div class="work"><div class="editor"><pre class="under" aria-hidden="true"></pre>
    <textarea class="area" spellcheck="false" autocapitalize="off" autocomplete="off" aria-label="Text of the query"></textarea></div>
    <div class="columns" role="group" aria-label="Columns; choosing one writes its name"></div></div>
  <div class="offers" role="group" aria-label="Completions"></div>
  <pre class="message" role="status" tabindex="0"></pre>
  <details class="code"><summary>Python that finds these matches, as a cell</summary><button type="button" class="copy">Copy</button><pre class="cell"></pre></details>`;

function render({ model, el }) {
  const root = Object.assign(node("section", "cepkit-query_editor"), { innerHTML: SKELETON });
  const [state, cancel, progress, under, area, columns, offers, message, code, copy, cell] = "state cancel progress under area columns offers message code copy cell"
    .split(" ").map((name) => root.querySelector(`.${name}`));
  root.setAttribute("aria-label", "Query");
  message.id = `query-${Math.random().toString(36).slice(2)}`;
  area.setAttribute("aria-describedby", message.id);
  for (const part of [area, cancel, message, copy, root.querySelector("summary")]) part.dataset.lmSuppressShortcuts = "true";
  el.append(root);

  let [timer, isPutAway] = [0, false]; // until text is sent; whether completions are away until the next edit
  const textOfEdit = new Map(); // what the offsets of errors refer to

  const report = () => {
    clearTimeout(timer);
    if (!timer) return;
    timer = 0;
    if (area.value === model.get("text")) return paint(); // written and taken back
    model.set("edited", model.get("edited") + 1); // before the text, which is remembered under this number
    model.set("text", area.value);
    model.save_changes();
  };
  const isStale = () => timer !== 0 || model.get("version") < model.get("edited");
  const errors = () => {
    return placed(model.get("errors"), textOfEdit.get(model.get("version")) ?? area.value, area.value);
  };

  const paint = () => {
    const text = area.value;
    const marks = errors();
    const pieces = painted(text, marks, model);
    under.replaceChildren(...pieces, "\n");
    root.classList.toggle("stale", isStale());
    tell(marks);
  };
  const tell = (marks = errors()) => {
    const caret = area.selectionStart;
    const k = Math.max(0, marks.findIndex((mark) => mark.start <= caret && caret <= mark.end));
    const { state: now, message: said } = model.get("status");
    area.setAttribute("aria-invalid", marks.length > 0);
    message.classList.toggle("failing", marks.length > 0 || now === "failed");
    const many = marks.length > 1 ? `${k + 1} of ${marks.length} errors; the cursor chooses\n` : "";
    message.textContent = marks.length ? `${many}${marks[k].message}` : said || (area.value.trim() ? "" : "Write a query; it is checked while you write.");
    message.classList.toggle("quiet", !marks.length);
  };

  const quoted = (name) => (NAME.test(name) ? name : `\`${name.replaceAll("`", "``")}\``);
  const insert = (text, nBack = 0) => {
    area.focus();
    area.setSelectionRange(area.selectionStart - nBack, area.selectionEnd);
    document.execCommand("insertText", false, text); // keeps undo, and fires the input event
    isPutAway = true;
    offer();
  };
  const chooser = (text, act, ...kinds) => {
    const button = Object.assign(node("button", "choice", text), { type: "button", tabIndex: -1, onclick: act });
    button.onmousedown = (event) => event.preventDefault(); // the text keeps the focus
    button.title = [text, ...kinds].filter(Boolean).join(" · ");
    button.append(...kinds.map((kind) => node("span", "kind", kind)));
    return button;
  };
  const offer = () => {
    const start = area.value.slice(0, area.selectionStart).match(/[\p{L}\p{N}_]*$/u)[0];
    const isOpen = start && !/^\d/.test(start) && !isPutAway && area.selectionStart === area.selectionEnd;
    const known = [
      ...model.get("columns").map(({ name, dtype }) => [name, dtype ?? "column", quoted(name)]),
      ...model.get("names").map((name) => [name, "name", name]),
      ...model.get("keywords").map((name) => [name, "keyword", name]),
    ];
    const fitting = known.filter(([name]) => isOpen && name.toLowerCase().startsWith(start.toLowerCase()) && name !== start);
    const choices = fitting.slice(0, MOST_OFFERS).map(([name, kind, text]) => chooser(name, () => insert(text, start.length), kind));
    const hint = node("span", "kind", choices.length ? "Tab" : "Tab takes a completion while there is one; Esc puts them away.");
    offers.replaceChildren(hint, ...choices);
  };

  const edit = () => {
    clearTimeout(timer);
    timer = setTimeout(report, PAUSE_MS);
    isPutAway = false;
    paint();
    offer();
  };
  area.oninput = edit;
  area.onblur = report;
  area.onscroll = () => ([under.scrollTop, under.scrollLeft] = [area.scrollTop, area.scrollLeft]);
  area.onclick = area.onkeyup = () => (tell(), offer());
  area.onkeydown = (event) => {
    const first = offers.querySelector("button");
    if (event.key === "Escape") (isPutAway = true), offer();
    if (event.key === "Tab" && !event.shiftKey && first) event.preventDefault(), first.click();
    // JupyterLab takes line breaks and undoing away from text areas in cells; Shift+Enter runs what is written, not the cell.
    const hasCommand = event.ctrlKey || event.metaKey;
    const undo = hasCommand && { z: event.shiftKey ? "redo" : "undo", y: "redo" }[event.key.toLowerCase()];
    if (event.isComposing || (event.key !== "Enter" && !undo)) return;
    event.preventDefault();
    event.stopPropagation();
    if (undo) document.execCommand(undo);
    else if (event.shiftKey || hasCommand) report();
    else insert("\n");
  };

  const drawColumns = () => {
    const rows = model.get("columns").map(({ name, dtype, note }) => chooser(name, () => insert(quoted(name)), dtype ?? "", note ?? ""));
    columns.replaceChildren(...(rows.length ? rows : [node("p", "hint", "No columns yet.")]));
    if (rows.length) rows[0].tabIndex = 0;
    const { name } = model.get("columns").find(({ dtype }) => /^(float|integer)/.test(dtype)) ?? { name: "x" };
    const x = quoted(name);
    area.placeholder = `. up+ down\nup: ${x} > prev(${x})\ndown: ${x} < prev(${x})\n\nor: PATTERN SEQ(A a, B b) WHERE b.${x} > a.${x} WITHIN 5 min`;
    paint();
  };
  columns.onkeydown = ({ key, target }) => target[{ ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[key]]?.focus();
  const drawStatus = () => {
    const { state: now, progress: share } = model.get("status");
    const [mark, word] = STATES[now] ?? STATES.idle;
    const percent = now === "running" && share != null ? ` ${Math.floor(100 * share)} %` : "";
    state.replaceChildren(node("i", `mark ${now}`, mark), `${word}${percent}`);
    cancel.classList.toggle("hidden", now !== "running");
    progress.className = `progress ${now} ${share == null ? "unknown" : ""}`;
    progress.style.setProperty("--share", now === "running" ? share ?? 1 : 0);
    progress.ariaValueNow = percent ? Math.floor(100 * share) : null;
    cell.textContent = model.get("code");
    code.classList.toggle("hidden", !model.get("code"));
    tell();
  };
  const receive = () => {
    if (timer) return; // what is being typed wins
    const caret = area.selectionStart;
    if (model.get("text") !== area.value) (area.value = model.get("text")), area.setSelectionRange(caret, caret);
    textOfEdit.set(model.get("edited"), area.value);
    textOfEdit.delete(model.get("edited") - 50);
    paint();
  };
  cancel.onclick = () => (model.set("cancel", model.get("cancel") + 1), model.save_changes());
  copy.onclick = () => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    copy.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
  };
  copy.onblur = () => (copy.textContent = "Copy");

  const listeners = [["text", receive], ["errors", paint], ["version", paint], ["names", paint], ["keywords", paint], ["marked", paint], ["columns", drawColumns], ["status", drawStatus], ["code", drawStatus]];
  listeners.forEach(([name, call]) => model.on(`change:${name}`, call));
  receive();
  drawColumns();
  drawStatus();
  offer();
  return () => {
    listeners.forEach(([name, call]) => model.off(`change:${name}`, call));
    area.onblur = null;
    clearTimeout(timer);
    root.remove();
  };
}

export default { render };
