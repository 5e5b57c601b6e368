// The heads of the table of matches: a name to sort by, a histogram to brush, and a filter to type.
const FILTER_PAUSE_MS = 300;
const FILTER_HINTS = {
  number: ["> 3, 3..5", "such as > 3, 3..5 or = 3"],
  time: ["09:30..10:00", "such as 09:30..10:00, > 09:30 or 2012-01-03"],
  duration: ["> 5 min", "such as > 5 min or 10 s..2 min"],
  text: ["contains, =is", "a part of the text, or = and the whole text"],
};

// Return the filter of neighbouring bars; empty if it keeps all.
function filterOfBars(head, from, to) {
  const own = head.bars.slice(Math.min(from, to), Math.max(from, to) + 1);
  if (head.kind === "text") {
    const values = own.filter((bar) => bar.low).map((bar) => bar.low);
    return values.length ? (values[0] === "empty" ? "" : "=") + values.join(", ") : "";
  }
  const ranges = own.filter((bar) => bar.low !== "empty");
  const isEmpty = ranges.length < own.length;
  if (!ranges.length) return "empty";
  const [low, high] = [ranges[0].low, ranges.at(-1).high];
  const isOne = low && low === high;
  const range = isOne ? low : high ? `${low}${head.between}${high}` : low ? `${low}..` : "";
  return range && isEmpty ? `${range}, empty` : range;
}

