// GraphiQL on this server: its endpoint and websocket, its examples, its name.

import { explorerPlugin } from '@graphiql/plugin-explorer';
import { HISTORY_PLUGIN } from '@graphiql/plugin-history';
import { createGraphiQLFetcher } from '@graphiql/toolkit';
import { GraphiQL } from 'graphiql';
import { createClient } from 'graphql-ws';
import { createRoot } from 'react-dom/client';

import { examples, newest } from '../../src/server/playground/plain/examples.js';
import './workers';

const endpoint = new URL('/graphql', location.href);
const socket = new URL(endpoint);
socket.protocol = endpoint.protocol === 'https:' ? 'wss:' : 'ws:';

const fetcher = createGraphiQLFetcher({
  url: endpoint.href,
  wsClient: createClient({ url: socket.href }),
});

// made once: GraphiQL knows its plugins by identity
const plugins = [explorerPlugin(), HISTORY_PLUGIN];

/** Where GraphiQL keeps the tabs of earlier visits. */
const VISITED = 'graphiql:tabState';

async function show(container: HTMLElement) {
  const tabs = localStorage.getItem(VISITED) ? [] : examples(await newest());
  createRoot(container).render(
    <GraphiQL
      fetcher={fetcher}
      plugins={plugins}
      defaultTabs={tabs.map(({ query, variables }) => ({ query, variables }))}
      defaultEditorToolsVisibility="variables"
    >
      <GraphiQL.Logo>
        <a className="btcgraph-plain" href="/playground/plain" title="The plain page: small, and without an editor">
          plain page
        </a>
      </GraphiQL.Logo>
    </GraphiQL>,
  );
}

const container = document.getElementById('playground');
if (!container) throw new Error('the page has no place for the playground');
void show(container);
