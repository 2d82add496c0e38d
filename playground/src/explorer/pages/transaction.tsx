// A transaction: where its coins come from and go, whether it is confirmed, and why not yet.

import { useEffect, useRef, useState } from 'react';
import { btcText, count, scaled, span, things, words } from '../format';
import { Flow } from '../flow';
import { Age, Amount, Badge, Empty, Facts, Failure, FeeRate, Hash, Head, Loading, More, Panel, When } from '../parts';
import { useLive, usePage } from '../page';
import { Link, paths, usePlace, useTitle } from '../router';
import {
  type ReplacementFragment,
  TransactionBlocksDocument,
  TransactionPageDocument,
  type TransactionPageQuery,
  type TransactionStateSubscription,
  TransactionStateDocument,
} from './transaction.generated';
import { type Market, Waiting } from './waiting';

type Shown = NonNullable<TransactionPageQuery['transaction']>;
type Input = NonNullable<Shown['inputs']>['nodes'][number];
type Output = NonNullable<Shown['outputs']>['nodes'][number];
type State = TransactionStateSubscription['transactionStatus'];

/** After so many confirmations the subscription to the state ends. */
const UNTIL = 6;

/** The interval that the difficulty aims at. */
const SECONDS_PER_BLOCK = 600;

const HASH = /^[0-9a-f]{64}$/;

export default function TransactionPage({ txid: subject }: { txid: string }) {
  const txid = subject.toLowerCase();
  const [target, setTarget] = useState(1);
  const { data, error, loading, reread, fetchMore } = usePage(TransactionPageDocument, { txid, feeRate: target }, { skip: !HASH.test(txid) });
  const [state, setState] = useState<State>();
  const transaction = data?.transaction;
  const start = useRef<string>(undefined);
  start.current ??= data?.snapshot?.cursor;
  const [next, afterNext] = data?.mempool?.projectedBlocks ?? [];
  const lowest = next && afterNext ? next.feeRatePercentiles[0] : undefined;
  const market = { lowest, target, interval: data?.chain?.recent?.averageInterval ?? SECONDS_PER_BLOCK };
  // the fee of a replacement depends on the feerate of the next block: it is read again for that, in whole sat/vB
  const recommended = Math.max(1, Math.ceil(data?.recommendedFees?.within1Block ?? 1));
  const isWaiting = transaction?.state === 'MEMPOOL';
  useEffect(() => {
    if (isWaiting) setTarget(recommended);
  }, [isWaiting, recommended]);
  const isDeep = Math.max(state?.confirmations ?? 0, transaction?.confirmations ?? 0) >= UNTIL;
  useLive(
    TransactionStateDocument,
    data && !isDeep ? { txids: [txid] } : undefined,
    ({ transactionStatus: next }) => {
      setState(next);
      reread();
    },
    reread,
  );
  useLive(TransactionBlocksDocument, start.current === undefined ? undefined : { after: start.current }, reread, reread);
  useTitle('Transaction');
  return (
    <>
      <Head kind="Transaction" badges={transaction && <StateBadge transaction={transaction} />}>
        <Hash text={txid} what="txid" copy tail={12} />
      </Head>
      {error && <Failure error={error} />}
      {!HASH.test(txid) ? <Empty>A txid has 64 hexadecimal digits.</Empty>
        : transaction ? <Shown transaction={transaction} market={market} more={(variables) => fetchMore({ variables })} />
        : loading ? <Loading lines={14} />
        : !error && <Empty>This server knows no such transaction: neither the chain nor the mempool has it. The page shows it as soon as it arrives.</Empty>}
    </>
  );
}

function StateBadge({ transaction }: { transaction: Shown }) {
  const { state, confirmations } = transaction;
  if (state === 'CONFIRMED') return <Badge tone="good">{things(confirmations, 'confirmation')}</Badge>;
  if (state === 'MEMPOOL') return <Badge tone="warn">unconfirmed</Badge>;
  return <Badge tone="bad">{words(state)}</Badge>;
}

