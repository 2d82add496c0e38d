// An address, a script or a wallet: its balance, its history and its coins, now or right after a block of the past.

import { type FormEvent, lazy, Suspense, useEffect, useRef, useState } from 'react';
import { btcText, count, things, utc, words } from '../format';
import { Age, Amount, Badge, Choices, Empty, Facts, Failure, Figure, Hash, Head, Loading, More, Panel } from '../parts';
import { useLive, usePage } from '../page';
import { go, Link, paths, usePlace, useTitle } from '../router';
import {
  AddressPageDocument,
  type AddressPageQuery,
  LedgerChangesDocument,
  type LedgerChangesSubscription,
  ScriptPageDocument,
  type ScriptPageQuery,
  WalletChangesDocument,
  WalletPageDocument,
  type WalletPageQuery,
} from './ledger.generated';

const Chart = lazy(() => import('../chart'));

/** Rows a page. */
const FIRST = 25;

/** What is noted of the events while the page is open. */
const NOTED = 20;

type Subject = { kind: string; text: string };
type Address = NonNullable<AddressPageQuery['address']>;
type Script = NonNullable<ScriptPageQuery['script']>;
type Wallet = NonNullable<WalletPageQuery['descriptor']>;
type Ledger = Address | Script | Wallet;
type Event = LedgerChangesSubscription['ledgerEvents'];
type At = { height: number } | { time: string } | undefined;

/** What is wrong with a text that means no moment of the past. */
const FORMS = 'That is neither a date, as 2026-11-01 or 2026-11-01 12:30, nor the height of a block.';
const FUTURE = 'That moment has not come yet: this is the state of now.';

/** The block that a text means: a height, a day up to its end, or a time, both in UTC. */
function atOf(text: string): { at?: At; fault?: string } {
  if (!text) return {};
  if (/^\d{1,9}$/.test(text)) return { at: { height: Number(text) } };
  const [, day, minute] = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)Z?)?$/.exec(text) ?? [];
  const time = Date.parse(`${day}T${minute ?? '23:59:59'}Z`);
  // a day that its month does not have is one of the next
  if (Number.isNaN(time) || !iso(time).startsWith(day!)) return { fault: FORMS };
  return time > Date.now() ? { fault: FUTURE } : { at: { time: iso(time) } };
}

/** When the figures of a page are from, in words. */
function momentOf(at: NonNullable<At>, text: string) {
  if ('height' in at) return `after block ${count(at.height)}`;
  return /^\d{4}-\d\d-\d\d$/.test(text) ? `at the end of ${text} UTC` : `at ${utc(at.time)}`;
}

const DAY = 86_400;

/** Spans of the balance chart: the group of a point, and how long it is in blocks and in seconds. */
const SPANS = {
  blocks: { name: '2\u2009000 blocks', group: 'BLOCK', blocks: 2_000, seconds: 14 * DAY },
  year: { name: '1 year', group: 'DAY', blocks: 52_560, seconds: 365 * DAY },
  all: { name: 'All', group: 'WEEK', blocks: undefined, seconds: undefined },
} as const;
type Span = keyof typeof SPANS;

const iso = (milliseconds: number) => new Date(milliseconds).toISOString().replace(/\.\d+Z$/, 'Z');

/** The variables that make the whole page of that block, and the chart of the time before it. */
function variablesOf(at: At, span: Span) {
  const { group, blocks, seconds } = SPANS[span];
  if (!at) return { first: FIRST, group, ...(blocks && { range: { lastBlocks: blocks } }) };
  if ('height' in at) {
    const to = at.height;
    const range = { heights: { to, ...(blocks && { from: Math.max(0, to - blocks + 1) }) } };
    return { first: FIRST, at, group, range, filter: { range: { heights: { to } }, includeMempool: false } };
  }
  const to = at.time;
  const range = { times: { to, ...(seconds && { from: iso(Date.parse(to) - seconds * 1_000) }) } };
  return { first: FIRST, at, group, range, filter: { range: { times: { to } }, includeMempool: false } };
}

/** The span of the chart: a year, or the newest blocks if the ledger has many transactions in few days, until the reader chooses. */
function useSpan() {
  const [chosen, choose] = useState<Span>();
  const [isYoung, setYoung] = useState(false);
  const span = chosen ?? (isYoung ? 'blocks' : 'year');
  const look = (ledger: Ledger | null | undefined) => {
    const history = ledger?.balanceHistory;
    if (span === 'year' && !chosen && !isYoung && history && history.length < 8 && (ledger.stats?.txCount ?? 0) > 2 * history.length) setYoung(true);
  };
  return { span, choose, look };
}

