// A transaction in the mempool: when it can be confirmed, why not sooner, and what would help.

import { count, rate, scaled, span, things } from '../format';
import { Age, Amount, Badge, FeeRate, Figure, Hash, Panel } from '../parts';
import { paths } from '../router';
import type { TransactionPageQuery } from './transaction.generated';

type Transaction = NonNullable<TransactionPageQuery['transaction']>;
type Entry = NonNullable<Transaction['mempoolEntry']>;
type Relative = Entry['parents'][number];

/** What its wait is compared with. */
export type Market = {
  /** The lowest feerate of the next block, in sat/vB; undefined while that has room. */
  lowest: number | undefined;
  /** The feerate that is recommended for the next block, in sat/vB. */
  target: number;
  /** Seconds from block to block, lately. */
  interval: number;
};

/** The virtual size of a payment with one input and two outputs. */
const CHILD_VSIZE = 141;

/** Smaller differences of feerates are rounding. */
const NOTABLE = 0.05;

const ordinal = (number: number) => `${number}${number % 100 > 10 && number % 100 < 14 ? 'th' : ['th', 'st', 'nd', 'rd'][number % 10] ?? 'th'}`;

export function Waiting({ transaction, entry, market }: { transaction: Transaction; entry: Entry; market: Market }) {
  const index = entry.projectedBlockIndex;
  const own = transaction.feeRate ?? 0;
  const effective = transaction.effectiveFeeRate ?? own;
  const isEqual = market.lowest !== undefined && rate(market.lowest) === rate(effective);
  return (
    <Panel title={index === 0 ? 'In the mempool' : 'Why it is not confirmed yet'} aside={<span className="quiet">arrived <Age time={entry.addedAt} /></span>}>
      <p className="lead">
        {index === 0 ? 'It fits into the next block, as miners would build that now. ' : <>It waits because others {isEqual ? 'that pay as much stand before it' : 'pay more'}{market.lowest !== undefined && <>: the next block {isEqual ? 'is full with' : 'takes'} transactions from <strong>{rate(market.lowest)} sat/vB</strong> on, and miners count <strong>{rate(effective)} sat/vB</strong> for this one</>}. </>}
        {effective < own - NOTABLE && <>It pays {rate(own)} sat/vB itself, but spends coins of {things(entry.ancestorCount - 1, 'unconfirmed transaction')}, without which it cannot be mined: together they pay {rate(effective)}. </>}
        {effective > own + NOTABLE && <>It pays {rate(own)} sat/vB itself; a transaction that spends its coins pays for both. </>}
        {index !== null && index > 0 && <>As things stand it is in the {ordinal(index + 1)} block from now, in about {span((index + 1) * market.interval)}, if none arrives that pays more.</>}
        {index === null && 'The projected blocks do not have it yet.'}
      </p>
      <div className="figures">
        <Figure name="projected block">{index === null ? '–' : index === 0 ? 'next' : `${ordinal(index + 1)} from now`}</Figure>
        <Figure name="feerate that miners count">{rate(effective)} <span className="unit">sat/vB</span></Figure>
        {market.lowest !== undefined && <Figure name="lowest of the next block">{rate(market.lowest)} <span className="unit">sat/vB</span></Figure>}
        <Figure name="goes before it">{entry.totalVsizeAhead === null ? '–' : scaled(entry.totalVsizeAhead, 'vB')}</Figure>
        <Figure name="unconfirmed before it, after it">{count(entry.ancestorCount - 1)}, {count(entry.descendantCount - 1)}</Figure>
      </div>
      <Relatives title="It spends coins of these unconfirmed transactions" list={entry.parents} />
      <Relatives title="These spend its coins" list={entry.children} />
      {index !== 0 && <Help transaction={transaction} entry={entry} market={market} isHeldBack={effective < own - NOTABLE} />}
    </Panel>
  );
}

/** Parents or children, with what they pay. */
function Relatives({ title, list }: { title: string; list: readonly Relative[] }) {
  if (list.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul className="plain-list relatives">
        {list.map((relative) => (
          <li key={relative.id}>
            <Hash text={relative.txid} href={paths.transaction(relative.txid)} what="txid" />
            <span className="numeric">
              {relative.feeRate !== null && <FeeRate value={relative.feeRate} />}{' '}
              {relative.mempoolEntry?.projectedBlockIndex === 0 && <Badge tone="good">next block</Badge>}
              {(relative.mempoolEntry?.projectedBlockIndex ?? 0) > 0 && <Badge>{ordinal(relative.mempoolEntry!.projectedBlockIndex! + 1)} block</Badge>}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}

/** What its sender and its recipients can do. */
function Help({ transaction, entry, market, isHeldBack }: { transaction: Transaction; entry: Entry; market: Market; isHeldBack: boolean }) {
  const { target } = market;
  const replaced = entry.descendantCount - 1;
  const canSpend = transaction.outputs?.nodes.some(({ spendStatus }) => spendStatus === 'UNSPENT');
  // the child pays what is missing for itself and all that must be mined before it
  const missing = Math.ceil(target * (entry.totalAncestorVsize + CHILD_VSIZE)) - entry.totalAncestorFees;
  const childFee = Math.max(missing, Math.ceil(target * CHILD_VSIZE));
  return (
    <section className="help">
      <h3>What would help</h3>
      <ul>
        {entry.bumpFeeTo !== null && (
          <li>
            <strong>Replace it</strong> (RBF): the sender sends it again with a fee of <Amount sats={entry.bumpFeeTo} /> instead of <Amount sats={transaction.fee ?? 0} />, which makes {rate(target)} sat/vB{isHeldBack && ' together with what it spends'}.
            {replaced > 0 && <> That removes {things(replaced, 'transaction')} that {replaced === 1 ? 'spends' : 'spend'} its coins.</>}
            {!transaction.isSignalingRbf && ' It does not signal that (BIP125); most nodes accept it all the same.'}
          </li>
        )}
        {canSpend && (
          <li>
            <strong>Spend it</strong> (CPFP): whoever owns an unspent output spends it with a high fee, which pays for both. A child of {CHILD_VSIZE} vB needs some <Amount sats={childFee} /> to make {rate(target)} sat/vB of all together.
          </li>
        )}
        {isHeldBack && <li><strong>Raise what it spends</strong>: a replacement or another child of the unconfirmed transactions above lifts this one, too, if it stays valid.</li>}
        <li><strong>Wait</strong>: it is mined once those that pay more are. Nodes drop it after two weeks by default, or when their mempool is full; its coins then stay where they were.</li>
      </ul>
    </section>
  );
}
