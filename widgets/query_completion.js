// What completes the word at the caret, and the list of it. Python puts this text before query_editor.js.
const ENTRY = /^[^\S\n]*([\p{L}_][\p{L}\p{N}_]*):/gmu; // a line "name: condition" of a regex
const NO_EVENT = /\b(?:PATTERN|SEQ|AND|OR|NOT|STRICT|PARTITION|NEXT|ANY|INNER|GREEDY|RELUCTANT)\b/gi;
const EVENT = /(?:'[^']*'|"[^"]*"|[\p{L}\p{N}_]+)\s*(?:[*+?]|\{[^{}]*\})?\s+([\p{L}_][\p{L}\p{N}_]*)/gu;
const SQL_PATTERN = /\bPATTERN\s*\(([\s\S]*?)(?:\b(?:WITHIN|SUBSET|DEFINE)\b|$)/i;
const MOST_OFFERS = 8;

const isSql = (text) =>
  /\bMATCH_RECOGNIZE\b/i.test(text) || (/\bPATTERN\s*\(/i.test(text) && /\bDEFINE\b/i.test(text));
const isPattern = (text) => /^\s*PATTERN\b/i.test(text) && !isSql(text);
const unique = (names) => [...new Set(names)];

// Return the names that a query defines: the named lines of a regex, the events of PATTERN, or the variables of
// MATCH_RECOGNIZE.
function namesOf(text) {
  if (isSql(text)) {
    const pattern = text.match(SQL_PATTERN)?.[1] ?? "";
    const names = pattern.match(/[\p{L}_][\p{L}\p{N}_]*/gu) ?? [];
    return unique(names).filter((name) => name.toLowerCase() !== "permute");
  }
  if (!isPattern(text))
    return unique([...text.matchAll(ENTRY)].map(([, name]) => name)).filter((name) => name !== "within");
  const events = text.split(/\b(?:WHERE|WITHIN|GAP)\b/i)[0].replace(/\b(?:IF|UNTIL)\s*\([^()]*\)/gi, " ");
  return unique([...events.replace(NO_EVENT, " ").matchAll(EVENT)].map(([, name]) => name));
}

// Return the names in the pattern of a regex that have no line yet.
function namesWithoutLine(text) {
  const defined = namesOf(text);
  const pattern = text.slice(0, text.search(ENTRY) + 1 || undefined);
  return unique(pattern.match(/[\p{L}_][\p{L}\p{N}_]*/gu) ?? []).filter((name) => !defined.includes(name));
}

// Return the place of a caret in the text of a query:
// "sql" in MATCH_RECOGNIZE, "names" in the pattern of a regex, "head" where a line begins, "events" in the pattern of PATTERN, "column"
// after the name of an event, "condition", or "" where nothing is completed.
function placeInQuery(text, before) {
  if (/\d\s*$/.test(before)) return ""; // the unit of a duration
  if (/[\p{L}\p{N}_\]]\s*\.$/u.test(before)) return "column";
  if (isSql(text)) return "sql";
  if (isPattern(text)) {
    const clause = before.match(/\b(WHERE|WITHIN|GAP)\b(?![\s\S]*\b(?:WHERE|WITHIN|GAP)\b)/i)?.[1];
    if (clause && !/where/i.test(clause)) return "events";
    return clause || /\b(?:IF|UNTIL)\s*\([^()]*$/i.test(before) ? "condition" : "events";
  }
  const line = before.slice(before.lastIndexOf("\n") + 1);
  if (before.includes("\n") && !line.trim()) return "head";
  return before.search(ENTRY) < 0 ? "names" : "condition";
}

// Return what completes the word before the caret: `start`, the word; `offers`, lists of name, kind, and text;
// `isSure`, whether Enter takes the first.
function completionsAt(text, caret, known) {
  const start = text.slice(0, caret).match(/[\p{L}\p{N}_]*$/u)[0];
  const before = text.slice(0, caret - start.length);
  const place = placeInQuery(text, before);
  const none = { start, offers: [], isSure: false };
  if (!place || /^\d/.test(start) || (!start && place !== "column")) return none;
  const of = (kind, names) => names.map((name) => [name, kind, name]);
  const own = of("name", namesOf(text));
  const columns = known.columns.map(({ name, dtype }) => [name, dtype ?? "column", known.quoted(name)]);
  const functions = new Set(known.functions);
  const types = of(
    "name",
    known.names.filter((name) => !functions.has(name)),
  );
  const called = of("function", known.functions);
  const keywords = of("keyword", known.keywords);
  const all = {
    names: [own, columns, types, called, keywords],
    head: [
      namesWithoutLine(text).map((name) => [name, "name", `${name}: `]),
      [["within", "window", "within: "]],
      own,
      columns,
      called,
      keywords,
    ],
    events: [types, keywords, own, columns, called],
    condition: isPattern(text) ? [own, columns, called, keywords, types] : [columns, called, keywords, types],
    column: [columns],
    sql: [own, columns, keywords],
  }[place].flat();
  const wanted = start.toLowerCase();
  const names = new Set();
  const offers = all.filter(([name]) => {
    const isNew = name !== start && name.toLowerCase().startsWith(wanted) && !names.has(name);
    names.add(name);
    return isNew;
  });
  const isKnown = all.some(([name]) => name === start);
  const isSure = !isKnown && place !== "names" && (start.length > 1 || place === "column");
  return { start, offers: offers.slice(0, MOST_OFFERS), isSure };
}

// Return the rectangle of a character of the text in the window.
function rectangleAt(under, at) {
  const walker = document.createTreeWalker(under, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  let left = at;
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    if (left < text.length) {
      range.setStart(text, left);
      range.setEnd(text, left + 1);
      return range.getBoundingClientRect();
    }
    left -= text.length;
  }
  return under.getBoundingClientRect();
}

// A list of completions at the caret. It lies above everything else, so that no panel cuts it.
function completionList(area, under, offers, chooser) {
  let taken = []; // the function that takes each completion
  let active = -1;
  const id = `offers-${Math.random().toString(36).slice(2)}`;
  offers.id = id;
  offers.popover = "manual";
  offers.setAttribute("role", "listbox");
  area.setAttribute("aria-controls", id);
  area.setAttribute("aria-autocomplete", "list");

  const light = (k) => {
    active = k;
    [...offers.children].forEach((item, at) => item.setAttribute("aria-selected", at === active));
    if (active < 0) area.removeAttribute("aria-activedescendant");
    else {
      area.setAttribute("aria-activedescendant", offers.children[active].id);
      offers.children[active].scrollIntoView({ block: "nearest" });
    }
  };
  const close = () => {
    if (!taken.length) return;
    taken = [];
    window.removeEventListener("scroll", close, true);
    offers.hidePopover?.();
    offers.replaceChildren();
    light(-1);
  };
  const open = ({ start, offers: found, isSure }, take) => {
    close();
    if (!found.length) return;
    taken = found.map(
      ([, , text]) =>
        () =>
          take(text, start.length),
    );
    const items = found.map(([name, kind], k) => chooser(name, taken[k], kind));
    items.forEach((item, k) => {
      item.id = `${id}-${k}`;
      item.setAttribute("role", "option");
    });
    offers.replaceChildren(...items);
    offers.showPopover?.();
    const word = rectangleAt(under, area.selectionStart - Math.max(1, start.length));
    const own = offers.getBoundingClientRect();
    const isBelow = word.bottom + own.height + 4 <= window.innerHeight || word.top < own.height + 4;
    offers.style.left = `${clamp(start ? word.left : word.right, 4, Math.max(4, window.innerWidth - own.width - 4))}px`;
    offers.style.top = `${isBelow ? word.bottom + 2 : word.top - own.height - 2}px`;
    light(isSure ? 0 : -1);
    window.addEventListener("scroll", close, true);
  };
  // Return whether the list has used the key.
  const press = ({ key, shiftKey }) => {
    if (!taken.length) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[key];
    const chosen = key === "Tab" && !shiftKey ? taken[Math.max(0, active)] : key === "Enter" && taken[active];
    if (step) light((active + step + taken.length + (active < 0 && step < 0)) % taken.length);
    else if (key === "Escape") close();
    else if (chosen) chosen();
    return Boolean(step || chosen || key === "Escape");
  };
  return { open, close, press, isOpen: () => taken.length > 0 };
}
