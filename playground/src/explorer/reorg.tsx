// A reorg in sentences: which blocks took the place of which, and what became of the transactions of those that left.

import { count, things } from './format';
import { Age, Hash } from './parts';
import { Link, paths } from './router';

type List<Item> = { totalCount: number | null; nodes: readonly Item[] } | null;
type ReorgBlock = { hash: string; height: number };

export type ReorgEffects = {
  observedAt: string;
  depth: number;
  isComplete: boolean;
  disconnected: List<ReorgBlock>;
  connected: List<ReorgBlock>;
  returnedToMempool: List<string>;
  conflicted: List<{ txid: string }>;
};

/** Txids of a list that are in sight before it is opened. */
const SHOWN = 3;

export function Reorg({ reorg }: { reorg: ReorgEffects }) {
  const { observedAt, depth, isComplete, disconnected, connected, returnedToMempool, conflicted } = reorg;
  const returned = returnedToMempool?.totalCount ?? 0;
  const lost = conflicted?.totalCount ?? 0;
  return (
    <div className="reorg">
      <p className="quiet small"><Age time={observedAt} />, {things(depth, 'block')} deep</p>
      <dl>
        <div><dt>Left the chain</dt><dd><Blocks list={disconnected} beyond="below" /></dd></div>
        <div><dt>Replaced by</dt><dd>{connected && connected.nodes.length > 0 ? <Blocks list={connected} beyond="above" /> : <span className="quiet">no block yet</span>}</dd></div>
        <div>
          <dt>Unconfirmed again</dt>
          <dd>
            {returned > 0 ? things(returned, 'transaction') : 'no transaction'}
            {returnedToMempool && <Txids txids={returnedToMempool.nodes} total={returned} />}
          </dd>
        </div>
        <div>
          <dt>Invalid now</dt>
          <dd>
            {lost > 0 ? <>{things(lost, 'transaction')}, whose coins others spend</> : 'no transaction'}
            {conflicted && <Txids txids={conflicted.nodes.map(({ txid }) => txid)} total={lost} />}
          </dd>
        </div>
      </dl>
      {!isComplete && <p className="quiet small">What became of their transactions is not known in full yet.</p>}
    </div>
  );
}

/** The first blocks of a branch in the order of events: those that left from the highest down, those that joined from the lowest up. */
function Blocks({ list, beyond }: { list: List<ReorgBlock>; beyond: string }) {
  if (!list) return null;
  const { nodes } = list;
  const further = (list.totalCount ?? 0) - nodes.length;
  return (
    <>
      {nodes.map(({ hash, height }) => (
        <div key={hash}><Link href={paths.block(hash)} title={hash}>{count(height)} <span className="mono">…{hash.slice(-8)}</span></Link></div>
      ))}
      {further > 0 && <div className="quiet">and {count(further)} {beyond}</div>}
    </>
  );
}

/** The first txids of a list, and those of its first page when it is opened. */
function Txids({ txids, total }: { txids: readonly string[]; total: number }) {
  const link = (txid: string) => <li key={txid}><Hash text={txid} href={paths.transaction(txid)} what="txid" /></li>;
  const beyond = total - txids.length;
  return (
    <>
      <ul>{txids.slice(0, SHOWN).map(link)}</ul>
      {txids.length > SHOWN && (
        <details>
          <summary>{things(total - SHOWN, 'other')}</summary>
          <ul>{txids.slice(SHOWN).map(link)}</ul>
          {beyond > 0 && <p className="quiet">and {count(beyond)} more</p>}
        </details>
      )}
    </>
  );
}
