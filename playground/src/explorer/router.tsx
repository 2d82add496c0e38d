// Paths of the explorer, which the server answers with this page (src/server/playground/mod.rs).

import { type AnchorHTMLAttributes, type MouseEvent, useEffect } from 'react';
import { store, useStore } from './store';

const here = () => location.pathname + location.search + location.hash;
const place = store(here());
addEventListener('popstate', () => place.set(here()));

/** Goes to a path of the explorer. */
export function go(to: string, { replace = false } = {}) {
  if (to === place.get()) return;
  if (replace) history.replaceState(null, '', to);
  else history.pushState(null, '', to);
  const before = new URL(place.get(), location.href).pathname;
  place.set(here());
  if (!replace && before !== location.pathname) scrollTo(0, 0);
}

/** A part of a URL as text; as it is, if its escapes are none. */
function decoded(part: string) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The path, its parts without slashes, the parameters and the fragment. */
export function usePlace() {
  const url = new URL(useStore(place), location.href);
  const parts = url.pathname.split('/').filter(Boolean).map(decoded);
  return { path: url.pathname, parts, search: url.searchParams, fragment: decoded(url.hash.slice(1)) };
}

/** A link within the explorer that a click follows without loading the page anew. */
export function Link({ href, ...rest }: AnchorHTMLAttributes<HTMLAnchorElement> & { href: string }) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    rest.onClick?.(event);
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(href);
  };
  return <a {...rest} href={href} onClick={follow} />;
}

/** The title of the window while a page is shown. */
export function useTitle(title: string) {
  useEffect(() => {
    document.title = `${title} · btcgraph`;
  }, [title]);
}

export const paths = {
  block: (hashOrHeight: string | number) => `/block/${hashOrHeight}`,
  transaction: (txid: string) => `/tx/${txid}`,
  output: (txid: string, vout: number) => `/tx/${txid}#output-${vout}`,
  address: (address: string) => `/address/${address}`,
  miner: (slug: string) => `/pool/${slug}`,
  script: (scriptHash: string) => `/script/${scriptHash}`,
  // a descriptor says which coins belong together, and a search is anything: the fragment of a URL is not sent to servers and their logs
  search: (text: string) => `/search#${encodeURIComponent(text)}`,
  wallet: (descriptor: string) => `/wallet#${encodeURIComponent(descriptor)}`,
};
