// A block: its header, its fees, its transactions, and its place among the blocks of its height.

import { useQuery } from '@apollo/client/react';
import { useRef } from 'react';
import { count, difficulty, percent, rate, scaled, things, words } from '../format';
import { Amount, Badge, Empty, Facts, Failure, FeeRate, Hash, Head, Loading, More, Panel, When } from '../parts';
import { useLive, usePage } from '../page';
import { Reorg } from '../reorg';
import { Link, paths, useTitle } from '../router';
import { Legend, Treemap } from '../treemap';
import { BlockChangesDocument, type BlockPageQuery, BlockPageDocument, BlockSummaryDocument, type BlockSummaryQuery } from './block.generated';

/** Transactions a page. */
const FIRST = 100;

/** The largest weight of a block, in weight units (BIP141). */
const FULL = 4_000_000;

/** The shares of the weight of `feeRatePercentiles`. */
const SHARES = ['lowest', '10 %', '25 %', 'median', '75 %', '90 %', 'highest'];

/** Transactions of a list of the audit that are shown. */
const LISTED = 6;

type AuditFigures = NonNullable<NonNullable<BlockSummaryQuery['block']>['audit']>;
type Shown = NonNullable<BlockPageQuery['block']>;

export default function BlockPage({ subject }: { subject: string }) {
  const isHeight = /^\d{1,9}$/.test(subject);
  const isKey = isHeight || /^[0-9a-f]{64}$/i.test(subject);
  const by = isHeight ? { height: Number(subject) } : { hash: subject.toLowerCase() };
  const { data, error, loading, reread, fetchMore } = usePage(BlockPageDocument, { ...by, first: FIRST }, { skip: !isKey });
  const start = useRef<string>(undefined);
  start.current ??= data?.snapshot?.cursor;
  useLive(BlockChangesDocument, start.current === undefined ? undefined : { after: start.current }, reread, reread);
  const block = data?.block;
  useTitle(block ? `Block ${block.height}` : 'Block');
  return (
    <>
      <Head
        kind={block ? `Block ${count(block.height)}` : 'Block'}
        badges={block && (block.chainStatus === 'MAIN' ? <Badge tone="good">{things(block.confirmations, 'confirmation')}</Badge> : <Badge tone="bad">stale</Badge>)}
      >
        <Hash text={block?.hash ?? subject} what="block hash" copy tail={12} />
      </Head>
      {error && <Failure error={error} />}
      {block ? <Shown block={block} more={(after) => fetchMore({ variables: { after } })} /> : loading ? <Loading lines={14} /> : !error && <Empty>{isKey ? 'This server knows no such block.' : 'That is neither the height of a block nor its hash of 64 hexadecimal digits.'} A height above the tip has no block yet, and stale blocks are known only if this server saw them leave the chain.</Empty>}
    </>
  );
}

