// The chain over time: hashrate, difficulty, fees, sizes, script types, the UTXO set, and the pools that mined it.

import { lazy, Suspense, useState } from 'react';
import { count, difficulty, percent, rate, scaled, words } from '../format';
import type { Series } from '../chart';
import { Choices, Empty, Failure, Head, Loading, Panel } from '../parts';
import { useLive, usePage } from '../page';
import { Link, paths, useTitle } from '../router';
import { ChartsBlocksDocument, ChartsPageDocument, type ChartsPageQuery } from './charts.generated';

const Chart = lazy(() => import('../chart'));

const DAY = 86_400;

/** Spans of all charts: what a point stands for, and how far back they go, in blocks or in seconds. */
const SPANS = {
  blocks: { name: '144 blocks', group: 'BLOCK', blocks: 144 },
  quarter: { name: '90 days', group: 'DAY', seconds: 90 * DAY },
  // by weeks: days would cost the server seven times as much, for a line of the same shape
  year: { name: '1 year', group: 'WEEK', seconds: 365 * DAY },
  all: { name: 'All', group: 'MONTH', young: 'DAY' },
} as const;
type Span = keyof typeof SPANS;

/** A line through fewer points says nothing: a young chain is shown block by block. */
const LEAST_POINTS = 8;

/** Types of scripts that are drawn one by one; the others are one layer. */
const LAYERS = 6;

const SATS = 100_000_000;
const PERCENTILES = { tenth: 1, median: 3, ninetieth: 5 };

type Point = NonNullable<NonNullable<ChartsPageQuery['chain']>['series']>[number];
type Share = NonNullable<NonNullable<ChartsPageQuery['chain']>['miners']>[number];

/**
 * The range of a span, which begins at midnight so that the answer is the same all day. That of all blocks is without the
 * genesis block, whose time on test networks is years before the next block.
 */
function rangeOf(span: Span) {
  const shape = SPANS[span];
  if ('blocks' in shape) return { lastBlocks: shape.blocks };
  if (!('seconds' in shape)) return { heights: { from: 1 } };
  const from = (Math.floor(Date.now() / 1_000 / DAY) + 1) * DAY - shape.seconds;
  return { times: { from: new Date(from * 1_000).toISOString().replace('.000Z', 'Z') } };
}

export default function ChartsPage() {
  useTitle('Charts');
  const [chosen, choose] = useState<Span>();
  const [isYoung, setYoung] = useState(false);
  const span = chosen ?? (isYoung ? 'blocks' : 'year');
  const [isFine, setFine] = useState(false);
  const group = span === 'all' && isFine ? SPANS.all.young : SPANS[span].group;
  const { data, error, loading, isStale, reread } = usePage(
    ChartsPageDocument,
    { group, range: rangeOf(span) },
    { pause: 5_000 },
  );
  useLive(ChartsBlocksDocument, data ? {} : undefined, reread, reread);
  const points = data?.chain?.series;
  if (points && !isStale && span === 'year' && !chosen && !isYoung && points.length < LEAST_POINTS) setYoung(true);
  if (points && !isStale && span === 'all' && !isFine && points.length < LEAST_POINTS) setFine(true);
  return (
    <>
      <Head kind="Charts" />
      <div className="page-body">
        <Choices
          name="Time span"
          options={Object.entries(SPANS).map(([key, { name }]) => [key, name])}
          value={span}
          choose={(key) => choose(key as Span)}
        />
        {error && <Failure error={error} />}
        {points && points.length > 1 ? (
          <>
            <div className="grid two even"><Charts points={points} /></div>
            {data.chain?.miners && <Pools shares={data.chain.miners} />}
          </>
        ) : loading ? <Loading lines={14} /> : !error && <Empty>There are no two periods to draw a line between yet.</Empty>}
      </div>
    </>
  );
}

