// An editor for the text of a query: a plain text area above a coloured copy of its text.
const STATES = {
  idle: ["○", "Idle"],
  running: ["", "Running"],
  done: ["✓", "Done"],
  failed: ["✗", "Failed"],
  cancelled: ["■", "Cancelled"],
};
const PAUSE_MS = 150; // without a key, before the text is sent
const CALM_MS = 600; // a failure is not shown while a person still types
const SKELETON = `
  <div class="head"><h4>Query</h4><span class="state" role="status"></span><button type="button" class="cancel">Cancel</button></div>
  <div class="progress" role="progressbar" aria-label="Progress of the run"></div>
  <div class="work"><div class="editor"><pre class="under" aria-hidden="true"></pre>
    <textarea class="area" spellcheck="false" autocapitalize="off" autocomplete="off" aria-label="Text of the query"></textarea></div>
    <div class="columns" role="group" aria-label="Columns; choosing one writes its name"></div>
    <div class="offers" role="group" aria-label="Completions"></div></div>
  <p class="sentence"></p>
  <pre class="message" role="status" tabindex="0"></pre>`;

function render({ model, el }) {
  const root = Object.assign(node("section", "cepkit-query_editor"), { innerHTML: SKELETON });
  const [state, cancel, progress, under, area, columns, offers, sentence, message] =
    "state cancel progress under area columns offers sentence message"
      .split(" ")
      .map((name) => root.querySelector(`.${name}`));
  root.setAttribute("aria-label", "Query");
  message.id = `query-${Math.random().toString(36).slice(2)}`;
  area.setAttribute("aria-describedby", message.id);
  for (const part of [area, cancel, message]) part.setAttribute(KEEPS_KEYS, "true");
  el.append(root);

  let timer = 0; // until the text is sent
  let began = null; // when the run began
  let edited = -CALM_MS; // when the person typed last
  let calm = 0; // until a failure is shown
  const textOfEdit = new Map(); // errors have places in the text of their edit

  const report = () => {
    clearTimeout(timer);
    if (!timer) return;
    timer = 0;
    if (area.value === model.get("text")) return paint(); // an edit was undone
    model.set("edited", model.get("edited") + 1); // first: the text is stored under this number
    model.set("text", area.value);
    model.save_changes();
    tell();
  };
  const isStale = () => timer !== 0 || model.get("version") < model.get("edited");
  const errors = () =>
    placed(model.get("errors"), textOfEdit.get(model.get("version")) ?? area.value, area.value);

  const paint = () => {
    const text = area.value;
    const marks = errors();
    const pieces = painted(text, marks, model);
    under.replaceChildren(...pieces, "\n");
    root.classList.toggle("stale", isStale());
    tell(marks);
  };
  // Return whether a failure is held back; it is shown as soon as the person pauses.
  const waits = () => {
    const left = edited + CALM_MS - performance.now();
    root.classList.toggle("typing", left > 0);
    clearTimeout(calm);
    if (left > 0 && !timer) calm = setTimeout(drawStatus, left + 1);
    return left > 0;
  };
  const say = () => {
    const hint = model.get("examples").length
      ? "Write a query, or click an example. It is checked while you write."
      : "Write a query. It is checked while you write.";
    const said = area.value.trim() ? model.get("sentence") : "";
    sentence.replaceChildren(
      ...(said ? [node("b", "", "In words: "), said] : area.value.trim() ? [] : [hint]),
    );
    sentence.title = said;
    sentence.classList.toggle("quiet", !said || model.get("errors").length > 0);
  };
  const tell = (marks = errors()) => {
    const caret = area.selectionStart;
    const here = marks.findIndex((mark) => mark.start <= caret && caret <= mark.end);
    const k = Math.max(0, here);
    const { state: now, message: said } = model.get("status");
    area.setAttribute("aria-invalid", marks.length > 0);
    const hasFailed = marks.length > 0 || now === "failed";
    if (hasFailed && waits()) return;
    message.classList.toggle("failing", hasFailed);
    const many =
      marks.length > 1 ? `error ${k + 1} of ${marks.length}; move the cursor to an error to read it\n` : "";
    const notes = now === "done" ? said.split("; ").slice(1).join("; ") : said; // the head says the first part
    const [first, ...others] = (marks.length ? `${many}${marks[k].message}` : notes).split("\n");
    const rest = others.map((line) => `\n${line}`).join("");
    message.replaceChildren(node("span", "says", first), rest); // only lines of the query need their columns
    message.classList.toggle("quiet", !marks.length);
    message.classList.toggle("blank", !first);
  };

  const quoted = (name) => (NAME.test(name) ? name : `\`${name.replaceAll("`", "``")}\``);
  const insert = (text, nBack = 0) => {
    area.focus();
    area.setSelectionRange(area.selectionStart - nBack, area.selectionEnd);
    document.execCommand("insertText", false, text); // undo still works, and the browser fires the input event
    list.close();
  };
  const replace = (text) => {
    area.focus();
    area.select();
    insert(text);
    report();
  };
  const chooser = (text, act, ...kinds) => {
    const title = [text, ...kinds].filter(Boolean).join(" · ");
    const made = node("button", "choice", text);
    Object.assign(made, { type: "button", tabIndex: -1, title, onclick: act });
    made.onmousedown = (event) => event.preventDefault(); // the focus stays in the text
    made.append(...kinds.map((kind) => node("span", "kind", kind)));
    return made;
  };
  const list = completionList(area, under, offers, chooser);
  const offer = () => {
    const [text, caret] = [area.value, area.selectionStart];
    if (caret !== area.selectionEnd) return list.close();
    const traits = Object.fromEntries(
      ["columns", "names", "functions", "keywords"].map((name) => [name, model.get(name)]),
    );
    list.open(completionsAt(text, caret, { ...traits, quoted }), insert);
  };
  const help = addSide(root, columns, model, {
    insert: (text, kind) => insert(fitted(text, kind, area.value.slice(0, area.selectionStart))),
    replace,
    isEmpty: () => !area.value.trim(),
    group: () => (isSql(area.value) ? 4 : Number(isPattern(area.value))),
  });

  const edit = () => {
    clearTimeout(timer);
    timer = setTimeout(report, PAUSE_MS);
    edited = performance.now();
    paint();
    say();
    help.show();
    offer();
  };
  area.oninput = edit;
  area.onblur = () => {
    list.close();
    report();
  };
  area.onscroll = () => ([under.scrollTop, under.scrollLeft] = [area.scrollTop, area.scrollLeft]);
  area.onclick = () => {
    tell();
    list.close();
  };
  area.onkeyup = ({ key }) => {
    tell();
    if (/^(Arrow(Left|Right)|Home|End|Page)/.test(key)) list.close();
  };
  // Python takes back changes of the text, the sliders and the choices in the order in which they came.
  const step = (what) => {
    list.close();
    report();
    wishStep(model, what);
  };
  area.onbeforeinput = (event) => {
    const what = { historyUndo: "undo", historyRedo: "redo" }[event.inputType];
    if (!what) return;
    event.preventDefault();
    step(what);
  };
  area.onkeydown = (event) => {
    if (!event.isComposing && list.press(event)) {
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    // JupyterLab would handle line breaks and undo of text areas in cells. Shift+Enter runs the query, not the cell.
    const hasCommand = event.ctrlKey || event.metaKey;
    const undo = stepOf(event);
    if (event.isComposing || (event.key !== "Enter" && !undo)) return;
    event.preventDefault();
    event.stopPropagation();
    if (undo) step(undo);
    else if (event.shiftKey || hasCommand) report();
    else insert("\n");
  };

  const drawColumns = () => {
    const rows = model
      .get("columns")
      .map(({ name, dtype, note }) => chooser(name, () => insert(quoted(name)), dtype ?? "", note ?? ""));
    columns.replaceChildren(...(rows.length ? rows : [node("p", "hint", "No columns yet.")]));
    if (rows.length) rows[0].tabIndex = 0;
    const ofType = (type) => model.get("columns").find(({ dtype }) => dtype.startsWith(type))?.name;
    const x = quoted(ofType("float") ?? ofType("integer") ?? "x"); // integers may be identifiers
    area.placeholder = `. up+ down\nup: ${x} > prev(${x})\ndown: ${x} < prev(${x})\n\nor: PATTERN SEQ(A a, B b) WHERE b.${x} > a.${x} WITHIN 5 min\n\nor paste SQL: SELECT … FROM … MATCH_RECOGNIZE ( … )`;
    paint();
  };
  columns.onkeydown = ({ key, target }) =>
    target[{ ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[key]]?.focus();
  const drawSeconds = () => {
    const passed = began === null ? 0 : Math.floor((performance.now() - began) / 1000);
    const seconds = state.querySelector(".seconds");
    if (seconds) seconds.textContent = passed ? `${passed.toLocaleString("en")} s` : "";
  };
  state.onanimationiteration = drawSeconds; // once per second, by the stylesheet
  const drawStatus = () => {
    const { state: now, progress: share } = model.get("status");
    if (now === "failed" && waits()) return;
    root.classList.remove("typing");
    const [mark, word] = STATES[now] ?? STATES.idle;
    const percent = now === "running" && share != null ? ` ${Math.floor(100 * share)} %` : "";
    began = now === "running" ? (began ?? performance.now()) : null;
    const hasMistake = now === "failed" && model.get("errors").length;
    const first = now === "done" ? model.get("status").message.split("; ")[0] : hasMistake ? "Mistake" : "";
    state.replaceChildren(
      node("i", `mark ${now}`, mark),
      node("span", "word", first || `${word}${percent}`),
      node("span", "seconds"),
    );
    state.title = first;
    drawSeconds();
    cancel.classList.toggle("hidden", now !== "running");
    progress.className = `progress ${now} ${share == null ? "unknown" : ""}`;
    progress.style.setProperty("--share", now === "running" ? (share ?? 1) : 0);
    progress.ariaValueNow = percent ? Math.floor(100 * share) : null;
    tell();
  };
  const receive = () => {
    if (timer) return; // text in the making wins
    const [before, after] = [area.value, model.get("text")];
    if (before !== after) {
      let same = 0; // characters at the end of both; the caret goes to the end of the change
      const most = Math.min(before.length, after.length);
      while (same < most && before.at(-1 - same) === after.at(-1 - same)) same += 1;
      area.value = after;
      area.setSelectionRange(after.length - same, after.length - same);
    }
    textOfEdit.set(model.get("edited"), area.value);
    textOfEdit.delete(model.get("edited") - 50);
    paint();
    say();
    help.show();
  };
  cancel.onclick = () => send(model, { cancel: model.get("cancel") + 1 });
  const unwatch = watch(model, {
    text: receive,
    errors: () => [paint(), say()],
    sentence: say,
    examples: say,
    version: paint,
    names: paint,
    keywords: paint,
    marked: paint,
    columns: drawColumns,
    status: drawStatus,
  });
  receive();
  drawColumns();
  drawStatus();
  return () => {
    unwatch();
    help.unwatch();
    list.close();
    area.onblur = null;
    clearTimeout(timer);
    clearTimeout(calm);
    root.remove();
  };
}

export default { render };
