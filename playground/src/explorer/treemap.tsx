// Transactions as rectangles: their area is their virtual size, their colour their feerate.

import { memo } from 'react';
import { feeClass, rate, scaled } from './format';
import { go, paths } from './router';

type Item = { txid: string; vsize: number; feeRate: number | null; isCoinbase: boolean };
type Rectangle = { item: Item; x: number; y: number; width: number; height: number };

const [WIDTH, HEIGHT] = [1000, 420];

/** The worst ratio of sides in a row of these areas along a side of this length. */
function worst(areas: number[], side: number) {
  const sum = areas.reduce((total, area) => total + area, 0);
  return Math.max(...areas.map((area) => Math.max((side * side * area) / (sum * sum), (sum * sum) / (side * side * area))));
}

/** Squarified treemap (Bruls, Huizing and van Wijk, 2000): rows along the shorter side, each as square as can be. */
export function squarify(items: readonly Item[]): Rectangle[] {
  const total = items.reduce((sum, { vsize }) => sum + vsize, 0);
  const rest = items.map((item) => ({ item, area: (item.vsize / total) * WIDTH * HEIGHT })).sort((a, b) => b.area - a.area);
  const rectangles: Rectangle[] = [];
  let [x, y, width, height] = [0, 0, WIDTH, HEIGHT];
  while (rest.length > 0) {
    const side = Math.min(width, height);
    const row = [rest.shift()!];
    while (rest.length > 0) {
      const areas = row.map(({ area }) => area);
      if (worst([...areas, rest[0]!.area], side) > worst(areas, side)) break;
      row.push(rest.shift()!);
    }
    const sum = row.reduce((total, { area }) => total + area, 0);
    const depth = sum / side;
    let along = 0;
    for (const { item, area } of row) {
      const length = area / depth;
      rectangles.push(width < height
        ? { item, x: x + along, y, width: length, height: depth }
        : { item, x, y: y + along, width: depth, height: length });
      along += length;
    }
    if (width < height) [y, height] = [y + depth, height - depth];
    else [x, width] = [x + depth, width - depth];
  }
  return rectangles;
}

/** A picture for the eye; the list below it is the same for keyboards and screen readers. */
export const Treemap = memo(function Treemap({ items }: { items: readonly Item[] }) {
  return (
    <svg className="treemap" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${items.length} transactions by virtual size and feerate`}>
      {squarify(items).map(({ item, x, y, width, height }) => (
        <rect
          key={item.txid}
          x={x}
          y={y}
          width={Math.max(0, width)}
          height={Math.max(0, height)}
          className={item.isCoinbase ? 'coinbase' : `fee-${feeClass(item.feeRate ?? 0)}`}
          onClick={() => go(paths.transaction(item.txid))}
        >
          <title>{`${item.txid}\n${scaled(item.vsize, 'vB')}, ${item.isCoinbase ? 'coinbase' : `${rate(item.feeRate ?? 0)} sat/vB`}`}</title>
        </rect>
      ))}
    </svg>
  );
});

export function Legend() {
  const names = ['< 1', '1', '2', '4', '8', '16', '32', '64', '128+'];
  return (
    <ol className="legend" aria-label="Colours by feerate in sat/vB">
      {names.map((name, index) => (
        <li key={name}><span className={`dot fee-${index}`} aria-hidden="true" />{name}</li>
      ))}
      <li className="quiet">sat/vB</li>
    </ol>
  );
}
