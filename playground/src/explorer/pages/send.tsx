// What a serialised transaction says, whether the node would take it; and sending it.

import { useApolloClient } from '@apollo/client/react';
import { type FormEvent, useEffect, useState } from 'react';
import { count, scaled, things, words } from '../format';
import { Amount, Badge, Empty, Facts, Failure, FeeRate, Hash, Head, Loading, Panel } from '../parts';
import { isUnreachable, shown, usePage } from '../page';
import { Link, paths, useTitle } from '../router';
import { textOf } from '../document';
import {
  BroadcastDocument,
  type BroadcastMutation,
  DecodeDocument,
  DecodePsbtDocument,
  type DecodePsbtQuery,
  type DecodeQuery,
  DecodeScriptDocument,
  type DecodeScriptQuery,
  SendPageDocument,
} from './send.generated';

/** What a text is, and the query that was answered. `hex` is the transaction in it that can be sent. */
type Answer = {
  transaction?: DecodeQuery;
  psbt?: NonNullable<DecodePsbtQuery['decodePsbt']>;
  script?: NonNullable<DecodeScriptQuery['decodeScript']>;
  error?: unknown;
  hex?: string;
  query: { query: string; variables: unknown };
};

/** A PSBT in base64 or in hexadecimal digits begins with its magic bytes (BIP174). */
const isPsbt = (text: string) => /^(cHNidP|70736274ff)/i.test(text);

type Sent = { result?: BroadcastMutation['broadcastTransaction']; error?: unknown };

export default function SendPage() {
  useTitle('Send & decode');
  const client = useApolloClient();
  const { data: page } = usePage(SendPageDocument, {});
  const [text, setText] = useState('');
  const [answer, setAnswer] = useState<Answer>();
  const [sent, setSent] = useState<Sent>();
  const [isBusy, setBusy] = useState(false);
  const hex = text.replace(/\s/g, '');
  const isHex = hex.length > 0 && hex.length % 2 === 0 && /^[0-9a-f]+$/i.test(hex);
  const isReadable = isHex || isPsbt(hex);
  const canSend = page?.server.features.find(({ name }) => name === 'BROADCAST')?.enabled ?? false;
  const setting = page?.server.features.find(({ name }) => name === 'BROADCAST')?.setting;
  useEffect(() => {
    if (answer) shown.set(answer.query);
  }, [answer]);

  const decode = async (event: FormEvent) => {
    event.preventDefault();
    if (!isReadable || isBusy) return;
    setBusy(true);
    setSent(undefined);
    try {
      setAnswer(await read());
    } finally {
      setBusy(false);
    }
  };
  /** Reads the text as a PSBT if it begins like one, else as a transaction, and else as a script. */
  const read = async (): Promise<Answer> => {
    const options = { fetchPolicy: 'no-cache', errorPolicy: 'all' } as const;
    if (isPsbt(hex)) {
      const query = { query: textOf(DecodePsbtDocument), variables: { psbt: hex } };
      const { data, error } = await client.query({ query: DecodePsbtDocument, variables: { psbt: hex }, ...options });
      const psbt = data?.decodePsbt ?? undefined;
      return { psbt, error, hex: psbt?.finalTransaction?.hex, query };
    }
    const query = { query: textOf(DecodeDocument), variables: { hex, hexes: [hex] } };
    const { data, error } = await client.query({ query: DecodeDocument, variables: { hex, hexes: [hex] }, ...options });
    if (data?.decodeTransaction) return { transaction: data, error, hex, query };
    // begins with the version of a transaction, as no script in use does
    if (/^0[1-3]000000/.test(hex)) return { error, query };
    const script = await client.query({ query: DecodeScriptDocument, variables: { hex }, ...options });
    if (isUnreachable(error) || !script.data?.decodeScript) return { error, query };
    return { script: script.data.decodeScript, query: { query: textOf(DecodeScriptDocument), variables: { hex } } };
  };
  const send = async () => {
    if (!answer?.hex || isBusy) return;
    setBusy(true);
    try {
      const { data, error } = await client.mutate({ mutation: BroadcastDocument, variables: { hex: answer.hex }, errorPolicy: 'all' });
      setSent({ result: data?.broadcastTransaction, error });
    } catch (error) {
      setSent({ error });
    } finally {
      setBusy(false);
    }
  };

  return (
    <>
      <Head kind="Send & decode" />
      <div className="page-body">
        <form onSubmit={(event) => void decode(event)}>
          <label htmlFor="hex">Transaction or script in hexadecimal, or a PSBT</label>
          {/* what is sent is what was decoded, so that the text stays until there is an answer */}
          <textarea id="hex" rows={6} value={text} readOnly={isBusy} onChange={(event) => { setText(event.target.value); setAnswer(undefined); setSent(undefined); }} spellCheck={false} autoComplete="off" aria-invalid={text !== '' && !isReadable} aria-describedby="hex-help" />
          <p id="hex-help" className="quiet small">{text && !isReadable ? 'Neither hexadecimal, two digits a byte, nor a PSBT.' : isHex ? things(hex.length / 2, 'byte') : 'Decoding sends nothing to the network.'}</p>
          <div className="buttons">
            <button type="submit" className="primary" disabled={!isReadable || isBusy}>Decode and test</button>
            {answer?.hex && canSend && (
              <button type="button" onClick={() => void send()} disabled={isBusy}>Send to the network</button>
            )}
            {page && !canSend && <span className="quiet">Sending is switched off on this server ({setting}).</span>}
          </div>
        </form>
        {isBusy && !answer && <Loading lines={4} />}
        {sent && <SentPanel sent={sent} />}
        {answer?.error !== undefined && <Failure error={answer.error} />}
        {answer?.transaction && <Decoded data={answer.transaction} />}
        {answer?.psbt && <Psbt psbt={answer.psbt} />}
        {answer?.script && <Script info={answer.script} />}
      </div>
    </>
  );
}