function Shown({ transaction, market, more }: { transaction: Shown; market: Market; more: (variables: { moreInputs?: string | null; moreOutputs?: string | null }) => Promise<unknown> }) {
  const inputs = transaction.inputs?.nodes ?? [];
  const outputs = transaction.outputs?.nodes ?? [];
  const { fragment } = usePlace();
  useEffect(() => {
    if (fragment) document.getElementById(fragment)?.scrollIntoView({ block: 'center' });
  }, [fragment]);
  const fee = transaction.fee !== null && !transaction.isCoinbase ? [{ value: transaction.fee, label: `Fee: ${btcText(transaction.fee)} BTC`, className: 'flow-fee' }] : [];
  return (
    <div className="page-body">
      <Standing transaction={transaction} market={market} />
      <Panel title="Flow" aside={<span className="quiet">{things(transaction.inputCount, 'input')}, {things(transaction.outputCount, 'output')}</span>}>
        <Flow
          label={`${things(transaction.inputCount, 'input')} to ${things(transaction.outputCount, 'output')}, ${btcText(transaction.totalOutputValue)} BTC`}
          inputs={inputs.map((input) => ({ value: input.prevout?.value ?? (input.isCoinbase ? transaction.totalOutputValue : 0), label: input.isCoinbase ? 'Newly mined coins and fees' : `${input.prevout?.address ?? 'Input'}: ${input.prevout ? btcText(input.prevout.value) : 'unknown'} BTC`, className: 'flow-in' }))}
          outputs={[...outputs.map((output) => ({ value: output.value, label: `${output.address ?? words(output.scriptType)}: ${btcText(output.value)} BTC`, className: 'flow-out' })), ...fee]}
        />
        <div className="grid two sides">
          <div>
            <h3>Inputs {transaction.totalInputValue !== null && <Amount sats={transaction.totalInputValue} />}</h3>
            <ol className="coins">{inputs.map((input) => <Spent key={input.index} input={input} />)}</ol>
            <More has={transaction.inputs?.pageInfo.hasNextPage ?? false} load={() => more({ moreInputs: transaction.inputs?.pageInfo.endCursor })} what="inputs" shown={inputs.length} total={transaction.inputCount} />
          </div>
          <div>
            <h3>Outputs <Amount sats={transaction.totalOutputValue} /></h3>
            <ol className="coins">{outputs.map((output) => <Created key={output.id} output={output} isTarget={fragment === `output-${output.vout}`} />)}</ol>
            <More has={transaction.outputs?.pageInfo.hasNextPage ?? false} load={() => more({ moreOutputs: transaction.outputs?.pageInfo.endCursor })} what="outputs" shown={outputs.length} total={transaction.outputCount} />
          </div>
        </div>
      </Panel>
      <div className="grid two">
        <Panel title="Details">
          <Facts
            facts={[
              ['Fee', transaction.isCoinbase || transaction.fee === null ? null : <Amount sats={transaction.fee} />],
              ['Feerate', transaction.isCoinbase || transaction.feeRate === null ? null : <FeeRate value={transaction.feeRate} />],
              ['Size', <>{scaled(transaction.size, 'B')}, {scaled(transaction.vsize, 'vB')}, {scaled(transaction.weight, 'WU')}</>],
              ['First seen', transaction.firstSeenAt && <When time={transaction.firstSeenAt} />],
              ['Waited', transaction.confirmedAfterSeconds !== null && (transaction.confirmedAfterSeconds > 0 ? span(transaction.confirmedAfterSeconds) : 'not at all')],
              ['Version', transaction.version],
              ['Lock time', <LockTime lockTime={transaction.lockTime} />],
              ['Signals replacement', transaction.isSignalingRbf ? 'yes (BIP125)' : 'no'],
              ['Wtxid', <Hash text={transaction.wtxid} what="wtxid" copy />],
            ]}
          />
        </Panel>
        <div className="stack">
          {transaction.rbfTree && (
            <Panel title="Replacements">
              <ul className="tree"><Replacements node={transaction.rbfTree} current={transaction.txid} /></ul>
            </Panel>
          )}
          {transaction.merkleProof && (
            <Panel title="Proof of its block">
              <Facts
                facts={[
                  ['Block', <Hash text={transaction.merkleProof.blockHash} href={paths.block(transaction.merkleProof.blockHash)} what="block hash" />],
                  ['Position', count(transaction.merkleProof.position)],
                  ['Merkle root', <Hash text={transaction.merkleProof.root} what="merkle root" copy />],
                ]}
              />
              <details>
                <summary>{things(transaction.merkleProof.merkleBranch.length, 'hash', 'hashes')} from the txid to the root</summary>
                <ol className="merkleBranch">{transaction.merkleProof.merkleBranch.map((hash, index) => <li key={index}><Hash text={hash} what="hash" /></li>)}</ol>
              </details>
            </Panel>
          )}
        </div>
      </div>
    </div>
  );
}

