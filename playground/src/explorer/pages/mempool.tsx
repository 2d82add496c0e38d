// The mempool: what waits, at which feerates, since when, and what was replaced.

import { lazy, Suspense, useState } from 'react';
import { count, feeClass, percent, rate, scaled, things } from '../format';
import { Histogram } from '../histogram';
import { Age, Amount, Badge, Choices, Empty, Failure, FeeRate, Figure, Hash, Head, Loading, More, Panel } from '../parts';
import { useLive, usePage } from '../page';
import { paths, useTitle } from '../router';
import { useNow } from '../store';
import { MempoolChangesDocument, MempoolPageDocument, type MempoolPageQuery, type MempoolOrder } from './mempool.generated';

const Chart = lazy(() => import('../chart'));

/** Spans of the history, with the length of a step; in seconds. */
const SPANS = { '2 h': [7_200, 60], '1 d': [86_400, 600], '1 w': [604_800, 3_600] } as const;

const ORDERS: [MempoolOrder, string][] = [['FEE_RATE', 'feerate'], ['ARRIVAL', 'arrival'], ['VALUE', 'value']];

const FIRST = 25;

type Shown = NonNullable<MempoolPageQuery['mempool']>;

export default function MempoolPage() {
  useTitle('Mempool');
  const [span, setSpan] = useState<keyof typeof SPANS>('2 h');
  const [order, setOrder] = useState<MempoolOrder>('FEE_RATE');
  const [length, step] = SPANS[span];
  const end = (Math.floor(useNow() / 1_000 / step) + 1) * step;
  const iso = (seconds: number) => new Date(seconds * 1_000).toISOString().replace('.000Z', 'Z');
  const { data, error, loading, reread, fetchMore } = usePage(
    MempoolPageDocument,
    { from: iso(end - length), to: iso(end), step, order, first: FIRST },
    { pause: 3_000 },
  );
  useLive(MempoolChangesDocument, data ? {} : undefined, reread, reread);
  const mempool = data?.mempool;
  return (
    <>
      <Head kind="Mempool" badges={mempool && !mempool.stats.loaded && <Badge tone="warn">the node still loads it</Badge>} />
      {error && <Failure error={error} />}
      {mempool ? (
        <div className="page-body">
          <div className="grid mempool-grid">
            <Panel
              title="Virtual size by feerate"
              aside={<Choices name="Time span" options={Object.keys(SPANS).map((name) => [name, name])} value={span} choose={(name) => setSpan(name as keyof typeof SPANS)} />}
            >
              <History points={mempool.history ?? []} />
            </Panel>
            <Panel title="Now">
              <div className="figures">
                <Figure name="transactions">{count(mempool.stats.txCount)}</Figure>
                <Figure name="virtual size">{scaled(mempool.stats.totalVsize, 'vB')}</Figure>
                <Figure name="inflow">{`${scaled(mempool.stats.vbytesPerSecond, 'vB')}/s`}</Figure>
                <Figure name="of the node's limit used">{percent(mempool.stats.memoryUsage / mempool.stats.maxMemory)}</Figure>
                <Figure name="lowest feerate accepted">{`${rate(mempool.stats.minFeeRate)} sat/vB`}</Figure>
                <Figure name="a replacement adds">{`${rate(mempool.stats.incrementalFeeRate)} sat/vB`}</Figure>
              </div>
              <Histogram bins={mempool.feeHistogram ?? []} />
            </Panel>
          </div>
          <Projected blocks={mempool.projectedBlocks ?? []} />
          {mempool.replacements && mempool.replacements.nodes.length > 0 && <Replacements nodes={mempool.replacements.nodes} />}
          <Panel title="Transactions" aside={<Choices name="Order" options={ORDERS} value={order} choose={(value) => setOrder(value as MempoolOrder)} />}>
            <Transactions list={mempool.transactions} more={(after) => fetchMore({ variables: { after } })} />
          </Panel>
        </div>
      ) : loading ? <Loading lines={14} /> : !error && <Empty>The node's mempool is not followed yet.</Empty>}
    </>
  );
}

/** Layers from the dearest class of feerates at the bottom to the cheapest on top. Where the server noted nothing there is a gap. */
function History({ points }: { points: NonNullable<Shown['history']> }) {
  const noted = points.slice(points.findIndex(({ sample }) => sample), points.findLastIndex(({ sample }) => sample) + 1);
  if (noted.filter(({ sample }) => sample).length < 2) return <Empty>The server notes the mempool once a minute; the first line is drawn in a few minutes.</Empty>;
  const layers = noted.map(({ sample }) => {
    if (!sample) return null;
    const byClass = Array<number>(9).fill(0);
    for (const { fromRate, totalVsize } of sample.vsizeByFeeRate) byClass[feeClass(fromRate)]! += totalVsize;
    return byClass;
  });
  const used = [0, 1, 2, 3, 4, 5, 6, 7, 8].filter((index) => layers.some((byClass) => byClass && byClass[index]! > 0));
  const least = (index: number) => (index === 0 ? 0 : 2 ** (index - 1));
  return (
    <Suspense fallback={<div className="chart" />}>
      <Chart
        label="Virtual size of the mempool over time, in layers by feerate"
        times={noted.map(({ sample, startAt }) => Date.parse(sample?.takenAt ?? startAt) / 1_000)}
        series={used.map((from) => ({
          label: `${least(from)}+ sat/vB`,
          colour: `--fee-${from}`,
          isFilled: true,
          values: layers.map((byClass) => byClass && byClass.slice(from).reduce((sum, vsize) => sum + vsize, 0)),
        }))}
        format={(value) => scaled(value, 'vB')}
        height={260}
      />
    </Suspense>
  );
}

function Projected({ blocks }: { blocks: NonNullable<Shown['projectedBlocks']> }) {
  return (
    <Panel title="Next blocks, as miners would build them now">
      {blocks.length > 0 ? (
        <div className="table-box" tabIndex={0} role="group" aria-label="Projected blocks">
          <table className="rows stacked">
            <thead>
              <tr>
                <th scope="col">Block</th>
                <th scope="col" className="right">Transactions</th>
                <th scope="col" className="right">Full</th>
                <th scope="col" className="right">Fees, BTC</th>
                <th scope="col" className="right">Median, sat/vB</th>
                <th scope="col" className="right" title="Effective feerates, the cheapest and the dearest">Lowest – highest</th>
              </tr>
            </thead>
            <tbody>
              {blocks.map((block) => (
                <tr key={block.index}>
                  <td>{waitOf(block.index)}</td>
                  <td className="right" data-label="Transactions">{count(block.txCount)}</td>
                  <td className="right" data-label="Full">{percent(block.weight / block.maxWeight)}</td>
                  <td className="right" data-label="Fees"><Amount sats={block.totalFees} unit={false} /></td>
                  <td className="right" data-label="Median"><FeeRate value={block.medianFeeRate} unit={false} /></td>
                  <td className="right" data-label="Feerates">{block.feeRatePercentiles.length > 0 && `${rate(block.feeRatePercentiles[0]!)} – ${rate(block.feeRatePercentiles.at(-1)!)}`}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : <Empty>The mempool is empty.</Empty>}
    </Panel>
  );
}

function Replacements({ nodes }: { nodes: NonNullable<Shown['replacements']>['nodes'] }) {
  return (
    <Panel title="Newest replacements" aside={<span className="quiet">by fee (RBF)</span>}>
      <div className="table-box">
        <table className="rows stacked">
          <thead><tr><th scope="col">Replacement</th><th scope="col">When</th><th scope="col" className="right">Replaced</th><th scope="col" className="right">Fee, BTC</th></tr></thead>
          <tbody>
            {nodes.map((node) => (
              <tr key={node.txid}>
                <td><Hash text={node.txid} href={paths.transaction(node.txid)} what="txid" /></td>
                <td data-label="When">{node.seenAt && <Age time={node.seenAt} />}</td>
                <td className="right" data-label="Replaced">{things(node.replacedNodes.length, 'tx', 'txs')}</td>
                <td className="right" data-label="Fee">{node.fee !== null && <Amount sats={node.fee} unit={false} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

/** The projected block of a transaction. */
const waitOf = (index: number | null | undefined) => (index == null ? '–' : index === 0 ? 'next' : `+${index + 1}`);

function Transactions({ list, more }: { list: Shown['transactions']; more: (after: string | null) => Promise<unknown> }) {
  if (!list || list.edges.length === 0) return <Empty>No transaction waits.</Empty>;
  return (
    <>
      <div className="table-box">
        <table className="rows stacked">
          <thead>
            <tr>
              <th scope="col">Transaction</th>
              <th scope="col" className="right">Arrived</th>
              <th scope="col" className="right">Value, BTC</th>
              <th scope="col" className="right">Size</th>
              <th scope="col" className="right" title="Of it alone; miners count what it spends and what spends it, too">Feerate, sat/vB</th>
              <th scope="col" className="right">Block</th>
            </tr>
          </thead>
          <tbody>
            {list.edges.map(({ node: transaction }) => (
              <tr key={transaction.id}>
                <td><Hash text={transaction.txid} href={paths.transaction(transaction.txid)} what="txid" /></td>
                <td className="right" data-label="Arrived">{transaction.firstSeenAt && <Age time={transaction.firstSeenAt} />}</td>
                <td className="right" data-label="Value"><Amount sats={transaction.totalOutputValue} unit={false} /></td>
                <td className="right" data-label="Size">{scaled(transaction.vsize, 'vB')}</td>
                <td className="right" data-label="Feerate">{transaction.feeRate !== null && <FeeRate value={transaction.feeRate} unit={false} />}</td>
                <td className="right" data-label="Block">{waitOf(transaction.mempoolEntry?.projectedBlockIndex)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <More has={list.pageInfo.hasNextPage} load={() => more(list.pageInfo.endCursor)} what="transactions" shown={list.edges.length} total={list.totalCount} />
    </>
  );
}
