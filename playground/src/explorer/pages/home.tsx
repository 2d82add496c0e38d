// The chain at a glance: blocks, fees, the mempool, difficulty and the index, as they change.

import { useEffect, useRef, useState } from 'react';
import { change, count, difficulty, percent, rate, scaled, span, things } from '../format';
import { Histogram } from '../histogram';
import { Age, Amount, Badge, Empty, Facts, Failure, FeeRate, Figure, Hash, Head, Loading, Panel } from '../parts';
import { useLive, usePage } from '../page';
import { Reorg } from '../reorg';
import { Link, paths, useTitle } from '../router';
import { Strip } from '../strip';
import { ChainChangesDocument, type HomeQuery, HomeDocument, NextBlocksDocument, type StripProjectionFragment } from './home.generated';

/** The mempool is read again this often while it changes, in milliseconds. */
const PAUSE = 2_000;

/** Blocks in the strip, as many as the query has. */
const LENGTH = 12;

type StripBlocks = NonNullable<HomeQuery['blocks']>['nodes'];

/** Changes that are remembered: a reorg of twice the strip. */
const REMEMBERED = 4 * LENGTH;

/** A block that joined the chain, or the hash of one that left it. */
type Change = { hash: string; block?: StripBlocks[number] };

/** The newest blocks, as events changed them since the query was answered: the highest one, and each that the one above it is built on. */
function newest(blocks: StripBlocks, changes: readonly Change[]): StripBlocks {
  const byHash = new Map(blocks.map((block) => [block.hash, block]));
  for (const { hash, block } of changes) {
    if (block) byHash.set(hash, block);
    else byHash.delete(hash);
  }
  const chain: StripBlocks = [];
  // of two at one height the one that joined last
  let next = [...byHash.values()].reverse().reduce<StripBlocks[number] | undefined>((tip, block) => (tip && tip.height >= block.height ? tip : block), undefined);
  while (next && chain.length < LENGTH) {
    chain.push(next);
    next = next.header.previousBlockHash ? byHash.get(next.header.previousBlockHash) : undefined;
  }
  return chain;
}

type Notice = { key: number; text: string; tone: 'good' | 'warn' };

/** How long a notice stays, in milliseconds. */
const NOTICED = 8_000;

export function Home() {
  useTitle('Chain');
  const { data, error, loading, reread } = usePage(HomeDocument, {}, { pause: PAUSE });
  const [changes, setChanges] = useState<readonly Change[]>([]);
  const [projected, setProjected] = useState<StripProjectionFragment[]>();
  const [fresh, setFresh] = useState<string>();
  const [notices, setNotices] = useState<readonly Notice[]>([]);
  const start = useRef<string>(undefined);
  start.current ??= data?.snapshot?.cursor;
  // blocks that join do not hide that others left
  const notify = (notice: Notice) => setNotices((before) => [...before.filter(({ tone }) => tone !== notice.tone), notice]);

  useLive(
    ChainChangesDocument,
    start.current === undefined ? undefined : { after: start.current },
    ({ chainEvents: event }) => {
      setChanges((before) => [...before.filter(({ hash }) => hash !== event.block.hash), 'reorg' in event ? { hash: event.block.hash } : { hash: event.block.hash, block: event.block }].slice(-REMEMBERED));
      if ('reorg' in event) {
        notify({ key: event.seq, tone: 'warn', text: `Block ${count(event.block.height)} left the chain${event.reorg ? ` in a reorg of ${things(event.reorg.depth, 'block')}` : ''}.` });
      } else {
        setFresh(event.block.hash);
        notify({ key: event.seq, tone: 'good', text: `Block ${count(event.block.height)} joined the chain with ${things(event.block.txCount, 'transaction')}.` });
      }
      reread();
    },
    () => {
      setChanges([]);
      reread();
    },
  );
  useLive(
    NextBlocksDocument,
    data ? {} : undefined,
    ({ projectedBlocks }) => {
      setProjected(projectedBlocks);
      reread();
    },
    reread,
  );
  useEffect(() => {
    if (notices.length === 0) return;
    const timer = setTimeout(() => setNotices((before) => before.slice(1)), NOTICED / notices.length);
    return () => clearTimeout(timer);
  }, [notices]);

  return (
    <>
      <Head kind="Chain" badges={data?.chain && <Badge>{network(data.chain.network)}</Badge>}>
        <p className="notice" role="status">{notices.map(({ key, tone, text }) => <span key={key} className={tone}>{text}</span>)}</p>
      </Head>
      {error && <Failure error={error} />}
      {data ? <Figures data={data} blocks={newest(data.blocks?.nodes ?? [], changes)} projected={projected} fresh={fresh} /> : loading && <Loading lines={12} />}
    </>
  );
}