/** Where the transaction stands, in a sentence, and the figures that explain it. */
function Standing({ transaction, market }: { transaction: Shown; market: Market }) {
  const { state, block, mempoolEntry: entry } = transaction;
  if (state === 'CONFIRMED' && block) {
    return (
      <Panel title="In the chain">
        <p className="lead">
          Block <Link href={paths.block(block.hash)}>{count(block.height)}</Link> confirmed it at index {count(transaction.indexInBlock ?? 0)}, <Age time={block.time} />
          {transaction.confirmations >= UNTIL ? '.' : `; ${things(UNTIL - transaction.confirmations, 'block')} more until ${UNTIL} confirmations.`}
        </p>
        <Steps done={transaction.confirmations} />
        {transaction.occurrences.filter(({ isOnMainChain }) => !isOnMainChain).map((occurrence) => (
          <p key={occurrence.block.hash} className="quiet">
            It was also in the stale block <Link href={paths.block(occurrence.block.hash)}>{count(occurrence.block.height)}</Link>.
          </p>
        ))}
      </Panel>
    );
  }
  if (state === 'MEMPOOL' && entry) return <Waiting transaction={transaction} entry={entry} market={market} />;
  return (
    <div className="failure" role="status">
      <strong>{GONE[state] ?? 'It is neither in the chain nor in the mempool.'}</strong>
      {transaction.replacedBy && (
        <div>Replaced by <Hash text={transaction.replacedBy.txid} href={paths.transaction(transaction.replacedBy.txid)} what="txid" /></div>
      )}
      {!transaction.replacedBy && transaction.conflicts.map((txid) => (
        <div key={txid}>In conflict with <Hash text={txid} href={paths.transaction(txid)} what="txid" /></div>
      ))}
    </div>
  );
}

const GONE: Record<string, string> = {
  REPLACED: 'Another transaction replaced it in the mempool.',
  EVICTED: 'It left the mempool: the mempool was full, or it waited too long. It can be sent again.',
  CONFLICTED: 'The chain has a transaction that spends the same coins: this one can not be confirmed any more.',
  REORGED_OUT: 'A reorg disconnected its block, and it did not return to the mempool.',
};

function Steps({ done }: { done: number }) {
  return (
    <div className="steps" role="img" aria-label={`${Math.min(done, UNTIL)} of ${UNTIL} confirmations`}>
      {Array.from({ length: UNTIL }, (_, step) => <span key={step} className={step < done ? 'done' : ''} />)}
    </div>
  );
}

function LockTime({ lockTime }: { lockTime: Shown['lockTime'] }) {
  if (lockTime.raw === 0) return <>none</>;
  const until = lockTime.height !== null ? <>block {count(lockTime.height)}</> : lockTime.time ? <When time={lockTime.time} /> : count(lockTime.raw);
  return <>{until}{!lockTime.isFinalAtNextBlock && <> <Badge tone="warn">not final yet</Badge></>}</>;
}

/** An address or the type of a script, with a link to its ledger. */
function Owner({ address, type, scriptHash }: { address: string | null; type: string; scriptHash: string | undefined }) {
  if (address) return <Hash text={address} href={paths.address(address)} what="address" />;
  if (scriptHash) return <Link href={paths.script(scriptHash)}>{words(type)}</Link>;
  return <>{words(type)}</>;
}

