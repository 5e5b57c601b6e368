function render({ model, el }) {
  const root = document.createElement("div");
  root.className = "cepkit-match_table";
  root.textContent = "match_table";
  el.append(root);
  return () => root.remove();
}

export default { render };
