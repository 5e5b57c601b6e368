function render({ model, el }) {
  const root = document.createElement("div");
  root.className = "cepkit-nfa_view";
  root.textContent = "nfa_view";
  el.append(root);
  return () => root.remove();
}

export default { render };