const OUTCOMES: Record<string, string> = {
  ACCEPTED: 'The node accepted it and announces it to its peers.',
  ALREADY_IN_MEMPOOL: 'It is in the mempool already; the node announces it again.',
  ALREADY_CONFIRMED: 'It is confirmed already.',
  REJECTED: 'The node rejected it.',
  NODE_UNREACHABLE: 'The node does not answer: whether it took the transaction is not known.',
};

function SentPanel({ sent }: { sent: Sent }) {
  if (!sent.result) return <Failure error={sent.error} />;
  const { outcome, txid, reject, replaced } = sent.result;
  const isGood = outcome !== 'REJECTED' && outcome !== 'NODE_UNREACHABLE';
  return (
    <Panel title={<>Sent <Badge tone={isGood ? 'good' : 'bad'}>{words(outcome)}</Badge></>}>
      <p className="lead" role="status">{OUTCOMES[outcome]}</p>
      {txid && isGood && <p><Link href={paths.transaction(txid)}>Follow it</Link></p>}
      {reject && <Facts facts={[['Reason', words(reject.code)], ['The node says', reject.rejectReason], ['Details', reject.details], ['Fee needed', reject.requiredFee === null ? null : <Amount sats={reject.requiredFee} />]]} />}
      {replaced.length > 0 && <p className="quiet">It replaced {things(replaced.length, 'transaction')}.</p>}
    </Panel>
  );
}

function Decoded({ data }: { data: DecodeQuery }) {
  const decoded = data.decodeTransaction;
  const test = data.testTransactions?.[0];
  const transaction = decoded?.transaction;
  return (
    <>
      {transaction && decoded && (
        <>
          <div className="grid two">
            <Panel title={<>Would the node take it? {test && <Badge tone={test.allowed ? 'good' : 'bad'}>{test.allowed ? 'yes' : 'no'}</Badge>}</>}>
              {test ? (
                <Facts
                  facts={[
                    ['Fee', test.fee === null ? null : <Amount sats={test.fee} />],
                    ['Feerate', test.effectiveFeeRate === null ? null : <FeeRate value={test.effectiveFeeRate} />],
                    ['Reason', test.reject && words(test.reject.code)],
                    ['The node says', test.reject?.rejectReason],
                    ['Details', test.reject?.details],
                  ]}
                />
              ) : <Empty>The node did not say.</Empty>}
              {decoded.alreadyKnown && <p className="quiet">This server knows it already: <Link href={paths.transaction(transaction.txid)}>{words(decoded.alreadyKnown)}</Link></p>}
              {!decoded.isResolved && <p className="quiet">{things(decoded.missingInputs.length, 'coin')} that it spends {decoded.missingInputs.length === 1 ? 'is' : 'are'} unknown here, so its fee cannot be known.</p>}
            </Panel>
            <Panel title="Details">
              <Facts
                facts={[
                  ['Txid', <Hash text={transaction.txid} what="txid" copy />],
                  ['Wtxid', transaction.wtxid === transaction.txid ? null : <Hash text={transaction.wtxid} what="wtxid" copy />],
                  ['Size', <>{scaled(transaction.size, 'B')}, {scaled(transaction.vsize, 'vB')}</>],
                  ['Fee', transaction.fee === null ? null : <Amount sats={transaction.fee} />],
                  ['Version', transaction.version],
                  ['Lock time', transaction.lockTime.raw === 0 ? 'none' : count(transaction.lockTime.raw)],
                  ['Signals replacement', transaction.isSignalingRbf ? 'yes (BIP125)' : 'no'],
                ]}
              />
            </Panel>
          </div>
          <div className="grid two">
            <Panel title="Inputs" aside={transaction.totalInputValue !== null && <Amount sats={transaction.totalInputValue} />}>
              <ol className="coins">
                {transaction.inputs?.nodes.map((input) => (
                  <li key={input.index}>
                    <div className="coin">
                      {input.outpoint ? <Hash text={`${input.outpoint.txid}:${input.outpoint.vout}`} href={paths.output(input.outpoint.txid, input.outpoint.vout)} what="outpoint" tail={10} /> : <span>coinbase</span>}
                      {input.prevout ? <Amount sats={input.prevout.value} unit={false} /> : <span className="quiet">unknown</span>}
                    </div>
                  </li>
                ))}
              </ol>
            </Panel>
            <Panel title="Outputs" aside={<Amount sats={transaction.totalOutputValue} />}>
              <ol className="coins">
                {transaction.outputs?.nodes.map((output) => (
                  <li key={output.vout}>
                    <div className="coin">
                      {output.address ? <Hash text={output.address} href={paths.address(output.address)} what="address" /> : <span>{words(output.scriptType)}</span>}
                      <Amount sats={output.value} unit={false} />
                    </div>
                  </li>
                ))}
              </ol>
            </Panel>
          </div>
        </>
      )}
    </>
  );
}

