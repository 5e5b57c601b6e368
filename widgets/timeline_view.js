function render({ model, el }) {
  const root = document.createElement("div");
  root.className = "cepkit-timeline_view";
  root.textContent = "timeline_view";
  el.append(root);
  return () => root.remove();
}

export default { render };
