// Pages of a connection as one list in the cache of Apollo Client: see docs/frontend.md.

import type { FieldFunctionOptions, FieldPolicy } from '@apollo/client/cache';

type PageInfo = { startCursor?: string | null; endCursor?: string | null; [field: string]: unknown };

/** Consecutive rows, which are all rows from the first of two cursors to the second. */
type Run = { rows: readonly any[]; start?: string | null; end?: string | null };

/** Consecutive runs, with the page information of both ends. */
type List = { runs: readonly Run[]; front: PageInfo; back: PageInfo };

/**
 * A connection in the cache. It may be read by `edges` and by `nodes`, and has the pages of each that were read. Its page
 * information has a name of its own, for what stands under `pageInfo` Apollo Client merges into that of the next page.
 */
type Stored = { edgeList?: List; nodeList?: List; info?: PageInfo; [field: string]: unknown };

/** A connection in an answer. */
type Incoming = { edges?: readonly any[]; nodes?: readonly any[]; pageInfo?: PageInfo; [field: string]: unknown };

/** A cursor where nothing stands: that of the last row that was read for a page, and that the filter left out. */
const mark = (cursor: string | null | undefined): Run[] => (cursor ? [{ rows: [], start: cursor, end: cursor }] : []);

/** A page as a list: a run for each edge, so that a page may meet another at any row, or one run for all nodes. */
function listOf(rows: readonly any[], pageInfo: PageInfo = {}): List {
  const { startCursor: start, endCursor: end } = pageInfo;
  const ends = { front: pageInfo, back: pageInfo };
  if (rows.length === 0 || !rows.every((row) => typeof row?.cursor === 'string')) {
    return { ...ends, runs: rows.length > 0 || end || start ? [{ rows, start, end }] : [] };
  }
  const runs: Run[] = rows.map((row) => ({ rows: [row], start: row.cursor, end: row.cursor }));
  const [first, last] = [rows[0].cursor, rows[rows.length - 1].cursor];
  return { ...ends, runs: [...mark(start === first ? null : start), ...runs, ...mark(end === last ? null : end)] };
}

/** The objects and texts among these rows, by which a row is known wherever it stands. */
function identities(runs: readonly Run[]): Set<string> {
  const identity = (row: any): string | undefined => {
    const node = row?.node ?? row;
    return typeof node === 'string' ? node : node?.__ref;
  };
  return new Set(runs.flatMap(({ rows }) => rows.map(identity)).filter((identity) => identity !== undefined));
}

/**
 * The list with one more page, which takes the place of what was known between its ends.
 *
 * What lies beyond the page on the far side of its cursor stays if the page ends at a cursor that the list has, for then
 * nothing can be missing or repeated where they meet; if it ends elsewhere, or has a row that lies beyond it, all of that
 * is dropped. A page whose own cursor the list does not have changes nothing.
 */
function joined(list: List | undefined, page: List, args: Record<string, any> | null): List {
  if (!list) return page;
  const { runs } = list;
  const isForwards = args?.before == null && args?.last == null;
  const near = isForwards ? 'end' : 'start';
  // from here on in the direction of reading, so that backwards is the same
  const read = <T>(all: readonly T[]): readonly T[] => (isForwards ? all : [...all].reverse());
  const [known, added] = [read(runs), read(page.runs)];

  const cursor: string | null | undefined = isForwards ? args?.after : args?.before;
  const begin = cursor ? known.findIndex((run) => run[near] === cursor) + 1 : 0;
  if (cursor && begin === 0) return list;

  const reached = added[added.length - 1]?.[near];
  const end = reached ? known.findIndex((run, index) => index >= begin && run[near] === reached) + 1 : 0;
  const rest = end > 0 ? known.slice(end) : [];
  const [here, beyond] = [identities(added), identities(rest)];
  const kept = [...beyond].some((identity) => here.has(identity)) ? [] : rest;

  const all = read([...known.slice(0, begin), ...added, ...kept]);
  const before = isForwards ? begin > 0 : kept.length > 0;
  const behind = isForwards ? kept.length > 0 : begin > 0;
  return { runs: all, front: before ? list.front : page.front, back: behind ? list.back : page.back };
}

/** What a query for the whole list would say of its ends. */
function pageInfoOf({ runs, front, back }: List): PageInfo {
  const { hasPreviousPage: _, startCursor: __, ...info } = back;
  if ('hasPreviousPage' in front) info.hasPreviousPage = front.hasPreviousPage;
  if ('startCursor' in front) info.startCursor = runs[0]?.start ?? front.startCursor;
  if ('endCursor' in back) info.endCursor = runs[runs.length - 1]?.end ?? back.endCursor;
  return info;
}

/**
 * A connection, which is another one for each value of these arguments. Its pages are put together as `joined` says,
 * those of `edges` and those of `nodes` each by themselves. What was not asked for yet is missing, not empty.
 */
export function connection(...keyArgs: string[]): FieldPolicy {
  return {
    keyArgs: keyArgs.length > 0 ? keyArgs : false,
    read(existing: Stored | null | undefined, { canRead, isReference }: FieldFunctionOptions) {
      // missing, or null in the answer
      if (!existing) return existing;
      const { edgeList, nodeList, info, ...others } = existing;
      // an object that was evicted is left out
      const isThere = (value: unknown) => !isReference(value) || canRead(value);
      const rowsOf = ({ runs }: List) => runs.flatMap(({ rows }) => rows);
      return {
        ...others,
        ...(edgeList && { edges: rowsOf(edgeList).filter((edge) => isThere(edge?.node)) }),
        ...(nodeList && { nodes: rowsOf(nodeList).filter(isThere) }),
        ...(info && { pageInfo: info }),
      };
    },
    merge(existing: Stored | null | undefined, incoming: Incoming | null, { args }: FieldFunctionOptions): Stored | null {
      // a page that failed takes nothing away from those that are known
      if (!incoming) return existing ?? null;
      const { edges, nodes, pageInfo, ...others } = incoming;
      const edgeList = edges ? joined(existing?.edgeList, listOf(edges, pageInfo), args) : existing?.edgeList;
      const nodeList = nodes ? joined(existing?.nodeList, listOf(nodes, pageInfo), args) : existing?.nodeList;
      // of the list that was read last; without one, what is known of the first page
      const list = edges ? edgeList : nodes ? nodeList : undefined;
      const info = list ? pageInfoOf(list) : { ...pageInfo, ...existing?.info };
      return {
        ...existing,
        ...others,
        ...(edgeList && { edgeList }),
        ...(nodeList && { nodeList }),
        ...(Object.keys(info).length > 0 && { info }),
      };
    },
  };
}
