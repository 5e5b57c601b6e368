// The text of a query in colours, with errors underlined. Python puts this text before query_editor.js.
const TOKEN =
  /(?<text>'[^']*'?|"[^"]*"?)|(?<quoted>`[^`]*`?)|(?<number>\d[\w.]*)|(?<word>[\p{L}_][\p{L}\p{N}_]*)|(?<param>:[\p{L}_][\p{L}\p{N}_]*)|\s+|./gsu;
const NAME = /^[\p{L}_][\p{L}\p{N}_]*$/u;

// Return errors at their places in the current text. Python counts characters, a browser counts 16-bit units,
// and text typed since then moves every later place.
function placed(errors, before, now) {
  let [head, tail] = [0, 0];
  while (head < Math.min(before.length, now.length) && before[head] === now[head]) head++;
  while (tail < Math.min(before.length, now.length) - head && before.at(-1 - tail) === now.at(-1 - tail))
    tail++;
  const characters = [...before];
  const place = (k) => {
    const at = characters.slice(0, k).join("").length;
    return at <= head ? at : at >= before.length - tail ? at + now.length - before.length : head;
  };
  return errors.map((error) => {
    const start = place(error.start);
    return { ...error, start, end: Math.max(start + 1, place(error.end)) };
  });
}

// Return the text as coloured pieces; a piece ends where an error begins or ends.
function painted(text, marks, model) {
  const cuts = marks.flatMap(({ start, end }) => [start, end]).sort((a, b) => a - b);
  const kinds = new Map([
    ...model.get("names").map((name) => [name, "name"]),
    ...model.get("columns").map(({ name }) => [name, "column"]),
  ]);
  const marked = new Set(model.get("marked"));
  const keywords = new Set(model.get("keywords").map((word) => word.toLowerCase()));
  const pieces = [];
  const add = (start, end, kind) => {
    const isWrong = marks.some((mark) => mark.start <= start && end <= mark.end);
    pieces.push(node("span", `${kind}${isWrong ? " wrong" : ""}`, text.slice(start, end) || " "));
  };
  for (const { 0: token, index, groups } of text.matchAll(TOKEN)) {
    const form = Object.keys(groups).find((name) => groups[name] !== undefined) ?? "";
    const named = kinds.get(token) ?? (keywords.has(token.toLowerCase()) ? "keyword" : "");
    const plain = form === "quoted" ? "column" : form === "word" ? named : form;
    const kind = marked.has(token) ? `${plain} marked` : plain;
    let [at, end] = [index, index + token.length];
    for (const cut of cuts) if (cut > at && cut < end) add(at, (at = cut), kind);
    add(at, end, kind);
  }
  if (cuts.at(-1) > text.length) add(text.length, text.length + 1, "");
  return pieces;
}
