// The frame around every page: navigation, search, whether the page is live; and which page a path is.

import { Component, type ComponentType, lazy, type MouseEvent, type ReactNode, Suspense, useEffect, useRef } from 'react';
import { connection } from './client';
import { Badge, Head, Loading } from './parts';
import { Home } from './pages/home';
import { Link, usePlace, useTitle } from './router';
import { Search } from './search';
import { useStore } from './store';
import { following, theme } from './theme';

/** Times between two attempts to load a page, in milliseconds: first, and at most. */
const [FIRST_ATTEMPT, LAST_ATTEMPT] = [500, 5_000];

/** Whether the server answers at all. */
const answers = () => fetch('/', { method: 'HEAD', cache: 'no-store' }).then(({ ok }) => ok, () => false);

/** A page whose code is loaded when it is first shown, as soon as the server answers. One that answers without it has other files by now. */
const page = <Props,>(load: () => Promise<{ default: ComponentType<Props> }>) =>
  lazy(async () => {
    let hasAnswered = false;
    for (let wait = FIRST_ATTEMPT; ; wait = Math.min(LAST_ATTEMPT, 2 * wait)) {
      try {
        return await load();
      } catch (error) {
        if (hasAnswered) throw error;
        hasAnswered = await answers();
        if (!hasAnswered) await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
  });

const Block = page(() => import('./pages/block'));
const Transaction = page(() => import('./pages/transaction'));
const Ledger = page(() => import('./pages/ledger'));
const Mempool = page(() => import('./pages/mempool'));
const Miner = page(() => import('./pages/miner'));
const Charts = page(() => import('./pages/charts'));
const Send = page(() => import('./pages/send'));
const Status = page(() => import('./pages/status'));
const Found = page(() => import('./pages/search'));

const SECTIONS: [string, string][] = [
  ['/', 'Chain'],
  ['/mempool', 'Mempool'],
  ['/charts', 'Charts'],
  ['/send', 'Send'],
  ['/status', 'Status'],
];

/** The page of a path. Its key makes another page of another subject. */
function Page() {
  const { parts, fragment } = usePlace();
  const [kind = '', subject = ''] = parts;
  const key = `${kind}/${subject}`;
  if (parts.length === 0) return <Home />;
  if (parts.length === 2) {
    if (kind === 'block') return <Block key={key} subject={subject} />;
    if (kind === 'tx') return <Transaction key={key} txid={subject} />;
    if (kind === 'address') return <Ledger key={key} of={{ kind, text: subject }} />;
    if (kind === 'pool') return <Miner key={key} slug={subject} />;
    if (kind === 'script') return <Ledger key={key} of={{ kind, text: subject }} />;
  }
  if (parts.length === 1) {
    if (kind === 'wallet') return <Ledger key={fragment} of={{ kind, text: fragment }} />;
    if (kind === 'mempool') return <Mempool />;
    if (kind === 'charts') return <Charts />;
    if (kind === 'send') return <Send />;
    if (kind === 'status') return <Status />;
    if (kind === 'search') return <Found key={fragment} text={fragment} />;
  }
  return <Unknown />;
}

function Unknown() {
  useTitle('No such page');
  return (
    <>
      <Head kind="No such page" />
      <p>
        The explorer has no page at this path. <Link href="/">The chain</Link> is where everything begins.
      </p>
    </>
  );
}

/** What is shown when a page fails to load or to render: a new program on the server has other files, for example. */
class Boundary extends Component<{ children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };
  static getDerivedStateFromError() {
    return { failed: true };
  }
  override render() {
    if (!this.state.failed) return this.props.children;
    return (
      <div className="failure" role="alert">
        <strong>This page cannot be shown.</strong> The server may have been updated.{' '}
        <button type="button" onClick={() => location.reload()}>Load it again</button>
      </div>
    );
  }
}

/** Whether what is shown follows the chain. */
function Liveness() {
  const state = useStore(connection);
  if (state === 'open') return <Badge tone="good"><span className="pulse" aria-hidden="true" />live</Badge>;
  if (state === 'lost') return <Badge tone="warn">reconnecting</Badge>;
  return null;
}

function ThemeButton() {
  const current = useStore(theme);
  return (
    <button type="button" className="theme" onClick={() => theme.set(following(current))} title={`Colours: ${current}`} aria-label={`Colours: ${current}; change`}>
      <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
        {current === 'light' && <path d="M8 4.8a3.2 3.2 0 1 0 0 6.4 3.2 3.2 0 0 0 0-6.4zM8 .8v2M8 13.2v2M.8 8h2M13.2 8h2M2.9 2.9l1.4 1.4M11.7 11.7l1.4 1.4M13.1 2.9l-1.4 1.4M4.3 11.7l-1.4 1.4" />}
        {current === 'dark' && <path d="M13.5 9.6A5.8 5.8 0 0 1 6.4 2.5a5.8 5.8 0 1 0 7.1 7.1z" />}
        {current === 'system' && <path d="M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 2v12M8 5l4 -1M8 8h6M8 11l4 1" />}
      </svg>
    </button>
  );
}

export function App() {
  const { path } = usePlace();
  const main = useRef<HTMLElement>(null);
  const before = useRef(path);
  // a screen reader goes on where the page changed
  useEffect(() => {
    if (before.current === path) return;
    before.current = path;
    main.current?.focus({ preventScroll: true });
  }, [path]);
  // the fragment of the URL is the subject of some pages
  const skip = (event: MouseEvent) => {
    event.preventDefault();
    main.current?.focus();
  };
  return (
    <>
      <a className="skip" href="#main" onClick={skip}>Skip to the content</a>
      <header className="frame">
        <Link className="brand" href="/" aria-label="btcgraph, the chain">
          <img src="/playground/plain/favicon.svg" alt="" width="22" height="22" />
          <span>btcgraph</span>
        </Link>
        <Search />
        <nav aria-label="Pages">
          {SECTIONS.map(([to, name]) => (
            <Link key={to} href={to} aria-current={path === to ? 'page' : undefined}>{name}</Link>
          ))}
          <a href="/playground">Playground</a>
        </nav>
        <div className="frame-state">
          <Liveness />
          <ThemeButton />
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        <Boundary key={path}>
          <Suspense fallback={<Loading />}>
            <Page />
          </Suspense>
        </Boundary>
      </main>
      <footer className="frame-foot">
        <span>Served by your own node</span>
        <a href="/playground">Playground</a>
        <a href="/schema.graphql">Schema</a>
        <a href="/playground/licenses.txt">Licences</a>
      </footer>
    </>
  );
}