/** What each role does next (BIP174). */
const ROLES: Record<string, string> = {
  UPDATER: 'Spent outputs, scripts or keys have to be added.',
  SIGNER: 'Signatures are missing.',
  FINALIZER: 'There are enough signatures; it has to be finalized.',
  EXTRACTOR: 'It is final and can be sent.',
};

function Psbt({ psbt }: { psbt: NonNullable<DecodePsbtQuery['decodePsbt']> }) {
  const transaction = psbt.unsignedTransaction;
  return (
    <>
      <Panel title={<>Partially signed transaction <Badge tone={psbt.isFinalized ? 'good' : 'warn'}>{words(psbt.nextRole)}</Badge></>}>
        <p className="lead" role="status">{ROLES[psbt.nextRole]}</p>
        <Facts
          facts={[
            ['Txid', <Hash text={transaction.txid} what="txid" copy />],
            ['Fee', psbt.fee === null ? 'not known' : <Amount sats={psbt.fee} />],
            ['Estimated size', psbt.estimatedVsize === null ? null : scaled(psbt.estimatedVsize, 'vB')],
            ['Estimated feerate', psbt.estimatedFeeRate === null ? null : <FeeRate value={psbt.estimatedFeeRate} />],
          ]}
        />
        <p className="quiet small">Signatures are not verified, and what the PSBT says of itself can be forged: a wallet checks it before it signs.</p>
      </Panel>
      <div className="grid two">
        <Panel title="Inputs" aside={<span className="quiet">{count(transaction.inputCount)}</span>}>
          <ol className="coins">
            {psbt.inputs?.nodes.map((input) => (
              <li key={input.index}>
                <div className="coin">
                  {input.script?.address ? <Hash text={input.script.address} href={paths.address(input.script.address)} what="address" /> : <Hash text={`${input.outpoint.txid}:${input.outpoint.vout}`} href={paths.output(input.outpoint.txid, input.outpoint.vout)} what="outpoint" tail={10} />}
                  {input.value === null ? <span className="quiet">unknown</span> : <Amount sats={input.value} unit={false} />}
                </div>
                <div className="coin-state quiet small">
                  {input.isFinalized ? <Badge tone="good">final</Badge> : <>{things(input.signatures.length, 'signature')}{input.requiredSignatureCount !== null && ` of ${input.requiredSignatureCount}`}</>}
                  {input.isUtxoConsistent === false && <Badge tone="bad">not what the chain says: do not sign</Badge>}
                </div>
              </li>
            ))}
          </ol>
        </Panel>
        <Panel title="Outputs" aside={<Amount sats={transaction.totalOutputValue} />}>
          <ol className="coins">
            {psbt.outputs?.nodes.map((output) => (
              <li key={output.index}>
                <div className="coin">
                  {output.script.address ? <Hash text={output.script.address} href={paths.address(output.script.address)} what="address" /> : <span>{output.script.scriptType && words(output.script.scriptType)}</span>}
                  <Amount sats={output.value} unit={false} />
                </div>
                {output.isChange && <div className="coin-state"><Badge>change, it says</Badge></div>}
              </li>
            ))}
          </ol>
        </Panel>
      </div>
    </>
  );
}

function Script({ info }: { info: NonNullable<DecodeScriptQuery['decodeScript']> }) {
  const { script } = info;
  const address = (text: string | null | undefined) => text && <Hash text={text} href={paths.address(text)} what="address" copy />;
  return (
    <Panel title={<>Script {script.scriptType && <Badge>{words(script.scriptType)}</Badge>}</>}>
      <Facts
        facts={[
          ['Address', address(script.address)],
          ['As P2SH', address(info.p2sh?.address)],
          ['As segwit', address(info.segwit?.address)],
          ['As segwit in P2SH', address(info.p2shSegwit?.address)],
          ['Signatures', info.requiredSignatureCount === null ? null : `${info.requiredSignatureCount} of ${info.publicKeys.length}`],
          ['Script hash', <Hash text={script.scriptHash} href={paths.script(script.scriptHash)} what="script hash" copy />],
        ]}
      />
      {script.asm && <pre className="code" tabIndex={0}>{script.asm}</pre>}
      {info.isUnspendable && <p className="quiet">No transaction can ever spend an output with this script.</p>}
    </Panel>
  );
}