const TITLES: Record<string, string> = { address: 'Address', script: 'Script', wallet: 'Wallet' };

export default function LedgerPage({ of }: { of: Subject }) {
  useTitle(TITLES[of.kind] ?? 'Ledger');
  if (of.kind === 'wallet') return of.text ? <WalletPage text={of.text} /> : <Ask />;
  return of.kind === 'address' ? <AddressPage address={of.text} /> : <ScriptPage text={of.text} />;
}

/** The moment that the URL asks for, which keeps it when the page is sent to somebody. */
function useAt() {
  const { search } = usePlace();
  const text = search.get('at') ?? '';
  return { text, ...atOf(text) };
}

function AddressPage({ address }: { address: string }) {
  const { at } = useAt();
  const chart = useSpan();
  const page = usePage(AddressPageDocument, { address, ...variablesOf(at, chart.span) });
  return <Body kind="address" text={address} ledger={page.data?.address} cursor={page.data?.snapshot?.cursor} watch={{ addresses: [address] }} chart={chart} {...page} />;
}

function ScriptPage({ text }: { text: string }) {
  const { at } = useAt();
  const hex = text.toLowerCase();
  const chart = useSpan();
  const page = usePage(ScriptPageDocument, { scriptHash: hex, ...variablesOf(at, chart.span) });
  const bytes = page.data?.script?.hex;
  return <Body kind="script" text={hex} ledger={page.data?.script} cursor={page.data?.snapshot?.cursor} watch={bytes ? { scripts: [bytes] } : undefined} chart={chart} {...page} />;
}

function WalletPage({ text }: { text: string }) {
  const { at } = useAt();
  const chart = useSpan();
  const page = usePage(WalletPageDocument, { text, ...variablesOf(at, chart.span) });
  return <Body kind="wallet" text={text} ledger={page.data?.descriptor} cursor={page.data?.snapshot?.cursor} watch={undefined} chart={chart} {...page} />;
}

type BodyProps = {
  kind: string;
  text: string;
  ledger: Ledger | null | undefined;
  cursor: string | undefined;
  chart: ReturnType<typeof useSpan>;
  watch: { addresses?: string[]; scripts?: string[] } | undefined;
  error: Error | undefined;
  loading: boolean;
  isStale: boolean;
  reread: () => void;
  fetchMore: (options: { variables: Record<string, unknown> }) => Promise<unknown>;
};

function Body({ kind, text, ledger: last, cursor, watch, chart, error, loading, isStale, reread, fetchMore }: BodyProps) {
  const { text: atText, at, fault } = useAt();
  // figures of another moment stand under no title of this one
  const shownAt = useRef(atText);
  if (!isStale) shownAt.current = atText;
  const ledger = shownAt.current === atText ? last : undefined;
  const [events, setEvents] = useState<readonly Event[]>([]);
  const start = useRef<string>(undefined);
  start.current ??= cursor;
  const isLive = start.current !== undefined && ledger != null && at === undefined;
  useLive(
    LedgerChangesDocument,
    isLive && watch ? { watch, after: start.current } : undefined,
    ({ ledgerEvents: event }) => {
      setEvents((before) => [event, ...before].slice(0, NOTED));
      reread();
    },
    reread,
  );
  // whatever a block brings: confirmations of all rows, coins that mature, and for a wallet everything
  useLive(WalletChangesDocument, isLive ? { after: start.current } : undefined, reread, reread);
  const stats = ledger?.stats;
  useEffect(() => chart.look(ledger));
  return (
    <>
      <Head
        kind={TITLES[kind]!}
        badges={ledger && (
          <>
            <Badge>{words(typeOf(ledger))}</Badge>
            {stats && !stats.used && <Badge>never used</Badge>}
            {at && <Badge tone="warn">as it was {momentOf(at, atText)}</Badge>}
          </>
        )}
      >
        <Hash text={text} what={kind === 'wallet' ? 'descriptor' : kind} copy tail={12} />
      </Head>
      {(last || atText) && <AsOf key={atText} text={atText} fault={fault} />}
      {error && <Failure error={error} />}
      {ledger ? (
        <div className={`page-body${isStale ? ' stale' : ''}`} aria-busy={isStale}>
          <Figures ledger={ledger} past={at && momentOf(at, atText)} />
          <History points={ledger.balanceHistory} span={chart.span} choose={chart.choose} end={at && 'time' in at ? Date.parse(at.time) / 1_000 : undefined} isPast={at !== undefined} />
          {events.length > 0 && !at && <Activity events={events} />}
          <div className="grid ledger">
            <Transactions ledger={ledger} more={(moreEntries) => fetchMore({ variables: { moreEntries } })} />
            <div className="stack">
              <Coins ledger={ledger} isPast={at !== undefined} more={(moreUtxos) => fetchMore({ variables: { moreUtxos } })} />
              {'branches' in ledger ? <Branches wallet={ledger} /> : <ScriptFacts ledger={ledger} />}
            </div>
          </div>
        </div>
      ) : loading ? <Loading lines={14} /> : !error && <Empty>This server knows nothing at this path.</Empty>}
    </>
  );
}

