// Copy a text, also in a page without https. Return whether it worked.
function copyText(root, text) {
  const focused = document.activeElement;
  const area = node("textarea");
  area.value = text;
  area.style.cssText = "position:absolute;width:1px;height:1px;opacity:0";
  root.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  focused?.focus?.({ preventScroll: true });
  return isCopied;
}
