// When the subsidy halves next.

/** Blocks between two halvings. Regtest has its own, so that tests reach them. */
const INTERVAL = { REGTEST: 150 } as Record<string, number>;

export function halving(network: string, height: number) {
  const interval = INTERVAL[network] ?? 210_000;
  const next = (Math.floor(height / interval) + 1) * interval;
  return { next, remaining: next - height, progress: (height % interval) / interval, number: next / interval };
}