const typeOf = (ledger: Ledger) => ('type' in ledger ? ledger.type : ledger.scriptType) ?? 'unknown';

/** Days ago that a button offers. */
const PAST: [number, string][] = [[1, 'Yesterday'], [7, 'A week ago'], [365, 'A year ago']];

/** A day in UTC. */
const daysAgo = (days: number) => iso(Date.now() - days * DAY * 1_000).slice(0, 10);

/** Chooses the block after which the page is shown. */
function AsOf({ text, fault }: { text: string; fault: string | undefined }) {
  const [input, setInput] = useState(text);
  const apply = (value: string) => {
    const url = new URL(location.href);
    if (value) url.searchParams.set('at', value);
    else url.searchParams.delete('at');
    go(url.pathname + url.search + url.hash);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    apply(input.trim());
  };
  return (
    <form className="as-of" onSubmit={submit}>
      <label htmlFor="as-of">At a past day or block</label>
      <input id="as-of" type="text" value={input} onChange={(event) => setInput(event.target.value)} placeholder={`${daysAgo(1)}, or a height`} autoComplete="off" aria-invalid={fault !== undefined} aria-describedby="as-of-help" />
      <button type="submit">Show</button>
      {text ? <button type="button" onClick={() => { setInput(''); apply(''); }}>Now</button> : PAST.map(([days, name]) => <button key={days} type="button" className="shortcut" onClick={() => apply(daysAgo(days))}>{name}</button>)}
      <span id="as-of-help" className="quiet" role={fault && 'alert'}>
        {fault ?? (text ? 'Every figure is of that moment, without the mempool.' : 'Shows every figure as it was; days end at midnight UTC.')}
      </span>
    </form>
  );
}

function Figures({ ledger, past }: { ledger: Ledger; past: string | undefined }) {
  const { balance, stats } = ledger;
  if (!balance || !stats) return null;
  return (
    <Panel title={past ? `Balance ${past}` : 'Balance now'}>
      <p className="balance"><Amount sats={past ? balance.confirmed : balance.total} /></p>
      <div className="figures">
        <Figure name="confirmed"><Amount sats={balance.confirmed} unit={false} /></Figure>
        <Figure name={past ? 'spendable then' : 'spendable now'}><Amount sats={balance.spendable} unit={false} /></Figure>
        {balance.unconfirmedDelta !== 0 && <Figure name="unconfirmed"><Amount sats={balance.unconfirmedDelta} signed unit={false} /></Figure>}
        {balance.immature !== 0 && <Figure name="immature"><Amount sats={balance.immature} unit={false} /></Figure>}
        <Figure name={`received in ${things(stats.receivedCount, 'output')}`}><Amount sats={stats.received} unit={false} /></Figure>
        <Figure name={`spent in ${things(stats.spentCount, 'output')}`}><Amount sats={stats.spent} unit={false} /></Figure>
        <Figure name={stats.mempoolTxCount > 0 ? `transactions, and ${count(stats.mempoolTxCount)} unconfirmed` : 'transactions'}>{stats.txCount === null ? '–' : count(stats.txCount)}</Figure>
        {stats.firstSeenBlock && <Figure name="first block"><Link href={paths.block(stats.firstSeenBlock.hash)}>{count(stats.firstSeenBlock.height)}</Link></Figure>}
        {stats.lastSeenBlock && <Figure name="last block"><Link href={paths.block(stats.lastSeenBlock.hash)}>{count(stats.lastSeenBlock.height)}</Link></Figure>}
      </div>
    </Panel>
  );
}

