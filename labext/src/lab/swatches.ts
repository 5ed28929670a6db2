/** A status as colour, shape and letter, and bars of op time, outside of the explorer. */

/** Letter of the columns -> letter that people see. */
const LETTERS: Readonly<Record<string, string>> = { d: "F" };

export const shownLetter = (letter: string): string => LETTERS[letter] ?? letter.toUpperCase();

/** A small box with the letter of a status. */
export function swatch(letter: string): HTMLElement {
  const node = document.createElement("span");
  node.className = `cachelab-St cachelab-${shownLetter(letter)}`;
  node.textContent = shownLetter(letter);
  node.setAttribute("aria-hidden", "true");
  return node;
}

/** A bar `wide` pixels (or the whole room): hatched for redundant work, plain for the rest. */
export function bar(redundant: number, seconds: number, wide: number | string): HTMLElement {
  const node = document.createElement("span");
  node.className = "cachelab-Bar";
  node.style.width = typeof wide === "number" ? `${wide}px` : wide;
  node.setAttribute("aria-hidden", "true");
  for (const [letter, part] of [["R", redundant], ["C", seconds - redundant]] as const) {
    if (part <= seconds * 0.001) continue;
    const piece = document.createElement("i");
    piece.className = `cachelab-${letter}`;
    piece.style.flex = `${part / seconds} 0 0`;
    node.append(piece);
  }
  return node;
}
