// What a text means when it is not one thing alone, and what can be searched.

import { Amount, Badge, Empty, Failure, Hash, Head, Loading, Panel } from '../parts';
import { count, words } from '../format';
import { usePage } from '../page';
import { Link, useTitle } from '../router';
import { pathOf, type Result } from '../search';
import { SearchDocument, type SearchQuery } from './search.generated';

const FORMS: [string, string][] = [
  ['a block', 'its height or its hash'],
  ['a transaction', 'its txid'],
  ['an output', 'txid:vout'],
  ['an address', 'of the network of this server, or a bitcoin: URI'],
  ['a script', 'in hexadecimal, or its SHA-256'],
  ['a wallet', 'an output descriptor, or an extended public key'],
  ['a mining pool', 'its name, or how it begins'],
];

/** Faults that only a text has which was meant as an address. */
const OF_ADDRESSES = new Set<string>(['MIXED_CASE', 'WRONG_CHECKSUM', 'INVALID_WITNESS_PROGRAM', 'PRIVATE_KEY', 'EXTENDED_KEY', 'WRONG_NETWORK']);

/** Why a text has no result. */
function reasonOf(text: string, fault: NonNullable<SearchQuery['validateAddress']>['error'] | undefined) {
  if (fault && OF_ADDRESSES.has(fault.code)) return fault.message;
  if (/^[0-9a-f]{64}:\d+$/i.test(text)) return 'No transaction that this server knows has this output.';
  if (/^[0-9a-f]{65,}$/i.test(text) || /^[0-9a-f]{40,63}$/i.test(text)) return `These are ${text.length} hexadecimal digits; a txid and the hash of a block have 64.`;
  return 'Nothing on this chain or in the mempool has this name.';
}

export default function SearchPage({ text }: { text: string }) {
  useTitle('Search');
  const { data, error, loading } = usePage(SearchDocument, { text }, { skip: !text });
  const results = data?.search?.nodes ?? [];
  return (
    <>
      <Head kind="Search">{text && <p className="mono searched">{text}</p>}</Head>
      {error && <Failure error={error} />}
      {loading && !data ? <Loading lines={3} /> : results.length > 0 ? (
        <Panel title="What it can mean">
          <ul className="plain-list">{results.map((result) => <li key={result.id}><Found result={result} /></li>)}</ul>
        </Panel>
      ) : (
        <>
          {text && !error && <Empty>{reasonOf(text, data?.validateAddress?.error)}</Empty>}
          <p>What can be searched:</p>
          <ul className="forms">
            {FORMS.map(([name, form]) => <li key={name}>{name} <span className="quiet">– {form}</span></li>)}
          </ul>
          <p><Link href="/">The newest blocks</Link></p>
        </>
      )}
    </>
  );
}

function Found({ result }: { result: Result }) {
  const href = pathOf(result);
  switch (result.__typename) {
    case 'Block': return <><Badge>block {count(result.height)}</Badge><Hash text={result.hash} href={href} what="block hash" /></>;
    case 'Transaction': return <><Badge>transaction</Badge><Hash text={result.txid} href={href} what="txid" /><span className="quiet">{words(result.state)}</span></>;
    case 'Output': return <><Badge>output {result.outpoint.vout}</Badge><Hash text={result.outpoint.txid} href={href} what="txid" /><Amount sats={result.value} /></>;
    case 'Address': return <><Badge>address</Badge><Hash text={result.address} href={href} what="address" /></>;
    case 'Script': return <><Badge>{result.scriptType ? words(result.scriptType) : 'script'}</Badge><Hash text={result.scriptHash} href={href} what="script hash" /></>;
    case 'DescriptorAccount': return <><Badge>wallet</Badge><Hash text={result.descriptor} href={href} what="descriptor" /></>;
    case 'Miner': return <><Badge>mining pool</Badge><Link href={href}>{result.name}</Link></>;
  }
}
