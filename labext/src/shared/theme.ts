/** Light or dark: what the front end says, else what stands behind the widget, else the system. */

/** Whether the page around `element` is dark. */
export function isDark(element: Element): boolean {
  const { body, documentElement } = element.ownerDocument;
  const said = body.dataset.jpThemeLight;
  if (said !== undefined) return said === "false";
  const kind = body.dataset.vscodeThemeKind;
  if (kind !== undefined) return /dark|high-contrast$/.test(kind);
  const theme = documentElement.getAttribute("theme");
  if (theme === "dark" || theme === "light") return theme === "dark";
  for (let at: Element | null = element; at; at = at.parentElement ?? ((at.getRootNode() as ShadowRoot).host ?? null)) {
    const found = /^rgba?\((\d+), (\d+), (\d+)(?:, ([\d.]+))?\)$/.exec(getComputedStyle(at).backgroundColor);
    if (found && Number(found[4] ?? 1) > 0.5) {
      const [r, g, b] = found.slice(1, 4).map(Number);
      return 0.299 * r + 0.587 * g + 0.114 * b < 128;
    }
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Call `apply` now and whenever the theme changes; returns a function that stops. */
export function watchTheme(element: Element, apply: (dark: boolean) => void): () => void {
  const run = (): void => apply(isDark(element));
  const observer = new MutationObserver(run);
  const { body, documentElement } = element.ownerDocument;
  for (const target of [body, documentElement])
    observer.observe(target, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind", "theme", "class"] });
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", run);
  run();
  return () => {
    observer.disconnect();
    system.removeEventListener("change", run);
  };
}