function Charts({ points }: { points: Point[] }) {
  const times = points.map(({ endAt }) => Date.parse(endAt) / 1_000);
  // the last period has not ended
  const [began, minute] = [Date.parse(points.at(-1)!.startAt) / 1_000, Math.floor(Date.now() / 60_000) * 60];
  times.push(Math.max(began, Math.min(times.pop()!, minute)));
  const line = (label: string, colour: string, value: (point: Point) => number | null | undefined): Series => ({
    label,
    colour,
    values: points.map((point) => value(point) ?? null),
  });
  const per = (value: number | undefined, point: Point) => (value === undefined || point.blockCount === 0 ? null : value / point.blockCount);
  const percentile = (index: number) => (point: Point) => point.stats?.averageFeeRatePercentiles?.[index];
  const panel = (title: string, label: string, series: Series[], format: (value: number) => string) => (
    <Panel key={title} title={title}>
      <Suspense fallback={<div className="chart" />}>
        <Chart label={label} times={times} series={series} format={format} />
      </Suspense>
    </Panel>
  );
  return (
    <>
      {panel('Hashrate', 'Estimated hashes per second over time', [line('Hashrate', '--accent', ({ stats }) => stats?.hashrate)], (value) => scaled(value, 'H/s'))}
      {panel('Difficulty', 'Difficulty over time', [line('Difficulty', '--accent', (point) => point.difficulty)], difficulty)}
      {panel('Transactions', 'Transactions per block over time', [line('Transactions a block', '--accent', (point) => per(point.stats?.txCount, point))], (value) => scaled(value, ''))}
      {panel('Block size', 'Bytes per block over time', [line('Bytes a block', '--accent', (point) => per(point.stats?.size, point))], (value) => scaled(value, 'B'))}
      {panel('Fees', 'Fees per block over time, in bitcoins', [line('Fees a block', '--accent', (point) => per(point.stats ? Number(point.stats.fees) / SATS : undefined, point))], (value) => `${decimals(value)} BTC`)}
      {panel(
        'Feerates',
        'Feerates of a block over time, in satoshis per virtual byte: the mean over blocks of its percentiles',
        [
          line('90 %', '--fee-6', percentile(PERCENTILES.ninetieth)),
          line('Median', '--fee-4', percentile(PERCENTILES.median)),
          line('10 %', '--fee-2', percentile(PERCENTILES.tenth)),
        ],
        (value) => `${rate(value)} sat/vB`,
      )}
      {panel('Types of new outputs', 'Share of each script type of the outputs created over time', layers(points), (value) => percent(value, 0))}
      {panel('Unspent outputs', 'Number of unspent outputs over time', [line('Unspent outputs', '--accent', ({ utxoSet }) => utxoSet.unspentCount)], (value) => scaled(value, ''))}
    </>
  );
}

/** The pools by their part in the blocks of the span; a block says of itself which pool it is of, if any. */
function Pools({ shares }: { shares: Share[] }) {
  const largest = Math.max(...shares.map(({ share }) => share));
  return (
    <Panel title="Mining pools">
      <div className="table-box">
        <table className="rows shares stacked">
          <thead>
            <tr>
              <th scope="col">Pool</th>
              <th scope="col" className="wide narrow-no"><span className="spoken">Bar of its share</span></th>
              <th scope="col" className="right">Share</th>
              <th scope="col" className="right">Blocks</th>
              <th scope="col" className="right">Empty</th>
              <th scope="col" className="right">Hashrate</th>
            </tr>
          </thead>
          <tbody>
            {shares.map(({ miner, share, hashrate, stats }) => (
              <tr key={miner?.id ?? ''}>
                <td>{miner ? <Link href={paths.miner(miner.slug)}>{miner.name}</Link> : <span className="quiet">not known</span>}</td>
                <td className="wide narrow-no" aria-hidden="true"><span className="bar" style={{ width: `${(share / largest) * 100}%` }} /></td>
                <td className="right" data-label="Share">{percent(share)}</td>
                <td className="right" data-label="Blocks">{count(stats.blockCount)}</td>
                <td className="right quiet" data-label="Empty">{stats.emptyBlockCount === 0 ? '–' : count(stats.emptyBlockCount)}</td>
                <td className="right" data-label="Hashrate">{hashrate === null ? '–' : scaled(hashrate, 'H/s')}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

/** A figure with three digits that count. */
const decimals = (value: number) => (value === 0 ? '0' : value >= 1_000 ? count(Math.round(value)) : value.toPrecision(3).replace(/\.?0+$/, ''));

/** Shares of the most frequent types and of all others: each line is the sum of its type and those before it. */
function layers(points: Point[]): Series[] {
  const totals = new Map<string, number>();
  for (const { stats } of points) for (const { type, createdCount } of stats?.totalsByType ?? []) totals.set(type, (totals.get(type) ?? 0) + createdCount);
  const types = [...totals].sort((a, b) => b[1] - a[1]).map(([type]) => type);
  const drawn = types.slice(0, LAYERS);
  const names = types.length > LAYERS ? [...drawn, 'others'] : drawn;
  const shares = points.map(({ stats }) => {
    const counts = new Map(stats?.totalsByType.map(({ type, createdCount }): [string, number] => [type, createdCount]));
    const all = [...counts.values()].reduce((sum, created) => sum + created, 0);
    if (all === 0) return names.map(() => null);
    const own = drawn.map((type) => (counts.get(type) ?? 0) / all);
    return names.map((_, index) => own[index] ?? 1 - own.reduce((sum, share) => sum + share, 0));
  });
  const sum = (shares: (number | null)[]) => shares.reduce<number | null>((sum, share) => (share === null ? null : (sum ?? 0) + share), 0);
  // the widest layer first: each later one is drawn over it
  return names.map((name, index) => ({
    label: words(name),
    colour: `--fee-${(index + 2) % 9}`,
    isFilled: true,
    values: shares.map((shares) => sum(shares.slice(0, index + 1))),
    told: shares.map((shares) => shares[index]!),
  })).reverse();
}
