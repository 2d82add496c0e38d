// A mining pool: its part in the chain, of late and in all, and its blocks.

import { count, percent, scaled } from '../format';
import { Age, Amount, Empty, Facts, Failure, Hash, Head, Loading, More, Panel, When } from '../parts';
import { useLive, usePage } from '../page';
import { paths, useTitle } from '../router';
import { MinerBlocksDocument, MinerPageDocument, type MinerPageQuery } from './miner.generated';

/** Blocks a page. */
const FIRST = 50;

/** The blocks that a pool's hashrate is estimated from: an epoch, about two weeks. */
const RECENT = 2_016;

type Shown = NonNullable<NonNullable<MinerPageQuery['chain']>['miner']>;
type Share = NonNullable<NonNullable<MinerPageQuery['chain']>['miners']>[number];
type Place = Shown['firstBlock'];

export default function MinerPage({ slug }: { slug: string }) {
  const { data, error, loading, reread, fetchMore } = usePage(MinerPageDocument, { slug, recent: { lastBlocks: RECENT }, first: FIRST });
  useLive(MinerBlocksDocument, data ? {} : undefined, reread, reread);
  const miner = data?.chain?.miner;
  useTitle(miner?.name ?? 'Mining pool');
  return (
    <>
      <Head kind={miner?.name ?? 'Mining pool'} />
      {error && <Failure error={error} />}
      {miner ? (
        <Miner
          miner={miner}
          share={data.chain?.miners?.find((share) => share.miner?.id === miner.id)}
          more={(after) => fetchMore({ variables: { after } })}
        />
      ) : loading ? <Loading lines={10} /> : !error && <Empty>The table of this server has no pool of this name.</Empty>}
    </>
  );
}

function Miner({ miner, share, more }: { miner: Shown; share: Share | undefined; more: (after: string | null) => Promise<unknown> }) {
  const { stats, blocks } = miner;
  const isLink = miner.link !== null && /^https?:/.test(miner.link);
  return (
    <div className="page-body">
      <div className="grid two">
        <Panel title={`The last ${count(RECENT)} blocks`}>
          <Facts
            facts={[
              ['Share', percent(share?.share ?? 0)],
              ['Hashrate', share?.hashrate ? scaled(share.hashrate, 'H/s') : null],
              ['Blocks', count(share?.stats.blockCount ?? 0)],
              ['Empty blocks', count(share?.stats.emptyBlockCount ?? 0)],
              ['Stale blocks', share?.staleBlockCount ? count(share.staleBlockCount) : null],
            ]}
          />
        </Panel>
        <Panel title="The whole chain">
          <Facts
            facts={[
              ['Blocks', stats && count(stats.blockCount)],
              ['Empty blocks', stats && count(stats.emptyBlockCount)],
              ['Rewards', stats && <Amount sats={BigInt(stats.reward)} />],
              ['Of that, fees', stats && <Amount sats={BigInt(stats.fees)} />],
              ['First block', miner.firstBlock && <Block block={miner.firstBlock} />],
              ['Last block', miner.lastBlock && <Block block={miner.lastBlock} />],
              ['Web page', isLink && <a href={miner.link!} rel="noreferrer noopener">{miner.link}</a>],
            ]}
          />
        </Panel>
      </div>
      <Panel title="Blocks" aside={<span className="quiet">by their coinbases, which prove nothing</span>}>
        {blocks && blocks.nodes.length > 0 ? (
          <>
            <div className="table-box">
              <table className="rows stacked">
                <thead>
                  <tr>
                    <th scope="col">Block</th>
                    <th scope="col" className="right">Height</th>
                    <th scope="col" className="right">Time</th>
                    <th scope="col" className="right">Transactions</th>
                    <th scope="col" className="right">Weight</th>
                    <th scope="col" className="right">Fees, BTC</th>
                    <th scope="col" className="right">Reward, BTC</th>
                  </tr>
                </thead>
                <tbody>
                  {blocks.nodes.map((block) => (
                    <tr key={block.id}>
                      <td><Hash text={block.hash} href={paths.block(block.hash)} what="block hash" /></td>
                      <td className="right" data-label="Height">{count(block.height)}</td>
                      <td className="right" data-label="Time"><Age time={block.time} /></td>
                      <td className="right" data-label="Transactions">{count(block.txCount)}</td>
                      <td className="right" data-label="Weight">{scaled(block.weight, 'WU')}</td>
                      <td className="right" data-label="Fees"><Amount sats={block.totalFees} unit={false} /></td>
                      <td className="right" data-label="Reward"><Amount sats={block.coinbaseValue} unit={false} /></td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            <More has={blocks.pageInfo.hasNextPage} load={() => more(blocks.pageInfo.endCursor)} what="blocks" shown={blocks.nodes.length} total={blocks.totalCount} />
          </>
        ) : <Empty>No block of the chain is ascribed to this pool.</Empty>}
      </Panel>
    </div>
  );
}

/** One block, and when it was mined. */
function Block({ block }: { block: NonNullable<Place> }) {
  return <><Hash text={block.hash} href={paths.block(block.hash)} what="block hash" /> <When time={block.time} /></>;
}
