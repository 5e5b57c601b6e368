function render({ model, el }) {
  const root = document.createElement("div");
  root.className = "cepkit-slider_panel";
  root.textContent = "slider_panel";
  el.append(root);
  return () => root.remove();
}

export default { render };