function Shown({ block, more }: { block: Shown; more: (after: string | null) => Promise<unknown> }) {
  const transactions = block.transactions;
  const { previousBlock, nextBlock, siblings, reorg, feeStats, stats } = block;
  return (
    <div className="page-body">
      <nav className="neighbours" aria-label="Blocks before and after">
        {previousBlock ? <Link href={paths.block(previousBlock.hash)}>← {count(previousBlock.height)}</Link> : <span className="quiet">the first block</span>}
        {nextBlock ? <Link href={paths.block(nextBlock.hash)}>{count(nextBlock.height)} →</Link> : <span className="quiet">{block.chainStatus === 'MAIN' ? 'the tip' : 'no block on it'}</span>}
      </nav>
      {block.chainStatus === 'STALE' && (
        <>
          <div className="failure" role="status">
            <strong>This block left the chain.</strong>{' '}
            Its transactions count only where another block or the mempool has them.
          </div>
          {reorg && <Panel title="The reorg that replaced it" aside={<Link href="/status#reorgs">All reorgs</Link>}><Reorg reorg={reorg} /></Panel>}
        </>
      )}
      {siblings.length > 0 && (
        <Panel title="Other blocks of this height">
          <ul className="plain-list">
            {siblings.map((sibling) => (
              <li key={sibling.id}>
                <Hash text={sibling.hash} href={paths.block(sibling.hash)} what="block hash" />
                <Badge tone={sibling.chainStatus === 'MAIN' ? 'good' : 'bad'}>{sibling.chainStatus === 'MAIN' ? 'on the chain' : 'stale'}</Badge>
                <span className="quiet">{things(sibling.txCount, 'tx', 'txs')}</span>
              </li>
            ))}
          </ul>
        </Panel>
      )}
      <div className="grid three">
        <Panel title="Overview">
          <Facts
            facts={[
              ['Time', <When time={block.time} />],
              ['Transactions', count(block.txCount)],
              ['Size', scaled(block.size, 'B')],
              ['Weight', <>{scaled(block.weight, 'WU')} <span className="quiet">{percent(block.weight / FULL)} full</span></>],
              ['Inputs, outputs', `${count(stats.inputCount)}, ${count(stats.outputCount)}`],
              ['Output value', stats.totalOutputValue === null ? null : <Amount sats={stats.totalOutputValue} />],
              ['Change of UTXOs', stats.utxoDelta === null ? null : `${stats.utxoDelta > 0 ? '+' : ''}${count(stats.utxoDelta)}`],
              ['SegWit transactions', count(stats.segwitTxCount)],
              ['Taproot outputs', count(stats.taprootOutputCount)],
            ]}
          />
        </Panel>
        <Panel title="Reward and fees">
          <Facts
            facts={[
              ['Subsidy', <Amount sats={block.subsidy} />],
              ['Fees', <Amount sats={block.totalFees} />],
              ['Coinbase', <Amount sats={block.coinbaseValue} />],
              ['Mined by', block.miner && <Miner miner={block.miner} evidence={block.coinbase?.minerEvidence} />],
              ['Text', block.coinbase?.text && <span className="mono wrap">{block.coinbase.text}</span>],
              ['Not claimed', block.unclaimedReward === 0 ? null : <Amount sats={block.unclaimedReward} />],
              ['Median feerate', block.txCount > 1 && <FeeRate value={feeStats.medianFeeRate} />],
              ['Fees from, to', block.txCount > 1 && <><Amount sats={feeStats.minFee} unit={false} /> – <Amount sats={feeStats.maxFee} /></>],
              ['Median fee', block.txCount > 1 && <Amount sats={feeStats.medianFee} />],
            ]}
          />
          {block.txCount > 1 && feeStats.feeRatePercentiles && <Percentiles rates={feeStats.feeRatePercentiles} />}
        </Panel>
        <Panel title="Header">
          <Facts
            facts={[
              ['Version', <span className="mono">0x{block.version.toString(16).padStart(8, '0')}</span>],
              ['Median time', <When time={block.medianTime} />],
              ['Difficulty', difficulty(block.difficulty)],
              ['Bits', <span className="mono">0x{block.bits.toString(16).padStart(8, '0')}</span>],
              ['Nonce', <span className="mono">{block.nonce}</span>],
              ['Merkle root', <Hash text={block.merkleRoot} what="merkle root" copy />],
              ['Chainwork', <Hash text={`0x${block.chainwork.replace(/^0+(?=.)/, '')}`} what="chainwork" copy />],
            ]}
          />
          <details>
            <summary>Header in hexadecimal</summary>
            <pre className="code" tabIndex={0}>{block.headerHex}</pre>
          </details>
        </Panel>
      </div>
      {block.txCount > 1 && block.chainStatus === 'MAIN' && <Glance block={block} />}
      <Panel title="Transactions">
        {transactions ? (
          <>
            <div className="table-box">
              <table className="rows stacked">
                <thead>
                  <tr>
                    <th scope="col">Transaction</th>
                    <th scope="col" className="right">Value, BTC</th>
                    <th scope="col" className="right">In → out</th>
                    <th scope="col" className="right">Size</th>
                    <th scope="col" className="right">Fee, BTC</th>
                    <th scope="col" className="right">Feerate, sat/vB</th>
                  </tr>
                </thead>
                <tbody>
                  {transactions.nodes.map((transaction) => (
                    <tr key={transaction.id}>
                      <td><Hash text={transaction.txid} href={paths.transaction(transaction.txid)} what="txid" /></td>
                      <td className="right" data-label="Value"><Amount sats={transaction.totalOutputValue} unit={false} /></td>
                      <td className="right quiet" data-label="In → out">{transaction.isCoinbase ? 'coinbase' : transaction.inputCount} → {transaction.outputCount}</td>
                      <td className="right" data-label="Size">{scaled(transaction.vsize, 'vB')}</td>
                      <td className="right" data-label="Fee">{transaction.fee === null || transaction.isCoinbase ? '–' : <Amount sats={transaction.fee} unit={false} />}</td>
                      <td className="right" data-label="Feerate">{transaction.isCoinbase || transaction.feeRate === null ? <span className="quiet">{words('coinbase')}</span> : <FeeRate value={transaction.feeRate} unit={false} />}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            <More has={transactions.pageInfo.hasNextPage} load={() => more(transactions.pageInfo.endCursor)} what="transactions" shown={transactions.nodes.length} total={transactions.totalCount} />
          </>
        ) : <Empty>The transactions of this block cannot be read now.</Empty>}
      </Panel>
    </div>
  );
}

/** The pool that a coinbase names or pays. */
function Miner({ miner, evidence }: { miner: NonNullable<Shown['miner']>; evidence: string | null | undefined }) {
  return (
    <>
      <Link href={paths.miner(miner.slug)}>{miner.name}</Link>
      <span className="quiet"> {evidence === 'PAYOUT_SCRIPT' ? 'by its payout' : 'by its tag'}</span>
    </>
  );
}

/** All transactions of a block by virtual size and effective feerate, and its audit. */
function Glance({ block }: { block: Shown }) {
  const { data, error } = useQuery(BlockSummaryDocument, { variables: { hash: block.hash } });
  const { summary, audit } = data?.block ?? {};
  const items = summary?.txids.map((txid, index) => {
    const feeRate = summary.effectiveFeeRates[index] ?? null;
    return { txid, vsize: summary.vsizes[index] ?? 0, feeRate, isCoinbase: index === 0 };
  });
  return (
    <>
      {error && <Failure error={error} />}
      {items && <Panel title="By size and feerate" aside={<Legend />}><Treemap items={items} /></Panel>}
      {audit && <Audit audit={audit} fees={block.totalFees} seenAt={data?.block?.firstSeenAt} />}
    </>
  );
}

/** What the mempool projected when the block arrived, against what it holds. */
function Audit({ audit, fees, seenAt }: { audit: AuditFigures; fees: number; seenAt: string | null | undefined }) {
  const difference = fees - audit.totalProjectedFees;
  const lists = [audit.missing, audit.fresh, audit.unexpected, audit.unseen, audit.prioritised ?? []];
  return (
    <Panel title="Against its projection" aside={<span className="quiet">{percent(audit.matchRate, 2)} of the projected weight is in the block</span>}>
      <div className="grid three">
        <Facts
          facts={[
            ['Seen', seenAt && <When time={seenAt} />],
            ['Projected', things(audit.projectedTxCount, 'transaction')],
            ['Projected fees', <Amount sats={audit.totalProjectedFees} />],
            ['Fees compared with it', <Amount sats={difference} signed />],
          ]}
        />
        {audit.matchRate === 1 && lists.every(({ length }) => length === 0) && <p className="quiet">It is the block that was projected.</p>}
        <Txids title="Projected, not in the block" why="Their miner left them out, or has never had them." txids={audit.missing} />
        <Txids title="Arrived too late to expect" why="They came within the three minutes before the block, which may have been under way." txids={audit.fresh} />
        <Txids title="In the mempool, not projected" why="Others paid more for their place." txids={audit.unexpected} />
        <Txids title="Never in this mempool" why="Sent to the miner alone, or not yet relayed to here." txids={audit.unseen} />
        <Txids title="Ahead of their feerate" why="They stand before transactions that pay more, so their miner prefers them for another reason." txids={audit.prioritised ?? []} />
      </div>
    </Panel>
  );
}

/** The first transactions of a list of the audit. */
function Txids({ title, why, txids }: { title: string; why: string; txids: readonly string[] }) {
  if (txids.length === 0) return null;
  return (
    <section className="audit">
      <h3>{title} <Badge>{count(txids.length)}</Badge></h3>
      <p className="quiet">{why}</p>
      <ul className="plain-list">
        {txids.slice(0, LISTED).map((txid) => <li key={txid}><Hash text={txid} href={paths.transaction(txid)} what="txid" /></li>)}
        {txids.length > LISTED && <li className="quiet">and {count(txids.length - LISTED)} more</li>}
      </ul>
    </section>
  );
}

/** Feerates from the cheapest to the dearest transaction, by weight. */
function Percentiles({ rates }: { rates: readonly number[] }) {
  if (rates.length === 0) return null;
  return (
    <p className="percentiles">
      <span className="quiet">Feerates by share of the weight, in sat/vB</span>
      <span>{rates.map((value, index) => <span key={index}><FeeRate value={value} unit={false} /> <span className="quiet">{SHARES[index]}</span></span>)}</span>
    </p>
  );
}
