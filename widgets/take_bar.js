// Buttons that download matches and pictures, and copy code.
const CODE = new Set(["cell", "line"]); // what a button copies instead of downloading it
const KEPT_MS = 2000; // how long a button shows that it has done its work
const TOLD_MS = 12_000; // a note lies over other parts of the board, so it does not stay

// Download bytes as a file, without a network.
function download(name, mime, bytes) {
  const url = URL.createObjectURL(new Blob([bytes], { type: mime }));
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 0);
}

function render({ model, el }) {
  const root = node("section", "cepkit-take_bar");
  const by = Math.random().toString(36).slice(2); // another view of the same widget does not download as well
  const title = node("h4", "title", "Take away");
  const total = node("span", "total");
  const list = node("div", "list");
  const told = node("p", "told");
  root.setAttribute("aria-label", "Take away");
  list.setAttribute("role", "group");
  list.setAttribute("aria-label", "Files and code");
  told.setAttribute("role", "status");
  told.hidden = true;
  root.append(title, total, list, told);
  el.append(root);

  let busy = ""; // the id of the file that Python makes
  let n = 0; // of the newest wish
  let timer = 0;
  let isDrawn = true;
  let gone = 0; // until the note goes away
  const tell = (text) => {
    told.textContent = text;
    told.hidden = !text;
    clearTimeout(gone);
    if (text) gone = setTimeout(tell, TOLD_MS, "");
  };
  const finish = (id, isDone) => {
    busy = "";
    draw();
    const own = list.querySelector(`[data-id="${id}"]`);
    if (!own || !isDone) return;
    own.classList.add("done");
    clearTimeout(timer);
    timer = setTimeout(() => own.classList.remove("done"), KEPT_MS);
  };
  const take = ({ id, copies, told: note }) => {
    if (busy === id) return;
    tell("");
    if (copies) {
      const isCopied = copyText(root, copies);
      finish(id, isCopied);
      tell(
        isCopied ? note : "The browser does not let this page copy. Use explorer.code or explorer.command.",
      );
      return;
    }
    busy = id;
    n += 1;
    draw();
    send(model, { wanted: { id, by, n } });
  };
  const draw = () => {
    total.textContent = total.title = model.get("told");
    const focused = root.contains(document.activeElement) && document.activeElement.dataset.id;
    const buttons = model.get("items").map((item) => {
      const made = button(item.title, item.locked || item.note, () => take(item));
      made.removeAttribute("aria-label"); // its text is its name
      made.dataset.id = item.id;
      made.disabled = Boolean(item.locked);
      made.ariaBusy = busy === item.id;
      made.classList.toggle("busy", busy === item.id);
      return made;
    });
    const first = buttons.findIndex(({ dataset }) => CODE.has(dataset.id));
    if (first >= 0) buttons.splice(first, 0, node("span", "copy", "copy"));
    isDrawn = false; // the focus leaves the old buttons
    list.replaceChildren(...buttons);
    if (focused) list.querySelector(`[data-id="${focused}"]`)?.focus();
    isDrawn = true;
  };
  const receive = (answer, buffers) => {
    if (answer.by !== by || answer.n !== n) return;
    if (!answer.error) download(answer.file, answer.mime, buffers[0]);
    finish(busy, !answer.error);
    tell(answer.error || answer.note);
  };
  // A handler that returns false would take the key away, so these return nothing.
  root.onkeydown = ({ key }) => {
    if (key === "Escape") tell("");
  };
  root.onfocusout = ({ relatedTarget }) => {
    if (isDrawn && !root.contains(relatedTarget)) tell("");
  };
  told.onclick = () => tell("");
  model.on("msg:custom", receive);
  const unwatch = watch(model, { items: draw, told: draw });
  draw();
  return () => {
    unwatch();
    model.off("msg:custom", receive);
    clearTimeout(timer);
    clearTimeout(gone);
    root.remove();
  };
}

export default { render };
