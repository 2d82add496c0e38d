// How much of the mempool pays which feerate.

import { feeClass, rate, scaled, things } from './format';

type Bin = { fromRate: number; toRate: number | null; totalVsize: number; txCount: number };

const range = ({ fromRate, toRate }: Bin) => (toRate === null ? `${rate(fromRate)}+` : `${rate(fromRate)}–${rate(toRate)}`);

/** One bar a class of feerates, the highest first, as miners take them. */
export function Histogram({ bins }: { bins: readonly Bin[] }) {
  const largest = Math.max(1, ...bins.map(({ totalVsize }) => totalVsize));
  const rows = [...bins].sort((a, b) => b.fromRate - a.fromRate);
  return (
    <table className="histogram">
      <caption className="spoken">Virtual size of the mempool by feerate</caption>
      <thead className="spoken">
        <tr><th scope="col">sat/vB</th><th scope="col">Share</th><th scope="col">Virtual size</th></tr>
      </thead>
      <tbody>
        {rows.map((bin) => (
          <tr key={bin.fromRate} title={things(bin.txCount, 'transaction')} className={bin.txCount === 0 ? 'none' : ''}>
            <th scope="row">{range(bin)}</th>
            <td className="bar"><span className={`fee-${feeClass(bin.fromRate)}`} style={{ width: `${(bin.totalVsize / largest) * 100}%` }} /></td>
            <td>{bin.txCount === 0 ? '–' : scaled(bin.totalVsize, 'vB')}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