/** The balance over time: each point is the balance from its block on, or at the end of its day or week. */
function History({ points, span, choose, end, isPast }: { points: Ledger['balanceHistory']; span: Span; choose: (span: Span) => void; end: number | undefined; isPast: boolean }) {
  const [first] = points ?? [];
  const times = points?.map(({ startAt }) => Date.parse(startAt) / 1_000) ?? [];
  const values = points?.map(({ balanceAfter }) => balanceAfter) ?? [];
  if (first && times[0] !== undefined) {
    times.unshift(times[0] - 1);
    values.unshift(first.balanceAfter - first.net);
    const now = end ?? Date.now() / 1_000;
    const last = times.at(-1)!;
    if (!isPast || end !== undefined) {
      times.push(Math.max(last + 1, Math.floor(now)));
      values.push(values.at(-1)!);
    }
  }
  return (
    <Panel title="Balance over time" aside={<Choices name="Span of the chart" options={Object.entries(SPANS).map(([key, { name }]) => [key, name])} value={span} choose={(key) => choose(key as Span)} />}>
      {points && points.length > 0 ? (
        <Suspense fallback={<div className="chart" />}>
          <Chart label="Balance over time" times={times} series={[{ label: 'Balance', colour: '--accent', isFilled: true, isStepped: true, values }]} format={short} height={200} />
        </Suspense>
      ) : <Empty>No change of the balance in this time.</Empty>}
    </Panel>
  );
}

/** An amount in BTC without zeros at its end. */
const short = (sats: number) => `${btcText(Math.round(sats)).replace(/\.?0+$/, '')} BTC`;

const EVENTS: Record<string, string> = {
  SEEN: 'entered the mempool',
  REPLACED: 'was replaced',
  CONFLICTED: 'lost its coins to another transaction',
  EVICTED: 'left the mempool',
  REORGED_OUT: 'left the chain in a reorg',
  CONFIRMED: 'was confirmed',
  DEPTH_REACHED: 'was confirmed more deeply',
  UNCONFIRMED_BY_REORG: 'is unconfirmed again after a reorg',
  MATURED: 'matured',
  GAP: 'The events from here on may repeat.',
  GAP_END: 'The events are complete again.',
};

function Activity({ events }: { events: readonly Event[] }) {
  return (
    <Panel title="While this page is open" aside={<span className="quiet">{things(events.length, 'event')}</span>}>
      <div className="activity" role="log" aria-label="Events" tabIndex={0}>
        <ol>
        {events.map((event) => (
          <li key={event.seq}>
            {event.entry ? (
              <>
                <Hash text={event.entry.transaction.txid} href={paths.transaction(event.entry.transaction.txid)} what="txid" />
                <span>{EVENTS[event.kind]}</span>
                <Amount sats={event.entry.net} signed />
              </>
            ) : <span>{EVENTS[event.kind]}</span>}
          </li>
        ))}
        </ol>
      </div>
    </Panel>
  );
}

