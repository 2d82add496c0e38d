// GraphiQL on this server: its examples, its panels, its name.

import { HISTORY_PLUGIN } from '@graphiql/plugin-history';
import { useGraphiQL, useGraphiQLActions } from '@graphiql/react';
import { GraphiQL } from 'graphiql';
import { Kind, type OperationDefinitionNode, OperationTypeNode, parse } from 'graphql';
import { useEffect, useRef } from 'react';
import { createRoot } from 'react-dom/client';

import { examples, newest } from '../../src/server/playground/plain/examples.js';
import { explorer } from './explorer-plugin';
import { fetcher } from './fetcher';
import './workers';

const plugins = [explorer, HISTORY_PLUGIN];

/** Where GraphiQL keeps the tabs of earlier visits. */
const VISITED = 'graphiql:tabState';

/** A query that a page of the explorer opens here, in the fragment of the URL, which servers do not see. */
function linked() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const query = fragment.get('query');
  if (!query) return undefined;
  history.replaceState(null, '', location.pathname);
  return { query, variables: fragment.get('variables') ?? '' };
}

/** Runs what is in the editor once it is there, if that is a query: the right half is never empty. */
function RunFirst() {
  const { run } = useGraphiQLActions();
  const { queryEditor, responseEditor } = useGraphiQL(({ queryEditor, responseEditor }) => ({ queryEditor, responseEditor }));
  const isRun = useRef(false);
  useEffect(() => {
    if (isRun.current || !queryEditor || !responseEditor) return;
    isRun.current = true;
    try {
      const operations = parse(queryEditor.getValue(), { noLocation: true }).definitions.filter(({ kind }) => kind === Kind.OPERATION_DEFINITION);
      const [only] = operations as OperationDefinitionNode[];
      if (operations.length === 1 && only?.operation === OperationTypeNode.QUERY) run();
    } catch {
      // the editor marks what is wrong with it
    }
  }, [queryEditor, responseEditor, run]);
  return null;
}

async function show(container: HTMLElement) {
  const link = linked();
  const tabs = localStorage.getItem(VISITED) ? [] : examples(await newest());
  const defaultTabs = [...(link ? [link] : []), ...tabs.map(({ query, variables }) => ({ query, variables }))];
  createRoot(container).render(
    <GraphiQL
      fetcher={fetcher}
      plugins={plugins}
      defaultTabs={defaultTabs}
      {...(link && { initialQuery: link.query, initialVariables: link.variables })}
      defaultEditorToolsVisibility="variables"
      schemaDescription
    >
      <GraphiQL.Logo>
        <a className="home" href="/" title="The start page">
          <img src="/playground/plain/favicon.svg" alt="" width="20" height="20" />
          btcgraph
        </a>
        <a href="/" title="Blocks, transactions and addresses">
          Explorer
        </a>
        <a href="/playground/plain" title="A small page without an editor">
          plain page
        </a>
        <RunFirst />
      </GraphiQL.Logo>
    </GraphiQL>,
  );
}

const container = document.getElementById('playground');
if (!container) throw new Error('the page has no place for the playground');
void show(container);
