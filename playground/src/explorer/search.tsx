// The search box, and where what it finds is shown.

import { useApolloClient } from '@apollo/client/react';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { SearchDocument, type SearchQuery } from './pages/search.generated';
import { go, paths } from './router';

export type Result = NonNullable<SearchQuery['search']>['nodes'][number];

/** A descriptor or an extended key, which belongs into no URL that a server sees. */
const isWallet = (text: string) => /^[a-z]+\(.+\)(#[0-9a-z]{8})?$/i.test(text) || /^[xyztuv]pub[1-9A-HJ-NP-Za-km-z]{100,}$/i.test(text);

/** The page of a result. */
export function pathOf(result: Result): string {
  switch (result.__typename) {
    case 'Block': return paths.block(result.hash);
    case 'Transaction': return paths.transaction(result.txid);
    case 'Output': return paths.output(result.outpoint.txid, result.outpoint.vout);
    case 'Address': return paths.address(result.address);
    case 'Script': return paths.script(result.scriptHash);
    case 'DescriptorAccount': return paths.wallet(result.descriptor);
    case 'Miner': return paths.miner(result.slug);
  }
}

/** Finds what a text means. Throws if the server is away or refuses. */
export function useSearch() {
  const client = useApolloClient();
  return async (text: string): Promise<readonly Result[]> => {
    const { data } = await client.query({ query: SearchDocument, variables: { text }, fetchPolicy: 'no-cache' });
    return data?.search?.nodes ?? [];
  };
}

export function Search() {
  const find = useSearch();
  const [text, setText] = useState('');
  const [isBusy, setBusy] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const focus = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof HTMLElement && event.target.closest('input, textarea, select, [contenteditable]');
      if (event.key !== '/' || isTyping || event.metaKey || event.ctrlKey || event.altKey) return;
      event.preventDefault();
      input.current?.focus();
    };
    addEventListener('keydown', focus);
    return () => removeEventListener('keydown', focus);
  }, []);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const wanted = text.trim();
    if (!wanted || isBusy) return;
    if (isWallet(wanted)) {
      setText('');
      return go(paths.wallet(wanted));
    }
    setBusy(true);
    let path = paths.search(wanted);
    try {
      const [first, ...others] = await find(wanted);
      if (first && others.length === 0) {
        path = pathOf(first);
        setText('');
      }
    } catch {
      // the page of the search says why
    } finally {
      setBusy(false);
    }
    go(path);
  };
  return (
    <form role="search" className="search" onSubmit={(event) => void submit(event)}>
      <input
        ref={input}
        type="text"
        value={text}
        onChange={(event) => setText(event.target.value)}
        placeholder="Height, txid, address, descriptor…"
        aria-label="Search the chain"
        aria-busy={isBusy}
        autoCapitalize="off"
        autoComplete="off"
        autoCorrect="off"
        spellCheck={false}
        enterKeyHint="search"
      />
      {isBusy ? <span className="busy" role="status">Searching…</span> : <kbd aria-hidden="true">/</kbd>}
    </form>
  );
}
