function render({ model, el }) {
  const root = document.createElement("div");
  root.className = "cepkit-funnel_view";
  root.textContent = "funnel_view";
  el.append(root);
  return () => root.remove();
}

export default { render };