function Spent({ input }: { input: Input }) {
  if (input.isCoinbase) {
    return (
      <li>
        <div className="coin"><span>Newly mined coins and fees</span></div>
        <details><summary>coinbase</summary><pre className="code" tabIndex={0}>{input.scriptSigHex}</pre></details>
      </li>
    );
  }
  return (
    <li>
      <div className="coin">
        {input.prevout ? <Owner address={input.prevout.address} type={input.prevout.scriptType} scriptHash={input.prevout.script.scriptHash} /> : <span className="quiet">unknown coin</span>}
        {input.prevout && <Amount sats={input.prevout.value} unit={false} />}
      </div>
      <details>
        <summary>
          {input.prevout && words(input.prevout.scriptType)}
          {input.witness.length > 0 && `, ${things(input.witness.length, 'witness item')}`}
        </summary>
        {input.outpoint && <p className="pair"><span className="quiet">Output {input.outpoint.vout} of</span> <Hash text={input.outpoint.txid} href={paths.output(input.outpoint.txid, input.outpoint.vout)} what="txid" /></p>}
        <p className="pair"><span className="quiet">Sequence</span> <span className="mono">0x{input.sequence.toString(16).padStart(8, '0')}</span></p>
        {input.scriptSigHex && <><p className="quiet">scriptSig</p><pre className="code" tabIndex={0}>{input.scriptSigHex}</pre></>}
        {input.witness.map((item, index) => <pre key={index} className="code" tabIndex={0}>{item || '(empty)'}</pre>)}
      </details>
    </li>
  );
}

function Created({ output, isTarget }: { output: Output; isTarget: boolean }) {
  const [spender] = output.spentBy ? [output.spentBy] : output.spentInMempoolBy;
  return (
    <li id={`output-${output.vout}`} className={isTarget ? 'target' : ''}>
      <div className="coin">
        <Owner address={output.address} type={output.scriptType} scriptHash={output.unspendableReason ? undefined : output.script.scriptHash} />
        <Amount sats={output.value} unit={false} />
      </div>
      <div className="coin-state">
        <span className="quiet">{output.vout}</span>
        {output.spendStatus === 'UNSPENT' && <Badge tone="good">unspent</Badge>}
        {output.spendStatus === 'UNSPENDABLE' && <Badge>unspendable</Badge>}
        {output.spendStatus === 'SPENT' && <Badge>spent{output.spentHeight !== null && ` at ${count(output.spentHeight)}`}</Badge>}
        {output.spendStatus === 'SPENT_IN_MEMPOOL' && <Badge tone="warn">being spent</Badge>}
        {!output.isMature && output.matureAtHeight !== null && <Badge tone="warn">mature at {count(output.matureAtHeight)}</Badge>}
        {spender && <Hash text={spender.transaction.txid} href={paths.transaction(spender.transaction.txid)} what="spending txid" />}
      </div>
      {output.opReturn?.utf8 && <p className="text-data">{output.opReturn.utf8}</p>}
      <details>
        <summary>{words(output.scriptType)}</summary>
        <pre className="code" tabIndex={0}>{output.asm || '(empty)'}</pre>
        <pre className="code" tabIndex={0}>{output.scriptPubKey || '(empty)'}</pre>
      </details>
    </li>
  );
}

type Tree = ReplacementFragment & { replacedNodes?: readonly Tree[] };

function Replacements({ node, current }: { node: Tree; current: string }) {
  return (
    <li>
      <div className="coin">
        {node.txid === current ? <span className="hash-line"><Badge>this one</Badge></span> : <Hash text={node.txid} href={paths.transaction(node.txid)} what="txid" />}
        <span className="numeric">
          {node.fee !== null && node.vsize ? <FeeRate value={node.fee / node.vsize} /> : <span className="quiet">fee unknown</span>}
          {node.isMined && <> <Badge tone="good">mined</Badge></>}
          {node.isFullRbf && <> <Badge>full RBF</Badge></>}
        </span>
      </div>
      {node.seenAt && <div className="quiet small"><Age time={node.seenAt} /></div>}
      {node.replacedNodes && node.replacedNodes.length > 0 && (
        <ul>{node.replacedNodes.map((replaced) => <Replacements key={replaced.txid} node={replaced} current={current} />)}</ul>
      )}
    </li>
  );
}