const network = (name: string) => name.charAt(0) + name.slice(1).toLowerCase().replace('_', ' ');

function Figures({ data, blocks, projected, fresh }: { data: HomeQuery; blocks: StripBlocks; projected: StripProjectionFragment[] | undefined; fresh: string | undefined }) {
  const { mempool, recommendedFees: fees, chain, sync, snapshot, reorgs } = data;
  const tip = blocks[0];
  return (
    <>
      <Strip projected={projected ?? mempool?.projectedBlocks ?? []} blocks={blocks} fresh={fresh} />
      <div className="grid home">
        <div className="stack">
          <Panel title="Fees now" className="fees">
            {fees ? (
              <ol className="fee-list">
                {([['Next block', fees.within1Block], ['3 blocks', fees.within3Blocks], ['6 blocks', fees.within6Blocks], ['Economy', fees.economy], ['Minimum', fees.minimum]] as const).map(([name, value], index) => (
                  <li key={name} className={index === 0 ? 'first' : ''}>
                    <span className="quiet">{name}</span>
                    <FeeRate value={value} />
                  </li>
                ))}
              </ol>
            ) : <Empty>Fees are known once the mempool is.</Empty>}
          </Panel>
          <Panel title="Sync" aside={<Link href="/status">Status</Link>}>
            <Facts
              facts={[
                ['Index', <>{sync.isReady && snapshot?.isInSync ? <Badge tone="good">in sync</Badge> : <Badge tone="warn">{sync.phase.toLowerCase().replaceAll('_', ' ')}</Badge>}</>],
                ['Height', <span className="numeric">{sync.indexedHeight === null ? '–' : count(sync.indexedHeight)}{sync.targetHeight !== null && sync.targetHeight !== sync.indexedHeight && ` of ${count(sync.targetHeight)}`}</span>],
                ['Time left', sync.etaSeconds ? span(sync.etaSeconds) : null],
                ['Mempool', snapshot && (snapshot.isMempoolInSync ? 'followed' : 'behind')],
              ]}
            />
          </Panel>
        </div>
        <Panel title="Mempool" aside={<Link href="/mempool">Details</Link>} className="mempool">
          {mempool ? (
            <>
              <div className="figures">
                <Figure name="transactions">{count(mempool.stats.txCount)}</Figure>
                <Figure name="virtual size">{scaled(mempool.stats.totalVsize, 'vB')}</Figure>
                <Figure name="inflow">{`${scaled(mempool.stats.vbytesPerSecond, 'vB')}/s`}</Figure>
                <Figure name="minimum">{rate(mempool.stats.minFeeRate)} <span className="unit">sat/vB</span></Figure>
              </div>
              <Histogram bins={mempool.feeHistogram ?? []} />
            </>
          ) : <Empty>The node's mempool is not followed yet.</Empty>}
        </Panel>
        <div className="stack">
          <Panel title="Newest transactions" className="recent" aside={<span className="quiet">unconfirmed</span>}>
            {mempool?.newest?.nodes.length ? (
              <div className="table-box">
                <table className="rows">
                  <thead><tr><th scope="col">Transaction</th><th scope="col" className="right">Value</th><th scope="col" className="right">Feerate</th></tr></thead>
                  <tbody>
                    {mempool.newest.nodes.map((transaction) => (
                      <tr key={transaction.id} className="arriving">
                        <td><Hash text={transaction.txid} href={paths.transaction(transaction.txid)} what="txid" /></td>
                        <td className="right"><Amount sats={transaction.totalOutputValue} unit={false} /></td>
                        <td className="right">{transaction.feeRate !== null && <FeeRate value={transaction.feeRate} unit={false} />}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            ) : <Empty>No transaction waits.</Empty>}
          </Panel>
          {reorgs?.nodes[0] && (
            <Panel title="Last reorg" aside={<Link href="/status#reorgs">All reorgs</Link>}>
              <Reorg reorg={reorgs.nodes[0]} />
            </Panel>
          )}
        </div>
        <div className="stack">
          {chain && <Difficulty chain={chain} />}
          {chain?.halving && <Halving halving={chain.halving} pace={paceOf(chain)} />}
        </div>
      </div>
    </>
  );
}

export function Progress({ share, label }: { share: number; label: string }) {
  return <div className="progress" role="img" aria-label={label}><span style={{ width: `${Math.min(100, share * 100)}%` }} /></div>;
}

type Chain = NonNullable<HomeQuery['chain']>;

/**
 * Seconds from block to block lately, where the difficulty never changes: estimates of the server count a whole epoch, and on
 * such a network the pace of blocks can be any from one day to the next.
 */
const paceOf = (chain: Chain) => (chain.network === 'REGTEST' ? chain.recent?.averageInterval : undefined);

function Difficulty({ chain }: { chain: Chain }) {
  const adjustment = chain.difficultyAdjustment;
  const pace = paceOf(chain);
  if (pace !== undefined) {
    return (
      <Panel title="Difficulty" aside={<span className="quiet">never changes here</span>}>
        <Facts
          facts={[
            ['Now', <span className="numeric">{difficulty(adjustment.epoch.difficulty)}</span>],
            ['Block time', pace === null ? null : span(pace), 'mean of the last 144 blocks'],
          ]}
        />
      </Panel>
    );
  }
  return (
    <Panel title="Difficulty" aside={<span className="quiet">epoch {adjustment.epoch.index}</span>}>
      <Progress share={adjustment.progress} label={`${percent(adjustment.progress)} of the epoch`} />
      <Facts
        facts={[
          ['Now', <span className="numeric">{difficulty(adjustment.epoch.difficulty)}</span>],
          ['Next change', adjustment.estimatedChange === null ? null : <span className="numeric">{change(adjustment.estimatedChange)}</span>, 'estimate'],
          ['In', <>{things(adjustment.remainingBlockCount, 'block')}{adjustment.estimatedAt && <span className="quiet"> · <Age time={adjustment.estimatedAt} /></span>}</>],
          ['Block time', adjustment.averageInterval === null ? null : span(adjustment.averageInterval), 'mean of this epoch; the aim is 10 min'],
        ]}
      />
    </Panel>
  );
}

function Halving({ halving, pace }: { halving: NonNullable<Chain['halving']>; pace: number | null | undefined }) {
  const { index, subsidy, nextHeight, remainingBlockCount, estimatedAt } = halving;
  // each halving is as many blocks after the one before
  const progress = 1 - (remainingBlockCount + 1) / (nextHeight / (index + 1));
  return (
    <Panel title="Halving">
      <Progress share={progress} label={`${percent(progress)} of the way to the next halving`} />
      <Facts
        facts={[
          ['Subsidy', <Amount sats={subsidy} />],
          ['Halves at', <span className="numeric">{count(nextHeight)}</span>],
          ['In', <>{things(remainingBlockCount + 1, 'block')}{pace ? <span className="quiet"> · {span(pace * (remainingBlockCount + 1))}</span> : estimatedAt && <span className="quiet"> · <Age time={estimatedAt} /></span>}</>],
        ]}
      />
    </Panel>
  );
}
