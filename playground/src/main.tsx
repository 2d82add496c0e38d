// GraphiQL on this server: its examples, its panels, its name.

import { HISTORY_PLUGIN } from '@graphiql/plugin-history';
import { GraphiQL } from 'graphiql';
import { createRoot } from 'react-dom/client';

import { examples, newest } from '../../src/server/playground/plain/examples.js';
import { explorer } from './explorer';
import { fetcher } from './fetcher';
import './workers';

const plugins = [explorer, HISTORY_PLUGIN];

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
        <img src="/playground/plain/favicon.svg" alt="" width="20" height="20" />
        btcgraph
        <a href="/playground/plain" title="A small page without an editor">
          plain page
        </a>
      </GraphiQL.Logo>
    </GraphiQL>,
  );
}

const container = document.getElementById('playground');
if (!container) throw new Error('the page has no place for the playground');
void show(container);
