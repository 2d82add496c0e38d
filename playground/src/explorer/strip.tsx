// The next projected blocks and the newest blocks as one strip; the newest block stands right of the line between them.

import { useEffect, useRef } from 'react';
import { count, feeClass, percent, rate, things } from './format';
import { Age, Amount } from './parts';
import type { HomeQuery, StripBlockFragment, StripProjectionFragment } from './pages/home.generated';
import { Link, paths } from './router';

/** The largest weight of a block, in weight units (BIP141). */
const LARGEST = 4_000_000;

function Fill({ weight, full, feeRate }: { weight: number; full: number; feeRate: number }) {
  const share = Math.min(1, weight / full);
  return (
    <span className="fill" title={`${percent(share)} full`}>
      <span className={`fee-${feeClass(feeRate)}`} style={{ width: `${Math.max(1.5, share * 100)}%` }} />
    </span>
  );
}

function Projected({ block }: { block: StripProjectionFragment }) {
  const wait = block.index === 0 ? 'next block' : `in ${block.index + 1} blocks`;
  return (
    <li className="tile projected">
      <Link href="/mempool">
        <span className="tile-head">{wait}</span>
        <span className="tile-rate">~{rate(block.medianFeeRate)} <span className="unit">sat/vB</span></span>
        <span className="tile-line"><Amount sats={block.totalFees} unit={false} /></span>
        <span className="tile-line quiet">{things(block.txCount, 'tx', 'txs')}</span>
        <Fill weight={block.weight} full={block.maxWeight} feeRate={block.medianFeeRate} />
      </Link>
    </li>
  );
}

function Connected({ block, full, isNew }: { block: StripBlockFragment; full: number; isNew: boolean }) {
  return (
    <li className={`tile${isNew ? ' new' : ''}`} data-hash={block.hash}>
      <Link href={paths.block(block.hash)}>
        <span className="tile-head height">{count(block.height)}</span>
        <span className="tile-rate">~{rate(block.feeStats.medianFeeRate)} <span className="unit">sat/vB</span></span>
        <span className="tile-line"><Amount sats={block.totalFees} unit={false} /></span>
        <span className="tile-line quiet">{things(block.txCount, 'tx', 'txs')}</span>
        <span className="tile-line quiet"><Age time={block.time} /></span>
        {block.miner && <span className="tile-line quiet miner" title={block.miner.name}>{block.miner.name}</span>}
        <Fill weight={block.weight} full={full} feeRate={block.feeStats.medianFeeRate} />
      </Link>
    </li>
  );
}

export function Strip({ projected, blocks, fresh }: { projected: StripProjectionFragment[]; blocks: NonNullable<HomeQuery['blocks']>['nodes']; fresh: string | undefined }) {
  // miners of some networks make smaller blocks than they may
  const full = projected[0]?.maxWeight ?? LARGEST;
  const strip = useRef<HTMLDivElement>(null);
  const now = useRef<HTMLSpanElement>(null);
  // where not all fit, the newest block and the next are both in sight, until the reader moves them
  useEffect(() => {
    const [box, line] = [strip.current, now.current];
    if (box && line) box.scrollLeft = line.offsetLeft - box.offsetLeft - (box.clientWidth < 500 ? 130 : box.clientWidth / 2);
  }, []);
  return (
    <div className="strip" ref={strip} role="group" aria-label="Projected and newest blocks" tabIndex={0}>
      <ol className="side" aria-label="Next blocks, as projected from the mempool" reversed>
        {[...projected].reverse().map((block) => <Projected key={block.index} block={block} />)}
        {projected.length === 0 && <li className="tile projected none"><span>The mempool is empty.</span></li>}
      </ol>
      <span className="now" ref={now} aria-hidden="true" />
      <ol className="side" aria-label="Newest blocks">
        {blocks.map((block) => <Connected key={block.hash} block={block} full={full} isNew={fresh === block.hash} />)}
      </ol>
    </div>
  );
}
