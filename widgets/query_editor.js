function render({ model, el }) {
  const root = document.createElement("div");
  root.className = "cepkit-query_editor";
  root.textContent = "query_editor";
  el.append(root);
  return () => root.remove();
}

export default { render };
