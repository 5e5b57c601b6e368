function render({ model, el }) {
  const root = document.createElement("div");
  root.className = "cepkit-stepper";
  root.textContent = "stepper";
  el.append(root);
  return () => root.remove();
}

export default { render };
