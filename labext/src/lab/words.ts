/** Figures as words, as the explorer writes them. */

/** A share that never rounds something to nothing or a part to the whole. */
export function percent(share: number): string {
  const value = 100 * share;
  if (value > 0 && value < 0.5) return "<1 %";
  if (value < 100 && value >= 99.5) return ">99 %";
  return `${Math.round(value)} %`;
}
