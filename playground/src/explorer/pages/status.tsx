// The node, the index, the server, and the branches of the chain.

import { count, percent, scaled, span, things, words } from '../format';
import { Age, Badge, Empty, Facts, Failure, Hash, Head, Loading, Panel, When } from '../parts';
import { useLive, usePage } from '../page';
import { Link, paths, useTitle } from '../router';
import { StatusPageDocument, type StatusPageQuery, SyncChangesDocument } from './status.generated';

export default function StatusPage() {
  useTitle('Status');
  const { data, error, loading, reread } = usePage(StatusPageDocument, {}, { pause: 3_000 });
  useLive(SyncChangesDocument, data ? {} : undefined, reread, reread);
  return (
    <>
      <Head kind="Status" badges={data && (data.sync.isReady ? <Badge tone="good">ready</Badge> : <Badge tone="warn">not ready</Badge>)} />
      {error && <Failure error={error} />}
      {data ? <Shown data={data} /> : loading && <Loading lines={12} />}
    </>
  );
}

function Shown({ data }: { data: StatusPageQuery }) {
  const { sync, snapshot, bitcoinNode: node, server, chainTips, reorgs } = data;
  return (
    <div className="page-body">
      {sync.lostBlock && <div className="failure" role="alert"><strong>Waiting for block {count(sync.lostBlock.height)}</strong>, which was announced to clients before a crash.</div>}
      {sync.diskShortage && <div className="failure" role="alert"><strong>The disk is too full for new blocks</strong>: {scaled(sync.diskShortage.freeBytes, 'B')} free, {scaled(sync.diskShortage.neededBytes, 'B')} needed.</div>}
      <div className="grid three">
        <Panel title="Index">
          {sync.progress !== null && sync.progress < 1 && <div className="progress" role="img" aria-label={percent(sync.progress)}><span style={{ width: `${sync.progress * 100}%` }} /></div>}
          <Facts
            facts={[
              ['Phase', words(sync.phase)],
              ['Height', <>{sync.indexedHeight === null ? '–' : count(sync.indexedHeight)}{sync.targetHeight !== null && <span className="quiet"> of {count(sync.targetHeight)}</span>}</>],
              ['Tip', snapshot && <Hash text={snapshot.hash} href={paths.block(snapshot.hash)} what="block hash" />],
              ['Speed', sync.phase === 'CATCHING_UP' && sync.blocksPerSecond !== null ? `${sync.blocksPerSecond.toFixed(1)} blocks/s` : null],
              ['Time left', sync.etaSeconds ? span(sync.etaSeconds) : null],
              ['Chain', snapshot && (snapshot.isInSync ? <Badge tone="good">in sync</Badge> : <Badge tone="warn">behind the node</Badge>)],
              ['Mempool', snapshot && (snapshot.isMempoolInSync ? <Badge tone="good">in sync</Badge> : <Badge tone="warn">behind the node</Badge>)],
            ]}
          />
        </Panel>
        <Panel title="Bitcoin node">
          {node?.isReachable ? (
            <Facts
              facts={[
                ['Software', node.subversion],
                ['Network', node.network && words(node.network)],
                ['Height', node.height !== null && <>{count(node.height)}{node.headerHeight !== null && node.headerHeight !== node.height && <span className="quiet"> of {count(node.headerHeight)} headers</span>}</>],
                ['Peers', node.peerCount !== null && count(node.peerCount)],
                ['Verified', node.verificationProgress !== null && percent(Math.min(1, node.verificationProgress), 2)],
                ['Initial download', node.isInitialBlockDownload ? 'yes' : null],
                ['Pruned', node.pruned === null ? null : node.pruned ? 'yes' : 'no'],
              ]}
            />
          ) : <Empty>The node does not answer. Queries are answered from the index.</Empty>}
          {node?.warnings?.map((warning) => <p key={warning} className="quiet small">{warning}</p>)}
        </Panel>
        <Panel title="Server">
          <Facts
            facts={[
              ['Version', <>{server.version}{server.gitCommit && <span className="quiet"> {server.gitCommit.slice(0, 12)}</span>}</>],
              ['Started', <When time={server.startedAt} />],
              ['Subscriptions', count(server.subscriptionCount)],
              ['Index on disk', server.database.fileBytes === null ? null : scaled(server.database.fileBytes, 'B')],
              ['Index format', server.database.formatVersion],
              ...server.features.map(({ name, enabled }): [string, string] => [FEATURES[name] ?? words(name), enabled ? 'on' : 'off']),
            ]}
          />
        </Panel>
      </div>
      <Panel title="Reorgs" aside={<span className="quiet">that this server saw</span>}>
        {reorgs && reorgs.nodes.length > 0 ? (
          <div className="table-box" tabIndex={0} role="group" aria-label="Reorgs">
            <table className="rows">
              <thead><tr><th scope="col">When</th><th scope="col" className="right narrow-no">Depth</th><th scope="col">Left the chain</th><th scope="col">Joined it</th><th scope="col" className="right narrow-no">Unconfirmed again</th><th scope="col" className="right">Lost to a conflict</th></tr></thead>
              <tbody>
                {reorgs.nodes.map((reorg) => (
                  <tr key={reorg.id}>
                    <td className="numeric"><Age time={reorg.observedAt} /></td>
                    <td className="right narrow-no">{things(reorg.depth, 'block')}</td>
                    <td>{reorg.disconnected && <Blocks list={reorg.disconnected} />}</td>
                    <td>{reorg.connected && <Blocks list={reorg.connected} />}</td>
                    <td className="right narrow-no">{reorg.returnedToMempool?.totalCount == null ? '–' : things(reorg.returnedToMempool.totalCount, 'tx', 'txs')}</td>
                    <td className="right">
                      {reorg.conflicted?.totalCount == null ? '–' : things(reorg.conflicted.totalCount, 'tx', 'txs')}
                      {reorg.conflicted?.nodes.map(({ txid }) => <div key={txid}><Link className="mono" href={paths.transaction(txid)} title={txid}>{txid.slice(0, 6)}…</Link></div>)}
                      {reorg.conflicted && <Further list={reorg.conflicted} />}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        ) : <Empty>None.</Empty>}
      </Panel>
      <Panel title="Tips of the node's block tree">
        {chainTips && chainTips.length > 0 ? (
          <div className="table-box">
            <table className="rows">
              <thead><tr><th scope="col">Block</th><th scope="col" className="right">Height</th><th scope="col" className="right">Branch</th><th scope="col" className="right">State</th></tr></thead>
              <tbody>
                {chainTips.slice(0, 20).map((tip) => (
                  <tr key={tip.hash}>
                    <td><Hash text={tip.hash} href={paths.block(tip.hash)} what="block hash" /></td>
                    <td className="right">{count(tip.height)}</td>
                    <td className="right">{tip.branchLength === 0 ? 'main chain' : things(tip.branchLength, 'block')}</td>
                    <td className="right">{tip.status && words(tip.status)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        ) : <Empty>The node does not say.</Empty>}
      </Panel>
    </div>
  );
}

type List = { totalCount: number | null; nodes: readonly unknown[] };

/** The first blocks of a reorg, by height. */
function Blocks({ list }: { list: List & { nodes: readonly { hash: string; height: number }[] } }) {
  const nodes = [...list.nodes].sort((a, b) => a.height - b.height);
  return <>{nodes.map(({ hash, height }) => <BlockLink key={hash} hash={hash} height={height} />)}<Further list={list} /></>;
}

/** How many of a list are not shown. */
function Further({ list }: { list: List }) {
  const hidden = (list.totalCount ?? 0) - list.nodes.length;
  return hidden > 0 ? <div className="quiet">and {count(hidden)} more</div> : null;
}

function BlockLink({ hash, height }: { hash: string; height: number }) {
  return <div><Link href={paths.block(hash)} title={hash}>{count(height)} <span className="mono">…{hash.slice(-8)}</span></Link></div>;
}

const FEATURES: Record<string, string> = { BROADCAST: 'Sends transactions', WTXIDS: 'Finds wtxids', ADDRESS_PREFIXES: 'Finds beginnings of addresses', OP_RETURNS: 'Finds OP_RETURN data', BLOCK_TEMPLATE: 'Block templates', RATES: 'Prices of a bitcoin' };