function Transactions({ ledger, more }: { ledger: Ledger; more: (after: string | null) => Promise<unknown> }) {
  const list = ledger.transactions;
  return (
    <Panel title="History" aside={list?.totalCount != null && <span className="quiet">{things(list.totalCount, 'transaction')}</span>}>
      {list && list.edges.length > 0 ? (
        <>
          <div className="table-box">
            <table className="rows stacked">
              <thead>
                <tr>
                  <th scope="col">Transaction</th>
                  <th scope="col">When</th>
                  <th scope="col" className="right">Change, BTC</th>
                  <th scope="col" className="right">Balance after, BTC</th>
                </tr>
              </thead>
              <tbody>
                {list.edges.map(({ cursor, node: entry }) => (
                  <tr key={cursor}>
                    <td><Hash text={entry.transaction.txid} href={paths.transaction(entry.transaction.txid)} what="txid" /></td>
                    <td data-label="When">
                      {entry.transaction.block ? <Age time={entry.transaction.block.time} /> : <Badge tone="warn">unconfirmed</Badge>}
                    </td>
                    <td className="right" data-label="Change"><Amount sats={entry.net} signed unit={false} /></td>
                    <td className="right" data-label="Balance">{entry.balanceAfter === null ? '' : <Amount sats={entry.balanceAfter} unit={false} />}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <More has={list.pageInfo.hasNextPage} load={() => more(list.pageInfo.endCursor)} what="transactions" shown={list.edges.length} total={list.totalCount} />
        </>
      ) : <Empty>No transaction yet.</Empty>}
    </Panel>
  );
}

function Coins({ ledger, isPast, more }: { ledger: Ledger; isPast: boolean; more: (after: string | null) => Promise<unknown> }) {
  const list = ledger.utxos;
  return (
    <Panel title="Unspent outputs" aside={list?.totalCount != null && <span className="quiet">{count(list.totalCount)}</span>}>
      {list && list.edges.length > 0 ? (
        <>
          <ol className="coins">
            {list.edges.map(({ node: utxo }) => (
              <li key={`${utxo.outpoint.txid}:${utxo.outpoint.vout}`}>
                <div className="coin">
                  <Hash text={`${utxo.outpoint.txid}:${utxo.outpoint.vout}`} href={paths.output(utxo.outpoint.txid, utxo.outpoint.vout)} what="outpoint" tail={10} />
                  <Amount sats={utxo.value} unit={false} />
                </div>
                <div className="coin-state quiet small">
                  {utxo.height === null ? 'unconfirmed' : things(utxo.confirmations, 'confirmation')}
                  {utxo.isCoinbase && ', coinbase'}
                  {!utxo.spendability.isSpendable && !isPast && utxo.spendability.reasons.map((reason) => <Badge key={reason} tone="warn">{words(reason)}{reason === 'IMMATURE' && utxo.spendability.notBeforeHeight !== null && ` until ${count(utxo.spendability.notBeforeHeight)}`}</Badge>)}
                </div>
              </li>
            ))}
          </ol>
          <More has={list.pageInfo.hasNextPage} load={() => more(list.pageInfo.endCursor)} what="outputs" shown={list.edges.length} total={list.totalCount} />
        </>
      ) : <Empty>Nothing is unspent.</Empty>}
    </Panel>
  );
}

function ScriptFacts({ ledger }: { ledger: Address | Script }) {
  const script = 'script' in ledger ? ledger.script : ledger;
  return (
    <Panel title="Script">
      <Facts
        facts={[
          ['Address', 'hex' in ledger && ledger.address ? <Hash text={ledger.address} href={paths.address(ledger.address)} what="address" /> : null],
          ['Public key', 'publicKey' in ledger && ledger.publicKey ? <Hash text={ledger.publicKey} what="public key" copy /> : null],
          ['Script hash', <Hash text={script.scriptHash} href={'script' in ledger ? paths.script(script.scriptHash) : undefined} what="script hash" copy />],
          ['Electrum script hash', <Hash text={script.electrumScriptHash} what="Electrum script hash" copy />],
        ]}
      />
      {script.asm && <pre className="code" tabIndex={0}>{script.asm}</pre>}
      {'p2pkScripts' in ledger && ledger.p2pkScripts.map(({ id, scriptHash }) => (
        <p key={id} className="quiet">
          The bare key of this address has a ledger of its own: <Link href={paths.script(scriptHash)}>P2PK</Link>
        </p>
      ))}
    </Panel>
  );
}

function Branches({ wallet }: { wallet: Wallet }) {
  return (
    <Panel title="Addresses" aside={<span className="quiet">{count(wallet.usedCount)} used, gap {wallet.gapLimit}</span>}>
      <Facts
        facts={wallet.branches.map((branch) => [
          branch.isChange ? 'Next for change' : 'Next to receive',
          branch.nextUnused?.address ? <Hash text={branch.nextUnused.address} href={paths.address(branch.nextUnused.address)} what="address" copy /> : 'none',
        ])}
      />
      <ol className="plain-list">
        {wallet.addresses?.nodes.map((derived) => (
          <li key={`${derived.branch}/${derived.index}`}>
            <span className="quiet mono">{derived.path ?? `${derived.branch}/${derived.index}`}</span>
            {derived.address && <Hash text={derived.address} href={paths.address(derived.address)} what="address" />}
          </li>
        ))}
      </ol>
    </Panel>
  );
}

/** Asks for a descriptor, which stays in this browser and in queries to this server. */
function Ask() {
  const [text, setText] = useState('');
  return (
    <>
      <Head kind="Wallet" />
      <form className="page-body" onSubmit={(event) => { event.preventDefault(); if (text.trim()) go(paths.wallet(text.trim())); }}>
        <label htmlFor="descriptor">Output descriptor or extended public key</label>
        <textarea id="descriptor" rows={4} value={text} onChange={(event) => setText(event.target.value)} spellCheck={false} placeholder="wpkh([d34db33f/84h/0h/0h]xpub…/<0;1>/*)" />
        <div><button type="submit" className="primary">Show the wallet</button></div>
      </form>
    </>
  );
}
