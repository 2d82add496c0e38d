// The node, the index, the server, reorgs, and the branches of the chain.

import { useEffect } from 'react';
import { count, percent, scaled, span, things, words } from '../format';
import { Badge, Empty, Facts, Failure, Hash, Head, Loading, Panel, When } from '../parts';
import { useLive, usePage } from '../page';
import { Reorg } from '../reorg';
import { paths, usePlace, useTitle } from '../router';
import { StatusPageDocument, type StatusPageQuery, SyncChangesDocument } from './status.generated';

/** Tips of branches that are shown. */
const TIPS = 20;

export default function StatusPage() {
  useTitle('Status');
  const { data, error, loading, reread } = usePage(StatusPageDocument, {}, { pause: 3_000 });
  useLive(SyncChangesDocument, data ? {} : undefined, reread, reread);
  return (
    <>
      <Head kind="Status" badges={data && (data.sync.isReady ? <Badge tone="good">up to date</Badge> : <Badge tone="warn">not up to date</Badge>)} />
      {error && <Failure error={error} />}
      {data ? <Shown data={data} /> : loading && <Loading lines={12} />}
    </>
  );
}

function Shown({ data }: { data: StatusPageQuery }) {
  const { sync, snapshot, bitcoinNode: node, server, chainTips, reorgs } = data;
  const { fragment } = usePlace();
  useEffect(() => {
    if (fragment) document.getElementById(fragment)?.scrollIntoView({ block: 'start' });
  }, [fragment]);
  return (
    <div className="page-body">
      {sync.lostBlock && <div className="failure" role="alert"><strong>Waiting for block {count(sync.lostBlock.height)}</strong>, which was announced to clients before a crash.</div>}
      {sync.diskShortage && <div className="failure" role="alert"><strong>The disk is too full for new blocks</strong>: {scaled(sync.diskShortage.freeBytes, 'B')} free, {scaled(sync.diskShortage.neededBytes, 'B')} needed.</div>}
      <div className="grid three">
        <Panel title="Index" aside={<span className="quiet">what this server answers from</span>}>
          {sync.progress !== null && sync.progress < 1 && <div className="progress" role="img" aria-label={percent(sync.progress)}><span style={{ width: `${sync.progress * 100}%` }} /></div>}
          <Facts
            facts={[
              ['State', PHASES[sync.phase] ?? words(sync.phase)],
              ['Newest block', snapshot && <Hash text={snapshot.hash} href={paths.block(snapshot.hash)} what="block hash" />, 'the tip of the chain that answers are from'],
              ['Its height', <>{sync.indexedHeight === null ? '–' : count(sync.indexedHeight)}{sync.targetHeight !== null && sync.targetHeight !== sync.indexedHeight && <span className="quiet"> of {count(sync.targetHeight)}</span>}</>, 'blocks before it'],
              ['Speed', sync.phase === 'CATCHING_UP' && sync.blocksPerSecond !== null ? `${sync.blocksPerSecond.toFixed(1)} blocks a second` : null],
              ['Time left', sync.etaSeconds ? `about ${span(sync.etaSeconds)}` : null],
              ['Chain', snapshot && (snapshot.isInSync ? <Badge tone="good">as the node has it</Badge> : <Badge tone="warn">behind the node</Badge>)],
              ['Mempool', snapshot && (snapshot.isMempoolInSync ? <Badge tone="good">as the node has it</Badge> : <Badge tone="warn">behind the node</Badge>), 'unconfirmed transactions'],
            ]}
          />
        </Panel>
        <Panel title="Bitcoin node" aside={<span className="quiet">where blocks come from</span>}>
          {node?.isReachable ? (
            <Facts
              facts={[
                ['Software', node.subversion && node.subversion.replace(/^\/|\/$/g, '')],
                ['Network', node.network && words(node.network)],
                ['Height', node.height !== null && <>{count(node.height)}{node.headerHeight !== null && node.headerHeight !== node.height && <span className="quiet"> of {count(node.headerHeight)} known headers</span>}</>, 'of its newest block'],
                ['Peers', node.peerCount !== null && count(node.peerCount), 'other nodes it is connected to'],
                ['Verified', node.verificationProgress !== null && percent(Math.min(1, node.verificationProgress), 2), 'its estimate of its own progress'],
                ['First download', node.isInitialBlockDownload ? 'under way' : null],
                ['Old blocks', node.pruned === null ? null : node.pruned ? 'deleted (pruned)' : 'all kept'],
              ]}
            />
          ) : <Empty>The node does not answer. Queries are answered from the index.</Empty>}
          {node?.warnings?.map((warning) => <p key={warning} className="quiet small">{warning}</p>)}
        </Panel>
        <Panel title="Server" aside={<span className="quiet">this program</span>}>
          <Facts
            facts={[
              ['Version', <>btcgraph {server.softwareVersion}{server.gitCommit && <span className="quiet"> {server.gitCommit.slice(0, 12)}</span>}</>],
              ['Started', <When time={server.startedAt} />],
              ['Live subscriptions', count(server.subscriptionCount), 'open now, of all visitors'],
              ['Index on disk', server.database.fileBytes === null ? null : scaled(server.database.fileBytes, 'B')],
              ['Format of the index', server.database.formatVersion, 'a version number'],
              ...server.features.map(({ name, enabled }): [string, string] => [FEATURES[name] ?? words(name), enabled ? 'on' : 'off']),
            ]}
          />
        </Panel>
      </div>
      <Panel title="Reorgs" id="reorgs" aside={<span className="quiet">newest first</span>}>
        <p className="quiet about">A reorg replaces the newest blocks by others that prove more work. Transactions that only the replaced blocks had wait again, or are invalid if the new blocks spend their coins otherwise.</p>
        {reorgs && reorgs.nodes.length > 0
          ? <ol className="reorgs">{reorgs.nodes.map((reorg) => <li key={reorg.id}><Reorg reorg={reorg} /></li>)}</ol>
          : <Empty>This server has seen none.</Empty>}
      </Panel>
      <Panel title="Ends of branches" aside={chainTips && <span className="quiet">{things(chainTips.length, 'branch', 'branches')} known to the node</span>}>
        <p className="quiet about">The main chain, and branches that forked from it and were overtaken.</p>
        {chainTips && chainTips.length > 0 ? (
          <div className="table-box">
            <table className="rows stacked">
              <thead><tr><th scope="col">Last block</th><th scope="col" className="right">Height</th><th scope="col" className="right">Blocks off the main chain</th><th scope="col" className="right">State</th></tr></thead>
              <tbody>
                {chainTips.slice(0, TIPS).map((tip) => (
                  <tr key={tip.hash}>
                    <td><Hash text={tip.hash} href={paths.block(tip.hash)} what="block hash" /></td>
                    <td className="right" data-label="Height">{count(tip.height)}</td>
                    <td className="right" data-label="Branch">{tip.branchLength === 0 ? 'none: main chain' : things(tip.branchLength, 'block')}</td>
                    <td className="right" data-label="State">{tip.status && (TIP_STATES[tip.status] ?? words(tip.status))}</td>
                  </tr>
                ))}
              </tbody>
            </table>
            {chainTips.length > TIPS && <p className="quiet">and {count(chainTips.length - TIPS)} more</p>}
          </div>
        ) : <Empty>The node does not say.</Empty>}
      </Panel>
    </div>
  );
}

const PHASES: Record<string, string> = {
  WAITING_FOR_NODE: 'waiting for the node',
  CATCHING_UP: 'catching up with the node',
  FOLLOWING: 'follows the node',
};

const TIP_STATES: Record<string, string> = {
  ACTIVE: 'active',
  VALID_FORK: 'valid, overtaken',
  VALID_HEADERS: 'not verified in full',
  HEADERS_ONLY: 'only headers known',
  INVALID: 'invalid',
};

const FEATURES: Record<string, string> = {
  BROADCAST: 'Sending transactions',
  WTXIDS: 'Search by wtxid',
  ADDRESS_PREFIXES: 'Search by the beginning of an address',
  OP_RETURNS: 'Search in OP_RETURN data',
  BLOCK_FILTERS: 'Compact filters of its own',
  BLOCK_TEMPLATE: 'Block templates of the node',
  RATES: 'Prices of a bitcoin',
};
