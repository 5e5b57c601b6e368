function render({ model, el }) {
  const root = document.createElement("div");
  root.className = "cepkit-reason_view";
  root.textContent = "reason_view";
  el.append(root);
  return () => root.remove();
}

export default { render };