// Return the head of a column. `act` has sort(name), filter(name, text) and say(text); `update` draws news.
function columnHead({ name, align, kind, zone }, act) {
  const cell = node("th", align === "right" ? "right" : "");
  const top = node("div", "top");
  const sorter = node("button", "sort", name);
  const way = node("span", "way");
  const plain = node("span", "plain", name);
  const date = node("span", "date");
  cell.scope = "col";
  Object.assign(sorter, { type: "button", title: `Sort by ${name}`, onclick: () => act.sort(name) });
  sorter.append(way);
  cell.append(top);

  // --- the histogram: one stop of the Tab key; arrow keys move in it

  const bars = node("div", kind === "text" ? "bars texts" : "bars");
  bars.setAttribute("role", "group");
  let head = null;
  let from = null; // the first bar of a brush
  let to = null;
  // The group of bars has the name of the column.
  const words = (k) => {
    const { label, n, kept } = head.bars[k];
    const many = (count) => counted(count, "match");
    return `${label}: ${kept === n ? many(n) : `${kept.toLocaleString("en")} of ${many(n)}`}`;
  };
  const paintBrush = () => {
    const [low, high] = from == null ? [1, 0] : [Math.min(from, to), Math.max(from, to)];
    [...bars.children].forEach((bar, k) => bar.classList.toggle("brushed", k >= low && k <= high));
  };
  const reach = (k, isBrush) => {
    k = clamp(k, 0, head.bars.length - 1);
    [...bars.children].forEach((bar, i) => (bar.tabIndex = i === k ? 0 : -1));
    if (isBrush) from ??= to ?? k;
    else from = null;
    to = k;
    paintBrush();
    bars.children[k].focus({ preventScroll: false });
  };
  const apply = (first, last) => {
    if (bars.classList.contains("off")) return;
    const text = filterOfBars(head, first, last);
    from = to = null;
    paintBrush();
    if (text || input.value) act.filter(name, text === input.value ? "" : text);
  };
  const at = (x) => {
    const boxes = [...bars.children].map((bar) => bar.getBoundingClientRect());
    const k = boxes.findIndex((box) => x < box.right);
    return k < 0 ? boxes.length - 1 : k;
  };
  bars.onpointerdown = (event) => {
    if (event.button || !head?.bars.length || bars.classList.contains("off")) return;
    bars.setPointerCapture?.(event.pointerId);
    from = to = at(event.clientX);
    paintBrush();
    event.preventDefault(); // no text is selected while brushing
  };
  bars.onpointermove = (event) => {
    if (!head?.bars.length) return;
    const k = at(event.clientX);
    act.say(`${name}, ${words(k)}`);
    if (from == null || !event.buttons) return;
    to = k;
    paintBrush();
  };
  bars.onpointerup = () => from != null && apply(from, to);
  bars.onpointercancel = () => {
    from = to = null;
    paintBrush();
  };
  bars.onpointerleave = () => act.say("");
  bars.onkeydown = (event) => {
    const k = [...bars.children].indexOf(event.target);
    const places = { ArrowLeft: k - 1, ArrowRight: k + 1, Home: 0, End: 1e9 };
    if (k < 0) return;
    if (event.key in places) {
      if (event.shiftKey) to = k;
      reach(places[event.key], event.shiftKey);
    } else if (event.key === "Enter" || event.key === " ") apply(from ?? k, k);
    else if (event.key === "Escape" || event.key === "Delete" || event.key === "Backspace")
      act.filter(name, "");
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const paintBars = () => {
    const own = head?.bars ?? [];
    const isNamed = (bar) => kind !== "text" || Boolean(bar.low);
    const most = Math.max(1, ...own.filter(isNamed).map((bar) => bar.n));
    const focused = [...bars.children].indexOf(document.activeElement);
    const made = own.map(({ label, n, kept, low, high }, k) => {
      const bar = bars.children[k] ?? node("button", "bar");
      const isBound = Boolean(low || high);
      bar.type = "button";
      bar.className = kind === "text" && !low ? "bar others" : low === "empty" ? "bar missing" : "bar";
      bar.tabIndex = k === Math.max(0, focused) ? 0 : -1;
      // A bar of few matches is still seen.
      bar.style.setProperty("--n", n && isNamed(own[k]) ? Math.max(0.06, n / most) : 0);
      bar.style.setProperty("--kept", n ? kept / n : 0);
      bar.textContent = kind === "text" ? label : "";
      bar.setAttribute("aria-label", words(k));
      bar.setAttribute("aria-disabled", !isBound);
      bar.onfocus = () => act.say(`${name}, ${words(k)}`);
      bar.onblur = () => act.say("");
      return bar;
    });
    bars.replaceChildren(...made);
    if (focused >= 0) made[Math.min(focused, made.length - 1)]?.focus({ preventScroll: true });
    const many = `${own.length} ${own.length === 1 ? "bar" : "bars"}`;
    const says = head ? `${name}: ${head.says}; ${many}` : `${name}: no histogram yet`;
    bars.setAttribute("aria-label", `${says}; arrow keys choose, Enter filters, Delete removes the filter`);
  };

  // --- the filter

  const field = node("div", "filter");
  const input = node("input");
  const mistake = node("p", "mistake");
  let timer = 0;
  const [placeholder, hint] = FILTER_HINTS[kind] ?? ["", ""];
  Object.assign(input, { type: "text", placeholder, spellcheck: false, autocomplete: "off", size: 1 });
  input.title = `Filter ${name}: ${hint}`;
  input.setAttribute("aria-label", input.title);
  mistake.id = `mistake-${Math.random().toString(36).slice(2)}`;
  mistake.setAttribute("role", "status");
  let sent = ""; // what this field wished last
  let latest = null; // the newest news
  const post = () => {
    clearTimeout(timer);
    timer = 0;
    sent = input.value.trim();
    act.filter(name, sent);
  };
  input.oninput = () => {
    clearTimeout(timer);
    timer = setTimeout(post, FILTER_PAUSE_MS);
  };
  input.onblur = () => {
    if (timer) post();
    else if (latest && input.value.trim() === sent && sent !== latest.text) input.value = latest.text;
  };
  input.onkeydown = (event) => {
    if (event.key === "Enter") post();
    else if (event.key === "Escape" && input.value) {
      input.value = "";
      post();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  if (kind) {
    field.append(input, mistake);
    cell.append(bars, field);
  }

  const update = (news) => {
    latest = news;
    cell.setAttribute("aria-sort", news.way);
    if (!news.isSortable) cell.removeAttribute("aria-sort");
    const title = news.isSortable ? sorter : plain;
    if (top.firstChild !== title) top.replaceChildren(title, date);
    way.textContent = { ascending: "▲", descending: "▼", none: "↕" }[news.way];
    date.textContent = [news.date, news.isZoneSaid ? "" : zone].filter(Boolean).join(" ");
    if (!kind) return;
    if (head !== news.head || !bars.children.length) {
      head = news.head;
      paintBars();
    }
    bars.classList.toggle("off", !news.canFilter || news.isBusy);
    input.disabled = !news.canFilter;
    // An answer to an earlier wish does not change what someone is typing.
    const isTyping = timer || (document.activeElement === input && input.value.trim() === sent);
    if (!isTyping) input.value = news.text;
    field.classList.toggle("on", Boolean(news.text));
    field.classList.toggle("wrong", Boolean(news.mistake));
    mistake.textContent = news.mistake;
    input.setAttribute("aria-invalid", Boolean(news.mistake));
    if (news.mistake) input.setAttribute("aria-describedby", mistake.id);
    else input.removeAttribute("aria-describedby");
  };
  const drop = () => clearTimeout(timer);
  return { cell, update, drop };
}
